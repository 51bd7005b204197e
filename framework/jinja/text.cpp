#include "jinja/text.h"

#include <algorithm>

namespace dml::jinja {
namespace {

/// The first run that ends after `byte`.
std::vector<Run>::const_iterator run_behind(const std::vector<Run>& runs, std::size_t byte) {
  return std::upper_bound(runs.begin(), runs.end(), byte, [](std::size_t b, const Run& r) { return b < r.end; });
}

}  // namespace

Text::Text(std::string bytes, Mark mark) : bytes_(std::move(bytes)) { add_run(0, bytes_.size(), mark); }

void Text::add_run(std::size_t begin, std::size_t end, Mark mark) {
  if (mark == 0 || begin == end) return;
  if (!runs_.empty() && runs_.back().end == begin && runs_.back().mark == mark) runs_.back().end = end;
  else runs_.push_back({begin, end, mark});
}

Text& Text::append(std::string_view bytes, Mark mark) {
  const std::size_t at = bytes_.size();
  bytes_ += bytes;
  add_run(at, bytes_.size(), mark);
  return *this;
}

Text& Text::append(const Text& other, std::size_t begin, std::size_t end) {
  end = std::min(end, other.size());
  if (begin >= end) return *this;
  if (&other == this) return append(Text(other), begin, end);
  const std::size_t at = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (auto r = run_behind(other.runs_, begin); r != other.runs_.end() && r->begin < end; ++r)
    add_run(std::max(r->begin, begin) - begin + at, std::min(r->end, end) - begin + at, r->mark);
  return *this;
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

Mark Text::mark_at(std::size_t byte) const {
  auto r = run_behind(runs_, byte);
  return r != runs_.end() && r->begin <= byte ? r->mark : 0;
}

Text Text::flagged(Mark bit) const {
  Text out;
  out.bytes_ = bytes_;
  std::size_t at = 0;
  for (const Run& r : runs_) {
    out.add_run(at, r.begin, bit);
    out.add_run(r.begin, r.end, r.mark | bit);
    at = r.end;
  }
  out.add_run(at, bytes_.size(), bit);
  return out;
}

}  // namespace dml::jinja
