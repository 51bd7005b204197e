// Arrays and objects. Progress of an array: number of items (as far as it matters), number of items of each count, then
// the items that others must differ from. Progress of an object: number of members (as far as it matters), which wanted
// ones were found, which names were seen, and, while members still count, the other names.
#include <algorithm>

#include "constraint/json_automaton.h"
#include "core/error.h"

namespace dml {

std::uint32_t JsonAutomaton::item_limit(const Schema::ArrayShape& s) const {
  std::uint32_t out = std::max<std::uint32_t>(static_cast<std::uint32_t>(s.prefix.size()), s.least);
  for (auto& c : s.counted) out = std::max(out, c.from);
  if (s.most != Schema::kNoLimit) out = std::max(out, s.most);
  return out;
}

JsonAutomaton::Formula JsonAutomaton::item_formula(const Frame& f) {
  const auto& s = schema_.array(f.id);
  const std::uint32_t i = progresses_[f.progress][0];
  return i < s.prefix.size() ? s.prefix[i] : s.rest;
}

bool JsonAutomaton::item_possible(const Frame& f) {
  const auto& s = schema_.array(f.id);
  return progresses_[f.progress][0] < s.most && schema_.satisfiable(item_formula(f));
}

void JsonAutomaton::end_array(const Frame& f) {
  const auto& s = schema_.array(f.id);
  const Progress& p = progresses_[f.progress];
  if (p[0] < s.least) return;
  for (std::size_t i = 0; i < s.counted.size(); ++i)
    if (p[1 + i] < s.counted[i].least || p[1 + i] > s.counted[i].most) return;
  ways_.push_back(behind_value(f.below, record_));
}

// Whether the required remaining items fit.
bool JsonAutomaton::finishable(const Schema::ArrayShape& s, const Progress& p) {
  for (std::size_t i = 0; i < s.counted.size(); ++i) {
    const auto& c = s.counted[i];
    if (p[1 + i] > c.most) return false;
    if (p[1 + i] >= c.least) continue;
    if (s.most != Schema::kNoLimit && s.most - std::min(s.most, std::max(p[0], c.from)) < c.least - p[1 + i])
      return false;
    bool somewhere =
        (s.most == Schema::kNoLimit || s.most > s.prefix.size()) && schema_.satisfiable(schema_.both(s.rest, c.item));
    for (std::size_t k = std::max(p[0], c.from); k < s.prefix.size(); ++k)
      somewhere = somewhere || schema_.satisfiable(schema_.both(s.prefix[k], c.item));
    if (!somewhere) return false;
  }
  return true;
}

// Starts an item, with its first byte or after a comma. For each count, the item either satisfies it or not.
void JsonAutomaton::begin_item(const Frame& f, std::optional<unsigned char> byte) {
  if (!item_possible(f)) return;
  const Schema::ArrayShape s = schema_.array(f.id);
  const Progress p = progresses_[f.progress];
  std::vector<std::pair<Formula, Progress>> ways{{item_formula(f), p}};
  ways[0].second[0] = std::min(p[0] + 1, item_limit(s));
  for (std::size_t i = 0; i < s.counted.size(); ++i) {
    const auto& c = s.counted[i];
    if (p[0] < c.from) continue;
    if (c.most == Schema::kNoLimit && p[1 + i] >= c.least) continue;
    std::vector<std::pair<Formula, Progress>> next;
    for (auto& [formula, after] : ways) {
      // With an upper limit, every item must be decided; without one it is enough to find some.
      next.push_back({c.most == Schema::kNoLimit ? formula : schema_.both(formula, schema_.negation(c.item)), after});
      next.push_back({schema_.both(formula, c.item), after});
      ++next.back().second[1 + i];
    }
    ways = std::move(next);
  }
  for (std::uint32_t seen = 1 + static_cast<std::uint32_t>(s.counted.size()); seen < p.size(); ++seen)
    for (auto& way : ways) way.first = schema_.both(way.first, schema_.negation(p[seen]));
  for (auto& [formula, after] : ways) {
    if (!finishable(s, after) || !schema_.satisfiable(formula)) continue;
    Frame array = f;
    array.expects = Expects::next_item;
    array.progress = progress(after);
    array.begin = s.unique ? records_[byte ? record_before_ : record_].size : 0;
    const Frame item{.expects = Expects::value, .below = frame(array), .id = formula, .depth = f.depth};
    if (byte) read(frame(item), *byte);
    else keep(item);
  }
}

JsonAutomaton::Progress JsonAutomaton::with_member(const Schema::ObjectShape& s, Progress p,
                                                   std::uint32_t group) const {
  const auto passed = [&](std::size_t i) { p[2 + i / 32] |= 1u << i % 32; };
  if (s.groups[group].single) passed(group);
  if (space_ == JsonSpace::one)
    for (std::size_t i = 0; i < group && s.groups[i].listed; ++i) passed(i);
  p[0] = std::min(p[0] + 1, s.most == Schema::kNoLimit ? s.least : s.most);
  if (!counts_names(s, p)) p.resize(words(s));
  return p;
}

std::uint32_t JsonAutomaton::required_left(const Schema::ObjectShape& s, const Progress& p) const {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < s.groups.size() && s.groups[i].single; ++i) n += s.groups[i].required && !seen(p, i);
  return n;
}

