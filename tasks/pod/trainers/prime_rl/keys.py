"""prime-rl's keys, as its configs of August 2026 had them. It refuses those that it does not know."""

from collections.abc import Mapping

from tasks.pod.trainers.schema import Key

_ANY = Key("any")
_YES = Key("boolean", "true")


def _named(table: str, names: str) -> dict[str, Key]:
    """Keys of one table whose values are prime-rl's own to check."""
    return {f"{table}.{name}" if table else name: _ANY for name in names.split()}


_DATA: Mapping[str, Key] = {
    "type": Key("text", '"sft"', one_of=("sft", "fake")),
    "name": Key("text", '"datasets/NAME"'),
    "batch_size": Key("integer", "128", at_least=1),
    "seq_len": Key("integer", "4096", at_least=1),
    "micro_batch_size": Key("integer", "1", at_least=1),
    "num_workers": Key("integer", "1", at_least=1),
    "shuffle": _YES,
    "seed": Key("integer", "0"),
    "subsets": Key("array", '["default"]', item=Key("text")),
    "splits": Key("array", '["train"]', item=Key("text")),
    "probabilities": Key("array", "[0.5, 0.5]", item=Key("number")),
    "stopping_strategy": Key("text", '"all_exhausted"', one_of=("first_exhausted", "all_exhausted")),
    "length": Key("text", '"fixed"', one_of=("fixed", "variable")),
    "input_ids": Key("text", '"increasing"', one_of=("increasing", "random")),
    "loss_mask": Key("table"),
}

SFT: Mapping[str, Key] = {
    "max_steps": Key("integer", "1000", at_least=1),
    "output_dir": Key("text", '"outputs"'),
    "clean": _YES,
    "dry_run": _YES,
    "matmul_precision": Key("text", '"high"', one_of=("highest", "high", "medium")),
    "dist_timeout_seconds": Key("integer", "3600", at_least=1),
    "model.name": Key("text", '"org/name@revision"', required=True),
    **_named(
        "model",
        """
        trust_remote_code vlm conversion_dir seq_len attn compile ac ac_offloading fsdp_cpu_offload
        optim_cpu_offload full_offload reshard_after_forward dp_replicate ep ep_comm_backend deepep_num_sms
        deepep_token_chunk_size cp cp_style impl optimization_dtype reduce_dtype moe_router_dtype
        moe_use_grouped_mm moe_fused_kernel quantization index_cache freeze_moe_router debug
        fused_lm_head_token_chunk_size
""",
    ),
    "model.lora.rank": Key("integer", "16", at_least=1),
    "model.lora.alpha": Key("number", "32.0", at_least=0),
    "model.lora.dropout": Key("number", "0.0", at_least=0),
    "model.lora.target_modules": Key("array", '["q_proj"]', item=Key("text")),
    "model.lora.modules_to_save": Key("array", '["lm_head"]', item=Key("text")),
    "tokenizer.name": Key("text", '"/volume/models/NAME"'),
    **_named("tokenizer", "trust_remote_code chat_template"),
    **{f"data.{name}": key for name, key in _DATA.items()},
    "val.interval": Key("integer", "50", at_least=1),
    "val.eval_on_start": _YES,
    **{f"val.data.{name}": key for name, key in _DATA.items() if name not in ("length", "input_ids")},
    "optim.type": Key("text", '"adamw"', one_of=("adamw", "sgd", "muon", "sign_sgd")),
    "optim.lr": Key("number", "2e-5", at_least=0),
    "optim.weight_decay": Key("number", "0.01", at_least=0),
    "optim.max_norm": Key("number", "1.0", at_least=0),
    **_named("optim", "betas1 betas2 nesterov momentum mu"),
    "scheduler.type": Key("text", '"cosine"', one_of=("constant", "linear", "cosine")),
    "scheduler.warmup_steps": Key("integer", "10", at_least=0),
    "scheduler.decay_steps": Key("integer", "10", at_least=0),
    "scheduler.min_lr": Key("number", "0.0", at_least=0),
    "ckpt.output_dir": Key("text", '"outputs"'),
    "ckpt.interval": Key("integer", "100", at_least=1),
    "ckpt.keep_last": Key("integer", "3", at_least=1),
    "ckpt.keep_interval": Key("integer", "1000", at_least=1),
    **{f"ckpt.skip_{what}": _YES for what in ("progress", "scheduler", "dataloader", "optimizer")},
    "resume.step": Key("integer", "100", at_least=1),
    "resume.dir": Key("text", '"/volume/runs/RUN/checkpoints/step_100"'),
    **_named("run", "name dir"),
    "deployment.type": Key("text", '"single_node"', one_of=("single_node", "multi_node")),
    "deployment.gpus_per_node": Key("integer", "8", at_least=1),
    "deployment.num_train_gpus": Key("integer", "1", at_least=1),
    "deployment.num_infer_gpus": Key("integer", "1", at_least=0),
    **_named("deployment", "num_eval_gpus num_train_nodes num_infer_nodes num_eval_nodes nodes_per_fsdp_group"),
    **_named(
        "",
        """
        env_vars renderer eval inference weight_broadcast log monitors gc heartbeat slurm memory_profiler_path
        trace_path
""",
    ),
}
"""Every key, by dotted name; a table that is one key is not looked into."""

RL_TABLES = frozenset(
    """
    trainer orchestrator inference env_vars run output_dir clean log ckpt resume monitors model tokenizer
    max_steps seq_len weight_broadcast rollout_transport deployment slurm dry_run experimental bench
""".split()  # noqa: SIM905
)
"""What a config for reinforcement learning has at its top."""

MOVED: Mapping[str, str] = {
    "ckpt.resume_step": 'Write [resume] dir = "/volume/runs/RUN/checkpoints/step_N", or use `slipway fork`.',
    "ckpt.weights": "Remove it: `slipway export-weights` says how weights are made of a checkpoint.",
    "ckpt.weights_only": "Remove it: `slipway export-weights` says how weights are made of a checkpoint.",
    "ckpt.keep": "Write ckpt.keep_last.",
    "wandb": "Write [monitors.wandb].",
    "clean_output_dir": "Remove it: prepare clears what is torn.",
    "deployment.num_gpus": "Write deployment.num_train_gpus.",
    "deployment.num_nodes": "Remove it: nodes are asked for with the trainer's resources.",
    "data.pack_function": "Remove it.",
    "loss_impl": "Remove it.",
}
"""Keys of earlier versions, and what is written instead."""
