#include "train/metrics_history.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "train/run_metrics.h"

namespace dml {
namespace {

// The order of a step's lines: the step, its evaluation, the texts of that.
enum class Place { step, evaluation, other };

struct HistoryLine {
  std::int64_t step = 0;
  Place place = Place::step;
  std::string text;
};

// The lines of the file that the run continues, as far as they can be read.
std::vector<HistoryLine> own_lines(const std::string& path, const MetricsBefore& before, MetricsHistory& out) {
  std::vector<HistoryLine> lines;
  if (!file_exists(path)) return lines;
  const std::string text = read_file(path);
  each_metrics_line(text, path, [&](MetricsLine&& line) {
    if (line.damaged) {
      out.damaged.push_back(std::move(line.source));
      return true;
    }
    if (line.step > before.step) return false;  // steps never decrease
    const Place place = std::holds_alternative<StepMetrics>(line.metrics)   ? Place::step
                        : std::holds_alternative<EvalMetrics>(line.metrics) ? Place::evaluation
                                                                            : Place::other;
    if (before.evaluated || line.step < before.step || place == Place::step)
      lines.push_back({line.step, place, std::string(line.text)});
    return true;
  });
  return lines;
}

constexpr std::array kCommon{"step", "epoch", "loss", "grad_norm", "learning_rate"};

// An entry of log_history as a line, with the fields that it has.
HistoryLine restored_line(const Json& entry, std::int64_t step, const std::string& source) {
  const bool is_step = entry.contains("learning_rate");
  std::vector<std::pair<std::string, Json>> fields;
  if (!is_step) fields.push_back({"event", "eval"});
  fields.push_back({"step", step});
  fields.push_back({"epoch", json_number(entry, "epoch", 0, source)});
  for (const char* key : {"loss", "grad_norm", "learning_rate"})
    if (is_step && entry.contains(key))
      fields.push_back({key == std::string("learning_rate") ? "lr" : key, entry[key]});
  for (auto& [key, value] : entry.items())
    if (std::ranges::find(kCommon, key) == kCommon.end() && (value.is_number() || value.is_null()))
      fields.push_back({field_of_evaluation(key), value});
  std::string text;
  for (auto& [key, value] : fields)
    text += fmt::format("{}{}:{}", text.empty() ? "{" : ",", dump(Json(key)), dump(value));
  return {step, is_step ? Place::step : Place::evaluation, text + "}"};
}

// The lines of the checkpoint's history that are not among `known`.
std::vector<HistoryLine> restored_lines(const std::string& checkpoint, const MetricsBefore& before,
                                        const std::vector<HistoryLine>& known) {
  std::vector<HistoryLine> lines;
  const std::string source = path_in(checkpoint, "trainer_state.json");
  if (!file_exists(source)) return lines;
  std::set<std::pair<std::int64_t, Place>> have;
  for (const HistoryLine& line : known) have.insert({line.step, line.place});
  try {
    const Json state = read_json(source, kTrainerStateLimits);
    const auto history = state.is_object() ? state.find("log_history") : state.end();
    if (history == state.end() || !history->is_array()) return lines;
    for (const Json& entry : *history) {
      if (!entry.is_object()) continue;
      HistoryLine line = restored_line(entry, json_integer(entry, "step", -1, source), source);
      const bool repeated = !before.evaluated && line.step == before.step && line.place == Place::evaluation;
      if (line.step >= 0 && line.step <= before.step && !repeated && !have.contains({line.step, line.place}))
        lines.push_back(std::move(line));
    }
  } catch (const UserError&) {  // of another program: what could be read is kept
  }
  return lines;
}

// Whether every step of the lines has the loss that the checkpoint's history has for it.
bool agree(const std::vector<HistoryLine>& lines, const std::vector<HistoryLine>& restored) {
  std::map<std::int64_t, Json> losses;
  const auto loss_of = [](const HistoryLine& line) { return parse_json(line.text, "metrics").value("loss", Json()); };
  for (const HistoryLine& line : restored)
    if (line.place == Place::step) losses[line.step] = loss_of(line);
  return !losses.empty() && std::ranges::all_of(lines, [&](const HistoryLine& line) {
    const auto known = losses.find(line.step);
    return line.place != Place::step || (known != losses.end() && known->second == loss_of(line));
  });
}

// The lines of the run that wrote the checkpoint: beside it, or, where the checkpoint was copied elsewhere, those that
// the resumed run's folder has of that run.
std::vector<HistoryLine> lines_before(const std::string& path, const MetricsBefore& before, MetricsHistory& out) {
  if (before.checkpoint.empty()) return own_lines(path, before, out);
  const std::string beside = path_in(run_folder_of(before.checkpoint), "metrics.jsonl");
  if (file_exists(beside) || !file_exists(path)) return own_lines(beside, before, out);
  MetricsHistory of_folder;
  std::vector<HistoryLine> lines = own_lines(path, before, of_folder);
  if (!agree(lines, restored_lines(before.checkpoint, before, {}))) return {};
  out.damaged = std::move(of_folder.damaged);
  return lines;
}

}  // namespace

MetricsHistory metrics_history(const std::string& path, const MetricsBefore& before) {
  MetricsHistory out;
  if (before.step < 0) return out;
  std::vector<HistoryLine> lines = lines_before(path, before, out);
  if (!before.checkpoint.empty()) {
    const std::vector<HistoryLine> restored = restored_lines(before.checkpoint, before, lines);
    out.restored = std::ssize(restored);
    lines.insert(lines.end(), restored.begin(), restored.end());
  }
  // Lines that are all there stay in their order.
  if (out.restored > 0)
    std::ranges::stable_sort(lines, {}, [](const HistoryLine& line) { return std::tuple(line.step, line.place); });
  for (HistoryLine& line : lines) out.lines.push_back(std::move(line.text));
  return out;
}

std::string history_warning(const MetricsHistory& history, const std::string& path, const MetricsBefore& before) {
  if (history.damaged.empty() && history.restored == 0) return "";
  std::string text = path + ": ";
  if (!history.damaged.empty())
    text += fmt::format("{} {} not be read (the first is {}) and {} left out", history.damaged.size(),
                        history.damaged.size() == 1 ? "line could" : "lines could", history.damaged[0],
                        history.damaged.size() == 1 ? "is" : "are");
  if (history.restored > 0)
    text += fmt::format("{}{} {} restored from {}/trainer_state.json, without token counts and times",
                        history.damaged.empty() ? "" : "; ", history.restored,
                        history.restored == 1 ? "line was" : "lines were", before.checkpoint);
  return text;
}

}  // namespace dml
