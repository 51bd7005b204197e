// Aggregates an evaluation's rows to rates and means with standard errors.
#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "evaluate/eval_run.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

// As lm-evaluation-harness counts them: the parts between runs of white space, with empty ones at the ends.
double words_of(const std::string& text) {
  double words = 1;
  bool inside = true;
  for (std::size_t i = 0; i < text.size();) {
    const bool space = is_python_space(next_code_point(text, i));
    words += space && inside;
    inside = !space;
  }
  return words;
}

std::size_t first_largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

const EvalValue* EvalResult::find(const std::string& metric) const {
  const auto found = std::ranges::find(values, metric, &EvalValue::name);
  return found == values.end() ? nullptr : &*found;
}

MeanAndError mean_and_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (double v : values) sum += v;
  const double mean = sum / n;
  for (double v : values) squares += (v - mean) * (v - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

double ratio_error(const std::vector<double>& sums, const std::vector<double>& counts) {
  const auto rows = static_cast<double>(sums.size());
  double sum = 0, count = 0, squares = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) sum += sums[i], count += counts[i];
  if (rows < 2 || count <= 0) return 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double residual = sums[i] - sum / count * counts[i];
    squares += residual * residual;
  }
  return std::sqrt(squares * rows / (rows - 1)) / count;
}

void Eval::check_answers(const std::vector<Json>& verdicts, EvalResult& result) {
  for (std::size_t i = 0; i < verdicts.size(); ++i) result.answers[i].checks = verdicts[i];
  for (const std::string& name : names_) {
    std::vector<double> passes, scores;
    double failed = 0;
    for (const Json& row : verdicts) {
      const Json& v = row.at(name);
      if (v["pass"].is_null()) ++failed;
      else passes.push_back(v["pass"].get<bool>() ? 1 : 0);
      if (v.contains("score")) scores.push_back(v["score"].get<double>());
    }
    const MeanAndError rate = mean_and_error(passes);
    if (!passes.empty()) result.values.push_back({name, rate.mean, rate.error, true});
    if (const MeanAndError mean = mean_and_error(scores); !scores.empty())
      result.values.push_back({name + "_score", mean.mean, mean.error, true});
    if (failed > 0) result.values.push_back({name + "_failed", failed, 0, false});
  }
}

void Eval::add_choice(const std::vector<Json>& rows, EvalResult& result) const {
  std::vector<double> acc, norm, bytes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Choices c = choices_of(task_.rows[i].json);
    const auto likelihoods = rows[i]["choices"].get<std::vector<double>>();
    std::vector<double> by_character = likelihoods, by_byte = likelihoods;
    for (std::size_t k = 0; k < likelihoods.size(); ++k) by_character[k] /= c.characters[k], by_byte[k] /= c.bytes[k];
    acc.push_back(first_largest(likelihoods) == c.answer);
    norm.push_back(first_largest(by_character) == c.answer);
    bytes.push_back(first_largest(by_byte) == c.answer);
  }
  for (const auto& [name, values] : {std::pair{"acc", &acc}, {"acc_norm", &norm}, {"acc_bytes", &bytes}}) {
    const MeanAndError m = mean_and_error(*values);
    result.values.push_back({name, m.mean, m.error, true});
  }
}

// Sums over all rows.
void Eval::add_perplexity(const std::vector<Json>& rows, EvalResult& result) const {
  double sum = 0, tokens = 0, bytes = 0, words = 0;
  std::vector<double> losses, counts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string text = text_of(task_.rows[i].json, "text");
    const double loss = -rows[i]["log_likelihood"].get<double>(), count = rows[i]["tokens"].get<double>();
    sum += loss, tokens += count;
    bytes += static_cast<double>(text.size());
    words += words_of(text);
    losses.push_back(loss), counts.push_back(count);
  }
  const double loss = tokens > 0 ? sum / tokens : 0;
  result.values.push_back({"loss", loss, ratio_error(losses, counts), false});
  result.values.push_back({"perplexity", std::exp(loss), 0, false});
  result.values.push_back({"byte_perplexity", std::exp(sum / std::max(1.0, bytes)), 0, false});
  result.values.push_back({"word_perplexity", std::exp(sum / std::max(1.0, words)), 0, false});
  result.values.push_back({"bits_per_byte", sum / std::max(1.0, bytes) / std::log(2.0), 0, false});
}

// Single continuations: whether greedy decoding would generate them, and their log-likelihood.
void Eval::add_continuation(const std::vector<Json>& rows, EvalResult& result) const {
  std::vector<double> greedy, each;
  for (const Json& row : rows) {
    greedy.push_back(row["greedy"].get<bool>() ? 1 : 0);
    each.push_back(row["continuation"].get<double>());
  }
  const MeanAndError acc = mean_and_error(greedy), likelihood = mean_and_error(each);
  const double perplexity = std::exp(-likelihood.mean);
  result.values.push_back({"acc", acc.mean, acc.error, true});
  result.values.push_back({"perplexity", perplexity, perplexity * likelihood.error, false});
}

std::vector<EvalValue> Eval::metrics() const {
  std::vector<EvalValue> out;
  if (choice_)
    for (const char* name : {"acc", "acc_norm", "acc_bytes"}) out.push_back({name});
  if (continuation_) out.push_back({"acc"}), out.push_back({"perplexity", 0, 0, false});
  if (perplexity_)
    for (const char* name : {"loss", "perplexity", "byte_perplexity", "word_perplexity", "bits_per_byte"})
      out.push_back({name, 0, 0, false});
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    out.push_back({names_[i]});
    if (checks_[i]->gives_score()) out.push_back({names_[i] + "_score"});
  }
  return out;
}

std::vector<std::string> below_limits(const EvalTask& task, const EvalResult& result) {
  std::vector<std::string> lines;
  for (const auto& [metric, limit] : task.fail_below) {
    const EvalValue* value = result.find(metric);
    if (!value) lines.push_back(fmt::format("{} {} was not measured (fail_below: {:g})", task.name, metric, limit));
    else if (!(value->value >= limit))
      lines.push_back(fmt::format("{} {} is {:.4f}, below {:g}", task.name, metric, value->value, limit));
  }
  return lines;
}

}  // namespace dml
