#include "evaluate/rewards.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

std::vector<std::string> reward_names() {
  std::vector<std::string> names;
  for (const auto& row : checks().rows())
    if (row.make.make) names.push_back(row.name);
  names.push_back(kRewardModel);
  return names;
}

std::unique_ptr<AnswerCheck> make_check(const CheckRequest& request) {
  const auto* row = checks().find(request.name);
  if (!row) throw UserError("unknown reward '{}'{}", request.name, did_you_mean(request.name, reward_names()));
  if (!row->make.make)
    throw UserError("'{}' measures texts that are given, not answers; use one of {}", request.name,
                    fmt::join(reward_names(), ", "));
  check_options(request, {"weight", "name"});
  return row->make(request);
}

}  // namespace

double reward_weight(const CheckRequest& request, const std::string& name) {
  const double weight = json_number(request.options, "weight", 1, name);
  if (!(std::abs(weight) <= 1e6)) throw UserError("weight of '{}' is {}; expected a number up to 1e6", name, weight);
  return weight;
}

Rewards::Rewards(const std::vector<CheckRequest>& requests) {
  Problems problems;
  for (const CheckRequest& request : requests) try {
      checks_.push_back(make_check(request));
      names_.push_back(json_string(request.options, "name", checks_.back()->name(), checks_.back()->name()));
      weights_.push_back(reward_weight(request, names_.back()));
      if (std::ranges::count(names_, names_.back()) > 1)
        throw UserError("two rewards are called '{}'; give one of them another name with 'name'", names_.back());
    } catch (const UserError& e) {
      problems.add({request.key, "", fmt::format("rewards: {}", e.what())});
    }
  problems.raise();
}

std::vector<std::string> Rewards::problems_with(std::span<const EvalRow> rows) const {
  std::vector<std::string> problems;
  for (const EvalRow& row : rows)
    for (std::size_t i = 0; i < checks_.size() && problems.size() < kMaxRefused; ++i)
      if (const std::string problem = checks_[i]->problem_with(row.json); !problem.empty())
        problems.push_back(fmt::format("{}: rewards: {}", row.place, problem));
  return problems;
}

double Rewards::value(std::size_t reward, const EvalAnswer& answer, const EvalRow& row) {
  AnswerCheck& check = *checks_[reward];
  const Verdict verdict = check.check(answer, row.json);
  if (!verdict.counts) {
    const std::vector<std::string> problems = check.problems();
    throw UserError("{}: reward '{}': {}", row.place, names_[reward],
                    problems.empty() ? "it could not be decided" : problems.back());
  }
  const double value = verdict.score.value_or(verdict.pass ? 1 : 0);
  if (!std::isfinite(value))
    throw UserError("{}: reward '{}' is {}; expected a number", row.place, names_[reward], value);
  return value;
}

std::vector<std::vector<double>> Rewards::of(std::span<const EvalAnswer> answers,
                                             std::span<const EvalRow* const> rows) {
  DML_CHECK(answers.size() == rows.size());
  std::vector<std::vector<double>> out(checks_.size());
  for (std::size_t r = 0; r < checks_.size(); ++r)
    for (std::size_t i = 0; i < answers.size(); ++i) out[r].push_back(value(r, answers[i], *rows[i]));
  return out;
}

}  // namespace dml
