#include "constraint/schema.h"

#include <algorithm>

#include "constraint/number.h"
#include "constraint/schema_parts.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;
using LanguageId = Languages::Id;

namespace {

constexpr std::size_t kMaxFormulas = 1'000'000;  // formulas combined for one question; about a second
constexpr std::size_t kFormulaWork = 10;         // steps of WorkLimit to combine one

bool scalar_kind(JsonKind k) { return k != JsonKind::array && k != JsonKind::object; }

}  // namespace

Schema::Schema(const Json& document, std::string source, Languages& languages, std::uint32_t longest_number)
    : source_(std::move(source)), l_(languages), longest_number_(longest_number), most_work_(kMaxFormulas) {
  nodes_.push_back({Node::Kind::yes, {}});
  nodes_.push_back({Node::Kind::no, {}});
  compiler_ = std::make_unique<Compiler>(*this, document);
  root_ = compiler_->target(0);
}

Schema::~Schema() = default;

void Schema::refuse(std::string_view what) const { throw UserError("{}: {}", source_, what); }

// --- formulas

Formula Schema::add(Node n) {
  auto key = std::pair(static_cast<int>(n.kind), n.parts);
  auto [it, fresh] = node_ids_.try_emplace(std::move(key), static_cast<Formula>(nodes_.size()));
  if (fresh) {
    if (nodes_.size() > 2'000'000) refuse("the schema is too complex");
    nodes_.push_back(std::move(n));
  }
  return it->second;
}

Formula Schema::all_of(std::vector<Formula> parts) {
  l_.work().spend(kFormulaWork);
  if (++work_ > most_work_) refuse("the schema is too complex: its alternatives take too long to look through");
  std::vector<std::uint32_t> all, implied;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kFalse) return kFalse;
    if (parts[i] == kTrue) continue;
    const Node& n = nodes_[parts[i]];
    if (n.kind == Node::Kind::choice) implied.push_back(one_of(n.branches()));
    if (nodes_[parts[i]].kind == Node::Kind::all_of)
      for (auto p : std::vector(nodes_[parts[i]].parts)) parts.push_back(p);
    else all.push_back(parts[i]);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const Formula f : implied) std::erase(all, f);
  if (all.empty()) return kTrue;
  return all.size() == 1 ? all[0] : add({Node::Kind::all_of, std::move(all)});
}

Formula Schema::any_of(std::vector<Formula> parts) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kTrue) return kTrue;
    if (parts[i] == kFalse) continue;
    if (nodes_[parts[i]].kind == Node::Kind::any_of)
      for (auto p : std::vector(nodes_[parts[i]].parts)) parts.push_back(p);
    else all.push_back(parts[i]);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.empty()) return kFalse;
  return all.size() == 1 ? all[0] : add({Node::Kind::any_of, std::move(all)});
}

Formula Schema::negation(Formula f) {
  if (f == kTrue) return kFalse;
  if (f == kFalse) return kTrue;
  if (nodes_[f].kind == Node::Kind::negation) return nodes_[f].parts[0];
  return add({Node::Kind::negation, {f}});
}

Formula Schema::atom(Atom a) {
  atoms_.push_back(std::make_unique<const Atom>(std::move(a)));
  return add({Node::Kind::atom, {static_cast<std::uint32_t>(atoms_.size() - 1)}});
}

Formula Schema::of_kind(JsonKind kind) {
  if (auto it = kinds_.find(kind); it != kinds_.end()) return it->second;
  return kinds_[kind] = atom({.says = Atom::Says::kind, .kind = kind});
}

Formula Schema::equal(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return of_kind(JsonKind::null);
    case Json::value_t::boolean:
      return of_kind(value.get<bool>() ? JsonKind::yes : JsonKind::no);
    case Json::value_t::string: {
      const LanguageId text = l_.literal(code_points(value.get_ref<const std::string&>()));
      return all_of(
          {of_kind(JsonKind::string), atom({.says = Atom::Says::text, .kind = JsonKind::string, .language = text})});
    }
    case Json::value_t::array: {
      Atom items{.says = Atom::Says::items, .kind = JsonKind::array};
      for (auto& item : value) items.prefix.push_back(equal(item));
      const auto n = static_cast<std::uint32_t>(value.size());
      return all_of({of_kind(JsonKind::array), atom(std::move(items)),
                     atom({.says = Atom::Says::item_count, .kind = JsonKind::array, .least = n, .most = n})});
    }
    case Json::value_t::object: {
      Atom members{.says = Atom::Says::members, .kind = JsonKind::object};
      members.formula = kFalse;
      const auto n = static_cast<std::uint32_t>(value.size());
      for (auto& [name, member] : value.items()) members.named.push_back({name, equal(member)});
      return all_of({of_kind(JsonKind::object), atom(std::move(members)),
                     atom({.says = Atom::Says::member_count, .kind = JsonKind::object, .least = n, .most = n})});
    }
    default: {
      const auto decimal = parse_decimal(value.dump());
      if (!decimal) refuse(fmt::format("the number {} has too many digits", value.dump()));
      return all_of({of_kind(JsonKind::number),
                     atom({.says = Atom::Says::text, .kind = JsonKind::number, .language = equal_to(l_, *decimal)})});
    }
  }
}

