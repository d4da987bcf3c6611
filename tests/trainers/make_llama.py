"""Writes a tiny Llama with random weights into a directory."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
config = LlamaConfig(vocab_size=256, num_key_value_heads=4, max_position_embeddings=128, **shape)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
