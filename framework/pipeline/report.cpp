#include "pipeline/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/files.h"
#include "pipeline/report_chart.h"
#include "pipeline/run_outcome.h"

namespace dml {

namespace {

constexpr double kMaxSmoothing = 0.9;  // of runs of 100 steps and more; shorter ones less
constexpr std::size_t kMaxRows = 50;   // of the table of evaluations; the chart has them all

constexpr const char* kPageStyle =
    R"(:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#59636e;--line:#d8dee4;--box:#f6f8fa;--note:#9a6700;--good:#1a7f37}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#f0f6fc;--soft:#9198a1;--line:#30363d;--box:#151b23;--note:#d29922;--good:#3fb950}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:2rem 1.25rem 4rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
p.sub{color:var(--soft);margin:.2rem 0 0;overflow-wrap:anywhere}
.headline{font-size:clamp(1.35rem,5vw,2.4rem);font-weight:600;line-height:1.2;margin:1.4rem 0 0}
.headline .to{color:var(--good);white-space:nowrap}.headline .to.worse{color:var(--note)}
.detail{color:var(--soft);margin:.3rem 0 1.2rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:1rem}
.chart{display:block;width:100%;height:auto}.narrow{display:none}
figure{margin:0 0 1rem;padding:.6rem;border:1px solid var(--line);border-radius:8px}.charts figure{margin:0}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--soft);font-weight:500}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.sample{border:1px solid var(--line);border-radius:8px;padding:.6rem .9rem;margin:0 0 .8rem}
.sample p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}.sample .prompt{font-weight:600;margin-bottom:.5rem}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1.2rem}.sample h3{font-size:.85rem;font-weight:500;color:var(--soft);margin:0}
pre{background:var(--box);border-radius:8px;padding:.7rem .9rem;margin:0;overflow-x:auto;font:13px/1.45 ui-monospace,monospace}
pre.command{white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer;color:var(--soft)}details[open] summary{margin-bottom:.6rem}
.warn{border-left:3px solid var(--note);background:var(--box);padding:.4rem .8rem;margin:.4rem 0}
@media(max-width:640px){body{padding:1.2rem .8rem 3rem}figure{padding:.3rem}.wide{display:none}.narrow{display:block}
.pair{grid-template-columns:1fr;gap:.5rem}dl{grid-template-columns:1fr;gap:0}dd{margin:0 0 .5rem}
.stack thead{display:none}.stack tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
.stack td,.stack td.n{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.1rem 0;white-space:normal;text-align:right}
.stack td::before{content:attr(data-label);color:var(--soft);text-align:left;white-space:nowrap}}
@media print{details>*{display:block}}
)";

ChartSeries series(const char* label, const std::vector<StepMetrics>& steps, double StepMetrics::*member) {
  ChartSeries s{label, 1, false, false, {}};
  for (const StepMetrics& m : steps) s.points.push_back({static_cast<double>(m.step), m.*member});
  return s;
}

std::string loss_text(double loss) { return std::isfinite(loss) ? fmt::format("{:.4g}", loss) : "not a number"; }

const EvalMetrics* best_of(const std::vector<EvalMetrics>& evals) {
  const EvalMetrics* best = nullptr;
  for (const EvalMetrics& e : evals) {
    if (std::isfinite(e.loss()) && (!best || e.loss() < best->loss())) best = &e;
  }
  return best;
}

std::string headline_text(const Headline& h) {
  return h.what.empty() ? "Loss" : fmt::format("{} {} → {}", h.what, loss_text(h.from), loss_text(h.to));
}

Chart loss_chart(const Report& r, const std::string& title) {
  ChartSeries raw = series("training", r.steps, &StepMetrics::loss);
  raw.faint = true;
  const double keep = std::clamp(1 - 10 / std::max(1.0, static_cast<double>(r.steps.size())), 0.0, kMaxSmoothing);
  ChartSeries average{"smoothed", 1, false, false, smoothed(raw.points, keep)};
  ChartSeries validation{"validation", 2, false, true, {}};
  for (const EvalMetrics& e : with_loss(r.evals)) validation.points.push_back({static_cast<double>(e.step), e.loss()});
  if (const EvalMetrics* best = best_of(r.evals))
    validation.marks.push_back({{static_cast<double>(best->step), best->loss()}, loss_text(best->loss())});
  Chart chart{title, "optimizer step", {}};
  for (ChartSeries* s : {&raw, &average, &validation}) {
    if (!s->points.empty()) chart.series.push_back(std::move(*s));
  }
  chart.log_y = suits_log_axis(chart);
  return chart;
}

std::string loss_figure(const Report& r) {
  if (r.steps.empty() && r.evals.empty()) return {};
  const Chart chart = loss_chart(r, "Loss");
  return fmt::format("<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>\n",
                     chart_svg(chart, kWideChart), chart_svg(chart, kNarrowChart));
}

