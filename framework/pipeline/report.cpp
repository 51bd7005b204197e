#include "pipeline/report.h"

#include <fmt/format.h>

#include "core/files.h"
#include "pipeline/report_chart.h"

namespace dml {

namespace {

constexpr double kSmoothing = 0.9;
constexpr std::size_t kMostRows = 50;  // of the table of evaluations; the chart has them all

constexpr const char* kPageStyle =
    R"(:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#59636e;--line:#d8dee4;--box:#f6f8fa;--note:#9a6700}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#f0f6fc;--soft:#9198a1;--line:#30363d;--box:#151b23;--note:#d29922}}
body{margin:0 auto;max-width:1080px;padding:2rem 1.25rem 4rem;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}p.sub{color:var(--soft);margin:.2rem 0 0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:1rem}.charts svg{width:100%;height:auto}
.charts .wide{grid-column:1/-1}figure{margin:0;padding:.6rem;border:1px solid var(--line);border-radius:8px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);white-space:pre-wrap;overflow-wrap:anywhere}
th{color:var(--soft);font-weight:500}td.n{font-variant-numeric:tabular-nums}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.warn{border-left:3px solid var(--note);background:var(--box);padding:.4rem .8rem;margin:.4rem 0}
)";

ChartSeries series(const char* label, const std::vector<StepMetrics>& steps, double StepMetrics::*member) {
  ChartSeries s{label, 1, false, false, {}};
  for (const StepMetrics& m : steps) s.points.push_back({static_cast<double>(m.step), m.*member});
  return s;
}

Chart loss_chart(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& evals) {
  ChartSeries raw = series("each step", steps, &StepMetrics::loss);
  raw.faint = true;
  ChartSeries average{"average", 1, false, false, smoothed(raw.points, kSmoothing)};
  ChartSeries validation{"validation", 2, false, true, {}};
  for (const EvalMetrics& e : evals) validation.points.push_back({static_cast<double>(e.step), e.loss});
  Chart chart{"Loss", "optimizer step", {}};
  for (ChartSeries* s : {&raw, &average, &validation}) {
    if (!s->points.empty()) chart.series.push_back(std::move(*s));
  }
  return chart;
}

std::string figure(const Chart& chart, bool wide) {
  return fmt::format("<figure{}>{}</figure>\n", wide ? R"( class="wide")" : "", chart_svg(chart));
}

std::string charts(const Report& r) {
  if (r.steps.empty() && r.evals.empty()) return {};
  std::string out = "<h2>Training</h2>\n<div class=\"charts\">\n" + figure(loss_chart(r.steps, r.evals), true);
  if (!r.steps.empty()) {
    out += figure({"Learning rate", "optimizer step", {series("", r.steps, &StepMetrics::lr)}}, false);
    out += figure({"Gradient norm, before clipping", "optimizer step", {series("", r.steps, &StepMetrics::grad_norm)}},
                  false);
    out += figure({"Tokens per second", "optimizer step", {series("", r.steps, &StepMetrics::tok_s)}}, false);
    ChartSeries memory{"", 1, false, false, {}};
    for (const StepMetrics& m : r.steps) {
      memory.points.push_back({static_cast<double>(m.step), static_cast<double>(m.mem) / 1e6});
    }
    out += figure({"Memory, MB", "optimizer step", {std::move(memory)}}, false);
  }
  return out + "</div>\n";
}

std::string table(const ReportTable& t) {
  std::string out = fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table>\n", escape_markup(t.title));
  if (!t.header.empty()) {
    out += "<thead><tr>";
    for (const std::string& cell : t.header) out += fmt::format("<th scope=\"col\">{}</th>", escape_markup(cell));
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += fmt::format("<td class=\"n\">{}</td>", escape_markup(cell));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string evaluations(const Report& r) {
  ReportTable t{"Evaluations", {"step", "epoch", "loss", "perplexity"}, {}};
  const std::size_t every = r.evals.size() / kMostRows + 1;
  for (std::size_t i = (r.evals.size() + every - 1) % every; i < r.evals.size();
       i += every) {  // the last is among them
    const EvalMetrics& e = r.evals[i];
    t.rows.push_back({fmt::format("{}", e.step), fmt::format("{:.2f}", e.epoch), fmt::format("{:.4f}", e.loss),
                      fmt::format("{:.3f}", e.perplexity())});
  }
  return t.rows.empty() ? std::string() : table(t);
}

std::string samples(const Report& r) {
  ReportTable t{"Before and after", {"prompt", "before", "after"}, {}};
  for (const ReportSample& s : r.samples) t.rows.push_back({s.prompt, s.before, s.after});
  return t.rows.empty() ? std::string() : table(t);
}

}  // namespace

std::string report_html(const Report& r) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}{2}</style></head>\n<body>\n<h1>{0}</h1>\n",
      escape_markup(r.title), kPageStyle, chart_style());
  if (!r.subtitle.empty()) out += fmt::format("<p class=\"sub\">{}</p>\n", escape_markup(r.subtitle));
  for (const std::string& w : r.warnings) out += fmt::format("<p class=\"warn\">{}</p>\n", escape_markup(w));
  out += charts(r);
  out += samples(r);
  if (!r.facts.empty()) {
    out += "<h2>The run</h2>\n<dl>\n";
    for (const auto& [name, value] : r.facts) {
      out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(name), escape_markup(value));
    }
    out += "</dl>\n";
  }
  out += evaluations(r);
  for (const ReportTable& t : r.tables) out += table(t);
  return out + "</body></html>\n";
}

std::string loss_svg(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& evals) {
  return chart_svg(loss_chart(steps, evals), true);
}

void write_report(const std::string& folder, const Report& report) {
  write_file(folder + "/loss.svg", loss_svg(report.steps, report.evals));
  write_file(folder + "/report.html", report_html(report));
}

}  // namespace dml
