#include "pipeline/report_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.h"

namespace dml {

namespace {

constexpr double kWidth = 640, kHeight = 260;
constexpr double kLeft = 62, kRight = 16, kTop = 40, kBottom = 40;
constexpr std::size_t kMostPoints = 600;  // about one a pixel

bool drawable(const ChartPoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

struct Range {
  double low = 0, high = 1;
  double place(double value, double from, double to) const { return from + (value - low) / (high - low) * (to - from); }
};

Range range_of(const Chart& chart, double ChartPoint::*member) {
  Range r{INFINITY, -INFINITY};
  for (const ChartSeries& s : chart.series) {
    for (const ChartPoint& p : s.points) {
      if (drawable(p)) r = {std::min(r.low, p.*member), std::max(r.high, p.*member)};
    }
  }
  if (r.low > r.high) return {0, 1};
  const double span = r.high - r.low;
  if (span > 1e-12 * std::abs(r.high)) return r;
  const double pad = r.high == 0 ? 1 : 0.05 * std::abs(r.high);
  return {r.low - pad, r.high + pad};
}

/// Lowest and highest of every bucket, so that a spike stays visible however long the run was.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<ChartPoint> out;
  const std::size_t buckets = kMostPoints / 2;
  for (std::size_t b = 0; b < buckets; ++b) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(b * points.size() / buckets);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((b + 1) * points.size() / buckets);
    const auto by_y = [](const ChartPoint& a, const ChartPoint& c) { return a.y < c.y; };
    auto [low, high] = std::minmax_element(begin, end, by_y);
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (high != low) out.push_back(*high);
  }
  return out;
}

std::string tick_text(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.6g}", value);
}

std::string axes(const Chart& chart, const Range& xs, const Range& ys) {
  std::string out;
  for (double y : nice_ticks(ys.low, ys.high, 5)) {
    const double at = ys.place(y, kHeight - kBottom, kTop);
    out += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", kLeft,
                       kWidth - kRight, at, at);
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8, at + 4,
                       tick_text(y));
  }
  for (double x : nice_ticks(xs.low, xs.high, 6)) {
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       xs.place(x, kLeft, kWidth - kRight), kHeight - kBottom + 18, tick_text(x));
  }
  out += fmt::format(R"(<text class="title" x="{}" y="20">{}</text>)", kLeft, escape_markup(chart.title));
  out += fmt::format(R"(<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>)", kWidth - kRight, kHeight - 6,
                     escape_markup(chart.x_label));
  return out;
}

std::string legend(const Chart& chart) {
  std::string out;
  double x = kWidth - kRight;
  for (auto s = chart.series.rbegin(); s != chart.series.rend(); ++s) {
    if (s->label.empty()) continue;
    x -= 7.0 * static_cast<double>(s->label.size());
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="20">{}</text>)", x, escape_markup(s->label));
    x -= 22;
    out += fmt::format(R"(<line class="line c{}{}" x1="{:.1f}" x2="{:.1f}" y1="16" y2="16"/>)", s->colour,
                       s->faint ? " faint" : "", x, x + 16);
    x -= 14;
  }
  return out;
}

std::string curve(const ChartSeries& series, const Range& xs, const Range& ys) {
  std::string path, marks;
  bool drawing = false;
  for (const ChartPoint& p : thinned(series.points)) {
    if (!drawable(p)) {
      drawing = false;
      continue;
    }
    const double x = xs.place(p.x, kLeft, kWidth - kRight), y = ys.place(p.y, kHeight - kBottom, kTop);
    path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
    drawing = true;
    if (series.dots) {
      marks +=
          fmt::format(R"(<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>{}: {:.6g}</title></circle>)",
                      series.colour, x, y, tick_text(p.x), p.y);
    }
  }
  if (path.empty()) return {};
  return fmt::format(R"(<path class="line c{}{}" d="{}"/>)", series.colour, series.faint ? " faint" : "", path) + marks;
}

}  // namespace

std::string_view chart_style() {  // no variables: a picture is not only looked at in browsers
  return R"(.chart{font:12px system-ui,sans-serif}.chart .title{font-weight:600;font-size:14px;fill:#1f2328}.chart .tick{fill:#59636e}
.chart .grid{stroke:#d8dee4}.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .faint{stroke-width:1;opacity:.35}
.chart .line.c1{stroke:#0969da}.chart .line.c2{stroke:#bc4c00}.chart .line.c3{stroke:#1a7f37}
.chart .dot.c1{fill:#0969da}.chart .dot.c2{fill:#bc4c00}.chart .dot.c3{fill:#1a7f37}.chart .paper{fill:#fff}
@media(prefers-color-scheme:dark){.chart .title{fill:#f0f6fc}.chart .tick{fill:#9198a1}.chart .grid{stroke:#30363d}
.chart .line.c1{stroke:#58a6ff}.chart .line.c2{stroke:#f0883e}.chart .line.c3{stroke:#3fb950}
.chart .dot.c1{fill:#58a6ff}.chart .dot.c2{fill:#f0883e}.chart .dot.c3{fill:#3fb950}.chart .paper{fill:#0d1117}}
)";
}

std::string escape_markup(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    switch (c) {
      case U'&':
        out += "&amp;";
        break;
      case U'<':
        out += "&lt;";
        break;
      case U'>':
        out += "&gt;";
        break;
      case U'"':
        out += "&quot;";
        break;
      case U'\'':
        out += "&#39;";
        break;
      default: {
        const bool control =
            (c < 0x20 && c != U'\n' && c != U'\t') || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff;
        append_utf8(out, control ? char32_t{0xfffd} : c);
      }
    }
  }
  return out;
}

std::vector<double> nice_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low) || !std::isfinite(high - low) || count < 1) return ticks;
  const double raw = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= raw) {
      step = nice * power;
      break;
    }
  }
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  for (double i = first; i <= last && ticks.size() < 100; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, double keep) {
  std::vector<ChartPoint> out;
  double sum = 0, weight = 0;
  for (const ChartPoint& p : points) {
    if (!drawable(p)) continue;
    sum = keep * sum + (1 - keep) * p.y;
    weight = keep * weight + (1 - keep);
    out.push_back({p.x, sum / weight});
  }
  return out;
}

std::string chart_svg(const Chart& chart, bool standalone) {
  const Range xs = range_of(chart, &ChartPoint::x), ys = range_of(chart, &ChartPoint::y);
  std::string out = fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"{}>)", kWidth,
                                kHeight, escape_markup(chart.title),
                                standalone ? R"( xmlns="http://www.w3.org/2000/svg" width="960" height="390")" : "");
  if (standalone) {
    out += fmt::format(R"(<style>{}</style><rect class="paper" width="100%" height="100%"/>)", chart_style());
  }
  out += axes(chart, xs, ys);
  out += legend(chart);
  for (const ChartSeries& s : chart.series) out += curve(s, xs, ys);
  return out + "</svg>\n";
}

}  // namespace dml
