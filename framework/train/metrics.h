// The metrics of a step and of an evaluation, and generated samples. Besides the fixed fields there are named values,
// in the order in which an objective or evaluator returns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct NamedValue {
  std::string name;
  double value = 0;

  bool operator==(const NamedValue&) const = default;
};

/// A value that a run measures.
struct Metric {
  std::string name;  // unique within a run
  bool greater_is_better = false;
};

/// One optimizer step. `step` counts from 1: the number of steps done.
struct StepMetrics {
  std::int64_t step = 0;
  double epoch = 0;      // completed passes over the data plus the fraction of the current one
  double loss = 0;       // mean over the labeled tokens of the global batch, or as the objective says
  double grad_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;          // number of tokens of the global batch
  std::int64_t trained_tokens = 0;  // how many of them have a label
  double tok_s = 0, step_s = 0;
  std::size_t mem = 0;                  // resident bytes, summed over the ranks
  std::vector<NamedValue> values = {};  // the objective's terms
  double time = 0;                      // when the step ended, in seconds since 1970; 0: unknown

  /// What experiment trackers are told.
  std::vector<NamedValue> tracked() const {
    std::vector<NamedValue> out{{"loss", loss},
                                {"grad_norm", grad_norm},
                                {"learning_rate", lr},
                                {"epoch", epoch},
                                {"tokens_per_second", tok_s}};
    out.insert(out.end(), values.begin(), values.end());
    return out;
  }
  bool operator==(const StepMetrics&) const = default;
};

/// The name of the validation loss, which is the first metric of an evaluation.
inline constexpr const char* kEvalLoss = "eval_loss";
/// The perplexity: exp of the validation loss, where that is the mean cross-entropy of tokens.
inline constexpr const char* kEvalPerplexity = "eval_ppl";

struct EvalMetrics {
  std::int64_t step = 0;
  double epoch = 0;
  std::vector<NamedValue> values = {};

  std::optional<double> value(std::string_view name) const;
  /// The value of kEvalLoss; NaN if this evaluation has none.
  double loss() const;
  bool operator==(const EvalMetrics&) const = default;
};

/// The line printed on a terminal: "step 12: validation loss 1.2345, perplexity 3.44, eval_words_acc 0.5000".
std::string eval_line(const EvalMetrics& eval);
/// The evaluations that have a loss.
std::vector<EvalMetrics> with_loss(const std::vector<EvalMetrics>& evals);

/// A generated text, the expected text, and, if known, what the model generated before training (`base`).
struct SampleMetrics {
  std::int64_t step = 0;
  std::string prompt, expected, text;
  std::optional<std::string> base = {};

  bool operator==(const SampleMetrics&) const = default;
};

}  // namespace dml
