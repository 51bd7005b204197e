#include "data/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/utf8.h"
#include "data/inspect.h"
#include "data/page_source.h"
#include "data/records.h"

namespace dml {
namespace {

// Length in UTF-16 code units, as JavaScript counts.
std::int64_t utf16_size(std::string_view s) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < s.size();) n += next_code_point(s, i) >= 0x10000 ? 2 : 1;
  return n;
}

// `most` evenly spaced indices below `size`.
std::vector<std::int64_t> spread(std::int64_t size, std::int64_t most) {
  std::vector<std::int64_t> out;
  most = std::min(most, size);
  for (std::int64_t i = 0; i < most; ++i) out.push_back(i * size / most);
  return out;
}

class Sources {
 public:
  // "FILE:LINE" or "FILE, row N" → number of the file, line or row
  std::pair<std::size_t, std::int64_t> add(const std::string& place) {
    const std::size_t number = place.find_last_not_of("0123456789") + 1;
    std::string name = place.substr(0, number);
    const std::string between = name.ends_with(kRow) ? kRow : ":";
    name.resize(name.size() - std::min(name.size(), between.size()));
    auto [at, fresh] = numbers_.emplace(std::move(name), names_.size());
    if (fresh) names_.push_back(at->first), between_.push_back(between);
    return {at->second, std::atoll(place.c_str() + number)};
  }
  const std::vector<std::string>& names() const { return names_; }
  /// By file: the text between name and number in its places (":" or ", row ").
  const std::vector<std::string>& between() const { return between_; }

 private:
  static constexpr const char* kRow = ", row ";
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_, between_;
};

Json kept_row(const RowView& view) {
  std::string text;
  std::int64_t end = 0, run = 0;
  bool trained = false;
  Json ends = Json::array(), ids = Json::array(), runs = Json::array(), special = Json::array(), labels = Json::array();
  for (std::size_t i = 0; i < view.tokens.size(); ++i) {
    const TokenView& token = view.tokens[i];
    text += token.text;
    ends.push_back(end += utf16_size(token.text));
    ids.push_back(token.id);
    if (token.trained() != trained) {
      runs.push_back(std::exchange(run, 0));
      trained = !trained;
    }
    ++run;
    if (token.special) special.push_back(i);
    if (token.trained() && token.label != token.id) labels.push_back({i, token.label});
  }
  runs.push_back(run);
  return {{"text", std::move(text)}, {"ends", std::move(ends)},       {"ids", std::move(ids)},
          {"runs", std::move(runs)}, {"special", std::move(special)}, {"labels", std::move(labels)}};
}

}  // namespace

Json page_data(const Prepared& prepared, const Tokenizer& tokenizer, const Schedule* schedule,
               const PageOptions& options) {
  Sources sources;
  Json rows = Json::array();
  const std::pair<const char*, Examples> lists[] = {{"train", prepared.train()}, {"validation", prepared.validation()}};
  std::int64_t kept = 0, tokens = 0;
  for (auto& [kind, examples] : lists) {
    kept += examples.size();
    for (std::int64_t i = 0; i < examples.size(); ++i) tokens += examples.length(i);
  }
  std::int64_t most = options.most_rows;
  if (tokens > options.most_tokens) most = std::min(most, options.most_tokens * kept / tokens);
  const auto shown = spread(kept, std::max<std::int64_t>(1, most));
  for (std::int64_t n : shown) {
    const bool train = n < lists[0].second.size();
    auto& [kind, examples] = lists[train ? 0 : 1];
    const std::int64_t i = train ? n : n - lists[0].second.size();
    const auto [file, line] = sources.add(prepared.place(examples.stored(i)));
    Json row{{"kind", kind}, {"row", i}, {"file", file}, {"line", line}};
    row.update(kept_row(view_row(examples, i, tokenizer, "")));
    rows.push_back(std::move(row));
  }

  const std::vector<DroppedRow> dropped = prepared.dropped(options.most_rows);
  std::int64_t all_dropped = 0;
  for (auto& dataset : prepared.report().datasets)
    for (auto& [reason, count] : dataset.dropped) all_dropped += count;
  for (auto& row : dropped) {
    const auto [file, line] = sources.add(row.place);
    rows.push_back(
        {{"kind", "dropped"}, {"file", file}, {"line", line}, {"reason", row.reason}, {"detail", row.detail}});
  }

  std::string scope = fmt::format("{} rows", grouped(kept));
  if (std::ssize(shown) < kept) scope = fmt::format("{} of {}, evenly spread", grouped(std::ssize(shown)), scope);
  if (all_dropped > 0)
    scope += std::ssize(dropped) < all_dropped
                 ? fmt::format("; the first {} of {} dropped", grouped(std::ssize(dropped)), grouped(all_dropped))
                 : fmt::format("; {} dropped", grouped(all_dropped));
  return {{"title", options.title},
          {"scope", scope},
          {"summary", describe(prepared, schedule)},
          {"sources", sources.names()},
          {"between", sources.between()},
          {"rows", std::move(rows)}};
}

std::string page_html(const Json& data) {
  std::string out;
  for (char c : dump(data))
    if (c == '<') out += "\\u003c";
    else out += c;
  return fmt::format("{}{}{}", kPageBeforeData, out, kPageAfterData);
}

}  // namespace dml
