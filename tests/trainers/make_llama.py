"""Writes a tiny Llama with random weights, and a tokenizer of single bytes, into a directory."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

target = sys.argv[1]
letters = Tokenizer(models.BPE())
letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
letters.decoder = decoders.ByteLevel()
special = ["<s>", "</s>", "<pad>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
learned = trainers.BpeTrainer(vocab_size=259, initial_alphabet=alphabet, special_tokens=special)
letters.train_from_iterator([""], learned)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
tokenizer.save_pretrained(target)

torch.manual_seed(0)
shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
config = LlamaConfig(vocab_size=259, num_key_value_heads=4, max_position_embeddings=128, **shape, **tokens)
LlamaForCausalLM(config).save_pretrained(target)
