// Line charts as SVG text: no library, no scripts, readable in light and dark themes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct ChartPoint {
  double x = 0, y = 0;
};

/// Text beside a point of the chart.
struct ChartMark {
  ChartPoint at;
  std::string text;
};

struct ChartSeries {
  std::string label;
  int color = 1;                      // 1 … 6, one of the style sheet's colors
  bool faint = false;                 // a thin line behind the others (raw values behind their average)
  bool dots = false;                  // marks every point, with its value as a tooltip
  std::vector<ChartPoint> points;     // x is non-decreasing; points that are not finite are gaps, unless it is thinned
  std::vector<ChartMark> marks = {};  // in the series' color
};

struct Chart {
  std::string title, x_label;
  std::vector<ChartSeries> series;
  bool log_y = false;  // requires that every value is above zero; see suits_log_axis()
};

/// Size of a chart in its own units; `font` is the height of its text in them.
struct ChartLayout {
  double width, height, font;
};
inline constexpr ChartLayout kWideChart{1000, 340, 14};   // a page on a desktop
inline constexpr ChartLayout kNarrowChart{400, 320, 14};  // a page on a phone
inline constexpr ChartLayout kSmallChart{440, 230, 14};   // two charts side by side
inline constexpr ChartLayout kPictureChart{600, 400,
                                           19};  // a separate file: text is 12 pixels high when shown 400 wide

/// One <svg> element. `standalone`: a file of its own with namespace and style sheet; else the page provides the style.
std::string chart_svg(const Chart& chart, const ChartLayout& layout, bool standalone = false);

/// The style rules that the charts' classes refer to, light and dark.
std::string_view chart_style();

/// Whether a logarithmic axis shows the values of a chart better: all are above zero, and the largest is at least eight
/// times the smallest.
bool suits_log_axis(const Chart& chart);

/// Escapes text for HTML and SVG, between tags and in quoted attributes; control characters and invalid UTF-8 become
/// U+FFFD.
std::string escape_markup(std::string_view text);

/// Round values between low and high, at most about `count` of them (steps of 1, 2 or 5 times a power of ten).
std::vector<double> nice_ticks(double low, double high, int count);

/// 1, 2 and 5 times powers of ten between low and high, both above zero; only powers of ten if there are more than
/// three.
std::vector<double> log_ticks(double low, double high);

/// Weighted means over the neighbors on both sides, so that slopes are not delayed: a point n away has weight keep^n.
/// At the end of the curve this is the exponential moving average.
std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, double keep);

}  // namespace dml
