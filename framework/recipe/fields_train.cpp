// Fields of the sections about the run: optimizer, steps, ranks.
#include "recipe/codecs.h"

namespace dml::recipe {
template <>
const Table& table<LrGroup>() {
  using S = LrGroup;
  static const Table rows = [] {
    Table t("lr_groups: one entry", "A parameter group with its own learning rate.");
    t.defaults<S>();
    t.add("name", &S::name, "Name of the group in reports.", {.example = "embeddings", .required = true});
    t.add("modules", &S::modules, "Substrings of the parameter names in the group.",
          {.example = "[embed_tokens]", .required = true});
    t.add("lr", &S::lr, "Learning rate of the group.", {.min = 0, .max = 100, .example = "1e-5", .required = true});
    return t;
  }();
  return rows;
}

template <>
const Table& table<DynamicCheckpoint>() {
  using S = DynamicCheckpoint;
  static const Table rows = [] {
    Table t("dynamic_checkpoint", "A checkpoint on demand.");
    t.defaults<S>();
    t.add("enabled", &S::enabled, "Whether to look for the file.", {.example = "true"});
    t.add("check_interval", &S::check_interval, "Steps between two looks.", {.min = 1, .example = "100"});
    t.add("trigger_file_path", &S::trigger_file_path, "The file to look for.",
          {.example = "save-now", .unset = "axolotl_checkpoint.save in output_dir", .path = true});
    return t;
  }();
  return rows;
}

namespace {

// The nearest optimizer of dml for one that only Axolotl or transformers have; "" for other names.
std::string nearest_optimizer(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> kMissing{
      {"grokadamw", "adamw"},
      {"lomo", "adafactor"},
      {"adalomo", "adafactor"},
      {"dion", "muon"},
      {"sinkgd", "sgd"},
      {"galore_adafactor", "adafactor"},
      {"q_galore", "galore_adamw"},
      {"qgalore", "galore_adamw"},
      {"schedule_free_radam", "schedule_free_adamw"}};
  for (const auto& [missing, nearest] : kMissing)
    if (name.starts_with(missing)) return nearest;
  return name.ends_with("_4bit") || name.ends_with("_fp8") ? "adamw_8bit" : "";
}

void add_schedule(Table& t) {
  using S = OptimSection;
  t.add("learning_rate", &S::learning_rate, "Peak learning rate.",
        {.min = 0, .max = 100, .above = true, .example = "2e-4", .unset = "required"});
  t.add("lr_scheduler", &S::lr_scheduler, "Learning-rate schedule after warmup.", {.open = true, .example = "cosine"});
  t.add("lr_scheduler_kwargs", &S::lr_scheduler_kwargs, "More arguments of the schedule.",
        {.example = "{num_cycles: 2}"});
  t.add("warmup_steps", &S::warmup_steps,
        "Steps in which the learning rate rises to its peak: step s, counted from 1, has s ÷ warmup_steps of it.",
        {.min = 0, .example = "10", .unset = "3 % of the steps, at most 100"});
  t.add("warmup_ratio", &S::warmup_ratio, "Warmup as a fraction of all steps.",
        {.min = 0, .max = 1, .example = "0.1", .unset = "see warmup_steps"});
  t.add("lr_quadratic_warmup", &S::lr_quadratic_warmup,
        "With lr_scheduler: cosine, quadratic instead of linear warmup.", {.example = "true"});
  t.add("cosine_min_lr_ratio", &S::cosine_min_lr_ratio,
        "Final learning rate of the schedules cosine, cosine_with_min_lr and rex, as a fraction of the peak; none with "
        "lr_quadratic_warmup.",
        {.min = 0, .max = 1, .example = "0.1", .unset = "0"});
  t.add("cosine_constant_lr_ratio", &S::cosine_constant_lr_ratio,
        "Fraction of the steps after which the cosine schedule reaches its minimum; the learning rate is constant from "
        "there on.",
        {.min = 0, .max = 1, .above = true, .off = 0, .example = "0.8", .unset = "1"});
}

void add_moments(Table& t) {
  using S = OptimSection;
  t.add("weight_decay", &S::weight_decay,
        "Weight decay of matrices, not of norms and biases; decoupled, but PyTorch's L2 in sgd, rmsprop and adagrad.",
        {.min = 0, .max = 100, .example = "0.01"});
  t.add("adam_beta1", &S::adam_beta1, "Decay rate of the first moment (β1).",
        {.min = 0, .max = 0.999999, .example = "0.9", .unset = "by optimizer; adamw: 0.9"});
  t.add("adam_beta2", &S::adam_beta2, "Decay rate of the second moment (β2).",
        {.min = 0, .max = 0.9999999, .example = "0.95", .unset = "by optimizer; adamw: 0.999"});
  t.add("adam_beta3", &S::adam_beta3, "Third decay rate (β3) of came_pytorch and ademamix.",
        {.min = 0, .max = 0.99999999, .example = "0.9999", .unset = "by optimizer: 0.9999"});
  t.add("adam_epsilon", &S::adam_epsilon, "Term added to the denominator for numerical stability (ε).",
        {.min = 0, .max = 1, .above = true, .example = "1e-8", .unset = "by optimizer; adamw: 1e-8"});
  t.add("adam_epsilon2", &S::adam_epsilon2, "Second such term, of came_pytorch.",
        {.min = 0, .max = 1, .example = "1e-16", .unset = "by optimizer: 1e-16"});
  t.add("max_grad_norm", &S::max_grad_norm, "Clip the gradient norm to this value; 0: no clipping.",
        {.min = 0, .example = "1.0"});
}

// Fields about the stored weights and their separate learning rates.
void add_kept_weights(Table& t) {
  using S = OptimSection;
  t.add("embedding_lr", &S::embedding_lr, "Learning rate of the embedding and the head.",
        {.min = 0, .max = 100, .example = "1e-5", .unset = "learning_rate"});
  t.add("ema_decay", &S::ema_decay,
        "Decay rate of an exponential moving average of the weights, at most (1 + t)/(10 + t) in a step "
        "with t steps before it. The average is evaluated, sampled, saved and is the result; one more float of state "
        "per parameter.",
        {.min = 0, .max = 0.9999999, .above = true, .off = 0, .example = "0.999", .unset = "no average"});
  t.add(
      "bf16_weights", &S::bf16_weights,
      "Round trained weights to bfloat16 after each step, without a float32 copy: kahan carries what rounding loses "
      "to the next step (Kahan summation; two more bytes of state per parameter), stochastic rounds up or down at "
      "random, in proportion. In full fine-tuning a weight takes two bytes in memory, too. Checkpoints and the result "
      "are bfloat16, half the size.",
      {.example = "stochastic"});
  t.add("embedding_lr_scale", &S::embedding_lr_scale, "The same as a multiple of learning_rate.",
        {.min = 0, .max = 1e6, .example = "0.1", .unset = "1"});
  t.add("lr_groups", &S::lr_groups, "Parameter groups with their own learning rates.",
        {.example = "[{name: head, modules: [lm_head], lr: 1e-5}]"});
}

}  // namespace

Section optim_section() {
  using S = OptimSection;
  Table t("Optimizer and learning rate", "How weights are updated.");
  t.defaults<S>();
  t.add("optimizer", &S::optimizer, "Optimizer; see `dml list optimizers`.",
        {.open = true, .nearest = nearest_optimizer, .example = "adamw"});
  t.add("optim_args", &S::optim_args, "More arguments of the optimizer.",
        {.example = "{momentum: 0.9}", .pairs = true});
  t.add("optim_target_modules", &S::optim_target_modules,
        "Modules whose gradients galore_adamw and apollo project: names, parts of them or regular expressions, or "
        "all-linear.",
        {.example = "[self_attn, mlp]", .unset = "none"});
  add_schedule(t);
  add_moments(t);
  add_kept_weights(t);
  t.add("jagged_restart_steps", &S::jagged_restart_steps,
        "Restart the learning rate every N steps, on top of the schedule; with relora, restart the adapter as "
        "well.",
        {.min = 1, .example = "500", .unset = "no restarts"});
  t.add("jagged_restart_warmup_steps", &S::jagged_restart_warmup_steps, "Warmup steps after each restart.",
        {.min = 0, .example = "10"});
  t.add("jagged_restart_anneal_steps", &S::jagged_restart_anneal_steps,
        "Steps before each restart over which the learning rate falls, linearly, to 1/N of the schedule's.",
        {.min = 1, .example = "5"});
  return {std::move(t), &Recipe::optim};
}

namespace {

void add_batches(Table& t) {
  using S = TrainSection;
  t.add("micro_batch_size", &S::micro_batch_size,
        "Examples (with packing: rows) per micro-batch and rank. With preferences and rewards, times "
        "gradient_accumulation_steps and ranks, the examples of a step.",
        {.min = 1, .max = 1 << 20, .example = "2"});
  t.add("gradient_accumulation_steps", &S::gradient_accumulation_steps, "Micro-batches per rank and optimizer step.",
        {.min = 1, .max = 1 << 20, .example = "4", .unset = "1, or from batch_size"});
  t.add("batch_size", &S::batch_size,
        "Examples (with packing: rows) per optimizer step over all ranks; use instead of gradient_accumulation_steps.",
        {.min = 1, .max = 1 << 30, .example = "32", .unset = "from gradient_accumulation_steps"});
  t.add("eval_batch_size", &S::eval_batch_size, "Examples (with packing: rows) per micro-batch in evaluation.",
        {.min = 1, .max = 1 << 20, .example = "4", .unset = "micro_batch_size"});
  t.add("num_epochs", &S::num_epochs, "Number of passes over the training data.",
        {.min = 0, .max = 1e6, .above = true, .example = "3"});
  t.add("max_steps", &S::max_steps, "Maximum number of optimizer steps; overrides num_epochs.",
        {.min = 1, .off = -1, .example = "1000", .unset = "by num_epochs"});
}

// Fields that say how a micro-batch is computed.
void add_computation(Table& t) {
  using S = TrainSection;
  t.add("gradient_checkpointing", &S::gradient_checkpointing,
        "Save memory by recomputing activations in the backward pass: true for whole layers, mlp for the MLP only. "
        "Changes the last digits of gradients where activation_storage rounds to bf16, none otherwise.",
        {.example = "true"});
  t.add("gradient_checkpointing_layers", &S::gradient_checkpointing_layers,
        "Number of layers, from the first one on, that gradient_checkpointing applies to. Trades memory for time layer "
        "by layer.",
        {.min = 1, .max = 4096, .example = "8", .unset = "all"});
  t.add("activation_storage", &S::activation_storage,
        "Dtype of the activations that are saved for the backward pass; auto: bf16 when the base is quantized (qlora); "
        "for an adapter with bf16 products, bf16 for q, k, v, attention's output, gate and up, f32 for the inputs of "
        "layers and norms; else f32.",
        {.example = "bf16"});
  t.add(
      "prepack_weights", &S::prepack_weights,
      "Keep copies of the layers' weights in the layout that matrix products read: of frozen weights for the whole "
      "run, of trained ones for the micro-batches of a step. A step takes a few percent less time; short "
      "micro-batches gain most. The copies take four bytes per parameter with bf16 products on a processor that "
      "multiplies bf16, else eight or more. Results do not change. If unset, copies are kept with bf16 products, where "
      "they are read more than once and take at most a quarter of the run's other memory.",
      {.example = "true", .unset = "where they are small"});
  t.add("bf16", &S::bf16,
        "Round the factors of matrix products to bfloat16, at twice the speed and more where the processor multiplies "
        "them faster than float32 (AMX, AMD's AVX512_BF16); sums, weights, gradients, norms, softmax and optimizer "
        "stay float32. auto: on such processors.",
        {.aliases = {"bfloat16"}, .example = "auto"});
  t.add(
      "objective", &S::objective,
      "What a step minimizes, in place of what follows from rl and the data: a loss of tokens (`dml list objectives`), "
      "or the objective of a plug-in.",
      {.open = true, .example = "dft", .unset = "nll for texts; else follows from rl"});
  t.add("neftune_noise_alpha", &S::neftune_noise_alpha, "NEFTune: noise added to the embeddings in training; 0: none.",
        {.min = 0, .max = 1e6, .aliases = {"noisy_embedding_alpha"}, .example = "5"});
  t.add("label_smoothing_factor", &S::label_smoothing_factor,
        "Label smoothing: share of the target that is spread over the whole vocabulary. The logged loss has it in it, "
        "nll is without; evaluations are always without.",
        {.min = 0, .max = 0.999999, .aliases = {"label_smoothing"}, .example = "0.1"});
  t.add("z_loss", &S::z_loss,
        "Coefficient of the z-loss, the square of the logarithm of the softmax's denominator, which keeps logits "
        "small; nll is the loss without it.",
        {.min = 0, .max = 1, .aliases = {"z_loss_coefficient"}, .example = "1e-4"});
}

// Fields about when to evaluate and save.
void add_evaluations_and_saves(Table& t) {
  using S = TrainSection;
  t.add("eval_strategy", &S::eval_strategy,
        "When to evaluate: auto (by eval_steps or evals_per_epoch, else every epoch), no, steps, epoch.",
        {.words = {"auto", "no", "false", "steps", "epoch"}, .aliases = {"evaluation_strategy"}, .example = "epoch"});
  t.add("eval_steps", &S::eval_steps, "Steps between evaluations; below 1, a fraction of the run.",
        {.min = 0, .above = true, .off = 0, .example = "100", .unset = "see eval_strategy"});
  t.add("evals_per_epoch", &S::evals_per_epoch, "Evaluations per epoch; 0.5 means every second epoch.",
        {.min = 0, .above = true, .off = 0, .example = "4", .unset = "see eval_strategy"});
  t.add("eval_metrics", &S::eval_metrics,
        "Values of the validation split that evaluations give beside eval_loss (`dml list eval_metrics`), under eval_ "
        "and their names.",
        {.example = "[bits_per_byte]"});
  t.add("eval_on_start", &S::eval_on_start, "Evaluate before the first step as well.", {.example = "false"});
  t.add("save_strategy", &S::save_strategy,
        "When to save a checkpoint: auto (by save_steps or saves_per_epoch, else every epoch), no, steps, epoch, best.",
        {.words = {"auto", "no", "false", "steps", "epoch", "best"}, .example = "epoch"});
  t.add("save_steps", &S::save_steps, "Steps between checkpoints; below 1, a fraction of the run.",
        {.min = 0, .above = true, .off = 0, .example = "100", .unset = "see save_strategy"});
  t.add("saves_per_epoch", &S::saves_per_epoch, "Checkpoints per epoch.",
        {.min = 0, .above = true, .off = 0, .example = "1", .unset = "see save_strategy"});
  t.add("save_total_limit", &S::save_total_limit, "Number of checkpoints to keep; older ones are deleted.",
        {.min = 1, .example = "4"});
  t.add("save_only_model", &S::save_only_model, "Save no optimizer state; such a checkpoint cannot be resumed.",
        {.example = "true"});
  t.add("save_first_step", &S::save_first_step, "Save after the first step, to check early that saving works.",
        {.example = "true"});
  t.add("save_on_signal", &S::save_on_signal, "Save a checkpoint before SIGINT, SIGTERM or SIGUSR2 stops the run.",
        {.example = "false"});
  t.add("save_in_background", &S::save_in_background,
        "Continue training while a checkpoint is written from a copy in memory, if the copy fits.",
        {.example = "false"});
}

// Fields about the best model and early stopping.
void add_stops(Table& t) {
  using S = TrainSection;
  t.add("load_best_model_at_end", &S::load_best_model_at_end, "Load the weights with the best evaluation at the end.",
        {.example = "true"});
  t.add("metric_for_best_model", &S::metric_for_best_model,
        "Metric that defines the best model, for load_best_model_at_end, save_strategy: best and "
        "early_stopping_patience: eval_loss, eval_NAME_loss of a dataset NAME where there are several, or another "
        "value that the run's evaluations give; with or without eval_ in front.",
        {.example = "eval_loss"});
  t.add("greater_is_better", &S::greater_is_better, "Whether a greater value of metric_for_best_model is a better one.",
        {.example = "false", .unset = "as the metric says; false for losses"});
  t.add("early_stopping_patience", &S::early_stopping_patience, "Stop after this many evaluations without improvement.",
        {.min = 1, .off = 0, .example = "3", .unset = "never"});
  t.add("loss_watchdog_threshold", &S::loss_watchdog_threshold, "Training loss above which a step counts as diverging.",
        {.min = 0, .above = true, .off = 0, .example = "5.0", .unset = "off"});
  t.add("loss_watchdog_patience", &S::loss_watchdog_patience, "Consecutive diverging steps that stop the run.",
        {.min = 1, .example = "3"});
  t.add("nonfinite_patience", &S::nonfinite_patience,
        "Consecutive steps whose loss or gradient is not a finite number after which the run stops. Such a step is "
        "skipped: weights and optimizer state stay as they are, and its rows are named.",
        {.min = 1, .example = "1"});
}

}  // namespace

Section train_section() {
  using S = TrainSection;
  Table t("Training", "Steps, evaluation, checkpoints, stopping.");
  t.defaults<S>();
  t.add("output_dir", &S::output_dir, "Directory for everything the run writes.",
        {.example = "outputs/lora", .path = true});
  add_batches(t);
  t.add("seed", &S::seed, "Random seed.", {.min = 0, .max = 4294967295.0, .example = "42"});
  t.add("threads", &S::threads, "Threads per rank; results do not depend on it.",
        {.min = 1, .max = 4096, .off = 0, .example = "8", .unset = "the cores the rank may use"});
  t.add("thread_affinity", &S::thread_affinity,
        "Binding of threads on hosts with several L3 caches or NUMA nodes: consecutive threads fill one group of cores "
        "after another. auto: if they take all cores that the process may use, without a limit of its processor time. "
        "close: also if cores are left over. none: never. `dml doctor` shows what is chosen; results do not depend on "
        "it.",
        {.example = "none"});
  t.add("ranks", &S::ranks,
        "Ranks (processes) that dml train starts on this host, unless a launcher has started it. The step and its bits "
        "stay those of one rank. auto: as many as are fastest; one where 'threads' is set.",
        {.min = 1, .max = 4096, .words = {"auto"}, .example = "4"});
  add_computation(t);
  add_evaluations_and_saves(t);
  t.add("max_time", &S::max_time, "Seconds after which the run saves and stops.",
        {.min = 0, .above = true, .off = 0, .example = "3600", .unset = "no limit"});
  t.add("logging_steps", &S::logging_steps, "Steps between progress lines.",
        {.min = 1, .example = "10", .unset = "5 % of the steps"});
  t.add("resume_from_checkpoint", &S::resume_from_checkpoint, "Checkpoint to resume from.",
        {.example = "outputs/lora/checkpoint-100", .unset = "start a new run", .path = true});
  t.add("auto_resume_from_checkpoints", &S::auto_resume_from_checkpoints,
        "Resume from the last checkpoint in output_dir.", {.example = "true"});
  add_stops(t);
  t.add("dynamic_checkpoint", &S::dynamic_checkpoint,
        "Save a checkpoint whenever a file appears, and remove the file; SIGUSR1 saves as well.",
        {.example = "{enabled: true}"});
  return {std::move(t), &Recipe::train};
}

Section distribution_section() {
  using S = DistributionSection;
  Table t("Distribution", "How the ranks of a job share the work.");
  t.defaults<S>();
  t.add(
      "distribution", &S::distribution,
      "What each rank stores: everything (ddp), a shard of the optimizer state (zero1), also of the gradients "
      "(zero2), also of the weights (zero3); hybrid strategies: shards within a group of ranks, copies in every group.",
      {.open = true, .example = "zero1", .unset = "ddp on several ranks; zero1 in full fine-tuning on one host"});
  t.add("dist_timeout", &S::dist_timeout, "Seconds a rank waits for the others before the job fails.",
        {.min = 1, .max = 1e7, .aliases = {"ddp_timeout"}, .example = "600"});
  t.add("gradient_tree", &S::gradient_tree,
        "Sum gradients in a fixed tree, so that results do not depend on the number of ranks, bit for bit; false saves "
        "memory in full fine-tuning.",
        {.example = "false"});
  t.add("dp_shard_size", &S::dp_shard_size, "Of the hybrid strategies: number of ranks in a group.",
        {.min = 1, .max = 1e6, .example = "4", .unset = "the ranks of a host"});
  t.add("comm_dtype", &S::comm_dtype,
        "Type in which ranks exchange gradients: bf16 halves the traffic and carries the rounding error to the next "
        "step, but results then depend on the number of ranks and the strategy.",
        {.example = "bf16"});
  t.add("shard_frozen_weights", &S::shard_frozen_weights,
        "zero3 and hybrid: shard the frozen layers as well and gather them when needed. Otherwise the ranks of a host "
        "share the mapped file.",
        {.example = "true", .unset = "on several hosts where the base is larger than a host's free memory"});
  return {std::move(t), &Recipe::distribution};
}

}  // namespace dml::recipe
