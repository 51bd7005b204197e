// From formulas to the shapes of arrays and objects: a formula becomes cases, sets of atoms that all hold, and the atoms of a
// case are merged into one shape.
#include <algorithm>

#include "constraint/schema_parts.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;
using LanguageId = Languages::Id;

namespace {

constexpr std::size_t kMostCases = 2000;    // shapes of one formula
constexpr std::size_t kMostPatterns = 10;   // languages of names in one object: groups are their combinations

}  // namespace

std::vector<Schema::Case> Schema::cases(Formula f, bool positive, JsonKind kind, int depth) {
  if (depth > kDeepestFormula) refuse("the schema refers to itself without describing a value, or is nested too deeply");
  const Node n = nodes_[f];
  const std::vector<Case> always{{}}, never;
  auto any = [&](const std::vector<std::uint32_t>& parts) {
    std::vector<Case> out;
    for (auto p : parts) {
      for (auto& c : cases(p, positive, kind, depth + 1)) {
        if (c.empty()) return always;
        out.push_back(std::move(c));
      }
      if (out.size() > kMostCases) refuse("the schema is too complex: too many alternatives for one value");
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  };
  auto all = [&](const std::vector<std::uint32_t>& parts) {
    std::vector<Case> out = always;
    for (auto p : parts) {
      std::vector<Case> next;
      for (auto& c : cases(p, positive, kind, depth + 1))
        for (auto& before : out) {
          Case both = before;
          both.insert(both.end(), c.begin(), c.end());
          std::sort(both.begin(), both.end());
          both.erase(std::unique(both.begin(), both.end()), both.end());
          next.push_back(std::move(both));
          if (next.size() > kMostCases) refuse("the schema is too complex: too many alternatives for one value");
        }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      out = std::move(next);
      if (out.empty()) break;
    }
    return out;
  };
  switch (n.kind) {
    case Node::Kind::yes:
      return positive ? always : never;
    case Node::Kind::no:
      return positive ? never : always;
    case Node::Kind::atom: {
      const Atom& a = atoms_[n.parts[0]];
      if (a.says == Atom::Says::kind) return (a.kind == kind) == positive ? always : never;
      if (a.kind != kind) return positive ? always : never;
      if (positive) return {{n.parts[0]}};
      return cases(complement_of(n.parts[0]), true, kind, depth + 1);
    }
    case Node::Kind::negation:
      return cases(n.parts[0], !positive, kind, depth + 1);
    case Node::Kind::reference:
      return cases(resolved(f), positive, kind, depth + 1);
    case Node::Kind::one_of:
      return cases(one_of_expanded(f), positive, kind, depth + 1);
    case Node::Kind::all_of:
      return positive ? all(n.parts) : any(n.parts);
    case Node::Kind::any_of:
      return positive ? any(n.parts) : all(n.parts);
  }
  return never;
}

std::optional<std::uint32_t> Schema::merged_array(const Case& c) {
  ArrayShape s;
  for (auto id : c) {
    const Atom a = atoms_[id];
    switch (a.says) {
      case Atom::Says::items: {
        const std::size_t n = std::max(s.prefix.size(), a.prefix.size());
        for (std::size_t i = s.prefix.size(); i < n; ++i) s.prefix.push_back(s.rest);
        for (std::size_t i = 0; i < n; ++i) s.prefix[i] = both(s.prefix[i], i < a.prefix.size() ? a.prefix[i] : a.formula);
        s.rest = both(s.rest, a.formula);
        break;
      }
      case Atom::Says::item_count:
        s.least = std::max(s.least, a.least);
        s.most = std::min(s.most, a.most);
        break;
      case Atom::Says::counted:
        s.counted.push_back({a.formula, a.from, a.least, a.most});
        break;
      case Atom::Says::unique:
        s.unique = true;
        break;
      default:
        DML_CHECK(false);
    }
  }
  // An item that cannot be ends the array in front of it.
  for (std::size_t i = 0; i <= s.prefix.size() && i < s.most; ++i)
    if (!satisfiable(i < s.prefix.size() ? s.prefix[i] : s.rest)) s.most = static_cast<std::uint32_t>(i);
  if (!array_possible(s)) return std::nullopt;
  array_shapes_.push_back(std::move(s));
  return static_cast<std::uint32_t>(array_shapes_.size() - 1);
}

bool Schema::array_possible(const ArrayShape& s) {
  if (s.least > s.most) return false;
  for (auto& c : s.counted) {
    if (c.least > c.most) return false;
    if (c.least == 0) continue;
    if (s.most != kNoLimit && s.most - std::min(s.most, c.from) < c.least) return false;
    bool somewhere = satisfiable(both(s.rest, c.item)) && (s.most == kNoLimit || s.most > s.prefix.size());
    for (std::size_t i = c.from; i < s.prefix.size() && i < s.most; ++i) somewhere = somewhere || satisfiable(both(s.prefix[i], c.item));
    if (!somewhere) return false;
  }
  return true;
}

std::optional<std::uint32_t> Schema::merged_object(const Case& c) {
  std::vector<Atom> members;
  std::vector<std::pair<LanguageId, Formula>> wanted;
  ObjectShape s;
  std::vector<std::string> names;
  std::vector<LanguageId> patterns;
  auto once = [](auto& list, const auto& x) {
    if (std::find(list.begin(), list.end(), x) == list.end()) list.push_back(x);
  };
  std::map<std::string, bool> required;
  for (auto id : c) {
    const Atom a = atoms_[id];
    switch (a.says) {
      case Atom::Says::members:
        members.push_back(a);
        break;
      case Atom::Says::member_count:
        s.least = std::max(s.least, a.least);
        s.most = std::min(s.most, a.most);
        break;
      case Atom::Says::some_member:
        if (a.named.size() == 1 && a.formula == kTrue) {  // one of this name
          required[a.named[0].first] = true;
        } else {
          wanted.push_back({a.language, a.formula});
          once(patterns, a.language);
        }
        break;
      default:
        DML_CHECK(false);
    }
  }
  for (auto& a : members) {
    for (auto& [name, value] : a.named)
      required.emplace(name, false), once(names, name);
    for (auto& [language, value] : a.patterns) once(patterns, language);
  }
  for (auto& [name, yes] : required)
    if (yes) once(names, name);
  if (patterns.size() > kMostPatterns) refuse(fmt::format("more than {} patterns of names in one object are not supported", kMostPatterns));
  if (wanted.size() > 31) refuse("the schema is too complex: too many members of unknown names are asked for");
  for (auto& [language, value] : wanted) s.wanted.push_back(value);

  auto value_of = [&](auto&& is_named, auto&& is_in) {
    Formula out = kTrue;
    for (auto& a : members) {
      bool known = false;
      for (auto& [name, value] : a.named)
        if (is_named(name)) out = both(out, value), known = true;
      for (auto& [language, value] : a.patterns)
        if (is_in(language)) out = both(out, value), known = true;
      if (!known) out = both(out, a.formula);
    }
    return out;
  };
  auto matches = [&](LanguageId language, const std::string& name) {
    for (char32_t ch : code_points(name)) language = l_.after(language, ch);
    return l_.accepts_end(language);
  };
  for (auto& name : names) {
    Members m;
    m.name = name;
    m.single = true;
    m.required = required[name];
    m.value = value_of([&](auto& other) { return other == name; }, [&](LanguageId language) { return matches(language, name); });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (matches(wanted[i].first, name)) m.wanted |= 1u << i;
    if (!satisfiable(m.value)) {
      if (m.required) return std::nullopt;
      m.value = kFalse;
    }
    s.groups.push_back(std::move(m));
  }
  // The other names, by which of the patterns they match.
  std::vector<std::pair<std::u32string, LanguageId>> known;
  for (auto& name : names) known.push_back({code_points(name), Languages::kEmptyText});
  const LanguageId unnamed = l_.complement(l_.dictionary(std::move(known)));
  for (std::uint32_t in = 0; in < 1u << patterns.size(); ++in) {
    std::vector<LanguageId> parts{unnamed};
    for (std::size_t i = 0; i < patterns.size(); ++i) parts.push_back(in >> i & 1 ? patterns[i] : l_.complement(patterns[i]));
    Members m;
    m.names = l_.all_of(std::move(parts));
    if (l_.empty(m.names)) continue;
    auto is_in = [&](LanguageId language) {
      return (in >> (std::find(patterns.begin(), patterns.end(), language) - patterns.begin()) & 1) != 0;
    };
    m.value = value_of([](auto&) { return false; }, is_in);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (is_in(wanted[i].first)) m.wanted |= 1u << i;
    if (satisfiable(m.value)) s.groups.push_back(std::move(m));
  }
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

const std::vector<std::uint32_t>& Schema::arrays(Formula f) {
  auto key = std::pair(f, JsonKind::array);
  if (auto it = shapes_.find(key); it != shapes_.end()) return it->second;
  std::vector<std::uint32_t> out;
  for (auto& c : cases(f, true, JsonKind::array, 0))
    if (auto shape = merged_array(c)) out.push_back(*shape);
  return shapes_[key] = std::move(out);
}

const std::vector<std::uint32_t>& Schema::objects(Formula f) {
  auto key = std::pair(f, JsonKind::object);
  if (auto it = shapes_.find(key); it != shapes_.end()) return it->second;
  std::vector<std::uint32_t> out;
  for (auto& c : cases(f, true, JsonKind::object, 0))
    if (auto shape = merged_object(c)) out.push_back(*shape);
  return shapes_[key] = std::move(out);
}

}  // namespace dml
