"""Names of LLaMA-Factory's own keys, besides TrainingArguments', as its arguments of August 2026 had them."""

NAMES = frozenset(
    """
    account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split adapter_folder adapter_name_or_path
    add_special_tokens add_tokens additional_target apollo_layerwise apollo_proj apollo_proj_type apollo_rank
    apollo_scale apollo_scale_front apollo_scale_type apollo_target apollo_update_interval apply_rope_fusion
    asft_alpha audio_sampling_rate badam_mask_mode badam_mode badam_start_block badam_switch_interval
    badam_switch_mode badam_update_ratio badam_verbose bias_activation_fusion buffer_size cache_dir
    calculate_per_token_loss compute_accuracy context_parallel_size create_new_adapter crop_to_patches
    cross_entropy_loss_fusion cutoff_len data_shared_file_system dataset dataset_dir default_system
    disable_gradient_checkpointing disable_shuffling do_sample double_quantization dpo_label_smoothing eaft_alpha
    early_stopping_steps enable_liger_kernel enable_thinking enable_torch_profiler eval_dataset eval_num_beams
    eval_on_each_dataset expert_model_parallel_size export_device export_dir export_hf_on_finish export_hub_model_id
    export_legacy_format export_quantization_bit export_quantization_dataset export_quantization_maxlen
    export_quantization_nsamples export_size extra_config finetuning_type flash_attn fp8 fp8_backend
    fp8_enable_fsdp_float8_all_gather freeze_extra_modules freeze_language_model freeze_multi_modal_projector
    freeze_trainable_layers freeze_trainable_modules freeze_vision_tower galore_layerwise galore_proj_type
    galore_rank galore_scale galore_target galore_update_interval hf_hub_token hyper_parallel_args
    hyper_parallel_cp_size ignore_pad_token_for_loss image_do_pan_and_scan image_max_pixels image_min_pixels
    include_effective_tokens_per_second infer_backend infer_dtype init_special_tokens interleave_probs
    kt_cpu_activation kt_expert_checkpoint_path kt_lora_expert_intermediate_size kt_lora_expert_num
    kt_non_expert_weight_path kt_use_lora_experts kt_weight_path kto_chosen_weight kto_rejected_weight ld_alpha
    length_penalty lora_alpha lora_dropout lora_rank lora_target loraplus_lr_embedding loraplus_lr_ratio
    low_cpu_mem_usage mask_history masked_softmax_fusion master_addr master_port max_length max_new_tokens
    max_samples media_dir megatron_bridge_args megatron_pretrained_checkpoint mix_strategy mixed_precision
    mixture_of_depths model_name_or_path model_revision module_dropout moe_aux_loss_coef moe_grouped_gemm
    moe_token_dispatcher_type ms_hub_token neat_packing new_special_tokens_config num_beams offload_folder
    oft_block_size oft_rank oft_target om_hub_token overlap_grad_reduce overlap_param_gather overwrite_cache
    overwrite_output_dir packing pipeline_model_parallel_size pissa_convert pissa_init pissa_iter plot_loss
    ppo_buffer_size ppo_epochs ppo_score_norm ppo_target ppo_whiten_rewards pref_bco_weight pref_beta pref_ftx
    pref_loss preprocessing_batch_size preprocessing_num_workers preserve_thinking print_param_status
    profile_modules profiler_active_steps profiler_output_dir profiler_profile_memory profiler_record_shapes
    profiler_repeat profiler_wait_steps profiler_warmup_steps profiler_with_stack pure_bf16 quantization_bit
    quantization_device_map quantization_method quantization_type ray_init_kwargs ray_num_workers
    recompute_granularity recompute_method recompute_num_layers ref_model ref_model_adapters
    ref_model_quantization_bit repetition_penalty resize_vocab reward_model reward_model_adapters
    reward_model_quantization_bit reward_model_type rope_scaling sequence_parallel sglang_config sglang_lora_backend
    sglang_maxlen sglang_mem_fraction sglang_tp_size shift_attn simpo_gamma skip_special_tokens split_special_tokens
    stage streaming swanlab_api_key swanlab_lark_secret swanlab_lark_webhook_url swanlab_logdir swanlab_mode
    swanlab_project swanlab_run_name swanlab_workspace temperature template tensor_model_parallel_size
    tokenized_path tool_format top_k top_p train_from_scratch train_on_prompt trust_remote_code upcast_layernorm
    upcast_lmhead_output use_adam_mini use_apollo use_asft_loss use_audio_in_video use_badam use_dft_loss
    use_distributed_optimizer use_dora use_eaft_loss use_fast_tokenizer use_galore use_hyper_parallel use_kt
    use_kv_cache use_llama_pro use_mca use_megatron_bridge use_muon use_packed_sequences use_reentrant_gc use_rslora
    use_swanlab use_unsloth use_unsloth_gc use_v1_kernels val_size video_fps video_max_pixels video_maxlen
    video_min_pixels virtual_pipeline_model_parallel_size vllm_config vllm_enforce_eager vllm_gpu_util
    vllm_max_lora_rank vllm_maxlen
    """.split()  # noqa: SIM905 - hundreds of quoted names are harder to read
)
