// Converts formulas to shapes of arrays and objects: a formula is split into cases, conjunctions of atoms, and the
// atoms of a case are merged into one shape (for objects: schema_members.cpp).
#include <algorithm>
#include <iterator>
#include <set>

#include "constraint/schema_parts.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;

namespace {

constexpr std::size_t kMaxCases = 5000;     // shapes of one formula
constexpr std::size_t kMaxCombined = 500;   // cases of a combination of parts
constexpr std::size_t kMaxPairs = 200'000;  // pairs of cases of two parts
constexpr std::size_t kMaxCompared = 1500;  // cases compared with each other
constexpr std::size_t kFewCases = 8;        // up to this number, contradictions are not searched for
constexpr std::size_t kMaxAhead = 300'000;  // formulas combined before a text is read
constexpr std::size_t kFormulaCost = 50;    // of one that is looked at, in formulas combined
constexpr std::size_t kMaxLater = 100'000;  // formulas combined for one question while a text is read

}  // namespace

// Removes duplicate cases and cases that another one implies.
void Schema::simplify(std::vector<Case>& cases) {
  std::ranges::sort(cases, [](const Case& a, const Case& b) {
    return std::pair(a.size(), std::cref(a).get()) < std::pair(b.size(), std::cref(b).get());
  });
  cases.erase(std::unique(cases.begin(), cases.end()), cases.end());
  if (cases.size() > kMaxCompared) return;
  std::vector<Case> out;
  for (Case& c : cases)
    if (std::ranges::none_of(out, [&](const Case& less) { return std::ranges::includes(c, less); }))
      out.push_back(std::move(c));
  cases = std::move(out);
}

std::vector<Schema::Case> Schema::any_case(const std::vector<std::uint32_t>& parts, bool positive, JsonKind kind,
                                           int depth) {
  std::vector<Case> out;
  for (auto p : parts) {
    for (auto& c : cases(p, positive, kind, depth)) {
      if (c.empty()) return {{}};
      out.push_back(std::move(c));
    }
  }
  simplify(out);
  leave_out(out, kMaxCases);
  return out;
}

// Two parts have the product of their numbers of cases, but many combinations contradict themselves.
std::vector<Schema::Case> Schema::every_case(const std::vector<std::uint32_t>& parts, bool positive, JsonKind kind,
                                             int depth) {
  std::vector<Case> out{{}};
  for (auto p : parts) {
    std::vector<Case> next;
    std::vector<Case> more = cases(p, positive, kind, depth);
    const std::size_t most = std::max({kMaxCombined, out.size(), more.size()});
    leave_out(more, std::max(kMaxCombined, kMaxPairs / out.size()));
    for (auto& c : more)
      for (auto& before : out) {
        Case both;
        std::ranges::set_union(before, c, std::back_inserter(both));
        next.push_back(std::move(both));
      }
    simplify(next);
    if (kind == JsonKind::object && more.size() > 1 && next.size() > kFewCases)
      std::erase_if(next, [&](const Case& c) { return contradicts(c); });
    leave_out(next, most);
    out = std::move(next);
    if (out.empty()) break;
  }
  return out;
}

void Schema::leave_out(std::vector<Case>& cases, std::size_t most) {
  if (cases.size() <= most) return;
  cases.resize(most);  // keeps the shortest, which are the most general
  left_out_ = true;
}

// The cases in which not all parts hold. A required member with a value fails in one way: no member of its name has
// that value. (Split into two, absent or different, such parts would multiply when many exclude each other.)
const std::vector<std::uint32_t>& Schema::refutations(Formula f) {
  if (auto it = refutations_.find(f); it != refutations_.end()) return it->second;
  std::vector<std::uint32_t> parts = nodes_[f].parts, ways;
  auto atom_of = [&](Formula part) { return nodes_[part].kind == Node::Kind::atom ? nodes_[part].parts[0] : kNoLimit; };
  for (Formula& required : parts) {
    const std::uint32_t id = atom_of(required);
    const Atom* has = id == kNoLimit ? nullptr : atoms_[id].get();
    if (!has || has->says != Atom::Says::some_member || has->named.empty() || has->formula != kTrue) continue;
    const std::string& name = has->named[0].first;
    for (Formula& part : parts) {
      const std::uint32_t other = atom_of(part);
      if (other == kNoLimit || atoms_[other]->says != Atom::Says::members) continue;
      Atom rest = *atoms_[other];
      auto found = std::ranges::find(rest.named, name, [](auto& each) { return each.first; });
      if (found == rest.named.end() || found->second == kTrue) continue;
      Atom different{.says = Atom::Says::members, .kind = JsonKind::object, .named = {{name, negation(found->second)}}};
      ways.push_back(all_of({of_kind(JsonKind::object), atom(std::move(different))}));
      found->second = kTrue;
      part = atom(std::move(rest));
      required = kTrue;
      break;
    }
  }
  for (const Formula part : parts) ways.push_back(negation(part));
  return refutations_[f] = std::move(ways);
}

