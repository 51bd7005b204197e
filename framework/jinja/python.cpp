#include "jinja/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "core/utf8.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

Text quoted(const Text& text) {
  const std::string& s = text.str();
  const char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  Text out(std::string_view(&quote, 1));
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(s, i);
    const Mark mark = text.mark_at(at);
    if (c == static_cast<char32_t>(quote) || c == '\\') out.append("\\", mark).append(text, at, i);
    else if (c == '\n' || c == '\r' || c == '\t') out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", mark);
    else if (is_printable(c)) out.append(text, at, i);
    else
      out.append(c < 0x100     ? fmt::format("\\x{:02x}", std::uint32_t{c})
                 : c < 0x10000 ? fmt::format("\\u{:04x}", std::uint32_t{c})
                               : fmt::format("\\U{:08x}", std::uint32_t{c}),
                 mark);
  }
  return out.append(std::string_view(&quote, 1));
}

void write(Text& out, const Value& v) {
  check_size(out.size());
  if (v.is_none()) out.append("None");
  else if (v.is_undefined()) out.append("Undefined");
  else if (v.is_bool()) out.append(v.truth() ? "True" : "False");
  else if (v.is_integer()) out.append(std::to_string(v.integer()));
  else if (v.is_float()) out.append(float_repr(v.number()));
  else if (v.is_text()) out.append(quoted(v.text()));
  else if (v.is_dict()) {
    out.append("{");
    bool first = true;
    for (auto& [key, value] : v.dict().items) {
      if (!std::exchange(first, false)) out.append(", ");
      write(out, key);
      out.append(": ");
      write(out, value);
    }
    out.append("}");
  } else if (v.is_list()) {
    const List& l = v.list();
    if (l.kind == List::Kind::generator) return void(out.append("<generator object>"));
    if (l.kind == List::Kind::range) {
      const auto [begin, end, step] = l.range;
      out.append(fmt::format("range({}, {}", begin, end)).append(step == 1 ? ")" : fmt::format(", {})", step));
      return;
    }
    const bool tuple = l.kind == List::Kind::tuple, view = !tuple && l.kind != List::Kind::list;
    if (view) out.append(v.type_name()).append("(");
    out.append(tuple ? "(" : "[");
    for (std::size_t i = 0; i < l.items.size(); ++i) {
      if (i) out.append(", ");
      write(out, l.items[i]);
    }
    if (tuple && l.items.size() == 1) out.append(",");
    out.append(tuple ? ")" : "]");
    if (view) out.append(")");
  } else {
    out.append(v.object().repr());
  }
}

void write_json_string(Text& out, const Text& text, bool ensure_ascii) {
  out.append("\"");
  const std::string& s = text.str();
  std::size_t plain = 0;  // bytes from here on need no escape
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(s, i);
    std::string escape;
    if (c == '"' || c == '\\') escape = {'\\', static_cast<char>(c)};
    else if (c < 0x20) {
      static constexpr std::string_view kCodes = "\b\t\n\f\r", kNames = "btnfr";
      const auto k = kCodes.find(static_cast<char>(c));
      escape = k == std::string_view::npos ? fmt::format("\\u{:04x}", std::uint32_t{c}) : std::string{'\\', kNames[k]};
    } else if (ensure_ascii && c > 0x7e && c < 0x10000) escape = fmt::format("\\u{:04x}", std::uint32_t{c});
    else if (ensure_ascii && c >= 0x10000)
      escape = fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((std::uint32_t{c} - 0x10000) >> 10),
                           0xdc00 + ((std::uint32_t{c} - 0x10000) & 0x3ff));
    if (escape.empty()) continue;
    out.append(text, plain, at).append(escape, text.mark_at(at));
    plain = i;
  }
  out.append(text, plain, s.size()).append("\"");
}

std::string json_float(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_repr(d);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& v, int depth) {
    check_size(out.size());
    if (v.is_none()) out.append("null");
    else if (v.is_bool()) out.append(v.truth() ? "true" : "false");
    else if (v.is_integer()) out.append(std::to_string(v.integer()));
    else if (v.is_float()) out.append(json_float(v.number()));
    else if (v.is_text()) write_json_string(out, v.text(), style_.ensure_ascii);
    else if (v.is_dict()) write_dict(v.dict(), depth);
    else if (v.is_list() && (v.list().kind == List::Kind::list || v.list().kind == List::Kind::tuple))
      write_list(v.list(), depth);
    else throw Failure{"Object of type " + v.defined().type_name() + " is not JSON serializable"};
  }
  Text out;

 private:
  void newline(int depth) {
    if (!style_.pretty) return;
    out.append("\n");
    for (int i = 0; i < depth; ++i) out.append(style_.indent);
  }
  void write_list(const List& l, int depth) {
    if (l.items.empty()) return void(out.append("[]"));
    out.append("[");
    for (std::size_t i = 0; i < l.items.size(); ++i) {
      if (i) out.append(style_.item);
      newline(depth + 1);
      write(l.items[i], depth + 1);
    }
    newline(depth);
    out.append("]");
  }
  void write_dict(const Dict& d, int depth) {
    if (d.items.empty()) return void(out.append("{}"));
    std::vector<const std::pair<Value, Value>*> items;
    for (auto& item : d.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(), [](auto* a, auto* b) { return compare(a->first, b->first) < 0; });
    out.append("{");
    bool first = true;
    for (auto* item : items) {
      if (!std::exchange(first, false)) out.append(style_.item);
      newline(depth + 1);
      write_json_string(out, key_text(item->first), style_.ensure_ascii);
      out.append(style_.key);
      write(item->second, depth + 1);
    }
    newline(depth);
    out.append("}");
  }
  static Text key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is_bool()) return key.truth() ? "true" : "false";
    if (key.is_integer()) return Text(std::to_string(key.integer()));
    if (key.is_float()) return Text(json_float(key.number()));
    throw Failure{"keys must be str, int, float, bool or None, not " + key.type_name()};
  }

  const JsonStyle& style_;
};

}  // namespace

Text to_text(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  return repr(value);
}

Text repr(const Value& value) {
  Text out;
  write(out, value);
  return out;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view s(buffer, static_cast<std::size_t>(end - buffer));
  const auto e = s.find('e');
  int exponent = 0;
  std::from_chars(s.data() + e + (s[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(s);  // to_chars writes at least two digits, as Python does
  std::string sign = s[0] == '-' ? "-" : "", digits;
  for (char c : s.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

bool parse_decimal(const std::string& text, double& value) {
  const char* const end = text.data() + text.size();
  const auto r = std::from_chars(text.data(), end, value);
  if (r.ptr != end || r.ec == std::errc::invalid_argument) return false;
  if (r.ec == std::errc::result_out_of_range) value = std::strtod(text.c_str(), nullptr);
  return true;
}

Text to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return std::move(writer.out);
}

std::string format_time(std::int64_t seconds, const std::string& format) {
  std::string known;  // without %Z and %z, which Python leaves empty for a time without a zone
  for (std::size_t i = 0; i < format.size(); ++i) {
    const std::string_view item = std::string_view(format).substr(i, format[i] == '%' ? 2 : 1);
    if (item != "%Z" && item != "%z") known += item;
    i += item.size() - 1;
  }
  if (known.empty()) return {};
  const std::time_t t = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&t, &parts);
  char buffer[1024];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, known.c_str(), &parts));
}

}  // namespace dml::jinja
