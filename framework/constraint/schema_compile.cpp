// Compiles the keywords of JSON Schema to formulas.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "constraint/formats.h"
#include "constraint/number.h"
#include "constraint/regex.h"
#include "constraint/schema_parts.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;

namespace {

const char* const kRefused[] = {"extends", "disallow", "divisibleBy"};

}  // namespace

Schema::Compiler::Compiler(Schema& schema, const Json& document) : schema_(schema), l_(schema.l_), document_(document) {
  if (document_.is_object())
    if (const Json* uri = value_at(document_, "$schema"); uri && uri->is_string()) {
      const std::string text = uri->get<std::string>();
      for (int draft : {3, 4, 6, 7})
        if (text.find(fmt::format("draft-0{}", draft)) != std::string::npos) draft_ = draft;
      if (text.find("2019-09") != std::string::npos) draft_ = 2019;
    }
  if (draft_ == 3) refuse("#", "$schema", "draft 3 is not supported");
  index(document_, "#", "");
  target_ids_[&document_] = 0;
  targets_.push_back({&document_, "#", bases_[&document_]});
  target_formulas_.emplace_back();
}

void Schema::Compiler::refuse(const std::string& path, std::string_view keyword, std::string_view what) const {
  throw UserError("{}: '{}' at {}: {}", schema_.source_, keyword, path, what);
}

Formula Schema::Compiler::compile(const Json& s, const std::string& path) {
  if (s.is_boolean()) return s.get<bool>() ? kTrue : kFalse;
  if (!s.is_object()) throw UserError("{}: {}: a schema is an object or true or false", schema_.source_, path);
  if (auto it = compiled_.find(&s); it != compiled_.end()) return it->second;
  if (++depth_ > kDeepestSchema) refuse(path, "…", "nested too deeply");
  const std::string before = std::exchange(base_, bases_[&s]);
  const Formula out = keywords(s, path);
  base_ = before;
  --depth_;
  return compiled_[&s] = out;
}

Formula Schema::Compiler::keywords(const Json& s, const std::string& path) {
  for (const char* keyword : kRefused)
    if (const Json* value = value_at(s, keyword); value && !(value->is_boolean() && value->get<bool>()))
      refuse(path, keyword, "not supported");
  std::vector<Formula> out;
  if (const Json* ref = value_at(s, "$ref"); ref && ref->is_string()) {
    out.push_back(reference(ref->get<std::string>(), path));
    if (draft_ <= 7) return out[0];
  }
  dynamic_references(s, path, out);
  auto& sc = schema_;
  if (const Json* type = value_at(s, "type")) out.push_back(types(*type, path));
  if (const Json* value = value_at(s, "const")) out.push_back(sc.equal(*value));
  if (const Json* values = value_at(s, "enum")) out.push_back(values_of(*values, path));
  string_keywords(s, path, out);
  number_keywords(s, path, out);
  array_keywords(s, path, out);
  object_keywords(s, path, out);
  unevaluated_keywords(s, path, out);
  if (value_at(s, "allOf"))
    for (auto f : subschemas(s, "allOf", path)) out.push_back(f);
  if (value_at(s, "anyOf")) out.push_back(sc.any_of(subschemas(s, "anyOf", path)));
  if (value_at(s, "oneOf")) out.push_back(one_of(s, path));
  if (const Json* no = value_at(s, "not")) out.push_back(sc.negation(compile(*no, path + "/not")));
  if (const Json* condition = value_at(s, "if"); condition && draft_ >= 7) {
    const Formula f = compile(*condition, path + "/if");
    const Json *then = value_at(s, "then"), *otherwise = value_at(s, "else");
    // As two exclusive alternatives: when many conditions are combined, most combinations contradict themselves.
    if (then || otherwise)
      out.push_back(sc.any_of({sc.all_of({f, then ? compile(*then, path + "/then") : kTrue}),
                               sc.all_of({sc.negation(f), otherwise ? compile(*otherwise, path + "/else") : kTrue})}));
  }
  return sc.all_of(std::move(out));
}

Formula Schema::Compiler::types(const Json& type, const std::string& path) {
  static const std::map<std::string, JsonKind> kKinds{{"null", JsonKind::null},
                                                      {"number", JsonKind::number},
                                                      {"string", JsonKind::string},
                                                      {"array", JsonKind::array},
                                                      {"object", JsonKind::object}};
  auto& sc = schema_;
  std::vector<Formula> any;
  for (const Json& t : type.is_array() ? type : Json::array({type})) {
    const std::string name = t.is_string() ? t.get<std::string>() : "";
    if (name == "integer")
      any.push_back(
          sc.all_of({sc.of_kind(JsonKind::number),
                     sc.atom({.says = Atom::Says::text, .kind = JsonKind::number, .language = any_integer(l_)})}));
    else if (name == "boolean") any.push_back(sc.any_of({sc.of_kind(JsonKind::yes), sc.of_kind(JsonKind::no)}));
    else if (auto kind = kKinds.find(name); kind != kKinds.end()) any.push_back(sc.of_kind(kind->second));
    else refuse(path, "type", fmt::format("{} is not a type", dump(t)));
  }
  return sc.any_of(std::move(any));
}

