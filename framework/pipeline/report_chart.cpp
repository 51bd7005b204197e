#include "pipeline/report_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/utf8.h"

namespace dml {

namespace {

constexpr std::size_t kMaxPoints = 600;  // about one a pixel

bool drawable(const ChartPoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

/// Maps the values of an axis to its coordinates.
struct Axis {
  double low = 0, high = 1;
  double from = 0, to = 1;  // in units of the chart
  bool log = false;

  double place(double value) const {
    const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

Axis axis_of(const Chart& chart, double ChartPoint::*member, bool log) {
  Axis a{INFINITY, -INFINITY, 0, 1, log};
  for (const ChartSeries& s : chart.series) {
    for (const ChartPoint& p : s.points) {
      if (drawable(p)) {
        a.low = std::min(a.low, p.*member);
        a.high = std::max(a.high, p.*member);
      }
    }
  }
  if (a.low > a.high) return {0, 1, 0, 1, false};
  if (a.high - a.low > 1e-12 * std::abs(a.high)) return a;
  const double pad = a.high == 0 ? 1 : 0.05 * std::abs(a.high);
  return {a.low - pad, a.high + pad, 0, 1, false};
}

std::vector<ChartPoint> drawable_points(const std::vector<ChartPoint>& points) {
  std::vector<ChartPoint> out;
  std::ranges::copy_if(points, std::back_inserter(out), drawable);
  return out;
}

/// The minimum and maximum of every bucket, so that spikes stay visible in long runs.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& all) {
  if (all.size() <= kMaxPoints) return all;
  const std::vector<ChartPoint> points = drawable_points(all);  // NaN has no order
  if (points.size() <= kMaxPoints) return points;
  std::vector<ChartPoint> out;
  const std::size_t buckets = kMaxPoints / 2;
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

double text_width(std::string_view text, double font) {
  return 0.55 * font * static_cast<double>(count_characters(text));
}

/// A chart being drawn, and the place of its plot.
struct Drawing {
  const Chart& chart;
  const ChartLayout& layout;
  Axis xs, ys;
  std::vector<double> x_ticks, y_ticks;
  double left, right, top, bottom;

  Drawing(const Chart& c, const ChartLayout& l)
      : chart(c), layout(l), xs(axis_of(c, &ChartPoint::x, false)), ys(axis_of(c, &ChartPoint::y, c.log_y)) {
    const double font = layout.font;
    const bool legend = std::ranges::any_of(chart.series, [](const ChartSeries& s) { return !s.label.empty(); });
    y_ticks = ys.log ? log_ticks(ys.low, ys.high) : nice_ticks(ys.low, ys.high, std::max(3, int(layout.height / 70)));
    x_ticks = nice_ticks(xs.low, xs.high, std::max(3, int(layout.width / (7 * font))));
    double widest = 0;
    for (double y : y_ticks) widest = std::max(widest, text_width(tick_text(y), font));
    left = widest + font;
    right = layout.width - 1.4 * font;
    top = (legend ? 3.6 : 2.4) * font;
    bottom = layout.height - 3 * font;
    xs.from = left, xs.to = right;
    ys.from = bottom, ys.to = top;
  }
};

std::string text(const char* kind, double x, double y, const char* anchor, std::string_view content) {
  return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", kind, x, y, anchor,
                     escape_markup(content));
}

std::string axes(const Drawing& d) {
  const double font = d.layout.font;
  std::string out;
  for (double y : d.y_ticks) {
    const double at = d.ys.place(y);
    out +=
        fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", d.left, d.right, at, at);
    out += text("tick", d.left - 0.5 * font, at + 0.35 * font, "end", tick_text(y));
  }
  for (double x : d.x_ticks) out += text("tick", d.xs.place(x), d.bottom + 1.3 * font, "middle", tick_text(x));
  out += text("title", 0.3 * font, 1.3 * font, "start", d.chart.title);
  if (d.ys.log) out += text("tick", d.right, 1.3 * font, "end", "log scale");
  out += text("tick", d.right, d.layout.height - 0.4 * font, "end", d.chart.x_label);
  return out;
}

std::string legend(const Drawing& d) {
  const double font = d.layout.font, y = 2.7 * font;
  std::string out;
  double x = 0.3 * font;
  for (const ChartSeries& s : d.chart.series) {
    if (s.label.empty()) continue;
    out += fmt::format(R"(<line class="line c{}{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", s.color,
                       s.faint ? " faint" : "", x, x + 1.3 * font, y - 0.35 * font, y - 0.35 * font);
    out += text("tick", x + 1.7 * font, y, "start", s.label);
    x += 2.8 * font + text_width(s.label, font);
  }
  return out;
}

std::string curve(const Drawing& d, const ChartSeries& series) {
  std::string path, dots;
  bool drawing = false;
  for (const ChartPoint& p : thinned(series.points)) {
    if (!drawable(p)) {
      drawing = false;
      continue;
    }
    const double x = d.xs.place(p.x), y = d.ys.place(p.y);
    path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
    drawing = true;
    if (series.dots) {
      dots += fmt::format(
          R"(<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}: {:.6g}</title></circle>)",
          series.color, x, y, 0.26 * d.layout.font, tick_text(p.x), p.y);
    }
  }
  if (path.empty()) return {};
  return fmt::format(R"(<path class="line c{}{}" d="{}"/>)", series.color, series.faint ? " faint" : "", path) + dots;
}

/// Above its point, inside of the plot.
std::string mark(const Drawing& d, const ChartSeries& series, const ChartMark& m) {
  if (!drawable(m.at)) return {};
  const double font = d.layout.font, half = text_width(m.text, font) / 2;
  const double x = std::clamp(d.xs.place(m.at.x), d.left + half, d.right - half);
  const double y = std::max(d.ys.place(m.at.y) - 0.7 * font, d.top + 0.4 * font);
  return text(fmt::format("mark c{}", series.color).c_str(), x, y, "middle", m.text);
}

}  // namespace

std::string_view chart_style() {  // no CSS variables: not all viewers of SVG support them
  return R"(.chart{font-family:system-ui,sans-serif}.chart .title{font-weight:600;fill:#1f2328}.chart .tick{fill:#59636e}
.chart .grid{stroke:#d8dee4}.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .faint{stroke-width:1;opacity:.4}
.chart .line.c1{stroke:#0969da}.chart .line.c2{stroke:#bc4c00}.chart .line.c3{stroke:#1a7f37}
.chart .line.c4{stroke:#8250df}.chart .line.c5{stroke:#bf3989}.chart .line.c6{stroke:#4d2d00}
.chart .c1{fill:#0969da}.chart .c2{fill:#bc4c00}.chart .c3{fill:#1a7f37}.chart .c4{fill:#8250df}.chart .c5{fill:#bf3989}.chart .c6{fill:#4d2d00}.chart .line{fill:none}.chart .paper{fill:#fff}
.chart .mark{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:.3em;stroke-linejoin:round}
@media(prefers-color-scheme:dark){.chart .title{fill:#f0f6fc}.chart .tick{fill:#9198a1}.chart .grid{stroke:#30363d}
.chart .line.c1{stroke:#58a6ff}.chart .line.c2{stroke:#f0883e}.chart .line.c3{stroke:#3fb950}
.chart .line.c4{stroke:#a371f7}.chart .line.c5{stroke:#f778ba}.chart .line.c6{stroke:#e3b341}
.chart .c1{fill:#58a6ff}.chart .c2{fill:#f0883e}.chart .c3{fill:#3fb950}.chart .c4{fill:#a371f7}.chart .c5{fill:#f778ba}.chart .c6{fill:#e3b341}.chart .line{fill:none}.chart .paper{fill:#0d1117}
.chart .mark{stroke:#0d1117}}
)";
}

bool suits_log_axis(const Chart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const ChartSeries& s : chart.series) {
    for (const ChartPoint& p : s.points) {
      if (!drawable(p)) continue;
      low = std::min(low, p.y);
      high = std::max(high, p.y);
    }
  }
  return low > 0 && high >= 8 * low;
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

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  if (!(low > 0) || !(high > low) || !std::isfinite(high)) return ticks;
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  const bool many = std::log10(high / low) > 3;
  for (double power = first; power <= last; ++power) {
    for (double digit : {1.0, 2.0, 5.0}) {
      const double tick = digit * std::pow(10, power);
      if ((digit == 1 || !many) && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, double keep) {
  const std::vector<ChartPoint> drawn = drawable_points(points);
  std::vector<ChartPoint> out;
  double sum = 0, weight = 0;
  for (const ChartPoint& p : drawn) {  // running sums
    sum = keep * sum + p.y, weight = keep * weight + 1;
    out.push_back({weight, sum});
  }
  sum = weight = 0;
  for (std::size_t i = drawn.size(); i-- > 0;) {
    out[i] = {drawn[i].x, (out[i].y + keep * sum) / (out[i].x + keep * weight)};
    sum = keep * sum + drawn[i].y, weight = keep * weight + 1;
  }
  return out;
}

std::string chart_svg(const Chart& chart, const ChartLayout& layout, bool standalone) {
  const Drawing d(chart, layout);
  std::string out =
      fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" font-size="{}" role="img" aria-label="{}"{}>)",
                  layout.width, layout.height, layout.font, escape_markup(chart.title),
                  standalone ? fmt::format(R"( xmlns="http://www.w3.org/2000/svg" width="{}" height="{}")",
                                           1.5 * layout.width, 1.5 * layout.height)
                             : "");
  if (standalone) {
    out += fmt::format(R"(<style>{}</style><rect class="paper" width="100%" height="100%"/>)", chart_style());
  }
  out += axes(d);
  out += legend(d);
  for (const ChartSeries& s : chart.series) out += curve(d, s);
  for (const ChartSeries& s : chart.series) {
    for (const ChartMark& m : s.marks) out += mark(d, s, m);
  }
  return out + "</svg>\n";
}

}  // namespace dml
