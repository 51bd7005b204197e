// Checks of answers: an answer and its row give pass or fail, optionally with a score and a critique.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"
#include "evaluate/eval_task.h"

namespace dml {

struct Verdict {
  bool counts = true;  // false: the check could not decide (the judge failed)
  bool pass = false;
  std::optional<double> score = {};
  std::string critique = {};
};

class AnswerCheck {
 public:
  virtual ~AnswerCheck() = default;
  /// "" if the check can be applied to this row, else what is missing.
  virtual std::string problem_with(const Json& /*row*/) const { return ""; }
  /// Never throws UserError: where decide() does, the verdict does not count and problems() has the reason.
  Verdict check(const EvalAnswer& answer, const Json& row);
  /// The name of its metric, unless the request gives another.
  virtual std::string name() const = 0;
  /// Whether verdicts have a score.
  virtual bool gives_score() const { return false; }
  /// Messages about the failures so far.
  virtual std::vector<std::string> problems() const { return problems_; }

 protected:
  virtual Verdict decide(const EvalAnswer& answer, const Json& row) = 0;

 private:
  std::vector<std::string> problems_;  // the first few
};

struct CheckKind {
  enum class Reads { answer, choice, continuation, perplexity };
  std::function<std::unique_ptr<AnswerCheck>(const CheckRequest&)> make = {};  // none: it cannot judge an answer
  Reads reads =
      Reads::answer;  // what an evaluation computes for it: an answer, or log-likelihoods (evaluate/eval_run.h)
  std::vector<std::string> options = {};  // besides those of every check
  bool checks_options = false;            // `make` does it

  std::unique_ptr<AnswerCheck> operator()(const CheckRequest& request) const { return make(request); }
};

Registry<CheckKind>& checks();
/// UserError for an option that a check does not have; `known`: those of every check.
void check_options(const CheckRequest& request, std::vector<std::string> known);

/// Why a row does not fit the check `choice`; "" if it does.
std::string problem_with_choices(const Json& row);

/// exact_match of lm-evaluation-harness (evaluate/exact_match.cpp).
std::unique_ptr<AnswerCheck> make_exact_match(const CheckRequest& request);
/// The name of the check that runs a program of the user.
inline constexpr const char* kProgramCheck = "command";
/// The check of a judge: a long-running program that answers JSON lines (evaluate/judge.h).
std::unique_ptr<AnswerCheck> make_judge_check(const CheckRequest& request);

}  // namespace dml
