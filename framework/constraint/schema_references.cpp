// Resolves references of a JSON Schema: identifiers and anchors of its subschemas, and their formulas on demand.
#include <algorithm>

#include "constraint/meta_schema.h"
#include "constraint/schema_parts.h"
#include "core/error.h"

namespace dml {

using Formula = Schema::Formula;

namespace {

std::string without_fragment(const std::string& uri) { return uri.substr(0, uri.find('#')); }

// RFC 3986, 5.2, restricted to typical identifiers of schemas.
std::string joined_uri(const std::string& base, const std::string& to) {
  if (to.empty()) return base;
  if (to[0] == '#') return without_fragment(base) + to;
  const auto colon = to.find(':');
  if (colon != std::string::npos && to.find_first_of("/?#") > colon) return to;
  const auto scheme = base.find("://");
  const auto host_end = scheme == std::string::npos ? 0 : std::min(base.find('/', scheme + 3), base.size());
  if (to[0] == '/') return base.substr(0, host_end) + to;
  const std::string stem = without_fragment(base);
  const auto slash = stem.rfind('/');
  if (slash == std::string::npos || slash < host_end) return base.substr(0, host_end) + (host_end ? "/" : "") + to;
  std::string rest = to, front = stem.substr(0, slash + 1);
  while (rest.starts_with("./") || rest.starts_with("../")) {
    if (rest.starts_with("../") && front.size() > host_end + 1)
      front = front.substr(0, front.rfind('/', front.size() - 2) + 1);
    rest = rest.substr(rest.find('/') + 1);
  }
  return front + rest;
}

std::string unescaped(std::string part) {  // of a JSON pointer in a URI fragment
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%' && i + 2 < part.size()) {
      out += static_cast<char>(std::strtol(part.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += part[i];
    }
  }
  for (std::size_t i = 0; (i = out.find('~', i)) != std::string::npos; ++i)
    if (i + 1 < out.size() && (out[i + 1] == '0' || out[i + 1] == '1'))
      out.replace(i, 2, out[i + 1] == '0' ? "~" : "/");
  return out;
}

}  // namespace

// `names`: the keys of `s` are chosen by the schema's author, as in `properties`.
void Schema::Compiler::index(const Json& s, const std::string& path, std::string base, bool names) {
  static const std::set<std::string_view> kNamed{"properties",  "patternProperties", "$defs",
                                                 "definitions", "dependentSchemas",  "dependencies"},
      kValues{"const", "enum", "default", "examples"};
  if (std::count(path.begin(), path.end(), '/') > kDeepestSchema) refuse(path, "…", "nested too deeply");
  if (s.is_array()) {
    for (std::size_t i = 0; i < s.size(); ++i) index(s[i], fmt::format("{}/{}", path, i), base);
    return;
  }
  if (!s.is_object()) return;
  if (names) {
    for (auto& [name, value] : s.items()) index(value, path + "/" + name, base);
    return;
  }
  const char* id_key = draft_ == 4 ? "id" : "$id";
  const Json* ref = value_at(s, "$ref");
  const bool alone = draft_ <= 7 && ref && ref->is_string();  // keywords next to $ref are ignored
  if (const Json* id = value_at(s, id_key); id && id->is_string() && !alone) {
    const std::string uri = joined_uri(base, id->get<std::string>());
    if (id->get_ref<const std::string&>().starts_with("#")) {
      places_.try_emplace(uri, Place{&s, path, base});
    } else {
      base = without_fragment(uri);
      places_.try_emplace(base, Place{&s, path, base});
      ++resources_;
    }
  }
  if (path == "#") places_.try_emplace(base, Place{&s, path, base}), places_.try_emplace("", Place{&s, path, base});
  for (const char* key : {"$anchor", "$dynamicAnchor"})
    if (const Json* anchor = value_at(s, key); anchor && anchor->is_string())
      places_.try_emplace(base + "#" + anchor->get<std::string>(), Place{&s, path, base});
  if (const Json* anchor = value_at(s, "$dynamicAnchor"); anchor && anchor->is_string())
    ++dynamic_anchors_[anchor->get<std::string>()];
  bases_[&s] = base;
  for (auto& [key, value] : s.items())
    if (!kValues.contains(key)) index(value, path + "/" + key, base, kNamed.contains(key));
}

const Schema::Compiler::Place* Schema::Compiler::find(const std::string& uri, const std::string& base,
                                                      const std::string& path) {
  if (auto it = places_.find(uri); it != places_.end()) return &it->second;
  const auto hash = uri.find('#');
  const std::string stem = uri.substr(0, hash);
  auto it = places_.find(stem);
  if (it == places_.end())
    if (auto meta = meta_schema(stem)) {
      const Json& known = meta_schemas_.emplace_back(std::move(*meta));
      index(known, stem, stem);
      it = places_.try_emplace(stem, Place{&known, stem, stem}).first;
    }
  if (it == places_.end())
    refuse(path, "$ref",
           fmt::format("'{}' is not in this document; references to other documents are not supported", uri));
  const bool whole = hash == std::string::npos || hash + 1 == uri.size() ||
                     (uri.substr(hash) == "#/" && !value_at(*it->second.json, ""));  // as many schemas spell it
  if (whole) return &it->second;
  Place at = it->second;
  std::string pointer = uri.substr(hash + 1);
  if (pointer[0] != '/') refuse(path, "$ref", fmt::format("there is no anchor '{}'", pointer));
  for (std::size_t i = 1; i <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', i), pointer.size());
    const std::string key = unescaped(pointer.substr(i, end - i));
    const Json* next = nullptr;
    if (at.json->is_object()) {
      next = value_at(*at.json, key.c_str());
    } else if (at.json->is_array() && !key.empty() && key.find_first_not_of("0123456789") == std::string::npos &&
               key.size() < 9 && std::stoul(key) < at.json->size()) {
      next = &(*at.json)[std::stoul(key)];
    }
    if (!next) refuse(path, "$ref", fmt::format("'{}' leads nowhere", uri));
    at = {next, at.path + "/" + key, base};
    i = end + 1;
  }
  if (auto known = bases_.find(at.json); known != bases_.end()) at.base = known->second;
  return &(places_[uri] = at);
}

const Schema::Compiler::Place* Schema::Compiler::place_of(const std::string& to, const std::string& path) {
  return find(joined_uri(base_, to), base_, path);
}

Formula Schema::Compiler::reference(const std::string& to, const std::string& path) {
  const Place place = *place_of(to, path);
  auto [it, fresh] = target_ids_.try_emplace(place.json, static_cast<std::uint32_t>(targets_.size()));
  if (fresh) {
    targets_.push_back(place);
    target_formulas_.emplace_back();
  }
  return schema_.add({Node::Kind::reference, {it->second}});
}

// They resolve differently from $ref only if several subschemas have the anchor.
void Schema::Compiler::dynamic_references(const Json& s, const std::string& path, std::vector<Formula>& out) {
  if (const Json* ref = value_at(s, "$dynamicRef"); ref && ref->is_string() && draft_ >= 2020) {
    const std::string to = ref->get<std::string>();
    const auto hash = to.find('#');
    if (auto found = dynamic_anchors_.find(hash == to.npos ? "" : to.substr(hash + 1));
        found != dynamic_anchors_.end() && found->second > 1)
      refuse(path, "$dynamicRef",
             fmt::format("there are {} '$dynamicAnchor's '{}'; one is supported", found->second, found->first));
    out.push_back(reference(to, path));
  }
  if (const Json* ref = value_at(s, "$recursiveRef"); ref && ref->is_string() && draft_ == 2019) {
    if (resources_ > 1) refuse(path, "$recursiveRef", "not supported in a document with several '$id's");
    out.push_back(reference(ref->get<std::string>(), path));
  }
}

Formula Schema::Compiler::target(std::uint32_t i) {
  if (!target_formulas_[i]) {
    const Place place = targets_[i];
    target_formulas_[i] = compile(*place.json, place.path);
    // Compiles what it refers to as well, so that everything unsupported is rejected before the first token.
    for (std::size_t k = 0; k < targets_.size(); ++k)
      if (!target_formulas_[k] && depth_ == 0)
        target_formulas_[k] = compile(*Place(targets_[k]).json, Place(targets_[k]).path);
  }
  return *target_formulas_[i];
}

}  // namespace dml
