// Branches of oneOf that exclude each other by a constant: each has a different `const` or `enum`, or is an object with
// such a required member. At most one of them holds, so together they are a single branch with alternatives. The rest
// of oneOf then becomes alternatives by what its branches have in common.
#include <algorithm>
#include <set>

#include "constraint/schema_parts.h"

namespace dml {

using Formula = Schema::Formula;

namespace {

constexpr int kDeepestLook = 8;  // maximum nesting of references and allOf

}  // namespace

// Calls use(schema) for `s` and for what it includes by reference and allOf, all of which hold for every value that
// satisfies `s`.
template <class Use>
void Schema::Compiler::each_implied(const Json& s, int depth, Use use) {
  if (!s.is_object() || depth > kDeepestLook) return;
  const std::string before = std::exchange(base_, bases_[&s]);
  const Json* ref = value_at(s, "$ref");
  const bool refers = ref && ref->is_string();
  if (refers) each_implied(*place_of(ref->get<std::string>(), "#")->json, depth + 1, use);
  if (!refers || draft_ > 7) {
    use(s);
    if (const Json* all = value_at(s, "allOf"); all && all->is_array())
      for (const Json& each : *all) each_implied(each, depth + 1, use);
  }
  base_ = before;
}

// A list of all values of the schema; null if it is not limited to a list.
const Json* Schema::Compiler::constants(const Json& s, std::deque<Json>& made) {
  const Json* out = nullptr;
  each_implied(s, 0, [&](const Json& implied) {
    if (out) return;
    if (const Json* list = value_at(implied, "enum"); list && list->is_array()) out = list;
    if (const Json* value = value_at(implied, "const")) out = &made.emplace_back(Json::array({*value}));
  });
  return out;
}

// The constants by which a branch may differ from others: "" is its value, "." and a name that of a member. `beside`:
// the schema that contains oneOf, which may require objects and the member. `object`: only objects are considered.
Schema::Compiler::Marks Schema::Compiler::marks(const Json& branch, const Json& beside, bool object) {
  Marks out;
  std::deque<Json> made;
  if (const Json* values = constants(branch, made)) out[""] = {values->begin(), values->end()};
  std::set<std::string> required;
  std::map<std::string, const Json*> members;
  const auto ask = [&](const Json& schema) {
    if (const Json* type = value_at(schema, "type")) object |= *type == "object";
    if (const Json* names = value_at(schema, "required"); names && names->is_array())
      for (const Json& name : *names)
        if (name.is_string()) required.insert(name.get<std::string>());
  };
  ask(beside);
  each_implied(branch, 0, [&](const Json& implied) {
    ask(implied);
    if (const Json* properties = value_at(implied, "properties"); properties && properties->is_object())
      for (auto& [name, value] : properties->items())
        if (const Json* values = constants(value, made)) members.emplace(name, values);
  });
  if (object)
    for (auto& [name, values] : members)
      if (required.contains(name)) out["." + name] = {values->begin(), values->end()};
  return out;
}

// The largest group of branches that differ in one constant; fewer than two: there is none.
std::vector<std::size_t> Schema::Compiler::excluding(const std::vector<Marks>& all) {
  std::map<std::string, std::vector<std::size_t>> by_mark;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (auto& [mark, values] : all[i]) by_mark[mark].push_back(i);
  std::vector<std::size_t> best;
  for (auto& [mark, branches] : by_mark) {
    if (branches.size() <= best.size()) continue;
    std::map<Json, int> uses;
    for (std::size_t i : branches)
      for (const Json& value : all[i].at(mark)) ++uses[value];
    std::vector<std::size_t> apart;
    for (std::size_t i : branches)
      if (std::ranges::all_of(all[i].at(mark), [&](const Json& value) { return uses[value] == 1; })) apart.push_back(i);
    if (apart.size() > best.size()) best = std::move(apart);
  }
  return best;
}

Formula Schema::Compiler::one_of_marked(std::vector<Formula> branches, std::vector<Marks> known) {
  while (true) {
    const std::vector<std::size_t> group = excluding(known);
    if (group.size() < 2) return schema_.one_of(std::move(branches));
    std::vector<Formula> apart, others;
    std::vector<Marks> left;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      if (std::ranges::binary_search(group, i)) {
        apart.push_back(branches[i]);
      } else {
        others.push_back(branches[i]);
        left.push_back(std::move(known[i]));
      }
    }
    others.push_back(schema_.any_of(std::move(apart)));
    left.emplace_back();
    branches = std::move(others);
    known = std::move(left);
  }
}

// Branches that only constrain members may exclude each other for objects, while all hold for other values.
Formula Schema::Compiler::one_of(const Json& s, const std::string& path) {
  const std::vector<Formula> branches = subschemas(s, "oneOf", path);
  std::vector<Marks> marked, of_objects;
  for (const Json& branch : *value_at(s, "oneOf")) {
    marked.push_back(marks(branch, s, false));
    of_objects.push_back(marks(branch, s, true));
  }
  // Created first: parts are evaluated in order of creation, and `other` rules objects out.
  const Formula object = schema_.of_kind(JsonKind::object), other = schema_.negation(object);
  const Formula any = one_of_marked(branches, marked), where_object = one_of_marked(branches, of_objects);
  if (any == where_object) return any;
  return schema_.any_of({schema_.both(object, where_object), schema_.both(other, any)});
}

// Not deduplicated: a branch that occurs twice can never be the only one.
Formula Schema::one_of(std::vector<Formula> parts) {
  return parts.size() == 1 ? parts[0] : add({Node::Kind::one_of, std::move(parts)});
}

Formula Schema::choice(std::vector<Formula> branches, const std::vector<Formula>& held) {
  branches.insert(branches.end(), held.begin(), held.end());
  return add({Node::Kind::choice, std::move(branches)});
}

// Exactly one branch: each branch without those that it shares a value with.
Formula Schema::one_of_expanded(Formula f) {
  if (auto it = expanded_.find(f); it != expanded_.end()) return it->second;
  const Node node = nodes_[f];
  const std::vector<Formula> branches = node.branches();
  const bool before = assumed_;
  bool rests = false;
  auto overlap = [&](Formula a, Formula b) {
    assumed_ = false;
    const bool out = satisfiable(all_of({a, b})) || assumed_ || left_out_;  // if uncertain, treat them as overlapping
    rests = rests || assumed_;
    return out;
  };
  std::vector<Formula> out;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    std::vector<Formula> all{node.held(i)};
    for (std::size_t j = 0; j < branches.size(); ++j)
      if (j != i && overlap(node.held(i), branches[j])) all.push_back(negation(branches[j]));
    out.push_back(all_of(std::move(all)));
  }
  const Formula any = any_of(std::move(out));
  if (!rests) expanded_[f] = any;
  assumed_ = before || rests;
  return any;
}

}  // namespace dml