/// Digits, and what stands between and around them.
bool is_number(const std::string& cell) {
  return cell.find_first_of("0123456789") != cell.npos && cell.find_first_not_of("0123456789., +-%") == cell.npos;
}

// Of steps or evaluations, beside the loss, in the order in which they come.
template <class Metrics>
std::vector<std::string> other_metrics(const std::vector<Metrics>& all) {
  std::vector<std::string> names;
  for (const Metrics& e : all)
    for (const NamedValue& v : e.values)
      if (v.name != kEvalLoss && v.name != kEvalPerplexity && std::ranges::find(names, v.name) == names.end())
        names.push_back(v.name);
  return names;
}

std::string evaluations(const Report& r) {
  ReportTable t{"Evaluations", {"step", "epoch", "loss"}, {}};
  const bool perplexity =
      std::ranges::any_of(r.evals, [](const EvalMetrics& e) { return e.value(kEvalPerplexity).has_value(); });
  if (perplexity) t.header.push_back("perplexity");
  const std::vector<std::string> others = other_metrics(r.evals);
  t.header.insert(t.header.end(), others.begin(), others.end());
  const std::size_t every = r.evals.size() / kMaxRows + 1;
  for (std::size_t i = (r.evals.size() + every - 1) % every; i < r.evals.size(); i += every) {  // includes the last one
    const EvalMetrics& e = r.evals[i];
    t.rows.push_back({fmt::format("{}", e.step), fmt::format("{:.2f}", e.epoch)});
    const auto add = [&](const std::string& name, int digits) {
      const std::optional<double> value = e.value(name);
      t.rows.back().push_back(value ? fmt::format("{:.{}f}", *value, digits) : "");
    };
    add(kEvalLoss, 4);
    if (perplexity) add(kEvalPerplexity, 3);
    for (const std::string& name : others) add(name, 4);
  }
  return t.rows.empty() ? std::string() : table_html(t);
}

std::string samples(const Report& r) {
  std::string out;
  const auto answer = [](const char* when, const std::string& text) {
    return fmt::format("<div><h3>{}</h3><p>{}</p></div>", when, escape_markup(text));
  };
  bool compared = false;
  for (const ReportSample& s : r.samples) {
    compared |= !s.before.empty();
    out +=
        fmt::format("<article class=\"sample\"><p class=\"prompt\">{}</p><div class=\"pair\">{}{}{}</div></article>\n",
                    escape_markup(s.prompt), s.before.empty() ? "" : answer("before", s.before),
                    answer("after", s.after), s.expected.empty() ? "" : answer("in the data", s.expected));
  }
  return out.empty() ? out : fmt::format("<h2>{}</h2>\n", compared ? "Before and after" : "Samples") + out;
}

std::string heading(const Report& r) {
  const Headline h = headline(r);
  if (h.what.empty()) return {};
  return fmt::format("<p class=\"headline\">{} {} → <span class=\"to{}\">{}</span></p>\n<p class=\"detail\">{}</p>\n",
                     escape_markup(h.what), loss_text(h.from), h.worse ? " worse" : "", loss_text(h.to),
                     escape_markup(h.detail));
}

std::string charts(const Report& r) {
  if (r.steps.empty()) return {};
  std::string out = "<h2>Training</h2>\n<div class=\"charts\">\n";
  for (auto& [name, chart] : report_charts(r))
    if (name != "loss") out += figure_html(chart);
  return out + "</div>\n";
}

}  // namespace