Formula Schema::Compiler::values_of(const Json& values, const std::string& path) {
  if (!values.is_array()) refuse(path, "enum", "must be a list");
  auto& sc = schema_;
  std::vector<Formula> any;
  std::vector<std::pair<std::u32string, Languages::Id>> texts;
  for (auto& value : values) {
    if (value.is_string()) texts.push_back({code_points(value.get_ref<const std::string&>()), Languages::kEmptyText});
    else any.push_back(sc.equal(value));
  }
  if (!texts.empty())
    any.push_back(sc.all_of(
        {sc.of_kind(JsonKind::string),
         sc.atom({.says = Atom::Says::text, .kind = JsonKind::string, .language = l_.dictionary(std::move(texts))})}));
  return sc.any_of(std::move(any));
}

std::vector<Formula> Schema::Compiler::subschemas(const Json& s, const char* keyword, const std::string& path) {
  const Json& list = *value_at(s, keyword);
  if (!list.is_array() || list.empty()) refuse(path, keyword, "must be a list of schemas");
  std::vector<Formula> out;
  for (std::size_t i = 0; i < list.size(); ++i)
    out.push_back(compile(list[i], fmt::format("{}/{}/{}", path, keyword, i)));
  return out;
}

std::uint32_t Schema::Compiler::count(const Json& s, const char* keyword, const std::string& path,
                                      std::uint32_t fallback) {
  const Json* value = value_at(s, keyword);
  if (!value) return fallback;
  if (!value->is_number()) refuse(path, keyword, "must be a number");
  const double n = value->get<double>();
  if (!(n >= 0) || n != std::floor(n)) refuse(path, keyword, "must be an integer, 0 or more");
  return n >= 4e9 ? kNoLimit - 1 : static_cast<std::uint32_t>(n);
}

void Schema::Compiler::string_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  std::vector<Languages::Id> all;
  if (value_at(s, "minLength") || value_at(s, "maxLength"))
    all.push_back(l_.repetition(l_.any_character(), count(s, "minLength", path, 0),
                                count(s, "maxLength", path, Languages::kUnbounded)));
  if (const Json* pattern = value_at(s, "pattern")) {
    if (!pattern->is_string()) refuse(path, "pattern", "must be a string");
    try {
      all.push_back(regex_search(l_, pattern->get<std::string>()));
    } catch (const UserError& e) {
      refuse(path, "pattern", e.what());
    }
  }
  if (const Json* format = value_at(s, "format"); format && format->is_string())
    if (auto language = format_language(l_, format->get<std::string>())) all.push_back(*language);
  if (!all.empty())
    out.push_back(
        schema_.atom({.says = Atom::Says::text, .kind = JsonKind::string, .language = l_.all_of(std::move(all))}));
}

void Schema::Compiler::number_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  std::vector<Languages::Id> all;
  auto decimal = [&](const char* keyword, const Json& value) {
    if (!value.is_number()) refuse(path, keyword, "must be a number");
    auto d = parse_decimal(value.dump());
    if (!d) refuse(path, keyword, fmt::format("{} has too many digits", value.dump()));
    return *d;
  };
  for (bool lower : {true, false}) {
    const char *inclusive = lower ? "minimum" : "maximum", *exclusive = lower ? "exclusiveMinimum" : "exclusiveMaximum";
    const Json *in = value_at(s, inclusive), *ex = value_at(s, exclusive);
    const bool flag = ex && ex->is_boolean();  // draft 4
    auto add = [&](const Decimal& bound, bool above) {
      all.push_back(lower ? at_least(l_, bound, above) : at_most(l_, bound, above));
    };
    if (in) add(decimal(inclusive, *in), flag && ex->get<bool>());
    if (ex && !flag) add(decimal(exclusive, *ex), true);
  }
  if (const Json* step = value_at(s, "multipleOf")) {
    Decimal d = decimal("multipleOf", *step);
    if (d.zero() || d.negative) refuse(path, "multipleOf", "must be above 0");
    auto language = multiple_of(l_, d);
    if (!language) refuse(path, "multipleOf", "has too many digits");
    all.push_back(*language);
  }
  if (!all.empty())
    out.push_back(
        schema_.atom({.says = Atom::Says::text, .kind = JsonKind::number, .language = l_.all_of(std::move(all))}));
}

