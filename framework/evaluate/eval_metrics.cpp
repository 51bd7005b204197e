// Aggregates an evaluation's rows to rates and means with standard errors.
#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "evaluate/eval_run.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

// The metrics of each kind of evaluation, in the order in which they are measured.
struct MetricRow {
  const char* name;
  bool greater_is_better;
};
constexpr MetricRow kChoice[] = {{"acc", true}, {"acc_norm", true}, {"acc_bytes", true}};
constexpr MetricRow kContinuation[] = {{"acc", true}, {"perplexity", false}};
constexpr MetricRow kPerplexity[] = {{"loss", false},
                                     {"perplexity", false},
                                     {"byte_perplexity", false},
                                     {"word_perplexity", false},
                                     {"bits_per_byte", false}};

// Adds the values of these metrics; without values, the metrics alone.
template <std::size_t N>
void add_metrics(const MetricRow (&metrics)[N], std::vector<EvalValue>& out, const MeanAndError (&values)[N] = {}) {
  for (std::size_t i = 0; i < N; ++i)
    out.push_back({metrics[i].name, values[i].mean, values[i].error, metrics[i].greater_is_better});
}

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
  add_metrics(kChoice, result.values, {mean_and_error(acc), mean_and_error(norm), mean_and_error(bytes)});
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
  const double by_byte = sum / std::max(1.0, bytes), by_word = sum / std::max(1.0, words);
  add_metrics(kPerplexity, result.values,
              {{loss, ratio_error(losses, counts)},
               {std::exp(loss)},
               {std::exp(by_byte)},
               {std::exp(by_word)},
               {by_byte / std::log(2.0)}});
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
  add_metrics(kContinuation, result.values, {acc, {perplexity, perplexity * likelihood.error}});
}

std::vector<EvalValue> Eval::metrics() const {
  std::vector<EvalValue> out;
  if (choice_) add_metrics(kChoice, out);
  if (continuation_) add_metrics(kContinuation, out);
  if (perplexity_) add_metrics(kPerplexity, out);
  // Without NAME_failed: it counts rows that were not judged, and is measured only where there are some.
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
