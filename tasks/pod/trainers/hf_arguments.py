"""Names and types of transformers' TrainingArguments: what any script that takes them reads.

Read from transformers 5.24 and earlier versions: what was renamed is told with its new name.
"""

from collections.abc import Mapping

from tasks.pod.trainers.schema import Key

_STRATEGIES = ("no", "steps", "epoch", "best")

TYPED: Mapping[str, Key] = {
    "output_dir": Key("text", "out"),
    "max_steps": Key("integer", "1000", at_least=-1),
    "num_train_epochs": Key("number", "3", above=0),
    "learning_rate": Key("number", "2.0e-5", at_least=0),
    "per_device_train_batch_size": Key("integer", "8", at_least=1),
    "per_device_eval_batch_size": Key("integer", "8", at_least=1),
    "gradient_accumulation_steps": Key("integer", "1", at_least=1),
    "weight_decay": Key("number", "0.01", at_least=0),
    "max_grad_norm": Key("number", "1.0", at_least=0),
    "warmup_steps": Key("number", "100", at_least=0),
    "warmup_ratio": Key("number", "0.1", at_least=0),
    "save_strategy": Key("text", "steps", one_of=_STRATEGIES),
    "eval_strategy": Key("text", "steps", one_of=_STRATEGIES[:3]),
    "save_steps": Key("number", "500", above=0),
    "eval_steps": Key("number", "500", above=0),
    "logging_steps": Key("number", "10", above=0),
    "save_total_limit": Key("integer", "3", at_least=1),
    "save_only_model": Key("boolean", "false"),
    "load_best_model_at_end": Key("boolean", "false"),
    "push_to_hub": Key("boolean", "false"),
    "seed": Key("integer", "42"),
}
"""Those whose values are checked; the rest is the trainer's own to check."""

RENAMED: Mapping[str, str] = {
    "evaluation_strategy": "eval_strategy",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "no_cuda": "use_cpu",
}
"""Old name → the name that versions of today know."""

NAMES = frozenset(
    """
    accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor adam_beta1
    adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16
    bf16_full_eval data_seed dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context
    dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor
    ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph
    ddp_timeout debug deepspeed disable_tqdm do_eval do_predict do_train enable_jit_checkpoint
    eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_use_gather_object fp16
    fp16_backend fp16_full_eval fp16_opt_level fsdp fsdp_config fsdp_transformer_layer_cls_to_wrap
    full_determinism gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length
    half_precision_backend hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token
    ignore_data_skip include_for_metrics include_inputs_for_metrics include_num_input_tokens_seen
    include_tokens_per_second jit_mode_eval label_names label_smoothing_factor length_column_name
    liger_kernel_config local_rank log_level log_level_replica log_on_each_node logging_dir logging_first_step
    logging_nan_inf_filter logging_strategy lr_scheduler_kwargs lr_scheduler_type metric_for_best_model
    neftune_noise_alpha optim optim_args optim_target_modules overwrite_output_dir parallelism_config
    past_index prediction_loss_only project ray_scope remove_unused_columns report_to
    restore_callback_states_from_checkpoint resume_from_checkpoint run_name save_on_each_node save_safetensors
    skip_memory_metrics tf32 torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps
    torchdynamo tpu_num_cores trackio_bucket_id trackio_space_id trackio_static_space_id
    train_sampling_strategy use_cache use_cpu use_ipex use_liger_kernel use_mps_device
""".split()  # noqa: SIM905 - a list of a hundred quoted names is harder to read
) | frozenset(TYPED)
