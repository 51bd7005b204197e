// Merges the atoms of a case about an object's members into one shape: names with their values, and groups of the other
// names with theirs. A group of few names (an enum of propertyNames) becomes single names, which occur only once.
#include <algorithm>
#include <iterator>
#include <set>

#include "constraint/schema_parts.h"
#include "constraint/utf8.h"
#include "core/error.h"
#include "core/utf8.h"

namespace dml {

using Formula = Schema::Formula;
using LanguageId = Languages::Id;

namespace {

constexpr std::size_t kMaxGroups = 500;  // maximum number of groups of names in an object
constexpr std::size_t kMaxWanted = 31;   // bits
constexpr std::size_t kFewNames = 256;

}  // namespace

struct Schema::MemberFacts {
  std::vector<const Atom*> members;                  // atoms about all members
  std::map<std::string, Formula> required;           // required names and their values
  std::vector<std::pair<LanguageId, Formula>> some;  // some member whose name is in the language has such a value
  std::uint32_t least = 0, most = kNoLimit;          // number of members
};

Schema::MemberFacts Schema::member_facts(const Case& c) {
  MemberFacts out;
  for (auto id : c) {
    const Atom& a = *atoms_[id];
    switch (a.says) {
      case Atom::Says::members:
        out.members.push_back(&a);
        break;
      case Atom::Says::member_count:
        out.least = std::max(out.least, a.least);
        out.most = std::min(out.most, a.most);
        break;
      case Atom::Says::some_member:
        if (a.named.empty()) {
          out.some.push_back({a.language, a.formula});
        } else {
          Formula& value = out.required.try_emplace(a.named[0].first, kTrue).first->second;
          value = both(value, a.formula);
        }
        break;
      default:
        DML_CHECK(false);
    }
  }
  return out;
}

bool Schema::matches(LanguageId language, const std::string& name) {
  for (char32_t c : code_points(name)) language = l_.after(language, c);
  return l_.accepts_end(language);
}

// The value of the member of this name.
Formula Schema::member_value(const MemberFacts& facts, const std::string& name) {
  std::vector<Formula> all;
  for (const Atom* a : facts.members) {
    const std::size_t before = all.size();
    for (auto& [other, value] : a->named)
      if (other == name) all.push_back(value);
    for (auto& [language, value] : a->patterns)
      if (matches(language, name)) all.push_back(value);
    if (all.size() == before) all.push_back(a->formula);
  }
  if (auto it = facts.required.find(name); it != facts.required.end()) all.push_back(it->second);
  return all_of(std::move(all));
}

// Whether a required name is impossible; other contradictions may remain.
bool Schema::contradicts(const Case& c) {
  const MemberFacts facts = member_facts(c);
  if (facts.least > facts.most || facts.required.size() > facts.most) return true;
  return std::ranges::any_of(facts.required, [&](auto& name) { return !satisfiable(member_value(facts, name.first)); });
}

// The names that no atom lists individually, grouped by the languages that contain them.
std::vector<Schema::Members> Schema::other_members(const MemberFacts& facts, const std::vector<std::string>& names) {
  std::vector<LanguageId> languages;
  for (const Atom* a : facts.members)
    for (auto& [language, value] : a->patterns) languages.push_back(language);
  for (auto& [language, value] : facts.some) languages.push_back(language);
  std::ranges::sort(languages);
  languages.erase(std::unique(languages.begin(), languages.end()), languages.end());

  struct Part {
    LanguageId names;
    std::set<LanguageId> in;
  };
  std::vector<std::pair<std::u32string, LanguageId>> known;
  for (auto& name : names) known.push_back({code_points(name), Languages::kEmptyText});
  std::vector<Part> parts{{l_.complement(l_.dictionary(std::move(known))), {}}};
  for (LanguageId language : languages) {
    std::vector<Part> next;
    for (Part& part : parts) {
      Part inside{l_.all_of({part.names, language}), part.in};
      inside.in.insert(language);
      part.names = l_.difference(part.names, language);
      if (!l_.empty(inside.names)) next.push_back(std::move(inside));
      if (!l_.empty(part.names)) next.push_back(std::move(part));
    }
    if (next.size() > kMaxGroups) refuse("the schema is too complex: too many kinds of names in one object");
    parts = std::move(next);
  }
  std::vector<Members> out;
  for (const Part& part : parts) {
    std::vector<Formula> all;
    for (const Atom* a : facts.members) {
      const std::size_t before = all.size();
      for (auto& [language, value] : a->patterns)
        if (part.in.contains(language)) all.push_back(value);
      if (all.size() == before) all.push_back(a->formula);
    }
    Members m{.name = {}, .names = part.names, .value = all_of(std::move(all))};
    for (std::size_t i = 0; i < facts.some.size(); ++i)
      if (part.in.contains(facts.some[i].first)) m.wanted |= 1u << i;
    if (satisfiable(m.value)) out.push_back(std::move(m));
  }
  return out;
}

std::optional<std::uint32_t> Schema::merged_object(const Case& c) {
  const MemberFacts facts = member_facts(c);
  if (facts.some.size() > kMaxWanted)
    refuse("the schema is too complex: too many members of unknown names are asked for");
  ObjectShape s{.groups = {}, .least = facts.least, .most = facts.most, .wanted = {}};
  for (auto& [language, value] : facts.some) s.wanted.push_back(value);
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const Atom* a : facts.members)
    for (auto& [name, value] : a->named)
      if (known.insert(name).second) names.push_back(name);
  for (auto& [name, value] : facts.required)
    if (known.insert(name).second) names.push_back(name);
  for (auto& name : names) {
    Members m{.name = name,
              .single = true,
              .required = facts.required.contains(name),
              .listed = true,
              .value = member_value(facts, name)};
    for (std::size_t i = 0; i < facts.some.size(); ++i)
      if (matches(facts.some[i].first, name)) m.wanted |= 1u << i;
    if (!satisfiable(m.value)) {
      if (m.required) return std::nullopt;
      m.value = kFalse;
    }
    s.groups.push_back(std::move(m));
  }
  std::vector<Members> open;
  for (Members& m : other_members(facts, names)) {
    const auto few = l_.texts(m.names, kFewNames);
    if (!few) {
      open.push_back(std::move(m));
      continue;
    }
    for (const std::u32string& name : *few) {
      s.groups.push_back({.name = {}, .single = true, .value = m.value, .wanted = m.wanted});
      for (char32_t code : name) append_utf8(s.groups.back().name, code);
    }
  }
  std::ranges::move(open, std::back_inserter(s.groups));
  if (!object_possible(s)) return std::nullopt;
  object_shapes_.push_back(std::move(s));
  return static_cast<std::uint32_t>(object_shapes_.size() - 1);
}

bool Schema::object_possible(const ObjectShape& s) {
  std::uint64_t possible = 0, required = 0;
  for (auto& m : s.groups) {
    required += m.required;
    if (m.value == kFalse) continue;
    possible = m.single ? possible + 1 : kNoLimit;
    if (!m.single) break;
  }
  if (s.least > s.most || s.least > possible || required > s.most) return false;
  for (std::size_t i = 0; i < s.wanted.size(); ++i) {
    bool somewhere = false;
    for (auto& m : s.groups) somewhere = somewhere || ((m.wanted >> i & 1) && satisfiable(both(m.value, s.wanted[i])));
    if (!somewhere) return false;
  }
  return true;
}

}  // namespace dml
