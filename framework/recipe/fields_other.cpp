// Axolotl's keys that fill nothing: settings of a GPU or of a network service (accepted, told in one notice), and what
// dml does not do (refused with the reason). A recipe that names one is never told that the key is unknown.
#include "recipe/fields.h"

namespace dml::recipe {

const Table& other_keys() {
  static const Table rows = [] {
    Table t("Keys without effect, and keys that are refused", "");

    t.inert("it chooses among GPU kernels; dml has one exact way to compute it", {"attn_implementation",
                                                                                  "flash_attention",
                                                                                  "sdp_attention",
                                                                                  "xformers_attention",
                                                                                  "flex_attention",
                                                                                  "eager_attention",
                                                                                  "sage_attention",
                                                                                  "flash_attn_cross_entropy",
                                                                                  "flash_attn_fuse_mlp",
                                                                                  "flash_attn_fuse_qkv",
                                                                                  "lora_mlp_kernel",
                                                                                  "lora_qkv_kernel",
                                                                                  "lora_o_kernel",
                                                                                  "lora_embedding_kernel",
                                                                                  "liger_*",
                                                                                  "use_kernels",
                                                                                  "torch_compile*",
                                                                                  "cut_cross_entropy",
                                                                                  "chunked_cross_entropy*",
                                                                                  "ring_attn_func",
                                                                                  "heads_k_stride"});
    t.inert("arithmetic is in 32-bit floats here; see frozen_storage",
            {"bf16", "fp16", "tf32", "bfloat16", "float16", "float32", "fp8", "fp8_*", "torch_dtype",
             "embeddings_skip_upcast", "peft_autocast_adapter_dtype", "bnb_config_kwargs"});
    t.inert("it is mapped to 'distribution'", {"deepspeed", "fsdp", "fsdp_*", "dp_replicate_size"});
    t.inert("it manages GPU memory or PyTorch processes", {"device_map",
                                                           "low_cpu_mem_usage",
                                                           "max_memory",
                                                           "gpu_memory_limit",
                                                           "torch_empty_cache_steps",
                                                           "gc_steps",
                                                           "gc_collect_steps",
                                                           "dataloader_*",
                                                           "ddp_bucket_cap_mb",
                                                           "ddp_broadcast_buffers",
                                                           "ddp_find_unused_parameters",
                                                           "ddp",
                                                           "lora_on_cpu",
                                                           "relora_cpu_offload",
                                                           "activation_offloading",
                                                           "layer_offloading",
                                                           "gradient_checkpointing_kwargs",
                                                           "selective_checkpointing",
                                                           "remove_unused_columns",
                                                           "auto_find_batch_size",
                                                           "torchdistx_path",
                                                           "local_rank",
                                                           "world_size",
                                                           "use_ray",
                                                           "ray_*",
                                                           "merge_method",
                                                           "model_kwargs"});
    t.inert(
        "the model directory says it",
        {"model_type", "type_of_model", "tokenizer_type", "tokenizer_use_fast", "tokenizer_legacy",
         "tokenizer_save_jinja_files", "is_llama_derived_model", "is_falcon_derived_model", "is_mistral_derived_model",
         "is_qwen_derived_model", "revision_of_model", "model_revision", "trust_remote_code", "save_safetensors"});
    t.inert(
        "nothing is ever padded, and packed documents never see each other",
        {"pad_to_sequence_len", "pad_to_multiple_of", "multipack_real_batches", "batch_flattening",
         "sample_packing_eff_est", "sample_packing_mp_start_method", "total_num_tokens", "total_supervised_tokens"});
    t.inert("data are prepared once, by all cores, into memory-mapped files",
            {"dataset_num_proc", "dataset_processes", "dataset_keep_in_memory", "num_dataset_shards_to_save",
             "streaming", "streaming_multipack_buffer_size", "pretrain_multipack_buffer_size",
             "pretrain_multipack_attn", "pretraining_sample_concatenation"});
    t.inert("metrics are written to metrics.jsonl in output_dir; nothing is sent anywhere",
            {"use_wandb",       "wandb_*",
             "use_mlflow",      "mlflow_*",
             "use_comet",       "comet_*",
             "use_trackio",     "trackio_*",
             "use_swanlab",     "swanlab_*",
             "use_tensorboard", "use_otel_metrics",
             "otel_*",          "gradio_*",
             "include_tkps",    "include_tokens_per_second",
             "profiler_steps",  "profiler_steps_start",
             "lm_eval_*",       "do_bench_eval",
             "bench_dataset"});
    t.inert("nothing is uploaded", {"hub_*", "hf_use_auth_token", "push_dataset_to_hub"});
    t.inert("dml has no plug-ins in recipes; what the usual ones do is done anyway or listed here", {"plugins"});
    t.inert("errors are always strict, and what is wanted for debugging is an option of the command",
            {"strict", "debug"});
    t.inert("save_steps and saves_per_epoch say when to save", {"dynamic_checkpoint"});

    t.refuse(
        "dml learns from examples (supervised fine-tuning), not from preferences or rewards; remove it to train on the "
        "answers",
        {"rl", "rl_beta", "dpo_*", "kto_*", "orpo_alpha", "simpo_*", "cpo_*", "rpo_alpha", "trl", "vllm", "ebft",
         "reward_model", "process_reward_model", "num_labels", "center_rewards", "cls_model_config"});
    t.refuse("dml trains models of text only",
             {"processor_type", "processor_kwargs", "processor_config", "is_multimodal", "image_size",
              "image_resize_algorithm", "role_boundaries", "freeze_mm_modules"});
    t.refuse("dml has 4-bit (nf4) and 8-bit bases: use load_in_4bit or load_in_8bit",
             {"gptq", "gptq_*", "qat", "quantization", "model_quantization_config", "quantize_moe_experts"});
    t.refuse("mixtures of experts have no kernels of their own here",
             {"scattermoe_*", "sonicmoe_*", "experts_implementation", "expert_parallel*"});
    t.refuse("ranks share the work by 'distribution'",
             {"tensor_parallel_size", "context_parallel_size", "sequence_parallel_degree"});
    t.refuse("this optimizer is not there; use adamw",
             {"galore_*", "qgalore_*", "dion_*", "optim_target_modules", "adam_beta3", "adam_epsilon2"});
    t.refuse("training in this way is not there",
             {"use_pose", "pose_*", "lisa_*", "use_eaft", "eaft_*", "kd_*", "spectrum_*", "hatchery*", "nemo_gym*",
              "diffusion*", "skip_prepare_dataset", "do_causal_lm_eval", "eval_causal_lm_metrics"});
    t.refuse("rows of the embedding are added where new tokens need them, never removed or changed",
             {"shrink_embeddings", "fix_untrained_tokens"});
    t.refuse("the best model is the one with the lowest loss on the validation split", {"greater_is_better"});
    t.refuse("LoftQ is peft_init_lora_weights: loftq, with loftq_iter; nothing else of it is read", {"peft"});
    t.refuse("of PEFT's layouts dml has modules, patterns and layers",
             {"lora_target_parameters", "peft_layer_replication", "peft_trainable_token_indices",
              "peft_ensure_weight_tying"});
    t.refuse("mistral-common is Python; dml reads tokenizer.json and tokenizer.model",
             {"tokenizer_use_mistral_common"});
    t.refuse("Axolotl has removed it; write it under model_config, as config.json has it", {"rope_scaling"});
    t.refuse("Axolotl has renamed it; write relora: true, jagged_restart_steps and jagged_restart_warmup_steps",
             {"relora_steps", "relora_warmup_steps", "relora_anneal_steps"});
    t.refuse("Axolotl has removed it; use sequence_len with sample_packing: true", {"max_packed_sequence_len"});
    t.refuse("Axolotl has removed it; leave it out", {"s2_attention", "flash_attn_rms_norm", "unsloth_*"});
    t.refuse("it is unknown to Axolotl, too; use 'split' of the dataset's entry", {"train_on_split"});
    return t;
  }();
  return rows;
}

}  // namespace dml::recipe
