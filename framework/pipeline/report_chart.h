// Line charts as SVG text, drawn by ourselves: no library, no script, readable in light and dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct ChartPoint {
  double x = 0, y = 0;
};

struct ChartSeries {
  std::string label;
  int colour = 1;                  // 1 … 3, one of the style sheet's colours
  bool faint = false;              // a thin line behind the others (the raw values under their average)
  bool dots = false;               // marks every point, with its value as a tooltip
  std::vector<ChartPoint> points;  // x grows; points that are no numbers leave a gap
};

struct Chart {
  std::string title, x_label;
  std::vector<ChartSeries> series;
};

/// One <svg> element. `standalone`: with namespace and style sheet, a file of its own; else the page brings the style.
std::string chart_svg(const Chart& chart, bool standalone = false);

/// The style rules that the charts' classes refer to, light and dark.
std::string_view chart_style();

/// Text that may stand in HTML and SVG, between tags and in quoted attributes; control characters and broken UTF-8
/// become U+FFFD.
std::string escape_markup(std::string_view text);

/// Round values between low and high, at most about `count` of them (steps of 1, 2 or 5 times a power of ten).
std::vector<double> nice_ticks(double low, double high, int count);

/// Exponential moving average with the weight `keep` for the past, corrected for its start.
std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, double keep);

}  // namespace dml
