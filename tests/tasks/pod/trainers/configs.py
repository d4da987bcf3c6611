"""Configs in the shape of public ones, and how a test breaks one."""

from typing import Any

from tasks.pod.trainers.table import adapter
from tasks.pod.trainers.toml_config import set_keys

TRL = """
# full fine-tuning with TRL
model_name_or_path: org/base-1b
model_revision: main
dataset_name: datasets/chat
learning_rate: 2e-5
num_train_epochs: 1
max_steps: 400
packing: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
gradient_checkpointing: true
bf16: true
lr_scheduler_type: cosine
warmup_ratio: 0.03
logging_steps: 10
eval_strategy: "no"
save_strategy: steps
save_steps: 100
save_total_limit: 3
report_to: none
output_dir: /tmp/out
push_to_hub: false
"""

AXOLOTL = """
base_model: org/base-8b
plugins:
  - axolotl.integrations.liger.LigerPlugin
liger_rope: true
datasets:
  - path: datasets/chat
    type: chat_template
dataset_prepared_path: last_run_prepared
val_set_size: 0.05
output_dir: ./outputs/out
sequence_len: 4096
sample_packing: true
adapter: lora
lora_r: 16
lora_alpha: 32
lora_dropout: 0.05
lora_target_linear: true
wandb_project:
wandb_entity:
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 1
optimizer: adamw_8bit
lr_scheduler: cosine
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
resume_from_checkpoint:
logging_steps: 1
attn_implementation: flash_attention_2
warmup_ratio: 0.1
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.0
special_tokens:
  pad_token: <|end_of_text|>
"""

LLAMA_FACTORY = """
### model
model_name_or_path: org/base-8b
trust_remote_code: true
### method
stage: sft
do_train: true
finetuning_type: full
deepspeed: examples/deepspeed/ds_z3_config.json
### dataset
dataset_dir: datasets/instructions
dataset: identity,alpaca_demo
template: llama3
cutoff_len: 2048
max_samples: 1000
preprocessing_num_workers: 16
dataloader_num_workers: 4
### output
output_dir: saves/base-8b/full/sft
logging_steps: 10
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none
### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-5
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
resume_from_checkpoint: null
"""

PRIME_RL = """
max_steps = 100
volume = "research"
volume_size = "500Gi"

[model]
name = "Qwen/Qwen3-0.6B"

[data]
name = "datasets/reverse"
seq_len = 4096
batch_size = 32

[optim]
lr = 2e-5

[scheduler]
type = "cosine"
warmup_steps = 10

[ckpt]
interval = 25
keep_last = 2

[monitors.wandb]
project = "reverse"

[deployment]
num_train_gpus = 1
"""

PRIME_RL_RL = """
max_steps = 20
seq_len = 2048

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[model]
name = "Qwen/Qwen3-0.6B"

[orchestrator]
batch_size = 128
group_size = 16

[[orchestrator.train.source]]
name = "reverse"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[trainer.optim]
lr = 3e-6

[ckpt]
interval = 5

[inference]
"""

COMMAND = """
[model]
path = "org/base-1b"
[data]
path = "datasets/chat"
[train]
steps = 100
save_every = 10
out = "out"
"""

COMMAND_OPTIONS = {
    "command": ["python", "/app/train.py", "{config}", "--nproc={processes}", ["--resume", "{resume}"]],
    "keys": {
        "model": "model.path",
        "dataset": "data.path",
        "output": "train.out",
        "resume": "train.resume",
        "max_steps": "train.steps",
        "checkpoint_every": "train.save_every",
    },
}

GOOD: dict[str, tuple[str, dict[str, Any], str]] = {
    "trl": ("transformers", {}, TRL),
    "axolotl": ("axolotl", {}, AXOLOTL),
    "llama-factory": ("llama-factory", {}, LLAMA_FACTORY),
    "prime-rl": ("prime-rl", {}, PRIME_RL),
    "prime-rl-rl": ("prime-rl", {}, PRIME_RL_RL),
    "command": ("command", COMMAND_OPTIONS, COMMAND),
}
"""Name → kind, options, text."""

GONE = object()
"""A value that means: without this key."""


def told(name: str, **changes: Any) -> list[str]:
    """What is wrong with a good config once some keys are changed (`a__b` is `a.b`)."""
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    return [str(problem) for problem in trainer.problems(changed(trainer.parse(text), changes))]


def changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    put = {key.replace("__", "."): value for key, value in changes.items()}
    config = set_keys(config, {key: value for key, value in put.items() if value is not GONE})
    for key in (key for key, value in put.items() if value is GONE):
        place = config
        *tables, leaf = key.split(".")
        for table in tables:
            place = place[table]
        del place[leaf]
    return config
