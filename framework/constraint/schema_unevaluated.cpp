// unevaluatedProperties and unevaluatedItems: schemas of the members and items that nothing beside them has looked at.
// What has been looked at depends on which branches of anyOf, oneOf and if a value satisfies: each combination is an
// alternative. A branch need not fail to be left out of one: its members are then under the schema too, which asks for
// more.
#include <algorithm>

#include "constraint/regex.h"
#include "constraint/schema_parts.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;

namespace {

constexpr std::size_t kMostAlternatives = 64;
constexpr std::size_t kFewBranches = 4;  // of anyOf, of which every combination is an alternative

}  // namespace

// What is looked at where `when` holds.
struct Schema::Compiler::Evaluated {
  Formula when = kTrue;
  std::vector<std::pair<std::string, Formula>> names{};
  std::vector<std::pair<Languages::Id, Formula>> patterns{};
  bool members = false, items = false;  // all of them
  bool contains = false;                // items that satisfy a `contains`
  std::size_t first_items = 0;

  bool nothing() const {
    return names.empty() && patterns.empty() && !members && !items && !contains && first_items == 0;
  }
};

Schema::Compiler::Evaluated Schema::Compiler::together(const Evaluated& a, const Evaluated& b) {
  Evaluated out = a;
  out.when = schema_.both(a.when, b.when);
  out.names.insert(out.names.end(), b.names.begin(), b.names.end());
  out.patterns.insert(out.patterns.end(), b.patterns.begin(), b.patterns.end());
  out.members |= b.members;
  out.items |= b.items;
  out.contains |= b.contains;
  out.first_items = std::max(a.first_items, b.first_items);
  return out;
}

// Each of the alternatives with each of the others.
void Schema::Compiler::combine(std::vector<Evaluated>& all, const std::vector<Evaluated>& others,
                               const std::string& path) {
  std::vector<Evaluated> out;
  for (const Evaluated& a : all)
    for (const Evaluated& b : others) out.push_back(together(a, b));
  if (out.size() > kMostAlternatives) refuse(path, "unevaluated…", "too many alternatives stand beside it");
  all = std::move(out);
}

// A branch that may hold: with what it looks at, or with nothing.
std::vector<Schema::Compiler::Evaluated> Schema::Compiler::evaluated_if(const Json& branch, Formula holds,
                                                                        const std::string& path) {
  std::vector<Evaluated> out;
  for (Evaluated& e : evaluated(branch, path)) {
    e.when = schema_.both(e.when, holds);
    if (!e.nothing()) out.push_back(std::move(e));
  }
  return out;
}

std::vector<Schema::Compiler::Evaluated> Schema::Compiler::evaluated_in_branches(const Json& s,
                                                                                 const std::string& path) {
  std::vector<Evaluated> all{{}};
  auto maybe = [&](std::vector<Evaluated> branch) {
    branch.push_back({});
    combine(all, branch, path);
  };
  for (const char* keyword : {"anyOf", "oneOf"})
    if (const Json* list = member(s, keyword); list && list->is_array()) {
      std::vector<std::vector<Evaluated>> branches;
      for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string at = fmt::format("{}/{}/{}", path, keyword, i);
        if (auto b = evaluated_if((*list)[i], compile((*list)[i], at), at); !b.empty())
          branches.push_back(std::move(b));
      }
      if (keyword[0] == 'a') {
        if (branches.size() > kFewBranches)
          refuse(path, "unevaluated…", "not supported beside so many branches of 'anyOf'");
        for (auto& b : branches) maybe(std::move(b));
      } else {  // one of them
        std::vector<Evaluated> any;
        for (auto& b : branches) any.insert(any.end(), b.begin(), b.end());
        maybe(std::move(any));
      }
    }
  if (const Json* condition = member(s, "if")) {
    const Formula f = compile(*condition, path + "/if");
    std::vector<Evaluated> both = evaluated_if(*condition, f, path + "/if");
    both.push_back({.when = f});
    if (const Json* then = member(s, "then")) combine(both, evaluated(*then, path + "/then"), path);
    if (const Json* otherwise = member(s, "else"))
      for (Evaluated& e : evaluated_if(*otherwise, schema_.negation(f), path + "/else")) both.push_back(std::move(e));
    maybe(std::move(both));
  }
  if (const Json* schemas = member(s, "dependentSchemas"); schemas && schemas->is_object())
    for (auto& [name, value] : schemas->items())
      maybe(evaluated_if(value, has(name), path + "/dependentSchemas/" + name));
  return all;
}

std::vector<Schema::Compiler::Evaluated> Schema::Compiler::evaluated(const Json& s, const std::string& path,
                                                                     bool itself) {
  if (!s.is_object()) return {{}};
  if (++depth_ > kDeepestSchema) refuse(path, "unevaluated…", "what stands beside it is nested too deeply");
  const std::string before = std::exchange(base_, bases_[&s]);
  Evaluated own;
  if (const Json* properties = member(s, "properties"); properties && properties->is_object())
    for (auto& [name, value] : properties->items()) own.names.push_back({name, kTrue});
  if (const Json* patterns = member(s, "patternProperties"); patterns && patterns->is_object())
    for (auto& [regex, value] : patterns->items()) own.patterns.push_back({regex_search(l_, regex), kTrue});
  own.members = member(s, "additionalProperties") || (!itself && member(s, "unevaluatedProperties"));
  own.contains = draft_ >= 2020 && member(s, "contains");
  const Json* items = member(s, "items");
  const bool old = items && items->is_array();
  own.items = (items && !old) || (old && member(s, "additionalItems")) || (!itself && member(s, "unevaluatedItems"));
  if (const Json* prefix = old ? items : member(s, "prefixItems"); prefix && prefix->is_array())
    own.first_items = prefix->size();
  std::vector<Evaluated> all{own};
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const Json* ref = member(s, keyword); ref && ref->is_string()) {
      const Place place = *place_of(ref->get<std::string>(), path);
      combine(all, evaluated(*place.json, place.path), path);
    }
  if (const Json* list = member(s, "allOf"); list && list->is_array())
    for (std::size_t i = 0; i < list->size(); ++i)
      combine(all, evaluated((*list)[i], fmt::format("{}/allOf/{}", path, i)), path);
  combine(all, evaluated_in_branches(s, path), path);
  base_ = before;
  --depth_;
  return all;
}

void Schema::Compiler::unevaluated_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    const Json* others = draft_ >= 2019 ? member(s, keyword) : nullptr;
    if (!others) continue;
    const Formula value = compile(*others, path + "/" + keyword);
    if (value == kTrue) continue;
    const bool members = others == member(s, "unevaluatedProperties");
    std::vector<Formula> any;
    for (const Evaluated& e : evaluated(s, path, true)) {
      if (!members && e.contains) refuse(path, keyword, "not supported beside 'contains'");
      Atom a{.says = members ? Atom::Says::members : Atom::Says::items,
             .kind = members ? JsonKind::object : JsonKind::array};
      a.formula = (members ? e.members : e.items) ? kTrue : value;
      if (members) a.named = e.names, a.patterns = e.patterns;
      else a.prefix.assign(e.first_items, kTrue);
      any.push_back(schema_.both(e.when, schema_.atom(std::move(a))));
    }
    out.push_back(schema_.any_of(std::move(any)));
  }
}

}  // namespace dml
