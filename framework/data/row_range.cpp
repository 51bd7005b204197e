#include "data/row_range.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "data/records.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

std::int64_t count_rows(const std::vector<SourceFile>& files) {
  std::int64_t count = 0;
  for (auto& file : files) {
    RowReader reader(file);
    for (RawRow row; reader.next(row);) ++count;
  }
  return count;
}

}  // namespace

RowRange rows_of(const DatasetEntry& entry, const std::vector<SourceFile>& files) {
  if (!(entry.weight > 0 && entry.weight <= 1000))
    throw UserError("{}: weight is {}, must be above 0 and at most 1000", entry.path, entry.weight);
  RowRange range;
  range.most = entry.max_rows.value_or(INT64_MAX);
  range.shards = std::max<std::int64_t>(1, entry.shards.value_or(1));
  range.shard = entry.shards_idx;
  if (range.shard < 0 || range.shard >= range.shards)
    throw UserError("{}: shards_idx is {}, must be 0 to {}", entry.path, range.shard, range.shards - 1);
  range.begin = std::clamp<std::int64_t>(entry.skip, 0, std::int64_t{1} << 60);
  auto bracket = entry.split.find('[');
  if (bracket == std::string::npos) return range;

  // "train[10:20%]": counts or percentages of the rows after `skip`, rounded as the library datasets does; negative
  // bounds count from the end.
  std::string slice = entry.split.substr(bracket + 1);
  auto colon = slice.find(':');
  const auto refuse = [&] {
    throw UserError("{}: split '{}' must look like train[:100], train[10%:20%] or train[-100:]", entry.path,
                    entry.split);
  };
  if (slice.empty() || slice.back() != ']' || colon == std::string::npos) refuse();
  slice.pop_back();
  std::int64_t known = -1;
  auto total = [&] {
    if (known < 0) known = std::max<std::int64_t>(0, count_rows(files) - range.begin);
    return known;
  };
  auto bound = [&](std::string text, std::int64_t unset) {
    if (text.empty()) return unset;
    const bool percent = text.back() == '%', from_end = text.front() == '-';
    if (percent) text.pop_back();
    if (from_end) text.erase(0, 1);
    if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos) refuse();
    std::int64_t value = std::stoll(text);
    if (percent)
      value = std::llrint(static_cast<double>(total()) * static_cast<double>(std::min<std::int64_t>(value, 100)) / 100);
    return from_end ? std::max<std::int64_t>(0, total() - value) : value;
  };
  std::int64_t skip = range.begin, from = bound(slice.substr(0, colon), 0), to = bound(slice.substr(colon + 1), -1);
  range.begin = skip + from;
  if (to >= 0) range.end = skip + to;
  return range;
}

}  // namespace dml
