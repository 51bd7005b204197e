// unevaluatedProperties and unevaluatedItems: schemas of the members and items that no adjacent keyword evaluates.
// Keywords that evaluate members and items may be in branches of anyOf, oneOf and if, which hold or not: a member that
// a branch evaluates either satisfies the schema, or that branch holds. (A branch need not fail to be disregarded: its
// members then satisfy the schema as well, which is stricter.) In one oneOf, each branch is tracked separately: if it
// holds, no other one does, so the remaining members are known, and many branches do not multiply.
#include <algorithm>
#include <map>
#include <set>

#include "constraint/regex.h"
#include "constraint/schema_parts.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;

// What a subschema evaluates in values for which `when` holds.
struct Schema::Compiler::Evaluated {
  Formula when = kTrue;
  std::vector<std::string> names{};
  std::vector<Languages::Id> patterns{};
  bool members = false, items = false;  // all members, all items
  Formula contains = kFalse;            // evaluates items that satisfy this
  std::uint32_t first_items = 0;
  // For a branch of a oneOf that always applies: the index in choices_, the branch, and in `when` the condition for
  // that branch.
  std::size_t choice = kNoChoice, branch = 0;
  Formula within = kTrue;

  static constexpr std::size_t kNoChoice = SIZE_MAX;
};

// The evaluations of a branch that may hold, combined with those of branches inside it.
void Schema::Compiler::evaluated_if(const Json& branch, Formula holds, const std::string& path,
                                    std::vector<Evaluated>& out) {
  for (Evaluated& e : evaluated(branch, path)) {
    if (holds != kTrue) e.choice = Evaluated::kNoChoice;
    e.when = schema_.both(e.when, holds);
    out.push_back(std::move(e));
  }
}

// The evaluations of the branches of oneOf.
void Schema::Compiler::evaluated_in_choice(const Json& s, const std::string& path, std::vector<Evaluated>& out) {
  const Json& list = *value_at(s, "oneOf");
  const std::size_t number = choices_.size();  // branches may contain further choices
  choices_.emplace_back();
  std::vector<Formula> branches;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}/oneOf/{}", path, i);
    branches.push_back(compile(list[i], at));
    for (Evaluated& e : evaluated(list[i], at)) {
      e.within = e.when;
      e.when = schema_.both(e.when, branches[i]);
      e.choice = number, e.branch = i;
      out.push_back(std::move(e));
    }
  }
  choices_[number] = {std::move(branches), one_of(s, path)};
}

void Schema::Compiler::evaluated_in_branches(const Json& s, const std::string& path, std::vector<Evaluated>& out) {
  if (const Json* list = value_at(s, "anyOf"); list && list->is_array())
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string at = fmt::format("{}/anyOf/{}", path, i);
      evaluated_if((*list)[i], compile((*list)[i], at), at, out);
    }
  if (const Json* list = value_at(s, "oneOf"); list && list->is_array()) evaluated_in_choice(s, path, out);
  if (const Json* condition = value_at(s, "if")) {
    const Formula f = compile(*condition, path + "/if");
    evaluated_if(*condition, f, path + "/if", out);
    if (const Json* then = value_at(s, "then")) evaluated_if(*then, f, path + "/then", out);
    if (const Json* otherwise = value_at(s, "else")) evaluated_if(*otherwise, schema_.negation(f), path + "/else", out);
  }
  if (const Json* schemas = value_at(s, "dependentSchemas"); schemas && schemas->is_object())
    for (auto& [name, value] : schemas->items())
      evaluated_if(value, has(name), path + "/dependentSchemas/" + name, out);
}

std::vector<Schema::Compiler::Evaluated> Schema::Compiler::evaluated(const Json& s, const std::string& path,
                                                                     bool itself) {
  if (!s.is_object()) return {};
  if (++depth_ > kDeepestSchema) refuse(path, "unevaluated…", "the keywords beside it are nested too deeply");
  const std::string before = std::exchange(base_, bases_[&s]);
  Evaluated own;
  if (const Json* properties = value_at(s, "properties"); properties && properties->is_object())
    for (auto& [name, value] : properties->items()) own.names.push_back(name);
  if (const Json* patterns = value_at(s, "patternProperties"); patterns && patterns->is_object())
    for (auto& [regex, value] : patterns->items()) own.patterns.push_back(regex_search(l_, regex));
  own.members = value_at(s, "additionalProperties") || (!itself && value_at(s, "unevaluatedProperties"));
  if (const Json* contained = draft_ >= 2020 ? value_at(s, "contains") : nullptr)
    own.contains = compile(*contained, path + "/contains");
  const Json* items = value_at(s, "items");
  const bool old = items && items->is_array();
  own.items =
      (items && !old) || (old && value_at(s, "additionalItems")) || (!itself && value_at(s, "unevaluatedItems"));
  if (const Json* prefix = old ? items : value_at(s, "prefixItems"); prefix && prefix->is_array())
    own.first_items = static_cast<std::uint32_t>(prefix->size());
  std::vector<Evaluated> all{std::move(own)};
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const Json* ref = value_at(s, keyword); ref && ref->is_string()) {
      const Place place = *place_of(ref->get<std::string>(), path);
      evaluated_if(*place.json, kTrue, place.path, all);
    }
  if (const Json* list = value_at(s, "allOf"); list && list->is_array())
    for (std::size_t i = 0; i < list->size(); ++i)
      evaluated_if((*list)[i], kTrue, fmt::format("{}/allOf/{}", path, i), all);
  evaluated_in_branches(s, path, all);
  base_ = before;
  --depth_;
  return all;
}

