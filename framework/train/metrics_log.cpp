#include "train/metrics_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

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

std::size_t RunMetrics::add(std::string_view text, const std::string& path, std::int64_t last) {
  std::size_t read = 0;
  for (std::size_t line = 1; read < text.size(); ++line) {
    const std::size_t end = text.find('\n', read);
    if (end == std::string_view::npos) break;  // incomplete: a crash, or still being written
    const std::string source = fmt::format("{}:{}", path, line);
    try {
      const Json object = parse_json(text.substr(read, end - read), source);
      if (!object.is_object() || json_integer(object, "step", 0, source) > last) break;
      const std::string event = json_string(object, "event", "", source);
      if (event.empty()) steps.push_back(read_step(object, source));
      else if (event == "eval") evals.push_back(read_eval(object, source));
      else if (event == "sample") samples.push_back(read_sample(object, source));
    } catch (const UserError&) {  // a partial block after a power failure
      break;
    }
    read = end + 1;
  }
  return read;
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

MetricsLog::MetricsLog(std::string path, std::int64_t keep_until_step) : file_(std::move(path)) {
  file_.truncate(keep_until_step < 0 ? 0 : all_.add(read_file(file_.path()), file_.path(), keep_until_step));
}

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
  for (NamedValue& v : values)
    for (const auto& [name, field] : kEvalNames)
      if (v.name == name) v.name = field;
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
