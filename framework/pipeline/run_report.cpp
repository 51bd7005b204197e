#include "pipeline/run_report.h"

#include <ctime>
#include <filesystem>

#include "core/version.h"
#include "diagnose/doctor.h"
#include "train/preference_warnings.h"
#include "train/progress.h"

namespace dml {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

ReportTable data_table(const RunPlan& plan) {
  ReportTable table{"Data", {"dataset", "rows", "examples", "tokens", "trained", "dropped"}, {}};
  for (auto& d : plan.data.prepared.report().datasets) {
    std::int64_t dropped = 0;
    for (auto& [reason, n] : d.dropped) dropped += n;
    table.rows.push_back(
        {d.name, grouped(d.rows), grouped(d.examples), grouped(d.tokens), grouped(d.trained), grouped(dropped)});
  }
  return table;
}

}  // namespace

std::vector<ReportSample> before_and_after(const std::vector<SampleMetrics>& samples) {
  std::vector<ReportSample> out;
  std::vector<std::int64_t> since;
  for (const SampleMetrics& s : samples) {
    const auto known = std::ranges::find_if(
        out, [&](const ReportSample& r) { return r.prompt == s.prompt && r.expected == s.expected; });
    if (known == out.end()) {
      out.push_back({s.prompt, s.text, s.text, s.expected});
      since.push_back(s.step);
      continue;
    }
    known->after = s.text;
  }
  // Texts generated after the first step are not "before".
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (since[i] != 0) out[i].before.clear();
  }
  return out;
}

Report run_report(const RunPlan& plan, const MetricsLog& log, double seconds, std::int64_t result_step,
                  const std::string& command) {
  const RecipeFile& file = plan.file;
  Report report;
  const std::string& folder = file.recipe.train.output_dir;
  report.title = std::filesystem::path(folder).lexically_normal().filename().string();
  if (report.title.empty() || report.title == ".") report.title = folder;
  report.subtitle = fmt::format("{} on {} examples", file.path, grouped(plan.data.prepared.report().train_examples));
  for (auto& line : plan.header()) {
    auto space = line.find(' ');
    report.facts.push_back({line.substr(0, space), line.substr(line.find_first_not_of(' ', space))});
  }
  report.facts.push_back({"time", clock_text(seconds)});
  report.facts.push_back({"processor", processor_description()});
  report.facts.push_back({"program", fmt::format("dml {}", version())});
  report.facts.push_back({"date", today()});
  report.steps = log.steps();
  report.evals = log.evals();
  report.result_step = result_step;
  report.samples = before_and_after(log.samples());
  report.tables.push_back(data_table(plan));
  report.warnings = plan.data.prepared.report().warnings();
  PreferenceWarnings found;  // of all steps, also of those before the run was resumed
  for (const StepMetrics& step : log.steps()) found.on_step(step);
  for (std::string& line : found.warnings()) report.warnings.push_back(std::move(line));
  report.command = command;
  report.recipe_name = file.path;
  report.recipe_text = file.text;
  return report;
}

}  // namespace dml