// `value` for every member that is not evaluated.
Formula Schema::Compiler::other_members(const std::vector<Evaluated>& all, Formula value) {
  Atom main{.says = Atom::Says::members, .kind = JsonKind::object, .formula = value};
  std::vector<Formula> whole;                         // conditions under which all are evaluated
  std::map<std::string, std::vector<Formula>> names;  // conditions under which each name is evaluated
  std::map<Languages::Id, std::vector<Formula>> patterns;
  for (const Evaluated& e : all) {
    if (e.members) whole.push_back(e.when);
    for (auto& name : e.names) names[name].push_back(e.when);
    for (auto pattern : e.patterns) patterns[pattern].push_back(e.when);
  }
  std::vector<std::pair<std::u32string, Languages::Id>> known;
  std::vector<Formula> both;
  for (auto& [name, when] : names) {
    for (auto& [pattern, also] : patterns)
      if (schema_.matches(pattern, name)) when.insert(when.end(), also.begin(), also.end());
    main.named.push_back({name, kTrue});
    known.push_back({code_points(name), Languages::kEmptyText});
    Atom here{.says = Atom::Says::members, .kind = JsonKind::object, .named = {{name, value}}};
    when.push_back(schema_.atom(std::move(here)));
    both.push_back(schema_.any_of(when));
  }
  const Languages::Id other_names =
      patterns.empty() ? Languages::kNone : l_.complement(l_.dictionary(std::move(known)));
  for (auto& [pattern, when] : patterns) {
    main.patterns.push_back({pattern, kTrue});
    Atom those{.says = Atom::Says::members,
               .kind = JsonKind::object,
               .patterns = {{l_.all_of({pattern, other_names}), value}}};
    when.push_back(schema_.atom(std::move(those)));
    both.push_back(schema_.any_of(when));
  }
  both.push_back(schema_.atom(std::move(main)));
  whole.push_back(schema_.all_of(std::move(both)));
  return schema_.any_of(std::move(whole));
}

// `value` for every item that is not evaluated.
Formula Schema::Compiler::other_items(const std::vector<Evaluated>& all, Formula value) {
  std::vector<Formula> whole;
  std::set<std::uint32_t> counts{0};
  for (const Evaluated& e : all) {
    if (e.items) whole.push_back(e.when);
    counts.insert(e.first_items);
    if (e.when == kTrue) value = schema_.any_of({value, e.contains});
  }
  std::vector<Formula> both;
  for (auto from = counts.begin(); from != counts.end(); ++from) {  // the items from there to the next count
    const auto next = std::next(from);
    Atom here{.says = Atom::Says::items, .kind = JsonKind::array};
    here.prefix.assign(*from, kTrue);
    if (next == counts.end()) here.formula = value;
    else here.prefix.resize(*next, value);
    std::vector<Formula> ways{schema_.atom(std::move(here))};
    for (const Evaluated& e : all)
      if (next != counts.end() && e.first_items >= *next) ways.push_back(e.when);
    both.push_back(schema_.any_of(std::move(ways)));
  }
  whole.push_back(schema_.all_of(std::move(both)));
  return schema_.any_of(std::move(whole));
}

// `value` for every member, or item, that is not evaluated; branch by branch of the largest choice.
Formula Schema::Compiler::left_over(const std::vector<Evaluated>& all, Formula value, bool members) {
  auto left = [&](const std::vector<Evaluated>& looked_at) {
    return members ? other_members(looked_at, value) : other_items(looked_at, value);
  };
  std::size_t largest = Evaluated::kNoChoice;
  for (const Evaluated& e : all)
    if (e.choice != Evaluated::kNoChoice &&
        (largest == Evaluated::kNoChoice || choices_[e.choice].branches.size() > choices_[largest].branches.size()))
      largest = e.choice;
  if (largest == Evaluated::kNoChoice) return left(all);
  const Choice choice = choices_[largest];
  std::vector<Formula> ways;
  for (std::size_t branch = 0; branch < choice.branches.size(); ++branch) {
    std::vector<Evaluated> here;
    for (const Evaluated& e : all) {
      if (e.choice == largest && e.branch != branch) continue;
      here.push_back(e);
      if (e.choice == largest) here.back().when = e.within;
    }
    ways.push_back(schema_.both(choice.branches[branch], left(here)));
  }
  // For branches that may hold together; after one is fixed, few others hold.
  if (schema_.nodes_[choice.whole].kind == Node::Kind::one_of) return schema_.choice(choice.branches, ways);
  return schema_.any_of(std::move(ways));
}

void Schema::Compiler::unevaluated_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    const Json* others = draft_ >= 2019 ? value_at(s, keyword) : nullptr;
    if (!others) continue;
    const Formula value = compile(*others, path + "/" + keyword);
    if (value == kTrue) continue;
    const bool members = others == value_at(s, "unevaluatedProperties");
    out.push_back(left_over(evaluated(s, path, true), value, members));
  }
}

}  // namespace dml
