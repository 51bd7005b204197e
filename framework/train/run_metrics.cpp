#include "train/run_metrics.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace dml {
namespace {

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

MetricsLine read_line(std::string_view text, std::string place) {
  MetricsLine line{text, std::move(place)};
  const std::string& source = line.source;
  try {
    const Json object = parse_json(text, source);
    if (!object.is_object() || !object.contains("step")) return line;
    line.step = json_integer(object, "step", 0, source);
    const std::string event = json_string(object, "event", "", source);
    if (line.step < 0 || (event.empty() && !object.contains("loss"))) return line;
    if (event.empty()) line.metrics = read_step(object, source);
    else if (event == "eval") line.metrics = read_eval(object, source);
    else if (event == "sample") line.metrics = read_sample(object, source);
    line.damaged = false;
  } catch (const UserError&) {  // a partial block after a power failure, a field of another type
  }
  return line;
}

}  // namespace

void each_metrics_line(std::string_view text, const std::string& path, const std::function<bool(MetricsLine&&)>& take) {
  std::size_t number = 0;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)  // the last may be incomplete
    if (!take(read_line(text.substr(at, end - at), fmt::format("{}:{}", path, ++number)))) return;
}

void RunMetrics::add(std::string_view text, const std::string& path) {
  each_metrics_line(text, path, [this](MetricsLine&& line) {
    if (auto* step = std::get_if<StepMetrics>(&line.metrics)) steps.push_back(std::move(*step));
    else if (auto* eval = std::get_if<EvalMetrics>(&line.metrics)) evals.push_back(std::move(*eval));
    else if (auto* sample = std::get_if<SampleMetrics>(&line.metrics)) samples.push_back(std::move(*sample));
    return true;
  });
}

RunMetrics read_metrics(const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  const bool there = directory_has(folder, "metrics.jsonl");
  if (!there && file_exists(folder + "/sweep.jsonl"))
    throw UserError("{}: the folder of a sweep; name one of its runs, such as {}/run-01", folder, folder);
  if (!there) throw UserError("{}: not the output directory of a run: metrics.jsonl is missing", folder);
  RunMetrics out;
  out.add(read_file(path), path);
  return out;
}

std::string field_of_evaluation(const std::string& name) {
  for (const auto& [long_name, field] : kEvalNames)
    if (name == long_name) return field;
  return name;
}

}  // namespace dml