std::vector<Schema::Case> Schema::cases(Formula f, bool positive, JsonKind kind, int depth) {
  if (depth > kDeepestFormula)
    refuse("the schema refers to itself without describing a value, or is nested too deeply");
  const Node n = nodes_[f];
  const std::vector<Case> always{{}}, never;
  switch (n.kind) {
    case Node::Kind::yes:
      return positive ? always : never;
    case Node::Kind::no:
      return positive ? never : always;
    case Node::Kind::atom: {
      const Atom& a = *atoms_[n.parts[0]];
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
    case Node::Kind::choice:
      return cases(one_of_expanded(f), positive, kind, depth + 1);
    case Node::Kind::all_of:
      return positive ? every_case(n.parts, true, kind, depth + 1) : any_case(refutations(f), true, kind, depth + 1);
    case Node::Kind::any_of:
      return positive ? any_case(n.parts, true, kind, depth + 1) : every_case(n.parts, false, kind, depth + 1);
  }
  return never;
}

std::optional<std::uint32_t> Schema::merged_array(const Case& c) {
  ArrayShape s;
  for (auto id : c) {
    const Atom& a = *atoms_[id];
    switch (a.says) {
      case Atom::Says::items: {
        const std::size_t n = std::max(s.prefix.size(), a.prefix.size());
        for (std::size_t i = s.prefix.size(); i < n; ++i) s.prefix.push_back(s.rest);
        for (std::size_t i = 0; i < n; ++i)
          s.prefix[i] = both(s.prefix[i], i < a.prefix.size() ? a.prefix[i] : a.formula);
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
  // An impossible item ends the array before it.
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
    for (std::size_t i = c.from; i < s.prefix.size() && i < s.most; ++i)
      somewhere = somewhere || satisfiable(both(s.prefix[i], c.item));
    if (!somewhere) return false;
  }
  return true;
}

const std::vector<std::uint32_t>& Schema::arrays(Formula f) {
  auto key = std::pair(f, JsonKind::array);
  if (auto it = shapes_.find(key); it != shapes_.end()) return it->second;
  const Question question(*this);
  std::vector<std::uint32_t> out;
  for (auto& c : cases(f, true, JsonKind::array, 0))
    if (auto shape = merged_array(c)) out.push_back(*shape);
  return shapes_[key] = std::move(out);
}

const std::vector<std::uint32_t>& Schema::objects(Formula f) {
  auto key = std::pair(f, JsonKind::object);
  if (auto it = shapes_.find(key); it != shapes_.end()) return it->second;
  const Question question(*this);
  std::vector<std::uint32_t> out;
  for (auto& c : cases(f, true, JsonKind::object, 0))
    if (auto shape = merged_object(c)) out.push_back(*shape);
  return shapes_[key] = std::move(out);
}

void Schema::look_ahead() {
  std::vector<Formula> reached{root_};
  std::set<Formula> known{root_};
  const auto reach = [&](Formula f) {
    if (known.insert(f).second) reached.push_back(f);
  };
  std::size_t spent = 0;
  for (std::size_t i = 0; i < reached.size() && spent < kMaxAhead; ++i) {
    const Formula f = reached[i];
    for (JsonKind kind : {JsonKind::string, JsonKind::number}) scalar(f, kind);
    const std::vector<std::uint32_t> lists = arrays(f);
    spent += work_;
    const std::vector<std::uint32_t> groups = objects(f);
    spent += work_ + kFormulaCost;
    for (std::uint32_t id : lists) {
      for (Formula item : array(id).prefix) reach(item);
      reach(array(id).rest);
    }
    for (std::uint32_t id : groups)
      for (const Members& members : object(id).groups) reach(members.value);
  }
  most_work_ = kMaxLater;
}

}  // namespace dml
