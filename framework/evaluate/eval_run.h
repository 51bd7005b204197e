// Runs evaluations on a model: rows are divided among the ranks in groups of a fixed size, so results do not depend on
// the number of ranks. Rank 0 applies the checks of answers; every rank returns the same result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/comm.h"
#include "evaluate/checks.h"
#include "evaluate/eval_task.h"
#include "model/causal_lm.h"

namespace dml {

/// A task whose checks are created and whose rows are verified.
class Eval {
 public:
  /// UserError with one line per problem: unknown checks, patterns, schemas, programs, rows that lack something,
  /// prompts that do not fit `context` tokens (0: not known yet).
  Eval(EvalTask task, const EvalPrompts& prompts, std::int64_t context);

  /// Runs the evaluation. A collective. Calls done(i, n) when i of this rank's n groups are finished, on all ranks
  /// equally often; it may throw on all of them. The model's values must be readable on every rank; its sequence length
  /// is restored.
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;
  EvalResult run(CausalLm& model, Comm& comm, const Progress& done = {});
  using Memory = ModelMemory;
  /// The memory that run() needs.
  Memory memory(CausalLm& model) const;
  /// The metrics of run(), known in advance, except a judge's score.
  std::vector<EvalValue> metrics() const;
  const EvalTask& task() const { return task_; }

 private:
  struct Choices {
    std::vector<Token> context;
    std::vector<std::vector<Token>> continuations;
    std::vector<double> characters, bytes;
    std::size_t answer = 0;
  };
  EvalPrompts::Continued continuation_of(const Json& row) const;
  void check_rows(std::int64_t context, Problems& problems) const;
  Choices choices_of(const Json& row) const;
  /// The results of this rank's rows [first, last), as JSON by row.
  Json group(CausalLm& model, std::size_t first, std::size_t last) const;
  /// Applies the checks of answers on rank 0.
  void check_answers_of(const std::vector<Json>& rows, Comm& comm, EvalResult& result);
  void add_answers(CausalLm& model, std::size_t first, std::size_t last, std::vector<Json>& out) const;
  void add_continuation(const std::vector<Json>& rows, EvalResult& result) const;
  void add_choice(const std::vector<Json>& rows, EvalResult& result) const;
  void add_perplexity(const std::vector<Json>& rows, EvalResult& result) const;
  void check_answers(const std::vector<Json>& rows, EvalResult& result);

  EvalTask task_;
  const EvalPrompts& prompts_;
  std::vector<std::unique_ptr<AnswerCheck>> checks_;
  std::vector<std::string> names_;  // of the checks
  bool choice_ = false, perplexity_ = false, continuation_ = false;
};

/// The metrics below their limit in `fail_below`, one line each: "NAME METRIC is 0.25, below 0.5".
std::vector<std::string> below_limits(const EvalTask& task, const EvalResult& result);

/// Mean and standard error (sample standard deviation over √n; 0 for fewer than two values).
struct MeanAndError {
  double mean = 0, error = 0;
};
MeanAndError mean_and_error(const std::vector<double>& values);
/// The standard error of Σ sums / Σ counts over rows, in which rows of larger counts weigh more; 0 for fewer than two.
double ratio_error(const std::vector<double>& sums, const std::vector<double>& counts);

/// Calls make(task) for each task; one UserError with the problems of all.
template <class F>
void each_task(std::vector<EvalTask> tasks, F make) {
  Problems problems;
  for (EvalTask& task : tasks) try {
      make(std::move(task));
    } catch (const UserError& e) {
      for (const Problem& problem : e.problems()) problems.add(problem);
    }
  problems.raise();
}

}  // namespace dml
