// The choices that settings of a recipe offer.
#pragma once

namespace dml {

enum class AdapterKind { none, lora, qlora };
enum class LoraInit { kaiming, gaussian, pissa, olora, loftq, random };  // random: A and B both (PEFT's `false`)
enum class ExcessLength { drop, truncate, raise, split_turns };
enum class BadRow { error, skip };
enum class TrainOnEnd {
  none,
  turn,
  last,
  all
};                                          // turns whose end tokens are trained: none, trained ones, the last, all
enum class Recompute { none, layer, mlp };  // gradient_checkpointing: false, true, mlp
enum class Bf16 { off, on, automatic };     // automatic: where the processor has instructions for it
enum class Bf16Weights {
  off,
  kahan,
  stochastic
};  // trained weights are bfloat16 between steps; how what rounding loses is kept
enum class Cadence { automatic, never, steps, epoch, best };

enum class RowKind {
  text,
  pairs,
  labelled,
  prompts,
  steps
};  // of data: follows from rl, reward_model, process_reward_model
enum class ModelTask {
  causal_lm,
  reward,
  process_reward
};  // what the head gives: text, a number for a text, classes of steps
enum class Rl { none, dpo, ipo, orpo, simpo, cpo, kto, grpo, gdpo };

}  // namespace dml
