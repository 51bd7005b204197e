#include "core/stop_text.h"

#include <algorithm>
#include <string_view>

namespace dml {

std::string StopText::next(const std::string& piece) {
  if (stopped_) return "";
  held_ += piece;
  std::size_t first = held_.size(), keep = 0;
  for (const std::string& stop : stops_)
    if (const std::size_t at = held_.find(stop); at < first) first = at, found_ = stop;
  stopped_ = first < held_.size();
  if (!stopped_)
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string certain = held_.substr(0, first - keep);
  held_.erase(0, certain.size());
  return certain;
}

}  // namespace dml