Formula Schema::resolved(Formula f) {
  for (int i = 0; nodes_[f].kind == Node::Kind::reference; ++i) {
    if (i == kDeepestFormula) refuse("a $ref leads back to itself");
    f = compiler_->target(nodes_[f].parts[0]);
  }
  return f;
}

// Objects with a member whose value is not the one that `a` requires: the first such name, so that the alternatives
// exclude each other.
std::vector<Formula> Schema::other_values(const Atom& a) {
  std::vector<Formula> ways;
  std::vector<std::pair<std::string, Formula>> right;  // earlier names with their required values
  auto some = [&](LanguageId names, Formula value, std::vector<std::pair<std::string, Formula>> named = {}) {
    Formula way = atom({.says = Atom::Says::some_member,
                        .kind = JsonKind::object,
                        .language = names,
                        .formula = negation(value),
                        .named = std::move(named)});
    if (!right.empty()) way = both(way, atom({.says = Atom::Says::members, .kind = JsonKind::object, .named = right}));
    ways.push_back(way);
  };
  std::vector<LanguageId> others;
  for (auto& [name, value] : a.named) {
    const LanguageId only = l_.literal(code_points(name));
    others.push_back(l_.complement(only));
    if (value == kTrue) continue;
    some(only, value, {{name, kTrue}});
    right.push_back({name, value});
  }
  for (auto& [names, value] : a.patterns) {
    if (value != kTrue) some(names, value);
    others.push_back(l_.complement(names));
  }
  if (a.formula != kTrue) some(l_.all_of(std::move(others)), a.formula);
  return ways;
}

Formula Schema::complement_of(std::uint32_t id) {
  if (auto it = complements_.find(id); it != complements_.end()) return it->second;
  const Atom& a = *atoms_[id];
  std::vector<Formula> ways;
  auto counts = [&](Atom base) {  // fewer or more
    if (a.least > 0) {
      base.least = 0, base.most = a.least - 1;
      ways.push_back(atom(base));
    }
    if (a.most != kNoLimit) {
      base.least = a.most + 1, base.most = kNoLimit;
      ways.push_back(atom(base));
    }
  };
  switch (a.says) {
    case Atom::Says::items:
      for (std::uint32_t i = 0; i < a.prefix.size(); ++i) {
        Atom here{.says = Atom::Says::items, .kind = JsonKind::array};
        here.prefix.assign(i + 1, kTrue);
        here.prefix[i] = negation(a.prefix[i]);
        ways.push_back(all_of(
            {atom(std::move(here)), atom({.says = Atom::Says::item_count, .kind = JsonKind::array, .least = i + 1})}));
      }
      if (a.formula != kTrue)
        ways.push_back(atom({.says = Atom::Says::counted,
                             .kind = JsonKind::array,
                             .formula = negation(a.formula),
                             .from = static_cast<std::uint32_t>(a.prefix.size()),
                             .least = 1}));
      break;
    case Atom::Says::counted:
    case Atom::Says::item_count:
    case Atom::Says::member_count:
      counts(a);
      break;
    case Atom::Says::unique:
      left_out_ = true;  // arrays with equal items are dropped
      break;
    case Atom::Says::members:
      ways = other_values(a);
      break;
    case Atom::Says::some_member: {
      Atom none{.says = Atom::Says::members, .kind = JsonKind::object};
      if (a.named.empty()) none.patterns.push_back({a.language, negation(a.formula)});
      else none.named.push_back({a.named[0].first, negation(a.formula)});
      ways.push_back(atom(std::move(none)));
      break;
    }
    case Atom::Says::kind:
    case Atom::Says::text:
      DML_CHECK(false, "answered by cases() and scalar_of()");
  }
  return complements_[id] = any_of(std::move(ways));
}

