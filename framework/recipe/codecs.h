// Codecs of all member types of recipe.h, and Table::add, which selects the codec of a member.
#pragma once

#include <optional>
#include <type_traits>

#include "recipe/codec_values.h"
#include "recipe/spellings.h"

namespace dml::recipe {

/// Kind<T>: how values of type T are read, written and described.
template <class T>
struct Kind;

template <>
struct Kind<bool> {
  static void read(const Node& n, bool& to, const Field& f, const std::string& path, Reading& r) {
    if (!parse_bool(n, to)) wrong(n, f, path, r);
  }
  static Json write(bool v, const Field&) { return v; }
  static std::string expects(const Field&) { return "true or false"; }
  static Json schema(const Field&) { return {{"type", "boolean"}}; }
};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Kind<T> {
  static void read(const Node& n, T& to, const Field& f, const std::string& path, Reading& r) {
    std::int64_t wide = to;
    read_integer(n, wide, f, path, r);
    to = static_cast<T>(wide);
  }
  static Json write(T v, const Field& f) {
    auto i = static_cast<std::size_t>(v);
    return i < f.rules.words.size() ? Json(f.rules.words[i]) : Json(v);
  }
  static std::string expects(const Field& f) { return expects_number("an integer", f); }
  static Json schema(const Field& f) { return number_schema("integer", f); }
};

template <>
struct Kind<double> {
  static void read(const Node& n, double& to, const Field& f, const std::string& path, Reading& r) {
    read_number(n, to, f, path, r);
  }
  static Json write(double v, const Field&) { return v; }
  static std::string expects(const Field& f) { return expects_number("a number", f); }
  static Json schema(const Field& f) { return number_schema("number", f); }
};

template <>
struct Kind<std::string> {
  static void read(const Node& n, std::string& to, const Field& f, const std::string& path, Reading& r) {
    read_text(n, to, f, path, r);
  }
  static Json write(const std::string& v, const Field&) { return v; }
  static std::string expects(const Field& f) { return expects_text(f); }
  static Json schema(const Field& f) { return text_schema(f); }
};

template <>
struct Kind<Json> {
  static void read(const Node& n, Json& to, const Field& f, const std::string& path, Reading& r) {
    read_json(n, to, f, path, r);
  }
  static Json write(const Json& v, const Field&) { return v; }
  static std::string expects(const Field& f) { return f.rules.pairs ? "a table, or text like 'k=v,k=v'" : "a table"; }
  static Json schema(const Field&) { return {{"type", "object"}}; }
};

/// A type whose values have spellings (EnumRow).
template <class E>
struct Spelled {
  static std::vector<std::string> spellings(const Field& f) {
    if (!f.rules.words.empty()) return f.rules.words;
    std::vector<std::string> out;
    for (const auto& row : kEnumRows<E>) out.push_back(row.spelling);
    return out;
  }
  static void read(const Node& n, E& to, const Field& f, const std::string& path, Reading& r) {
    auto allowed = spellings(f);
    for (const auto& row : kEnumRows<E>) {
      if (!n.is_scalar() || (n.text != row.spelling && canonical_bool(n.text) != row.spelling)) continue;
      if (std::find(allowed.begin(), allowed.end(), row.spelling) == allowed.end()) continue;
      to = row.value;
      if (row.notice) r.report.notice(fmt::format("{}: {}", path, row.notice));
      return;
    }
    wrong_choice(n, allowed, path, r);
  }
  static Json write(E v, const Field&) { return as_json(spelling_of(v)); }
  static std::string expects(const Field& f) { return expects_one_of(spellings(f)); }
  static Json schema(const Field& f) {
    Json choices = Json::array();
    for (const auto& s : spellings(f)) choices.push_back(as_json(s));
    return {{"enum", choices}};
  }

