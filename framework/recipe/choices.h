// Enumerations of a recipe's settings.
#pragma once

namespace dml {

enum class AdapterKind { none, lora, qlora };
enum class LoraInit { kaiming, gaussian, pissa, olora, loftq, random };  // random: A and B (PEFT's `false`)
enum class ExcessLength { drop, truncate, raise, split_turns };
enum class BadRow { error, skip };
enum class TrainOnEnd {
  none,
  turn,
  last,
  all
};  // turns whose end-of-turn token is trained: none, the trained ones, the last, all
enum class Recompute { none, layer, mlp };  // gradient_checkpointing: false, true, mlp
enum class Bf16 { off, on, automatic };     // automatic: on if the processor multiplies bf16 faster
enum class Bf16Weights {
  off,
  kahan,
  stochastic
};  // trained weights stored in bfloat16: how rounding errors are compensated (optim/bf16_weights.h)
// When to evaluate and save, as transformers' IntervalStrategy; automatic: see TrainSection.
enum class IntervalStrategy { automatic, never, steps, epoch, best };

enum class RowKind {
  text,
  pairs,
  labeled,
  prompts,
  steps
};  // the kind of the data's rows; follows from rl, reward_model, process_reward_model
enum class ModelTask {
  causal_lm,
  reward,
  process_reward
};  // the output of the head: a token, a number per text, a class per step
enum class ReloraPrune { magnitude, random, reset };
// A loaded recipe never has ipo and gdpo, which are dpo and grpo with a setting.
enum class Rl { none, dpo, ipo, orpo, simpo, cpo, kto, grpo, gdpo };
enum class FDivergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };
enum class KtoLoss { kto, apo_zero_unpaired };
enum class PolicyLoss { dapo, grpo, dr_grpo, bnpo };
enum class RatioLevel { token, sequence };
enum class AdvantageScale { group, batch, none };
enum class RewardAggregation { sum_then_normalize, normalize_then_sum };
enum class HubStrategy { end, every_save, checkpoint, all_checkpoints };

}  // namespace dml
