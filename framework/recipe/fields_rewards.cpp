// Fields of the table `trl`: reinforcement learning, with the names of Axolotl and TRL.
#include "core/sampling_limits.h"
#include "recipe/codecs.h"

namespace dml::recipe {
namespace {

void add_sampling(Table& t) {
  using S = TrlSettings;
  using Limits = SamplingLimits;
  t.add("num_generations", &S::num_generations,
        "Completions of each prompt, which are compared with each other. The completions of a step must be a multiple.",
        {.min = 2, .max = 4096, .example = "8"});
  t.add("max_completion_length", &S::max_completion_length,
        "Longest completion in tokens; prompts may have the rest of sequence_len.",
        {.min = 1, .max = 1 << 20, .example = "256"});
  t.add("temperature", &S::temperature, "Temperature of sampling, and of the probabilities in the loss.",
        {.min = 0, .max = Limits::kTemperature.high, .above = true, .example = "0.9"});
  t.add("top_k", &S::top_k, "Sample from this many of the likeliest tokens.",
        {.min = 1, .max = Limits::kTopK.high, .example = "50", .unset = "all tokens"});
  t.add("top_p", &S::top_p, "Sample from the likeliest tokens that have this probability together.",
        {.min = 0, .max = 1, .above = true, .example = "0.95", .unset = "1"});
  t.add("min_p", &S::min_p, "Sample from tokens with at least this share of the likeliest one's probability.",
        {.min = 0, .max = 1, .example = "0.05", .unset = "0"});
  t.add("repetition_penalty", &S::repetition_penalty, "Above 1: tokens that occurred before become less likely.",
        {.min = Limits::kRepetitionPenalty.low, .max = Limits::kRepetitionPenalty.high, .example = "1.05"});
  t.add("num_iterations", &S::num_iterations, "Passes of training over the same completions (μ).",
        {.min = 1, .max = 1000, .example = "2"});
  t.add("steps_per_generation", &S::steps_per_generation,
        "Micro-batches whose completions are sampled at once: a multiple of gradient_accumulation_steps, of each rank; "
        "with batch_size a multiple of batch_size ÷ micro_batch_size, of all ranks together.",
        {.min = 1, .max = 1 << 20, .example = "4", .unset = "those of one step"});
  t.add("log_completions", &S::log_completions, "Show completions with their rewards on the terminal, at every step.",
        {.example = "true"});
  t.add("num_completions_to_print", &S::num_completions_to_print, "How many log_completions shows.",
        {.min = 1, .max = 1000, .example = "3"});
}

void add_loss(Table& t) {
  using S = TrlSettings;
  t.add("beta", &S::beta,
        "Weight of the divergence from the model at the start (KL, β); 0: none is computed. Also another name of "
        "rl_beta.",
        {.min = 0, .max = 1e6, .example = "0.04", .unset = "rl_beta, else 0"});
  t.add("loss_type", &S::loss_type,
        "How the losses of tokens are averaged: over all tokens of the step (dapo, bnpo), over those of each "
        "completion and then over completions (grpo), or over completions × max_completion_length (dr_grpo).",
        {.example = "dr_grpo"});
  t.add("epsilon", &S::epsilon, "The ratio of probabilities is clipped below 1 − epsilon.",
        {.min = 0, .max = 1, .example = "0.2"});
  t.add("epsilon_high", &S::epsilon_high, "The ratio of probabilities is clipped above 1 + epsilon_high.",
        {.min = 0, .max = 100, .example = "0.28", .unset = "epsilon"});
  t.add("delta", &S::delta, "Upper bound of the ratio, also where the advantage is negative (two-sided clipping).",
        {.min = 0, .max = 1e6, .above = true, .example = "4.0", .unset = "no bound"});
  t.add("importance_sampling_level", &S::importance_sampling_level,
        "Ratios of each token, or one of the whole completion (GSPO).", {.example = "sequence"});
  t.add("scale_rewards", &S::scale_rewards,
        "What advantages are divided by: the standard deviation of the rewards of a prompt (group), of all (batch), or "
        "nothing (none).",
        {.example = "batch"});
  t.add("multi_objective_aggregation", &S::multi_objective_aggregation,
        "Several rewards: add them up, then normalize; or normalize each within its prompt first (GDPO).",
        {.example = "normalize_then_sum"});
  t.add("mask_truncated_completions", &S::mask_truncated_completions,
        "Leave completions out of the loss that max_completion_length cut off.", {.example = "true"});
  t.add("reward_weights", &S::reward_weights, "Weight of each entry of rewards, in place of its own 'weight'.",
        {.min = -1e6, .max = 1e6, .example = "[1.0, 0.2]", .unset = "1 for each"});
}

// Fields about the reference model, which apply to dpo, too.
void add_reference(Table& t) {
  using S = TrlSettings;
  t.add("sync_ref_model", &S::sync_ref_model,
        "dpo, and grpo with beta: let the reference follow the trained weights (TR-DPO). It is a second set of "
        "weights, stored with the optimizer's state and evaluated in every step.",
        {.example = "true"});
  t.add("ref_model_mixup_alpha", &S::ref_model_mixup_alpha,
        "What the reference takes of the trained weights when it follows (α).",
        {.min = 0, .max = 1, .above = true, .example = "0.6"});
  t.add("ref_model_sync_steps", &S::ref_model_sync_steps,
        "Number of steps after which the reference is updated from the trained weights.",
        {.min = 1, .max = 1 << 30, .example = "64"});
}

void add_unfilled(Table& t) {
  t.inert("completions come from dml's own engine, which has the weights of training at once",
          {"use_vllm", "vllm_*", "use_liger_loss", "use_data_producer", "async_prefetch", "vllm_lora_sync"});
  t.reject("write the list 'rewards' at the top level, with checks, programs and reward models", {"reward_funcs"});
  t.reject("set temperature, top_p, top_k, min_p and repetition_penalty", {"generation_kwargs"});
  t.reject("write chat_template_kwargs at the top level", {"chat_template_kwargs"});
  t.reject("completions come from dml's own engine only", {"rollout_func"});
  t.reject("the size follows from micro_batch_size and steps_per_generation", {"generation_batch_size"});
}

}  // namespace

template <>
const Table& table<TrlSettings>() {
  static const Table rows = [] {
    Table t("trl",
            "Learning from rewards (rl: grpo): what is sampled, and the loss; some keys apply to rl: dpo as well.");
    t.defaults<TrlSettings>();
    add_sampling(t);
    add_loss(t);
    add_reference(t);
    add_unfilled(t);
    return t;
  }();
  return rows;
}

}  // namespace dml::recipe
