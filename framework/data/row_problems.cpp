#include "data/row_problems.h"

#include <fmt/format.h>

#include <string_view>

#include "data/report.h"

namespace dml {
namespace {

// The message without its place, numbers and quoted values.
std::string reason_of(const std::string& place, std::string_view text) {
  if (text.starts_with(place)) text.remove_prefix(place.size());
  std::string out;
  bool quoted = false;
  for (const char c : text) {
    quoted ^= c == '"';
    if (!quoted && !(c >= '0' && c <= '9')) out += c;
  }
  return out;
}

}  // namespace

bool RowProblems::add(const std::string& place, const std::string& text) {
  const auto [at, fresh] = known_.try_emplace(reason_of(place, text), reasons_.size());
  if (fresh) reasons_.push_back({place});
  return ++reasons_[at->second].rows <= most_;
}

std::vector<std::string> RowProblems::take_rest() {
  std::vector<std::string> out;
  for (const Reason& reason : reasons_)
    if (const std::int64_t more = reason.rows - most_; more > 0)
      out.push_back(fmt::format("{}: {} the same problem; dml preprocess --check lists all of them", reason.first,
                                counted(more, "more row has", "more rows have")));
  reasons_.clear();
  known_.clear();
  return out;
}

}  // namespace dml