// --- scalars

LanguageId Schema::scalar_of(Formula f, JsonKind kind, int depth) {
  if (depth > kDeepestFormula)
    refuse("the schema refers to itself without describing a value, or is nested too deeply");
  const Node n = nodes_[f];
  switch (n.kind) {
    case Node::Kind::yes:
      return Languages::kAnything;
    case Node::Kind::no:
      return Languages::kNone;
    case Node::Kind::atom: {
      const Atom& a = *atoms_[n.parts[0]];
      if (a.says == Atom::Says::kind) return a.kind == kind ? Languages::kAnything : Languages::kNone;
      return a.kind == kind ? a.language : Languages::kAnything;
    }
    case Node::Kind::negation:
      return l_.complement(scalar_of(n.parts[0], kind, depth + 1));
    case Node::Kind::reference:
      return scalar_of(resolved(f), kind, depth + 1);
    case Node::Kind::one_of:
    case Node::Kind::choice: {  // overlaps need no search: languages are closed under all operations
      std::vector<LanguageId> parts, ways;
      for (auto p : n.branches()) parts.push_back(scalar_of(p, kind, depth + 1));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        std::vector<LanguageId> all{scalar_of(n.held(i), kind, depth + 1)};
        for (std::size_t j = 0; j < parts.size(); ++j)
          if (j != i) all.push_back(l_.complement(parts[j]));
        ways.push_back(l_.all_of(std::move(all)));
      }
      return l_.either(std::move(ways));
    }
    case Node::Kind::all_of:
    case Node::Kind::any_of: {
      std::vector<LanguageId> parts;
      for (auto p : n.parts) parts.push_back(scalar_of(p, kind, depth + 1));
      return n.kind == Node::Kind::all_of ? l_.all_of(std::move(parts)) : l_.either(std::move(parts));
    }
  }
  return Languages::kNone;
}

LanguageId Schema::scalar(Formula f, JsonKind kind) {
  auto key = std::pair(f, kind);
  if (auto it = scalars_.find(key); it != scalars_.end()) return it->second;
  LanguageId out = scalar_of(f, kind, 0);
  // Languages of bounded numbers exclude exponents, as do their complements.
  if (kind == JsonKind::number) {
    if (out == Languages::kAnything) out = any_number(l_);
    else if (out != any_integer(l_))
      out = l_.all_of({out, l_.either({at_least(l_, {}, false), at_most(l_, {}, false)})});
    // The shortest multiple may be long, and takes long to find.
    if (!l_.has_multiples(out)) out = l_.all_of({out, l_.repetition(l_.any_character(), 1, longest_number_)});
  }
  if (l_.empty(out)) out = Languages::kNone;
  return scalars_[key] = out;
}

// Values are finite: a formula that is asked about while it is being decided is assumed to be unsatisfiable, and an
// answer that depends on that assumption is not cached.
bool Schema::satisfiable(Formula f) {
  f = resolved(f);
  if (f == kTrue || f == kFalse) return f == kTrue;
  if (auto it = satisfiable_.find(f); it != satisfiable_.end()) return it->second;
  if (std::find(in_question_.begin(), in_question_.end(), f) != in_question_.end()) {
    assumed_ = true;
    return false;
  }
  bool out = false;
  for (int k = 0; k < kJsonKinds && !out; ++k)
    if (auto kind = static_cast<JsonKind>(k); scalar_kind(kind)) out = scalar(f, kind) != Languages::kNone;
  if (out) return satisfiable_[f] = true;

  const Question question(*this);
  const bool outermost = in_question_.empty(), assumed_before = assumed_;
  if (in_question_.size() > kDeepestFormula) refuse("the schema is nested too deeply");
  in_question_.push_back(f);
  assumed_ = false;
  const std::size_t arrays_before = array_shapes_.size(), objects_before = object_shapes_.size();
  for (auto kind : {JsonKind::array, JsonKind::object}) {
    if (out) break;
    for (auto& c : cases(f, true, kind, 0)) {
      out = (kind == JsonKind::array ? merged_array(c) : merged_object(c)).has_value();
      if (out) break;
    }
  }
  array_shapes_.resize(arrays_before);  // they may depend on assumptions; arrays() and objects() recompute them
  object_shapes_.resize(objects_before);
  in_question_.pop_back();
  if (out || outermost || !assumed_) satisfiable_[f] = out;
  assumed_ = outermost ? false : assumed_ || assumed_before;
  return out;
}

}  // namespace dml
