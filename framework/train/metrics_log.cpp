#include "train/metrics_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"

namespace dml {

namespace {

/// The shortest text that reads back as the same double; null for values that are not finite.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

double read_number(const Json& object, const char* key, const std::string& source) {
  return json_number(object, key, std::numeric_limits<double>::quiet_NaN(), source);
}

constexpr std::array kStepFields{"step",           "epoch", "loss",   "grad_norm", "lr",  "tokens",
                                 "trained_tokens", "tok_s", "step_s", "mem",       "time"};
constexpr std::array kEvalFields{"event", "step", "epoch", "loss", "ppl"};
// Values with another name in the file.
constexpr std::array kEvalNames{std::pair{kEvalLoss, "loss"}, std::pair{kEvalPerplexity, "ppl"}};

// The values of all fields except these; null: not finite.
std::vector<NamedValue> named_values(const Json& object, std::span<const char* const> but) {
  std::vector<NamedValue> out;
  for (auto& [key, value] : object.items())
    if (std::ranges::find(but, key) == but.end() && (value.is_number() || value.is_null()))
      out.push_back({key, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  return out;
}

std::string text_of(const std::vector<NamedValue>& values) {
  std::string out;
  for (const NamedValue& v : values) out += fmt::format(",{}:{}", dump(Json(v.name)), number(v.value));
  return out;
}

StepMetrics read_step(const Json& o, const std::string& source) {
  StepMetrics m;
  m.step = json_integer(o, "step", 0, source);
  m.epoch = read_number(o, "epoch", source);
  m.loss = read_number(o, "loss", source);
  m.grad_norm = read_number(o, "grad_norm", source);
  m.lr = read_number(o, "lr", source);
  m.tokens = json_integer(o, "tokens", 0, source);
  m.trained_tokens = json_integer(o, "trained_tokens", 0, source);
  m.tok_s = read_number(o, "tok_s", source);
  m.step_s = read_number(o, "step_s", source);
  m.mem = static_cast<std::size_t>(json_integer(o, "mem", 0, source));
  m.time = json_number(o, "time", 0, source);
  m.values = named_values(o, kStepFields);
  return m;
}

EvalMetrics read_eval(const Json& o, const std::string& source) {
  EvalMetrics m{json_integer(o, "step", 0, source), read_number(o, "epoch", source)};
  for (const auto& [name, field] : kEvalNames)
    if (o.contains(field)) m.values.push_back({name, read_number(o, field, source)});
  for (NamedValue& v : named_values(o, kEvalFields)) m.values.push_back(std::move(v));
  return m;
}

SampleMetrics read_sample(const Json& o, const std::string& source) {
  SampleMetrics m{json_integer(o, "step", 0, source), json_string(o, "prompt", "", source),
                  json_string(o, "expected", "", source), json_string(o, "text", "", source)};
  if (o.contains("base")) m.base = json_string(o, "base", "", source);
  return m;
}

}  // namespace

std::optional<Json> metrics_line(std::string_view line, const std::string& source) {
  try {
    Json object = parse_json(line, source);
    if (!object.is_object() || !object.contains("step") || json_integer(object, "step", 0, source) < 0) return {};
    const std::string event = json_string(object, "event", "", source);
    if (event.empty() && !object.contains("loss")) return {};
    if (event.empty()) read_step(object, source);
    else if (event == "eval") read_eval(object, source);
    else if (event == "sample") read_sample(object, source);
    return object;
  } catch (const UserError&) {  // a partial block after a power failure, a field of another type
    return {};
  }
}

std::string field_of_evaluation(const std::string& name) {
  for (const auto& [long_name, field] : kEvalNames)
    if (name == long_name) return field;
  return name;
}

void RunMetrics::add(std::string_view text, const std::string& path) {
  std::size_t number = 0;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1) {  // the last may be incomplete
    const std::string source = fmt::format("{}:{}", path, ++number);
    const std::optional<Json> object = metrics_line(text.substr(at, end - at), source);
    if (!object) continue;
    const std::string event = json_string(*object, "event", "", source);
    if (event.empty()) steps.push_back(read_step(*object, source));
    else if (event == "eval") evals.push_back(read_eval(*object, source));
    else if (event == "sample") samples.push_back(read_sample(*object, source));
  }
}

RunMetrics read_metrics(const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  if (!file_exists(path) && file_exists(folder + "/sweep.jsonl"))
    throw UserError("{}: the folder of a sweep; name one of its runs, such as {}/run-01", folder, folder);
  if (!file_exists(path)) throw UserError("{}: not the output directory of a run: metrics.jsonl is missing", folder);
  RunMetrics out;
  out.add(read_file(path), path);
  return out;
}

namespace {

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
