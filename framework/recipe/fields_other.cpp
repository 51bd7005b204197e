// Axolotl's keys that correspond to no setting of dml: settings of a GPU (accepted, listed in one notice), requests
// that dml does not fulfil (accepted, each with a notice), and keys that are rejected with the reason. None of them is
// reported as unknown.
#include "recipe/fields.h"

namespace dml::recipe {
namespace {

void add_kernels(Table& t) {
  t.inert("it selects GPU kernels; dml has one exact implementation", {"attn_implementation",
                                                                       "flash_attention",
                                                                       "sdp_attention",
                                                                       "xformers_attention",
                                                                       "flex_attention",
                                                                       "flex_attn_*",
                                                                       "eager_attention",
                                                                       "sage_attention",
                                                                       "fused_attn_kernel",
                                                                       "flash_attn_cross_entropy",
                                                                       "flash_attn_fuse_mlp",
                                                                       "flash_attn_fuse_qkv",
                                                                       "flash_attn_d512",
                                                                       "flash_optimum",
                                                                       "lora_mlp_kernel",
                                                                       "lora_qkv_kernel",
                                                                       "lora_o_kernel",
                                                                       "lora_embedding_kernel",
                                                                       "liger_*",
                                                                       "use_kernels",
                                                                       "use_scattermoe",
                                                                       "use_sonicmoe",
                                                                       "scattermoe_*",
                                                                       "sonicmoe_*",
                                                                       "experts_implementation",
                                                                       "torch_compile*",
                                                                       "cut_cross_entropy*",
                                                                       "chunked_cross_entropy*",
                                                                       "ring_attn_func",
                                                                       "heads_k_stride"});
  t.inert(
      "sums are float32; bf16 chooses the factors' precision, frozen_storage and activation_storage how values are "
      "stored",
      {"tf32", "float32", "fp8", "fp8_*", "torch_dtype", "dtype", "embeddings_skip_upcast",
       "peft_autocast_adapter_dtype", "fp32_norms"});
  t.inert(
      "4-bit bases are NF4 with double quantization; another bnb_4bit_quant_type, or bnb_4bit_use_double_quant: false, "
      "is refused",
      {"bnb_config_kwargs"});
  t.inert("load_in_4bit and load_in_8bit quantize the experts of a mixture as well; without them the key is refused",
          {"quantize_moe_experts"});
  t.inert("it is mapped to 'distribution'", {"deepspeed", "fsdp", "fsdp_*", "dp_replicate_size"});
  t.inert("it is mapped to 'dpo_loss_type'", {"rpo_alpha", "dpo_norm_loss"});
}

void add_processes(Table& t) {
  t.inert("it manages GPU memory or PyTorch processes", {"device_map",
                                                         "low_cpu_mem_usage",
                                                         "max_memory",
                                                         "gpu_memory_limit",
                                                         "torch_empty_cache_steps",
                                                         "gc_steps",
                                                         "gc_collect_steps",
                                                         "dataloader_*",
                                                         "accelerator_config",
                                                         "ddp_bucket_cap_mb",
                                                         "ddp_broadcast_buffers",
                                                         "ddp_find_unused_parameters",
                                                         "ddp",
                                                         "device",
                                                         "lora_on_cpu",
                                                         "relora_cpu_offload",
                                                         "activation_offloading",
                                                         "activation_memory_budget",
                                                         "layer_offloading",
                                                         "tiled_mlp*",
                                                         "gradient_checkpointing_kwargs",
                                                         "selective_checkpointing",
                                                         "experimental_skip_move_to_device",
                                                         "remove_unused_columns",
                                                         "auto_find_batch_size",
                                                         "torchdistx_path",
                                                         "local_rank",
                                                         "world_size",
                                                         "use_ray",
                                                         "ray_*",
                                                         "merge_method",
                                                         "model_kwargs"});
}

void add_inert(Table& t) {
  t.inert("the model directory gives it",
          {"model_type", "type_of_model", "cls_model_config", "tokenizer_type", "tokenizer_save_jinja_files",
           "is_llama_derived_model", "is_falcon_derived_model", "is_mistral_derived_model", "is_qwen_derived_model",
           "trust_remote_code", "save_safetensors", "model_quantization_config", "model_quantization_config_kwargs"});
  t.inert("dml never pads, and packed documents never attend to each other",
          {"pad_to_sequence_len", "pad_to_multiple_of", "multipack_real_batches", "batch_flattening",
           "sample_packing_eff_est", "sample_packing_mp_start_method", "total_num_tokens", "total_supervised_tokens"});
  t.inert("dml prepares the data once, on all cores, as memory-mapped files",
          {"dataset_num_proc", "dataset_processes", "dataset_keep_in_memory", "num_dataset_shards_to_save", "streaming",
           "streaming_multipack_buffer_size", "pretrain_multipack_buffer_size", "pretraining_sample_concatenation"});
  t.inert("every progress line has tokens per second", {"include_tkps", "include_tokens_per_second"});
  t.inert("packed documents never attend to each other, and logits are never kept",
          {"dpo_padding_free", "dpo_use_liger_kernel", "dpo_use_logits_to_keep"});
  t.inert("examples are limited by sequence_len; the key has no effect in Axolotl, either",
          {"max_prompt_len", "max_prompt_length"});
  t.inert("the reference never needs a second model in memory", {"rl_adapter_ref_model"});
  t.inert("the completions of rl: grpo come from dml's own engine", {"vllm"});
  t.inert("generate_samples shows samples", {"dpo_generate_during_eval"});
  t.inert("it configures the web page of `axolotl inference`", {"gradio_*"});
  t.inert("every recipe is read strictly, and commands have options for debugging", {"strict", "debug"});
}

void add_undone(Table& t) {
  const std::string local = "; metrics are in metrics.jsonl and report.html of output_dir";
  auto sends_nothing = [&](const char* service, const std::vector<std::string>& keys) {
    t.unsupported(("dml does not log to " + std::string(service) + local).c_str(), keys);
  };
  sends_nothing("Comet", {"use_comet", "comet_*"});
  sends_nothing("Trackio", {"use_trackio", "trackio_*"});
  sends_nothing("SwanLab", {"use_swanlab", "swanlab_*"});
  sends_nothing("OpenTelemetry", {"use_otel_metrics", "otel_*"});
  t.inert("a token of the Hub is sent whenever there is one (HF_TOKEN or the token file)", {"hf_use_auth_token"});
  t.inert("a push sends what is new, from whatever checkpoint", {"hub_always_push"});
  t.unsupported("prepared data stay on this machine; `dml push --dataset` pushes files of rows",
                {"push_dataset_to_hub"});
  t.unsupported("dml runs no benchmarks; run them on the result", {"lm_eval_*", "do_bench_eval", "bench_*"});
  t.unsupported("dml writes no PyTorch profile; DML_PROFILE=1 prints the time of each operation",
                {"profiler_steps", "profiler_steps_start"});
  t.unsupported("packed documents never attend to each other", {"pretrain_multipack_attn"}, "true");
  t.unsupported("the files of the tokenizer alone decide how text is split into tokens", {"tokenizer_use_fast"},
                "true");
  t.unsupported("the files of the tokenizer alone decide how text is split into tokens; see tokenizer_metaspace",
                {"tokenizer_legacy"}, "true");
  t.unsupported("every example of an epoch is trained, also those of an incomplete last step",
                {"dataloader_drop_last"});
  t.unsupported("dml uploads to no tracker and watches no gradients; hub_model_id pushes the result to the Hub",
                {"wandb_watch", "wandb_log_model", "hf_mlflow_log_artifacts"});
}

void add_refused(Table& t) {
  t.reject("dml computes in float32 or bfloat16; use bf16: true, or auto", {"fp16", "float16"});
  t.reject("dml trains on preferences with rl: dpo, orpo, simpo, cpo and kto, and on rewards with rl: grpo", {"ebft"});
  t.reject("write center_rewards_coefficient", {"center_rewards"});
  t.reject("write it under trl", {"sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"});
  t.reject("dml trains text-only models",
           {"processor_type", "processor_kwargs", "processor_config", "is_multimodal", "image_size",
            "image_resize_algorithm", "role_boundaries", "freeze_mm_modules"});
  t.reject("dml quantizes the base to 4 bits (nf4) or 8 bits; use load_in_4bit or load_in_8bit",
           {"gptq", "gptq_*", "qat", "quantization", "nvfp4*", "use_onebitllms"});
  t.reject("dml shares work among ranks by 'distribution' only; a size of 1 is accepted",
           {"tensor_parallel_size", "context_parallel_size", "sequence_parallel_degree"}, "1");
  t.reject("dml shares work among ranks by 'distribution' only", {"expert_parallel*"});
  t.reject("dml does not have this optimizer; use adamw", {"qgalore_*", "dion_*"});
  t.reject("an optimizer's own arguments go in optim_args (`dml list optimizers` names them)", {"galore_*", "muon_*"});
  t.reject("dml does not have this training method",
           {"use_pose", "pose_*", "lisa_*", "use_eaft", "eaft_*", "kd_*", "grokfast_*", "mora_*", "use_mora",
            "dense_mixer", "llmcompressor", "hatchery*", "nemo_gym*", "diffusion*"});
  t.reject("dml prepares the data of every run", {"skip_prepare_dataset"});
  t.reject("answers are measured by 'evals', the validation split by 'eval_metrics'",
           {"do_causal_lm_eval", "eval_causal_lm_metrics"});
  t.reject("dml has no scaled softmax (SSMax)", {"scaling_softmax*"});
  t.reject("dml does not measure which layers to train; list them in unfrozen_parameters", {"spectrum_*"});
  t.reject("dml adds embedding rows for new tokens; it never removes or resets rows",
           {"shrink_embeddings", "fix_untrained_tokens"});
  t.reject("only LoftQ is read here: write peft_init_lora_weights: loftq and loftq_iter", {"peft"});
  t.reject("dml adapts modules, selected by name, pattern and layer", {"peft_layer_replication"});
  t.reject("dml reads tokenizer.json and tokenizer.model, not mistral-common's files",
           {"tokenizer_use_mistral_common"});
  t.reject("Axolotl has removed it; write it under model_config, as in config.json", {"rope_scaling"});
  t.reject("Axolotl has renamed it; write relora: true, jagged_restart_steps and jagged_restart_warmup_steps",
           {"relora_steps", "relora_warmup_steps", "relora_anneal_steps"});
  t.reject("Axolotl has removed it; use sequence_len with sample_packing: true", {"max_packed_sequence_len"});
  t.reject("Axolotl has removed it; remove it", {"s2_attention", "flash_attn_rms_norm", "unsloth_*"});
  t.reject("Axolotl does not have it either; use 'split' of the dataset's entry", {"train_on_split"});
}

}  // namespace

const Table& other_keys() {
  static const Table rows = [] {
    Table t("Keys without effect, and keys that are refused", "");
    add_kernels(t);
    add_processes(t);
    add_inert(t);
    add_undone(t);
    add_refused(t);
    return t;
  }();
  return rows;
}

}  // namespace dml::recipe
