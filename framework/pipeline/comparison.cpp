#include "pipeline/comparison.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/text.h"
#include "diagnose/launch.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/report.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr int kColors = 6;
constexpr double kSmoothing = 0.9;

std::string name_of(const std::string& folder, const std::vector<std::string>& folders) {
  const std::string last = folder_name(folder);
  const auto same = std::ranges::count(folders, last, folder_name);
  return same == 1 && !last.empty() ? last : folder;
}

/// A chart of points(run) with a curve for every run; runs without points are skipped.
template <class Points>
Chart over_each_other(const std::string& title, const std::vector<FinishedRun>& runs, bool dots, Points points) {
  Chart chart{title, "optimizer step", {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ChartSeries s{runs[i].name, 1 + static_cast<int>(i) % kColors, false, dots, points(runs[i].metrics)};
    if (!s.points.empty()) chart.series.push_back(std::move(s));
  }
  chart.log_y = suits_log_axis(chart);
  return chart;
}

std::vector<ChartPoint> of_steps(const RunMetrics& run, double StepMetrics::*member, double keep = 0) {
  std::vector<ChartPoint> points;
  for (const StepMetrics& m : run.steps) points.push_back({static_cast<double>(m.step), m.*member});
  return keep > 0 ? smoothed(points, keep) : points;
}

std::vector<std::string> metrics_of(const std::vector<FinishedRun>& runs) {
  std::vector<std::string> names;
  for (const FinishedRun& run : runs)
    for (const EvalMetrics& e : run.metrics.evals)
      for (const NamedValue& v : e.values)
        if (std::ranges::find(names, v.name) == names.end()) names.push_back(v.name);
  return names;
}

std::vector<std::string> header_of(const char* first, const std::vector<FinishedRun>& runs) {
  std::vector<std::string> out{first};
  for (const FinishedRun& run : runs) out.push_back(run.name);
  return out;
}

ReportTable differing_keys(const std::vector<FinishedRun>& runs) {
  ReportTable t{"Settings that differ", header_of("key", runs), {}};
  std::vector<std::map<std::string, std::string>> values;
  std::vector<std::string> keys;
  for (const FinishedRun& run : runs)
    for (values.emplace_back(); auto& [key, value] : recipe_items(run.recipe)) {
      values.back()[key] = value;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  for (const std::string& key : keys) {
    std::vector<std::string> row{key};
    for (auto& of_run : values) row.push_back(of_run.contains(key) ? of_run[key] : "");
    const bool differs = std::any_of(row.begin() + 2, row.end(), [&](const std::string& v) { return v != row[1]; });
    if (differs && key != "output_dir") t.rows.push_back(std::move(row));
  }
  return t;
}

/// The last value of every metric, and the steps done.
ReportTable results(const std::vector<FinishedRun>& runs) {
  ReportTable t{"Results", header_of("", runs), {{"steps"}, {"training loss"}}};
  for (const FinishedRun& run : runs) {
    const std::vector<StepMetrics>& steps = run.metrics.steps;
    t.rows[0].push_back(steps.empty() ? "" : fmt::format("{}", steps.back().step));
    t.rows[1].push_back(steps.empty() ? "" : fmt::format("{:.4f}", steps.back().loss));
  }
  for (const std::string& name : metrics_of(runs)) {
    t.rows.push_back({name});
    for (const FinishedRun& run : runs) {
      std::string last;
      for (const EvalMetrics& e : run.metrics.evals)
        if (const auto value = e.value(name)) last = fmt::format("{:.4f}", *value);
      t.rows.back().push_back(last);
    }
  }
  return t;
}

/// A row for every prompt: the reference answer, the base's answer, and the last answer of each run.
ReportTable answers(const std::vector<FinishedRun>& runs) {
  ReportTable t{"Answers", {"prompt", "reference", "base"}, {}};
  for (const FinishedRun& run : runs) t.header.push_back(run.name);
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const SampleMetrics& s : runs[i].metrics.samples) {
      auto row = std::ranges::find_if(t.rows, [&](const auto& r) { return r[0] == s.prompt && r[1] == s.expected; });
      if (row == t.rows.end()) {
        t.rows.push_back({s.prompt, s.expected, ""});
        row = t.rows.end() - 1;
        row->resize(3 + runs.size());
      }
      if (s.step == 0) (*row)[2] = s.text;
      if (s.base) (*row)[2] = *s.base;
      (*row)[3 + i] = s.text;
    }
  return t;
}

void draw_picture(const std::string& svg, const std::string& png) {
  try {
    if (run_launcher({"rsvg-convert", "--zoom=2", "--output", png, svg}, false) == 0 && file_exists(png)) return;
  } catch (const UserError&) {  // rsvg-convert is not installed
  }
  throw UserError("{}: not written: pictures need the program rsvg-convert (Debian: librsvg2-bin)", png);
}

/// The settings of a resolved recipe without their origins; "" where this version cannot read them.
std::string settings_in(const std::string& path) try {
  return resolved_yaml(read_recipe(read_file(path), path, {}, RecipeUse::measure));
} catch (const UserError&) {
  return "";
}

}  // namespace