void Schema::Compiler::array_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  auto& sc = schema_;
  const Json* items = value_at(s, "items");
  const bool old = items && items->is_array();
  if (items || value_at(s, "prefixItems")) {
    Atom a{.says = Atom::Says::items, .kind = JsonKind::array};
    const char* prefix = old ? "items" : "prefixItems";
    if (old ? !items->empty() : value_at(s, "prefixItems") != nullptr) a.prefix = subschemas(s, prefix, path);
    const char* rest = old ? "additionalItems" : "items";
    if (const Json* others = value_at(s, rest)) a.formula = compile(*others, path + "/" + rest);
    out.push_back(sc.atom(std::move(a)));
  }
  if (value_at(s, "minItems") || value_at(s, "maxItems"))
    out.push_back(sc.atom({.says = Atom::Says::item_count,
                           .kind = JsonKind::array,
                           .least = count(s, "minItems", path, 0),
                           .most = count(s, "maxItems", path, kNoLimit)}));
  if (const Json* contained = value_at(s, "contains"); contained && draft_ >= 6)
    out.push_back(sc.atom({.says = Atom::Says::counted,
                           .kind = JsonKind::array,
                           .formula = compile(*contained, path + "/contains"),
                           .from = 0,
                           .least = count(s, "minContains", path, 1),
                           .most = count(s, "maxContains", path, kNoLimit)}));
  if (const Json* unique = value_at(s, "uniqueItems"); unique && unique->is_boolean() && unique->get<bool>())
    out.push_back(sc.atom({.says = Atom::Says::unique, .kind = JsonKind::array}));
}

Formula Schema::Compiler::has(const std::string& name) {
  if (auto it = has_.find(name); it != has_.end()) return it->second;
  return has_[name] = schema_.atom({.says = Atom::Says::some_member,
                                    .kind = JsonKind::object,
                                    .language = l_.literal(code_points(name)),
                                    .named = {{name, kTrue}}});
}

const Json* Schema::Compiler::object_of(const Json& s, const char* keyword, const std::string& path) const {
  const Json* value = value_at(s, keyword);
  if (value && !value->is_object()) refuse(path, keyword, "must be an object");
  return value;
}

void Schema::Compiler::object_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  auto& sc = schema_;
  property_keywords(s, path, out);
  if (const Json* required = value_at(s, "required"); required && required->is_array()) {
    std::set<std::string> once;
    for (auto& name : *required) {
      if (!name.is_string()) refuse(path, "required", "must be a list of names");
      if (once.insert(name.get<std::string>()).second) out.push_back(has(name.get<std::string>()));
    }
  }
  if (value_at(s, "minProperties") || value_at(s, "maxProperties"))
    out.push_back(sc.atom({.says = Atom::Says::member_count,
                           .kind = JsonKind::object,
                           .least = count(s, "minProperties", path, 0),
                           .most = count(s, "maxProperties", path, kNoLimit)}));
  if (const Json* names = value_at(s, "propertyNames"); names && draft_ >= 6) {
    Atom a{.says = Atom::Says::members, .kind = JsonKind::object};
    a.patterns.push_back(
        {l_.complement(sc.scalar(compile(*names, path + "/propertyNames"), JsonKind::string)), kFalse});
    out.push_back(sc.atom(std::move(a)));
  }
  dependency_keywords(s, path, out);
}

void Schema::Compiler::property_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  const Json *properties = object_of(s, "properties", path), *patterns = object_of(s, "patternProperties", path),
             *others = value_at(s, "additionalProperties");
  if (!properties && !patterns && !others) return;
  Atom a{.says = Atom::Says::members, .kind = JsonKind::object};
  if (properties)
    for (auto& [name, value] : properties->items())
      a.named.push_back({name, compile(value, path + "/properties/" + name)});
  if (patterns)
    for (auto& [regex, value] : patterns->items()) {
      Languages::Id names;
      try {
        names = regex_search(l_, regex);
      } catch (const UserError& e) {
        refuse(path, "patternProperties", e.what());
      }
      a.patterns.push_back({names, compile(value, path + "/patternProperties/" + regex)});
    }
  if (others) a.formula = compile(*others, path + "/additionalProperties");
  out.push_back(schema_.atom(std::move(a)));
}

void Schema::Compiler::dependency_keywords(const Json& s, const std::string& path, std::vector<Formula>& out) {
  auto& sc = schema_;
  auto depends = [&](const std::string& name, Formula f) {
    out.push_back(sc.any_of({sc.negation(has(name)), sc.all_of({has(name), f})}));
  };
  auto all_present = [&](const Json& list, const char* keyword) {
    std::vector<Formula> all;
    for (auto& name : list) {
      if (!name.is_string()) refuse(path, keyword, "must be lists of names");
      all.push_back(has(name.get<std::string>()));
    }
    return sc.all_of(std::move(all));
  };
  auto only_objects = [&](Formula f) { return sc.any_of({sc.negation(sc.of_kind(JsonKind::object)), f}); };
  if (const Json* lists = object_of(s, "dependentRequired", path))
    for (auto& [name, list] : lists->items()) depends(name, all_present(list, "dependentRequired"));
  if (const Json* schemas = object_of(s, "dependentSchemas", path))
    for (auto& [name, value] : schemas->items())
      depends(name, only_objects(compile(value, path + "/dependentSchemas/" + name)));
  if (const Json* either = object_of(s, "dependencies", path))
    for (auto& [name, value] : either->items())
      depends(name, value.is_array() ? all_present(value, "dependencies")
                                     : only_objects(compile(value, path + "/dependencies/" + name)));
}

}  // namespace dml