// The names that may come next, each labeled with its group.
JsonAutomaton::LanguageId JsonAutomaton::names(std::uint32_t shape, std::uint32_t progress) {
  if (auto it = names_.find({shape, progress}); it != names_.end()) return it->second;
  const Schema::ObjectShape s = schema_.object(shape);  // a copy, since shapes are added below
  const LanguageId out = names_left(s, Progress(progresses_[progress]));
  return names_[{shape, progress}] = out;
}

JsonAutomaton::LanguageId JsonAutomaton::names_left(const Schema::ObjectShape& s, const Progress& p) {
  if (s.most != Schema::kNoLimit && p[0] >= s.most) return Languages::kNone;
  // Only required members still fit.
  const bool only_required = s.most != Schema::kNoLimit && p[0] + required_left(s, p) >= s.most;
  const bool limited = s.most != Schema::kNoLimit || s.least > 0 || !s.wanted.empty();
  std::vector<std::pair<std::u32string, LanguageId>> single;
  std::vector<LanguageId> all;
  for (std::uint32_t i = 0; i < s.groups.size(); ++i) {
    const auto& m = s.groups[i];
    if (m.single ? seen(p, i) || (only_required && !m.required) : only_required) continue;
    if (m.value != Schema::kFalse && !(limited && member_ways(s, with_member(s, p, i), i).empty())) {
      const LanguageId mark = languages_.label(i);
      LanguageId left = m.names;
      for (std::size_t k = words(s); k < p.size(); ++k)
        left = languages_.difference(left, languages_.literal(code_points(texts_[p[k]])));
      if (m.single) single.push_back({code_points(m.name), mark});
      else all.push_back(languages_.concatenation(left, mark));
    }
    if (m.single && m.required && space_ == JsonSpace::one) break;  // it must not be passed over
  }
  all.push_back(languages_.dictionary(std::move(single)));
  const LanguageId out = languages_.either(std::move(all));
  return languages_.accepts_end(out) || !languages_.transitions(out).empty() ? out : Languages::kNone;
}

void JsonAutomaton::begin_name(const Frame& f) {
  const LanguageId language = names(f.id, f.progress);
  if (language == Languages::kNone) return;
  Frame object = f;
  object.expects = Expects::name;
  const auto& s = schema_.object(f.id);
  const bool records = counts_names(s, progresses_[f.progress]);
  keep({.expects = Expects::name_text,
        .records = records,
        .below = frame(object),
        .id = language,
        .depth = f.depth,
        .begin = records ? records_[record_].size : 0});
}

void JsonAutomaton::begin_member(Frame object) {
  const std::uint32_t group = object.detail;
  const Schema::ObjectShape s = schema_.object(object.id);
  object.expects = Expects::next_member;
  object.detail = 0;
  for (auto& [formula, after] : member_ways(s, progresses_[object.progress], group)) {
    object.progress = progress(after);
    keep({.expects = Expects::value, .below = frame(object), .id = formula, .depth = object.depth});
  }
}

// The alternatives for the value of a member of this group: it satisfies none, one or several of the wanted formulas.
// `p` already counts the member.
std::vector<std::pair<JsonAutomaton::Formula, JsonAutomaton::Progress>> JsonAutomaton::member_ways(
    const Schema::ObjectShape& s, const Progress& p, std::uint32_t group) {
  const auto& member = s.groups[group];
  std::vector<std::pair<Formula, Progress>> ways{{member.value, p}};
  for (std::uint32_t i = 0; i < s.wanted.size(); ++i) {
    if (!(member.wanted >> i & 1) || (p[1] >> i & 1)) continue;
    const std::size_t n = ways.size();
    for (std::size_t k = 0; k < n; ++k) {
      ways.push_back({schema_.both(ways[k].first, s.wanted[i]), ways[k].second});
      ways.back().second[1] |= 1u << i;
    }
  }
  std::erase_if(ways, [&](auto& way) { return !schema_.satisfiable(way.first) || !object_finishable(s, way.second); });
  return ways;
}

// Whether the remaining names suffice.
bool JsonAutomaton::object_finishable(const Schema::ObjectShape& s, const Progress& p) {
  std::uint32_t left = s.most == Schema::kNoLimit ? Schema::kNoLimit : s.most - std::min(s.most, p[0]);
  if (required_left(s, p) > left) return false;
  std::uint64_t possible = p[0];
  for (std::size_t i = 0; i < s.groups.size(); ++i) {
    const auto& m = s.groups[i];
    if (m.value != Schema::kFalse) possible = m.single ? possible + !seen(p, i) : possible + Schema::kNoLimit;
  }
  if (possible < s.least) return false;
  for (std::size_t w = 0; w < s.wanted.size(); ++w) {
    if (p[1] >> w & 1) continue;
    bool somewhere = false;
    for (std::size_t i = 0; i < s.groups.size() && !somewhere; ++i) {
      const auto& m = s.groups[i];
      somewhere = (m.wanted >> w & 1) && !(m.single && seen(p, i)) &&
                  left > (m.single && m.required ? 0 : required_left(s, p)) &&
                  schema_.satisfiable(schema_.both(m.value, s.wanted[w]));
    }
    if (!somewhere) return false;
  }
  return true;
}

void JsonAutomaton::end_object(const Frame& f) {
  const auto& s = schema_.object(f.id);
  const Progress& p = progresses_[f.progress];
  if (p[0] < s.least || required_left(s, p) > 0) return;
  for (std::size_t i = 0; i < s.wanted.size(); ++i)
    if (!(p[1] >> i & 1)) return;
  ways_.push_back(behind_value(f.below, record_));
}

}  // namespace dml
