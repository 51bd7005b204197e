// Settings from the command line: parses the arguments and overrides values of the tree.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "recipe/reader.h"
#include "recipe/stages.h"

namespace dml {
namespace recipe {
namespace {

bool is_known(const std::string& key) {
  if (find_nested(key) || find_flag(key) || other_keys().find_unmapped(key)) return true;
  auto dot = key.rfind('.');
  if (dot == key.npos) return false;
  const Field* parent = find_nested(key.substr(0, dot));
  return parent && parent->codec->table() && parent->codec->table()->find_unmapped(key.substr(dot + 1));
}

[[noreturn]] void unknown_option(const std::string& argument, const std::string& key) {
  const auto dot = key.rfind('.');
  const Field* parent = dot == key.npos ? nullptr : find_nested(key.substr(0, dot));
  const Table* inside = parent ? parent->codec->table() : nullptr;
  std::string hint = key_hint(inside ? key.substr(dot + 1) : key, inside);
  if (const auto name = hint.find('\''); name != hint.npos && hint.starts_with("; did you mean"))
    hint.insert(name + 1, fmt::format("--{}", inside ? key.substr(0, dot + 1) : ""));
  throw UserError("unknown option '{}'{}", shown(argument), hint);
}

bool is_switch(const std::string& key) {
  const Field* field = find_nested(key);
  return find_flag(key) || (field && field->codec->schema(*field).value("type", Json()) == "boolean");
}

bool is_truth(const std::string& text) {
  auto value = canonical_bool(text);
  return value == "true" || value == "false" || text.empty();
}

void move_to(Place place, Node& node) {
  node.place = place;
  for (auto& key : node.keys) key.place = place;
  for (auto& item : node.items) move_to(place, item);
}

bool is_unset(const std::string& value) { return value.empty() || value == "null" || value == "~"; }

/// The node of an override's text: a list or table ("[q_proj, v_proj]") is parsed as YAML, everything else is a scalar.
Node value_node(const Override& o, Place place) {
  Node node;
  node.place = place;
  if (is_unset(o.value)) return node;
  const Field* field = find_nested(o.key);
  Json schema = field ? field->codec->schema(*field) : Json::object();
  bool scalar = schema.contains("enum") || (schema.contains("type") && schema["type"] != "array" &&
                                            schema["type"] != "object" && !schema["type"].is_array());
  if (!scalar && (o.value[0] == '[' || o.value[0] == '{')) {
    Report report("--" + o.key);
    node = read_yaml(o.value, report);
    move_to(place, node);
    return node;
  }
  node.kind = Node::Kind::scalar;
  node.text = o.value;
  return node;
}

/// The value of a key, or of an alias of it, in a map; added at `place` if it is missing.
Node& member(Node& map, const std::string& key, bool top, Place place) {
  const Field* wanted = top ? find_field(key).field : nullptr;
  for (std::size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i].text == key || (wanted && find_field(map.keys[i].text).field == wanted)) return map.items[i];
  Node name;
  name.kind = Node::Kind::scalar;
  name.text = key;
  name.place = place;
  map.keys.push_back(name);
  Node& item = map.items.emplace_back();
  item.place = place;
  return item;
}

/// Removes a key ("rl_beta", "trl.beta"), or an alias of it, from a table; `inside`: that of its fields, null at the
/// top.
void remove_member(Node& map, const std::string& key, const Table* inside = nullptr) {
  const auto field_of = [&](std::string_view name) { return inside ? inside->find(name) : find_field(name).field; };
  const auto dot = key.find('.');
  const Field* wanted = field_of(key.substr(0, dot));
  for (std::size_t i = map.keys.size(); i-- > 0;)
    if (field_of(map.keys[i].text) != wanted) {
      continue;
    } else if (dot != key.npos) {
      remove_member(map.items[i], key.substr(dot + 1), wanted->codec->table());
    } else {
      map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
      map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

void apply(Node& root, const Override& o, Report& report) {
  const Place place = report.add_override(o.place);
  Node* at = &root;
  std::string_view rest = o.key;
  while (!rest.empty()) {
    std::string part(rest.substr(0, rest.find('.')));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.find_first_not_of("0123456789") == part.npos && at != &root && at->kind != Node::Kind::map) {
      if (at->is_null()) at->kind = Node::Kind::list;
      std::size_t index = part.size() > 6 ? SIZE_MAX : std::stoul(part);
      if (at->kind != Node::Kind::list || index > at->items.size())
        return report.error(place, fmt::format("--{}: the list has {} entries", o.key, at->items.size()));
      if (index == at->items.size()) at->items.emplace_back().place = place;
      at = &at->items[index];
    } else {
      if (at->is_null()) at->kind = Node::Kind::map;
      if (at->kind != Node::Kind::map)
        return report.error(place, fmt::format("--{}: this is not a table in the recipe", o.key));
      at = &member(*at, part, at == &root, place);
    }
  }
  *at = value_node(o, place);
}

}  // namespace

void apply_overrides(Node& root, const std::vector<Override>& overrides, Report& report) {
  const auto overridden = [&](const std::string& key) {
    return std::ranges::any_of(overrides, [&](const Override& o) { return o.key == key && !is_unset(o.value); });
  };
  for (const Override& o : overrides)
    for (const std::string& other : alternatives_of(o.key))
      if (overridden(o.key) && !overridden(other)) remove_member(root, other);
  for (const auto& o : overrides) apply(root, o, report);
}

}  // namespace recipe

std::vector<std::string> alternatives_of(const std::string& key) {
  for (auto [a, b] : recipe::kAlternatives)
    if (key == a || key == b) return {key == a ? b : a};
  const recipe::Field* field = recipe::find_field(key).field;
  std::vector<std::string> others(recipe::kBetas.begin(), recipe::kBetas.end());
  return std::erase(others, field ? field->key : key) > 0 ? others : std::vector<std::string>{};
}

std::vector<Override> parse_overrides(const std::vector<std::string>& arguments) {
  using namespace recipe;
  std::vector<Override> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() < 3)
      throw UserError("unexpected argument '{}'; settings are given as --key value", shown(argument));
    auto equals = argument.find('=');
    std::string key = argument.substr(2, equals == argument.npos ? equals : equals - 2);
    std::ranges::replace(key, '-', '_');
    if (equals != argument.npos) {
      if (!is_known(key)) unknown_option(argument.substr(0, equals), key);
      out.push_back({key, argument.substr(equals + 1)});
    } else if (!is_known(key) && key.starts_with("no_") && is_switch(key.substr(3))) {
      out.push_back({key.substr(3), "false"});
    } else if (!is_known(key)) {
      unknown_option(argument, key);
    } else if (is_switch(key) && (i + 1 == arguments.size() || !is_truth(arguments[i + 1]))) {
      out.push_back({key, "true"});
    } else if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--")) {
      throw UserError("option '{}' needs a value{}", argument,
                      i + 1 < arguments.size() ? "; write --key=value if the value begins with --" : "");
    } else {
      out.push_back({key, arguments[++i]});
    }
  }
  return out;
}

}  // namespace dml