std::string table_html(const ReportTable& t) {
  std::vector<bool> numbers(t.rows.empty() ? 0 : t.rows[0].size(), true);
  for (const auto& row : t.rows) {
    for (std::size_t i = 0; i < std::min(row.size(), numbers.size()); ++i) numbers[i] = numbers[i] && is_number(row[i]);
  }
  const auto kind = [&](std::size_t i) { return i < numbers.size() && numbers[i] ? " class=\"n\"" : ""; };
  std::string out = fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table{}>\n", escape_markup(t.title),
                                t.header.size() > 4 ? " class=\"stack\"" : "");
  if (!t.header.empty()) {
    out += "<thead><tr>";
    for (std::size_t i = 0; i < t.header.size(); ++i)
      out += fmt::format("<th scope=\"col\"{}>{}</th>", kind(i), escape_markup(t.header[i]));
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string label = t.header.size() > 4 && i < t.header.size()
                                    ? fmt::format(" data-label=\"{}\"", escape_markup(t.header[i]))
                                    : "";
      out += fmt::format("<td{}{}>{}</td>", kind(i), label, escape_markup(row[i]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string figure_html(Chart chart) {
  chart.log_y = chart.log_y || (suits_log_axis(chart) && chart.title.starts_with("Gradient"));
  return fmt::format("<figure>{}</figure>\n", chart_svg(chart, kSmallChart));
}

std::vector<std::pair<std::string, Chart>> report_charts(const Report& r) {
  ChartSeries memory{"", 1, false, false, {}};
  for (const StepMetrics& m : r.steps)
    memory.points.push_back({static_cast<double>(m.step), static_cast<double>(m.mem) / 1e6});
  std::vector<std::pair<std::string, Chart>> out{
      {"loss", loss_chart(r, "Loss")},
      {"learning-rate", {"Learning rate", "optimizer step", {series("", r.steps, &StepMetrics::lr)}}},
      {"gradient-norm",
       {"Gradient norm, before clipping", "optimizer step", {series("", r.steps, &StepMetrics::grad_norm)}}},
      {"tokens-per-second", {"Tokens per second", "optimizer step", {series("", r.steps, &StepMetrics::tok_s)}}},
      {"memory", {"Memory, MB", "optimizer step", {std::move(memory)}}}};
  for (const std::string& name : other_metrics(r.steps)) {
    ChartSeries s{"", 1, false, false, {}};
    for (const StepMetrics& m : r.steps)
      for (const NamedValue& v : m.values)
        if (v.name == name) s.points.push_back({static_cast<double>(m.step), v.value});
    out.push_back({name, {name, "optimizer step", {std::move(s)}}});
  }
  for (const std::string& name : other_metrics(r.evals)) {
    ChartSeries s{"", 2, false, true, {}};
    for (const EvalMetrics& e : r.evals)
      if (const auto value = e.value(name)) s.points.push_back({static_cast<double>(e.step), *value});
    out.push_back({name, {name, "optimizer step", {std::move(s)}}});
  }
  return out;
}

Headline headline(const Report& r) {
  const RunOutcome tenths = outcome_of_tenths(r.steps);
  const auto of_tenths = [&](const char* what, const char* note) {
    return Headline{what, tenths.first, tenths.last,
                    fmt::format("means of the first and the last {} of {} steps{}",
                                tenths.tenth == 1 ? "step" : fmt::format("{} steps", tenths.tenth), tenths.steps, note),
                    tenths.worse()};
  };
  const bool rewards = tenths.greater_is_better;
  if (rewards && tenths.steps >= 2) return of_tenths("Reward", "");
  if (const std::vector<EvalMetrics> evals = with_loss(r.evals); evals.size() >= 2) {
    const EvalMetrics& first = evals.front();
    const EvalMetrics* last = &evals.back();
    for (const EvalMetrics& e : evals) {
      if (r.result_step >= 0 && e.step <= r.result_step) last = &e;
    }
    Headline h{"Validation loss", first.loss(), last->loss(), fmt::format("step {} → {}", first.step, last->step),
               RunOutcome{kValidationLoss, first.loss(), last->loss()}.worse()};
    if (const auto from = first.value(kEvalPerplexity), to = last->value(kEvalPerplexity); from && to)
      h.detail += fmt::format(", perplexity {:.4g} → {:.4g}", *from, *to);
    if (const EvalMetrics* best = best_of(r.evals)) {
      h.detail += best->step == last->step ? "; the best of all evaluations"
                                           : fmt::format("; best {} at step {}", loss_text(best->loss()), best->step);
    }
    return h;
  }
  return rewards || tenths.steps < 2 ? Headline() : of_tenths("Training loss", "; no validation data");
}

std::string report_html(const Report& r) {
  std::string out = heading(r);
  for (const std::string& w : r.warnings) out += fmt::format("<p class=\"warn\">{}</p>\n", escape_markup(w));
  out += loss_figure(r);
  out += samples(r);
  if (!r.command.empty())
    out += fmt::format("<h2>Command</h2>\n<pre class=\"command\">{}</pre>\n", escape_markup(r.command));
  if (!r.facts.empty()) {
    out += "<h2>The run</h2>\n<dl>\n";
    for (const auto& [name, value] : r.facts) {
      out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(name), escape_markup(value));
    }
    out += "</dl>\n";
  }
  if (!r.recipe_text.empty()) {
    out += fmt::format("<h2>Recipe</h2>\n<details open><summary>{}</summary><pre>{}</pre></details>\n",
                       escape_markup(r.recipe_name), escape_markup(r.recipe_text));
  }
  out += charts(r);
  out += evaluations(r);
  for (const ReportTable& t : r.tables) out += table_html(t);
  return page_html(r.title, r.subtitle, out);
}

std::string page_html(const std::string& title, const std::string& subtitle, const std::string& body) {
  const std::string sub = subtitle.empty() ? "" : fmt::format("<p class=\"sub\">{}</p>\n", escape_markup(subtitle));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}{2}</style></head>\n<body>\n<h1>{0}</h1>\n{3}{4}</body></html>\n",
      escape_markup(title), kPageStyle, chart_style(), sub, body);
}

std::string loss_svg(const Report& report) {
  return chart_svg(loss_chart(report, headline_text(headline(report))), kPictureChart, true);
}

void write_report(const std::string& folder, const Report& report) {
  write_file(folder + "/loss.svg", loss_svg(report));
  write_file(folder + "/report.html", report_html(report));
}

}  // namespace dml
