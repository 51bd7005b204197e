#include "core/json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/shown.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace dml {
namespace {

// Builds the tree and checks the limits before memory is allocated.
template <class J>
class BoundedSax {
 public:
  using number_integer_t = typename J::number_integer_t;
  using number_unsigned_t = typename J::number_unsigned_t;
  using number_float_t = typename J::number_float_t;
  using string_t = typename J::string_t;
  using binary_t = typename J::binary_t;

  BoundedSax(J& root, const JsonLimits& limits, bool repeated_keys)
      : limits_(limits), repeated_keys_(repeated_keys), builder_(root, false) {}

  bool null() { return element() && builder_.null(); }
  bool boolean(bool v) { return element() && builder_.boolean(v); }
  bool number_integer(number_integer_t v) { return element() && builder_.number_integer(v); }
  bool number_unsigned(number_unsigned_t v) { return element() && builder_.number_unsigned(v); }
  bool number_float(number_float_t v, const string_t& s) { return element() && builder_.number_float(v, s); }
  bool string(string_t& v) { return element() && builder_.string(v); }
  bool binary(binary_t&) { return fail("binary values are not JSON"); }
  bool start_object(std::size_t n) {
    keys_.emplace_back();
    return deeper() && builder_.start_object(n);
  }
  bool key(string_t& k) {
    if (keys_.back().size() >= limits_.object_keys)
      return fail(fmt::format("an object has more than {} keys", limits_.object_keys));
    if (!keys_.back().insert(k).second && !repeated_keys_)
      return fail(fmt::format("key '{}' is given twice", shown(k)));
    return builder_.key(k);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return builder_.end_object();
  }
  bool start_array(std::size_t n) { return deeper() && builder_.start_array(n); }
  bool end_array() {
    --depth_;
    return builder_.end_array();
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) {
    std::string text = e.what();
    if (auto cut = text.find("] "); cut != std::string::npos) text = text.substr(cut + 2);
    if (auto cut = text.find(": "); cut != std::string::npos && text.starts_with("parse error"))
      text = text.substr(cut + 2);
    position_ = position;
    return fail("not valid JSON: " + shown(text, 200));  // the library's message quotes the whole string
  }

  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }

 private:
  bool fail(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
    return false;
  }
  bool element() {
    return ++elements_ <= limits_.elements || fail(fmt::format("more than {} values", limits_.elements));
  }
  bool deeper() {
    return ++depth_ > limits_.depth ? fail(fmt::format("nested deeper than {} levels", limits_.depth)) : element();
  }

  const JsonLimits& limits_;
  const bool repeated_keys_;
  nlohmann::detail::json_sax_dom_parser<J> builder_;
  std::vector<std::set<std::string>> keys_;
  std::string problem_;
  std::size_t elements_ = 0, position_ = 0;
  int depth_ = 0;
};

template <class J>
J parse(std::string_view text, std::string_view source, const JsonLimits& limits, bool repeated_keys = false) {
  if (text.size() > limits.bytes)
    throw UserError("{}: {} bytes of JSON, the limit is {}", source, text.size(), limits.bytes);
  J root;
  BoundedSax<J> sax(root, limits, repeated_keys);
  if (!J::sax_parse(text, &sax)) {  // sax_parse skips a byte order mark
    std::size_t at = std::min(sax.position(), text.size());
    auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    bool several = text.find('\n') != std::string_view::npos;
    throw UserError("{}{}: {}", source, several && at ? fmt::format(":{}", line) : "", sax.problem());
  }
  return root;
}

[[noreturn]] void wrong_type(const Json& value, const char* key, const char* wanted, std::string_view source) {
  throw UserError("{}: '{}' must be {}, is {}", source, key, wanted, shown(dump(value)));
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  return parse<Json>(text, source, limits);
}
Json parse_written_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  return parse<Json>(text, source, limits, true);
}
Json read_json(const std::string& path, const JsonLimits& limits) {
  return parse<Json>(read_file(path, limits.bytes), path, limits);
}
WideJson read_wide_json(const std::string& path, const JsonLimits& limits) {
  return parse<WideJson>(read_file(path, limits.bytes), path, limits);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_or_json(const Json& value) { return value.is_string() ? value.get<std::string>() : dump(value); }

std::int64_t json_integer(const Json& object, const char* key, std::int64_t fallback, std::string_view source) {
  const Json* v = member(object, key);
  if (!v) return fallback;
  if (v->is_number_unsigned() && v->get<std::uint64_t>() <= INT64_MAX)
    return static_cast<std::int64_t>(v->get<std::uint64_t>());
  if (v->is_number_integer() && !v->is_number_unsigned()) return v->get<std::int64_t>();
  if (v->is_number_float()) {
    double d = v->get<double>();
    if (std::abs(d) < 9e15 && d == std::trunc(d)) return static_cast<std::int64_t>(d);
  }
  wrong_type(*v, key, "a whole number", source);
}

double json_number(const Json& object, const char* key, double fallback, std::string_view source) {
  const Json* v = member(object, key);
  if (!v) return fallback;
  if (!v->is_number()) wrong_type(*v, key, "a number", source);
  return v->get<double>();
}

bool json_bool(const Json& object, const char* key, bool fallback, std::string_view source) {
  const Json* v = member(object, key);
  if (!v) return fallback;
  if (!v->is_boolean()) wrong_type(*v, key, "true or false", source);
  return v->get<bool>();
}

std::string json_string(const Json& object, const char* key, std::string_view fallback, std::string_view source) {
  const Json* v = member(object, key);
  if (!v) return std::string(fallback);
  if (!v->is_string()) wrong_type(*v, key, "a string", source);
  return v->get<std::string>();
}

}  // namespace dml
