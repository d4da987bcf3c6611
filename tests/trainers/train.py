"""Trains a causal language model with the Hugging Face Trainer on JSON lines with a "text" each; bytes are its tokens.

As scripts do, it does not pass `resume_from_checkpoint` on. With `die_in_save_of` it is killed in the middle of that
save, the first time it gets there.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class Script:
    model_name_or_path: str
    dataset_name: str
    die_in_save_of: int = 0


class Texts(torch.utils.data.Dataset):
    def __init__(self, folder, length=32):
        files = sorted(Path(folder).rglob("*.jsonl"))
        text = "".join(json.loads(line).get("text", "") + "\n" for file in files for line in file.open())
        ids = list(text.encode())
        self.rows = [ids[at : at + length] for at in range(0, min(len(ids), 12_800) - length, length)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        row = torch.tensor(self.rows[place])
        return {"input_ids": row, "labels": row}


def die_in_save(step, mark):
    save = torch.save

    def save_or_die(thing, to, *args, **more):
        save(thing, to, *args, **more)
        if str(to).endswith(f"checkpoint-{step}/optimizer.pt") and not mark.exists():
            mark.touch()
            os.truncate(to, Path(to).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    torch.save = save_or_die


script, arguments = HfArgumentParser((Script, TrainingArguments)).parse_yaml_file(sys.argv[1])
torch.set_num_threads(1)
if script.die_in_save_of:
    die_in_save(script.die_in_save_of, Path(arguments.output_dir, "died"))
model = AutoModelForCausalLM.from_pretrained(script.model_name_or_path)
Trainer(model, arguments, train_dataset=Texts(script.dataset_name)).train()
