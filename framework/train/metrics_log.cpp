#include "train/metrics_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"

namespace dml {
namespace {

// An entry of log_history as transformers' Trainer writes it.
Json history_entry(const StepMetrics& m) {
  Json entry{
      {"epoch", m.epoch}, {"step", m.step}, {"loss", m.loss}, {"grad_norm", m.grad_norm}, {"learning_rate", m.lr}};
  for (const NamedValue& v : m.values) entry[v.name] = v.value;
  return entry;
}

Json history_entry(const EvalMetrics& m) {
  Json entry{{"epoch", m.epoch}, {"step", m.step}};
  for (const NamedValue& v : m.values) entry[v.name] = v.value;
  return entry;
}

/// The shortest text that reads back as the same double; null for values that are not finite.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string text_of(const std::vector<NamedValue>& values) {
  std::string out;
  for (const NamedValue& v : values) out += fmt::format(",{}:{}", dump(Json(v.name)), number(v.value));
  return out;
}

// Opens the file with the lines that a resumed run begins with; an intact beginning stays as it is.
AppendedFile begun(std::string path, const MetricsBefore& before, RunMetrics& all) {
  const MetricsHistory history = metrics_history(path, before);
  std::string text;
  for (const std::string& line : history.lines) text += line + "\n";
  if (!text.empty() && !(file_exists(path) && read_file(path).starts_with(text))) write_file(path, text);
  if (const std::string warning = history_warning(history, path, before); !warning.empty()) log_warning("{}", warning);
  all.add(text, path);
  AppendedFile file(std::move(path));
  file.truncate(text.size());
  return file;
}

}  // namespace

MetricsLog::MetricsLog(std::string path, const MetricsBefore& before) : file_(begun(std::move(path), before, all_)) {}

void MetricsLog::step(const StepMetrics& m) {
  all_.steps.push_back(m);
  append(fmt::format(R"({{"step":{},"epoch":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"trained_tokens":{},)"
                     R"("tok_s":{},"step_s":{},"mem":{},"time":{:.3f}{}}})",
                     m.step, number(m.epoch), number(m.loss), number(m.grad_norm), number(m.lr), m.tokens,
                     m.trained_tokens, number(m.tok_s), number(m.step_s), m.mem, m.time, text_of(m.values)));
}

void MetricsLog::eval(const EvalMetrics& m) {
  all_.evals.push_back(m);
  std::vector<NamedValue> values = m.values;
  for (NamedValue& v : values) v.name = field_of_evaluation(v.name);
  append(fmt::format(R"({{"event":"eval","step":{},"epoch":{}{}}})", m.step, number(m.epoch), text_of(values)));
}

void MetricsLog::sample(SampleMetrics m) {
  // The text generated for the same prompt before the first step.
  const auto before =
      std::ranges::find_if(all_.samples, [&](const SampleMetrics& s) { return s.step == 0 && s.prompt == m.prompt; });
  if (m.step > 0 && before != all_.samples.end()) m.base = before->text;
  Json line{{"event", "sample"}, {"step", m.step}, {"prompt", m.prompt}, {"expected", m.expected}, {"text", m.text}};
  if (m.base) line["base"] = *m.base;
  all_.samples.push_back(std::move(m));
  append(dump(line));
}

Action MetricsLog::on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) {
  if (!metrics.values.empty()) eval(metrics);
  for (const SampleMetrics& s : samples) sample(s);
  return {};
}

std::vector<Json> MetricsLog::log_history() const {
  std::vector<Json> out;
  auto eval = all_.evals.begin();
  const auto add_evals_before = [&](std::int64_t step) {
    for (; eval != all_.evals.end() && eval->step < step; ++eval) out.push_back(history_entry(*eval));
  };
  for (const StepMetrics& m : all_.steps) {
    add_evals_before(m.step);  // step 0: the evaluation at the start
    out.push_back(history_entry(m));
    add_evals_before(m.step + 1);
  }
  return out;
}

}  // namespace dml
