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

/// Checks by name: exact, contains, regex, exact_match, json_valid, json_schema, length, command.
using AnswerCheckFactory = std::function<std::unique_ptr<AnswerCheck>(const CheckRequest&)>;
Registry<AnswerCheckFactory>& answer_checks();
/// UserError for an option that a built-in check does not have; `known`: those of every check. Plug-ins check their
/// own.
void check_options(const CheckRequest& request, std::vector<std::string> known);
/// Checks that need log-likelihoods: choice, continuation, perplexity.
bool is_likelihood_check(const std::string& name);
/// The names of all checks, for errors and lists.
std::vector<std::string> check_names();

/// Why a row does not fit the check `choice`; "" if it does.
std::string problem_with_choices(const Json& row);

/// exact_match of lm-evaluation-harness (evaluate/exact_match.cpp).
std::unique_ptr<AnswerCheck> make_exact_match(const CheckRequest& request);
/// The check of a judge: a long-running program that answers JSON lines (evaluate/judge.h).
std::unique_ptr<AnswerCheck> make_judge_check(const CheckRequest& request);

}  // namespace dml
