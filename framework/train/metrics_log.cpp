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

}  // namespace dml
