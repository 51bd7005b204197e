// Rows of the sections about the run itself: optimizer, steps, ranks, generation.
#include "recipe/codecs.h"

namespace dml::recipe {
namespace {

constexpr const char* kOtherFloats = "its state is kept in float32";
constexpr const char* kOtherBytes = "trained by adamw_8bit, whose state has bitsandbytes' form";

const std::vector<Choice> kOptimizers = {
    {"adamw", "adamw"},
    {"adamw_torch", "adamw"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_hf", "adamw"},
    {"adamw_anyprecision", "adamw", kOtherFloats},
    {"adamw_apex_fused", "adamw"},
    {"optimi_adamw", "adamw"},
    {"flash_adamw", "adamw", kOtherFloats},
    {"adamw_torch_xla", "adamw"},
    {"adamw_torch_npu_fused", "adamw"},
    {"paged_adamw", "adamw"},
    {"paged_adamw_32bit", "adamw"},
    {"adamw_8bit", "adamw_8bit"},
    {"adamw_bnb_8bit", "adamw_8bit"},
    {"adamw_torch_8bit", "adamw_8bit", kOtherBytes},
    {"adamw_torch_4bit", "adamw_8bit", kOtherBytes},
    {"paged_adamw_8bit", "adamw_8bit"},
    {"ao_adamw_8bit", "adamw_8bit", kOtherBytes},
    {"ao_adamw_4bit", "adamw_8bit", kOtherBytes},
    {"ao_adamw_fp8", "adamw_8bit", kOtherBytes},
    {"sgd", "sgd"},
    {"flash_sgd", "sgd", kOtherFloats},
    {"lion", "lion"},
    {"lion_32bit", "lion"},
    {"flash_lion", "lion", kOtherFloats},
    {"paged_lion_32bit", "lion"},
    {"lion_8bit", "lion_8bit"},
    {"paged_lion_8bit", "lion_8bit"},
};

std::vector<Choice> same(std::initializer_list<const char*> values) {
  std::vector<Choice> out;
  for (const char* value : values) out.push_back({value, value});
  return out;
}

}  // namespace

template <>
const Table& table<LrGroup>() {
  using S = LrGroup;
  static const Table rows = [] {
    Table t("lr_groups: one entry", "Parameters with a learning rate of their own.");
    t.defaults<S>();
    t.add("name", &S::name, "What the group is called in reports.", {.example = "embeddings", .required = true});
    t.add("modules", &S::modules, "Parts of the names of its parameters.",
          {.example = "[embed_tokens]", .required = true});
    t.add("lr", &S::lr, "Its learning rate.", {.min = 0, .max = 100, .example = "1e-5", .required = true});
    return t;
  }();
  return rows;
}

Section optim_section() {
  using S = OptimSection;
  Table t("Optimizer and learning rate", "How weights move.");
  t.defaults<S>();
  t.add("optimizer", &S::optimizer,
        "The rule by which weights move. Axolotl's spellings of AdamW mean adamw, or adamw_8bit.",
        {.choices = kOptimizers, .example = "adamw"});
  t.add("optim_args", &S::optim_args, "More settings of the optimizer.", {.example = "{momentum: 0.9}", .pairs = true});
  t.add("learning_rate", &S::learning_rate, "The learning rate at its peak.",
        {.min = 0, .max = 100, .above = true, .example = "2e-4", .unset = "required"});
  t.add(
      "lr_scheduler", &S::lr_scheduler, "Course of the learning rate after the warm-up.",
      {.choices = same({"cosine", "linear", "constant", "constant_with_warmup", "cosine_with_restarts",
                        "cosine_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay", "one_cycle", "rex"}),
       .example = "cosine"});
  t.add("lr_scheduler_kwargs", &S::lr_scheduler_kwargs, "More settings of the schedule.",
        {.example = "{num_cycles: 2}"});
  t.add("warmup_steps", &S::warmup_steps, "Steps in which the rate rises to its peak.",
        {.min = 0, .example = "10", .unset = "3 % of the steps, at most 100"});
  t.add("warmup_ratio", &S::warmup_ratio, "The same as a share of all steps.",
        {.min = 0, .max = 1, .example = "0.1", .unset = "see warmup_steps"});
  t.add("lr_quadratic_warmup", &S::lr_quadratic_warmup, "Let the rate rise with the square of the step.",
        {.example = "true"});
  t.add("cosine_min_lr_ratio", &S::cosine_min_lr_ratio, "The cosine ends at this share of the peak.",
        {.min = 0, .max = 1, .example = "0.1", .unset = "0"});
  t.add("cosine_constant_lr_ratio", &S::cosine_constant_lr_ratio,
        "The cosine ends after this share of the steps; then the rate is constant.",
        {.min = 0, .max = 1, .above = true, .example = "0.8", .unset = "1"});
  t.add("weight_decay", &S::weight_decay, "Pull of matrices towards zero; norms and biases feel none.",
        {.min = 0, .max = 100, .example = "0.01"});
  t.add("adam_beta1", &S::adam_beta1, "Memory of the gradient's mean.", {.min = 0, .max = 0.999999, .example = "0.9"});
  t.add("adam_beta2", &S::adam_beta2, "Memory of the gradient's square.",
        {.min = 0, .max = 0.9999999, .example = "0.95"});
  t.add("adam_epsilon", &S::adam_epsilon, "Added to the square root, so that nothing is divided by zero.",
        {.min = 0, .max = 1, .example = "1e-8"});
  t.add("max_grad_norm", &S::max_grad_norm, "Gradients longer than this are shortened to it; 0: never.",
        {.min = 0, .example = "1.0"});
  t.add("embedding_lr", &S::embedding_lr, "Learning rate of embedding and head.",
        {.min = 0, .max = 100, .example = "1e-5", .unset = "learning_rate"});
  t.add("embedding_lr_scale", &S::embedding_lr_scale, "The same as a multiple of learning_rate.",
        {.min = 0, .max = 1e6, .example = "0.1", .unset = "1"});
  t.add("lr_groups", &S::lr_groups, "Groups of parameters with learning rates of their own.",
        {.example = "[{name: head, modules: [lm_head], lr: 1e-5}]"});
  t.add("jagged_restart_steps", &S::jagged_restart_steps,
        "Let the learning rate begin anew every so many steps, over the schedule; with relora the adapter does, too.",
        {.min = 1, .example = "500", .unset = "no restarts"});
  t.add("jagged_restart_warmup_steps", &S::jagged_restart_warmup_steps,
        "Steps behind a restart in which the rate rises to the schedule's again.", {.min = 0, .example = "10"});
  t.add("jagged_restart_anneal_steps", &S::jagged_restart_anneal_steps,
        "Steps before a restart in which the rate falls; the last has one in so many of it.",
        {.min = 1, .example = "5"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.optim; }};
}

Section train_section() {
  using S = TrainSection;
  Table t("Training", "Steps, evaluation, saving, stopping.");
  t.defaults<S>();
  t.add("output_dir", &S::output_dir, "Directory of everything the run writes.",
        {.example = "outputs/lora", .path = true});
  t.add("micro_batch_size", &S::micro_batch_size, "Examples (rows, when packed) in memory at once on each rank.",
        {.min = 1, .max = 1 << 20, .example = "2"});
  t.add("gradient_accumulation_steps", &S::gradient_accumulation_steps,
        "Micro-batches of each rank before weights move.",
        {.min = 1, .max = 1 << 20, .example = "4", .unset = "1, or from batch_size"});
  t.add("batch_size", &S::batch_size, "Examples of one step over all ranks, instead of gradient_accumulation_steps.",
        {.min = 1, .max = 1 << 30, .example = "32", .unset = "from gradient_accumulation_steps"});
  t.add("eval_batch_size", &S::eval_batch_size, "Examples at once in evaluation.",
        {.min = 1, .max = 1 << 20, .example = "4", .unset = "micro_batch_size"});
  t.add("num_epochs", &S::num_epochs, "How often the data are gone through.",
        {.min = 0, .max = 1e6, .above = true, .example = "3"});
  t.add("max_steps", &S::max_steps, "Ends the run after so many steps, whatever num_epochs says.",
        {.min = 1, .example = "1000", .unset = "by num_epochs"});
  t.add("seed", &S::seed, "Seed of everything random.", {.min = 0, .max = 4294967295.0, .example = "42", .data = true});
  t.add("threads", &S::threads, "Threads of each rank; the result does not depend on it.",
        {.min = 1, .max = 4096, .example = "8", .unset = "the cores the rank may use"});
  t.add("gradient_checkpointing", &S::gradient_checkpointing,
        "Keep less for the backward pass and compute it again: true for whole layers, mlp for the widest part alone.",
        {.example = "true"});
  t.add("gradient_checkpointing_layers", &S::gradient_checkpointing_layers,
        "How many layers gradient_checkpointing is for, the first ones; the others keep everything. Trades memory for "
        "time "
        "layer by layer.",
        {.min = 1, .max = 4096, .example = "8", .unset = "all"});
  t.add("activation_storage", &S::activation_storage,
        "How activations are kept for the backward pass; auto: bf16 where the base is quantised (qlora), else f32.",
        {.example = "bf16"});
  t.add("neftune_noise_alpha", &S::neftune_noise_alpha, "Noise on the embeddings in training; 0: none.",
        {.min = 0, .max = 1e6, .aliases = {"noisy_embedding_alpha"}, .example = "5"});
  t.add("eval_strategy", &S::eval_strategy,
        "When to evaluate: auto (by eval_steps or evals_per_epoch, else each epoch), no, steps, epoch.",
        {.words = {"auto", "no", "false", "steps", "epoch"}, .aliases = {"evaluation_strategy"}, .example = "epoch"});
  t.add("eval_steps", &S::eval_steps, "Steps between evaluations; below 1, a share of the run.",
        {.min = 0, .above = true, .example = "100", .unset = "see eval_strategy"});
  t.add("evals_per_epoch", &S::evals_per_epoch, "Evaluations in an epoch; 0.5 is every second epoch.",
        {.min = 0, .above = true, .example = "4", .unset = "see eval_strategy"});
  t.add("eval_on_start", &S::eval_on_start, "Evaluate before the first step, too.", {.example = "false"});
  t.add("save_strategy", &S::save_strategy,
        "When to save: auto (by save_steps or saves_per_epoch, else each epoch), no, steps, epoch, best.",
        {.words = {"auto", "no", "false", "steps", "epoch", "best"}, .example = "epoch"});
  t.add("save_steps", &S::save_steps, "Steps between checkpoints; below 1, a share of the run.",
        {.min = 0, .above = true, .example = "100", .unset = "see save_strategy"});
  t.add("saves_per_epoch", &S::saves_per_epoch, "Checkpoints in an epoch.",
        {.min = 0, .above = true, .example = "1", .unset = "see save_strategy"});
  t.add("save_total_limit", &S::save_total_limit, "Checkpoints to keep; older ones are removed.",
        {.min = 1, .example = "4"});
  t.add("save_only_model", &S::save_only_model, "Save no optimizer state; such a checkpoint cannot be resumed.",
        {.example = "true"});
  t.add("save_first_step", &S::save_first_step, "Save after the first step, to see that it works.",
        {.example = "true"});
  t.add("save_on_signal", &S::save_on_signal,
        "Save before stopping by SIGUSR2, SIGTERM or SIGINT; otherwise just stop.", {.example = "false"});
  t.add("save_in_background", &S::save_in_background,
        "Train on while a checkpoint is written from a copy in memory, where there is room for one.",
        {.example = "false"});
  t.add("max_time", &S::max_time, "Seconds after which the run saves and stops.",
        {.min = 0, .above = true, .example = "3600", .unset = "no limit"});
  t.add("logging_steps", &S::logging_steps, "Steps between lines of progress.",
        {.min = 1, .example = "10", .unset = "a twentieth of the steps"});
  t.add("resume_from_checkpoint", &S::resume_from_checkpoint, "Checkpoint to go on from.",
        {.example = "outputs/lora/checkpoint-100", .unset = "begin anew", .path = true});
  t.add("auto_resume_from_checkpoints", &S::auto_resume_from_checkpoints,
        "Go on from the last checkpoint in output_dir.", {.example = "true"});
  t.add("load_best_model_at_end", &S::load_best_model_at_end, "End with the weights of the best evaluation.",
        {.example = "true"});
  t.add("metric_for_best_model", &S::metric_for_best_model,
        "What 'best' is measured by; the loss on the validation split is all there is.",
        {.choices = {{"eval_loss", "eval_loss"}, {"loss", "eval_loss"}}, .example = "eval_loss"});
  t.add("early_stopping_patience", &S::early_stopping_patience, "Evaluations without gain after which training stops.",
        {.min = 1, .example = "3", .unset = "never"});
  t.add("loss_watchdog_threshold", &S::loss_watchdog_threshold, "A loss above this is alarming.",
        {.min = 0, .above = true, .example = "5.0", .unset = "off"});
  t.add("loss_watchdog_patience", &S::loss_watchdog_patience, "Alarming steps in a row that stop the run.",
        {.min = 1, .example = "3"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.train; }};
}

Section distribution_section() {
  using S = DistributionSection;
  Table t("Distribution", "How the ranks of `mpirun` share the work.");
  t.defaults<S>();
  t.add("distribution", &S::distribution,
        "What each rank keeps: all (ddp), its part of the optimizer (zero1), also of gradients (zero2), also of "
        "weights (zero3); hybrid: zero3 within a host, ddp across.",
        {.choices = same({"none", "ddp", "zero1", "zero2", "zero3", "hybrid"}),
         .example = "zero1",
         .unset = "ddp on several ranks; zero1 in full fine-tuning on one host"});
  t.add("dist_timeout", &S::dist_timeout, "Seconds a rank waits for the others before the job ends.",
        {.min = 1, .max = 1e7, .aliases = {"ddp_timeout"}, .example = "600"});
  t.add("gradient_tree", &S::gradient_tree,
        "Sum gradients in one fixed tree, so that bits do not depend on the number of ranks; false saves memory in "
        "full fine-tuning.",
        {.example = "false"});
  t.add("dp_shard_size", &S::dp_shard_size, "With hybrid: ranks of a group that shares one copy of what is trained.",
        {.min = 1, .max = 1e6, .example = "4", .unset = "the ranks of a host"});
  t.add("comm_dtype", &S::comm_dtype,
        "How gradients travel between ranks: bf16 halves what is sent; what rounding takes away is added to the next "
        "step. "
        "Bits then depend on the number of ranks and the strategy.",
        {.choices = same({"f32", "bf16"}), .example = "bf16"});
  t.add("shard_frozen_weights", &S::shard_frozen_weights,
        "With zero3 and hybrid: each rank keeps a part of the frozen layers and gathers the others' when they are "
        "needed. "
        "Without, the ranks of a host share the mapped file.",
        {.example = "true", .unset = "on several hosts where the base is larger than a host's free memory"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.distribution; }};
}

Section generation_section() {
  using S = GenerationSection;
  Table t("Generation", "Defaults of `dml infer`, and samples during training.");
  t.defaults<S>();
  t.add("generate_samples", &S::generate_samples, "Show generated text at each evaluation.", {.example = "true"});
  t.add("num_generation_samples", &S::num_generation_samples, "How many samples.",
        {.min = 1, .max = 1000, .aliases = {"eval_table_size"}, .example = "3"});
  t.add("generation_prompt_ratio", &S::generation_prompt_ratio,
        "Share of an example that is the sample's prompt, where no turn tells it.",
        {.min = 0, .max = 1, .example = "0.5"});
  t.add("generation_max_new_tokens", &S::generation_max_new_tokens, "Most tokens of an answer.",
        {.min = 1, .max = 1 << 24, .aliases = {"eval_max_new_tokens"}, .example = "128"});
  t.add("generation_do_sample", &S::generation_do_sample, "Draw tokens; false takes the likeliest one each time.",
        {.example = "false"});
  t.add("generation_temperature", &S::generation_temperature, "Below 1 likelier, above 1 more surprising tokens.",
        {.min = 0, .max = 100, .example = "0.7"});
  t.add("generation_top_k", &S::generation_top_k, "Draw from the k likeliest tokens.",
        {.min = 1, .example = "40", .unset = "all"});
  t.add("generation_top_p", &S::generation_top_p, "Draw from the likeliest tokens that share this probability.",
        {.min = 0, .max = 1, .above = true, .example = "0.95", .unset = "all"});
  t.add("generation_min_p", &S::generation_min_p, "Draw from tokens at least this likely, relative to the likeliest.",
        {.min = 0, .max = 1, .example = "0.05", .unset = "all"});
  t.add("generation_repetition_penalty", &S::generation_repetition_penalty,
        "Above 1, tokens that occurred become less likely.", {.min = 0, .max = 100, .above = true, .example = "1.1"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.generation; }};
}

}  // namespace dml::recipe