 private:
  static Json as_json(std::string_view spelling) {
    return spelling == "true" ? Json(true) : spelling == "false" ? Json(false) : Json(spelling);
  }
};

template <class E>
requires std::is_enum_v<E>
struct Kind<E> : Spelled<E> {
};
/// An unset DType has a spelling, too: "auto".
template <>
struct Kind<std::optional<DType>> : Spelled<std::optional<DType>> {};

template <class T>
struct Kind<std::optional<T>> {
  static void read(const Node& n, std::optional<T>& to, const Field& f, const std::string& path, Reading& r) {
    if (n.is_scalar() && n.text.empty()) return;  // "" also means unset
    if (stands_for_none(n, f)) {
      to.reset();
      r.off.insert(path);
      return;
    }
    T value{};
    const std::size_t errors = r.report.errors();
    Kind<T>::read(n, value, f, path, r);
    if (r.report.errors() == errors) to = std::move(value);
  }
  static Json write(const std::optional<T>& v, const Field& f) { return v ? Kind<T>::write(*v, f) : Json(nullptr); }
  static std::string expects(const Field& f) { return Kind<T>::expects(f); }
  static Json schema(const Field& f) { return Kind<T>::schema(f); }
};

/// A struct with its own table.
template <class S>
requires(std::is_same_v<S, SpecialTokens> || std::is_same_v<S, DatasetEntry> || std::is_same_v<S, PromptFormat> ||
         std::is_same_v<S, LrGroup> || std::is_same_v<S, ScoreFilter> || std::is_same_v<S, TrlSettings> ||
         std::is_same_v<S, DynamicCheckpoint> || std::is_same_v<S, EvalEntry>) struct Kind<S> {
  static void read(const Node& n, S& to, const Field& f, const std::string& path, Reading& r) {
    if (n.kind == Node::Kind::map) read_table(table(), n, &to, path + ".", r);
    else wrong(n, f, path, r);
  }
  static Json write(const S& v, const Field&) { return write_table(table(), &v); }
  static std::string expects(const Field&) { return "a table"; }
  static Json schema(const Field&) { return table_schema(table()); }
  static const Table& table() { return recipe::table<S>(); }
};

/// A list. A single value is read as a list of one, except for lists of tables.
template <class T>
struct Kind<std::vector<T>> {
  static constexpr bool kTables = requires { Kind<T>::table(); };
  static void read(const Node& n, std::vector<T>& to, const Field& f, const std::string& path, Reading& r) {
    to.clear();
    if (n.is_scalar() && !kTables) {
      if (!n.text.empty()) Kind<T>::read(n, to.emplace_back(), f, path, r);
      return;
    }
    if (n.kind != Node::Kind::list) return wrong(n, f, path, r);
    for (std::size_t i = 0; i < n.items.size(); ++i) {
      std::string name = fmt::format("{}.{}", path, i);
      r.given.emplace(name, n.items[i].place);
      if (n.items[i].is_null()) r.report.error(n.items[i].place, fmt::format("'{}' has no value", name));
      else Kind<T>::read(n.items[i], to.emplace_back(), f, name, r);
    }
  }
  static Json write(const std::vector<T>& v, const Field& f) {
    Json out = Json::array();
    for (const auto& item : v) out.push_back(Kind<T>::write(item, f));
    return out;
  }
  static std::string expects(const Field& f) { return "a list; each entry " + Kind<T>::expects(f); }
  static Json schema(const Field& f) { return {{"type", "array"}, {"items", Kind<T>::schema(f)}}; }
  static const Table& table() requires kTables { return Kind<T>::table(); }
};

template <class K, class T>
T& entry_of(std::map<K, T>& table, const K& key) {
  return table[key];
}
template <class T>
T& entry_of(std::vector<std::pair<std::string, T>>& table, const std::string& key) {
  return table.emplace_back(key, T{}).second;
}

/// A table of any keys: a map, or a vector where the order matters.
template <class Table, class K, class T>
struct TableKind {
  static void read(const Node& n, Table& to, const Field& f, const std::string& path, Reading& r) {
    if (n.kind != Node::Kind::map) return wrong(n, f, path, r);
    to.clear();
    for (std::size_t i = 0; i < n.keys.size(); ++i) {
      K key{};
      const std::string name = path + "." + shown(n.keys[i].text);
      if constexpr (std::is_same_v<K, std::string>) key = n.keys[i].text;
      else if (!parse_integer(n.keys[i], key) || key < 0) {
        r.report.error(n.keys[i].place, fmt::format("'{}' must be a table whose keys are token ids, has the key '{}'",
                                                    path, shown(n.keys[i].text)));
        continue;
      }
      r.given.emplace(name, n.keys[i].place);
      if (n.items[i].is_null()) r.report.error(n.keys[i].place, fmt::format("'{}' has no value", name));
      else Kind<T>::read(n.items[i], entry_of(to, key), f, name, r);
    }
  }
  static Json write(const Table& v, const Field& f) {
    Json out = Json::object();
    for (const auto& [key, item] : v) out[fmt::format("{}", key)] = Kind<T>::write(item, f);
    return out;
  }
  static std::string expects(const Field& f) { return "a table; each value " + Kind<T>::expects(f); }
  static Json schema(const Field& f) { return {{"type", "object"}, {"additionalProperties", Kind<T>::schema(f)}}; }
};
template <class K, class T>
struct Kind<std::map<K, T>> : TableKind<std::map<K, T>, K, T> {};
template <class T>
struct Kind<std::vector<std::pair<std::string, T>>>
    : TableKind<std::vector<std::pair<std::string, T>>, std::string, T> {};

template <>
struct Kind<TargetModules> {
  static void read(const Node& n, TargetModules& to, const Field& f, const std::string& path, Reading& r) {
    if (n.is_scalar()) to.regex = n.text;
    else if (n.kind == Node::Kind::list) Kind<std::vector<std::string>>::read(n, to.names, f, path, r);
    else wrong(n, f, path, r);
  }
  static Json write(const TargetModules& v, const Field&) {
    if (!v.regex.empty()) return v.regex;
    return v.names.empty() ? Json(nullptr) : Json(v.names);
  }
  static std::string expects(const Field&) { return "a list of names, or one regular expression"; }
  static Json schema(const Field&) { return {{"type", {"array", "string"}}, {"items", {{"type", "string"}}}}; }
};

template <>
struct Kind<TokenIndices> {
  static void read(const Node& n, TokenIndices& to, const Field& f, const std::string& path, Reading& r) {
    if (n.kind == Node::Kind::map)
      Kind<std::map<std::string, std::vector<std::int64_t>>>::read(n, to.by_module, f, path, r);
    else Kind<std::vector<std::int64_t>>::read(n, to.tokens, f, path, r);
  }
  static Json write(const TokenIndices& v, const Field&) {
    if (!v.by_module.empty()) return v.by_module;
    return v.tokens.empty() ? Json(nullptr) : Json(v.tokens);
  }
  static std::string expects(const Field&) { return "a list of token ids, or a table of such lists by module"; }
  static Json schema(const Field&) {
    const Json ids = {{"type", "array"}, {"items", {{"type", "integer"}}}};
    return {{"anyOf", {ids, {{"type", "object"}, {"additionalProperties", ids}}}}};
  }
};

template <>
struct Kind<EvalCheck> {
  static void read(const Node& n, EvalCheck& to, const Field& f, const std::string& path, Reading& r) {
    if (n.is_scalar()) return void(to.name = n.text);
    if (n.kind != Node::Kind::map || n.keys.empty()) return wrong(n, f, path, r);
    to.name = n.keys[0].text;
    to.value = to_json(n.items[0]);
    for (std::size_t i = 1; i < n.keys.size(); ++i) to.options[n.keys[i].text] = to_json(n.items[i]);
  }
  static Json write(const EvalCheck& v, const Field&) {
    if (v.value.is_null() && v.options.empty()) return v.name;
    Json out = {{v.name, v.value}};
    out.update(v.options);
    return out;
  }
  static std::string expects(const Field&) { return "the name of a check, or a table like {regex: PATTERN}"; }
  static Json schema(const Field&) { return {{"anyOf", {{{"type", "string"}}, {{"type", "object"}}}}}; }
};

template <>
struct Kind<DatasetType> {
  static void read(const Node& n, DatasetType& to, const Field& f, const std::string& path, Reading& r) {
    if (n.is_scalar()) read_text(n, to.name, f, path, r);
    else if (n.kind == Node::Kind::map) Kind<PromptFormat>::read(n, to.format.emplace(), f, path, r);
    else wrong(n, f, path, r);
  }
  static Json write(const DatasetType& v, const Field& f) {
    if (v.format) return Kind<PromptFormat>::write(*v.format, f);
    return v.name.empty() ? Json(nullptr) : Json(v.name);
  }
  static std::string expects(const Field&) { return "the name of a format, or a table that describes one"; }
  static Json schema(const Field&) { return {{"anyOf", {{{"type", "string"}}, table_schema(table())}}}; }
  static const Table& table() { return recipe::table<PromptFormat>(); }
};

template <class T>
class CodecOf final : public Codec {
 public:
  void read(const Node& node, void* to, const Field& field, const std::string& path, Reading& reading) const override {
    Kind<T>::read(node, *static_cast<T*>(to), field, path, reading);
  }
  Json write(const void* from, const Field& field) const override {
    return Kind<T>::write(*static_cast<const T*>(from), field);
  }
  std::string expects(const Field& field) const override { return Kind<T>::expects(field); }
  Json schema(const Field& field) const override { return Kind<T>::schema(field); }
  const Table* table() const override {
    if constexpr (requires { Kind<T>::table(); }) return &Kind<T>::table();
    else return nullptr;
  }
};

template <class T>
const Codec& codec() {
  static const CodecOf<T> instance;
  return instance;
}

template <class S, class T>
Table& Table::add(const char* key, T S::*member, const char* help, Rules rules) {
  fields_.push_back({key, &codec<T>(), [member](void* owner) -> void* { return &(static_cast<S*>(owner)->*member); },
                     help, std::move(rules)});
  return *this;
}

}  // namespace dml::recipe