std::vector<FinishedRun> read_runs(const std::vector<std::string>& folders) {
  std::vector<FinishedRun> out;
  Problems problems;
  for (const std::string& folder : folders) try {
      FinishedRun run{name_of(folder, folders), "", read_metrics(folder)};
      const std::string recipe = folder + "/recipe.resolved.yml";
      if (file_exists(recipe)) run.recipe = settings_in(recipe);
      out.push_back(std::move(run));
    } catch (const UserError& e) {
      problems.add(e.what());
    }
  problems.raise();
  return out;
}

std::vector<std::pair<std::string, Chart>> comparison_charts(const std::vector<FinishedRun>& runs) {
  std::vector<std::pair<std::string, Chart>> out;
  auto add = [&](const char* name, const char* title, double StepMetrics::*member, double keep = 0) {
    out.push_back(
        {name, over_each_other(title, runs, false, [&](const RunMetrics& m) { return of_steps(m, member, keep); })});
  };
  add("loss", "Training loss, smoothed", &StepMetrics::loss, kSmoothing);
  for (const std::string& metric : metrics_of(runs))
    out.push_back({metric, over_each_other(metric, runs, true, [&](const RunMetrics& m) {
                     std::vector<ChartPoint> points;
                     for (const EvalMetrics& e : m.evals)
                       if (const auto value = e.value(metric)) points.push_back({static_cast<double>(e.step), *value});
                     return points;
                   })});
  add("learning-rate", "Learning rate", &StepMetrics::lr);
  add("gradient-norm", "Gradient norm, before clipping", &StepMetrics::grad_norm);
  add("tokens-per-second", "Tokens per second", &StepMetrics::tok_s);
  std::erase_if(out, [](const auto& named) { return named.second.series.empty(); });
  return out;
}

std::string comparison_html(const std::vector<FinishedRun>& runs) {
  std::string body, names;
  for (const FinishedRun& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  body += table_html(results(runs)) + "<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (auto& [name, chart] : comparison_charts(runs)) body += figure_html(chart);
  body += "</div>\n";
  for (const ReportTable& t : {differing_keys(runs), answers(runs)})
    if (!t.rows.empty()) body += table_html(t);
  return page_html(fmt::format("{} runs", runs.size()), names, body);
}

std::vector<std::string> write_charts(const std::string& folder,
                                      const std::vector<std::pair<std::string, Chart>>& charts, bool png) {
  make_directories(folder);
  std::vector<std::string> paths;
  for (auto& [name, chart] : charts) {
    const std::string file = safe_file_name(name);
    const std::string svg = folder + "/" + file + ".svg";
    write_file(svg, chart_svg(chart, kPictureChart, true));
    paths.push_back(svg);
    if (!png) continue;
    const std::string picture = folder + "/" + file + ".png";
    draw_picture(svg, picture);
    paths.push_back(picture);
  }
  return paths;
}

}  // namespace dml
