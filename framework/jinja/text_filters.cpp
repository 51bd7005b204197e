// Filters over strings and numbers. Bytes that are copied to the result keep their marks.
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/shown.h"
#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

Value capitalize_filter(Interpreter&, const Value& v, const Bound&) { return capitalize(to_text(v)); }

/// Upper case for the first character, which need not be a letter, and lower case for the others.
Text jinja_word(const Text& word) {
  const std::size_t first = character_offset(word.view(), 1);
  return upper(word.slice(0, first)).append(lower(word.slice(first)));
}

/// Jinja's `title`: a word starts after white space or one of -({[<.
Value title_filter(Interpreter&, const Value& v, const Bound&) {
  const Text text = to_text(v);
  Text out;
  std::size_t word = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(text.view(), i);
    if (!is_space(c) && std::u32string_view(U"-({[<").find(c) == std::u32string_view::npos) continue;
    out.append(jinja_word(text.slice(word, at))).append(text, at, i);
    word = i;
  }
  return out.append(jinja_word(text.slice(word)));
}

Value trim(Interpreter&, const Value& v, const Bound& a) {
  const std::string set = a.str(0, "");
  return strip(to_text(v), a.has(0) && !a.at(0).is_none() ? &set : nullptr, true, true);
}

Value replace(Interpreter& in, const Value& v, const Bound& a) {
  const Filter* method = nullptr;
  for (auto& m : text_methods())
    if (m.name == "replace") method = &m;
  Arguments args{{to_text(a.at(0)), to_text(a.at(1))}, {}};
  if (a.has(2) && !a.at(2).is_none()) args.positional.push_back(a.at(2));
  return (*method)(in, to_text(v), args);
}

Value indent(Interpreter& in, const Value& v, const Bound& a) {
  const Value width = a.value(0, 4);
  if (width.is_integer() && width.integer() > 10'000) throw Failure{"indent(): a width of more than 10000"};
  const Text fill = width.is_text()
                        ? width.text()
                        : Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width.integer(), 0)), ' '));
  const Text text = to_text(v);
  Text out = a.truth(1, false) ? fill : Text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.str().find('\n', at), text.size());
    check_size(out.size() + fill.size());
    in.charge(fill.size());
    if (at > 0 && (a.truth(2, false) || end > at)) out.append(fill);
    out.append(text, at, end + 1);
    at = end + 1;
  }
  return out;
}

Value truncate(Interpreter&, const Value& v, const Bound& a) {
  const Text text = to_text(v);
  const std::int64_t length = a.integer(0, 255), leeway = a.integer(3, 5),
                     n = static_cast<std::int64_t>(count_characters(text.view()));
  const Text end = a.has(2) ? a.at(2).text() : Text("...");
  const auto end_length = static_cast<std::int64_t>(count_characters(end.view()));
  if (length < end_length) throw Failure{fmt::format("expected length >= {}, got {}", end_length, length)};
  if (leeway < 0) throw Failure{fmt::format("expected leeway >= 0, got {}", leeway)};
  if (n - leeway <= length) return text;
  const std::int64_t keep = length - end_length;
  Text out = text.slice(0, character_offset(text.view(), static_cast<std::size_t>(keep)));
  if (!a.truth(1, false))
    if (const auto blank = out.str().rfind(' '); blank != std::string::npos) out = out.slice(0, blank);
  return out.append(end);
}

Value wordcount(Interpreter&, const Value& v, const Bound&) {
  const Text text = to_text(v);
  std::int64_t n = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text.view(), i);
    const bool word = is_alnum(c) || c == '_';
    n += word && !in_word;
    in_word = word;
  }
  return n;
}

Value center(Interpreter& in, const Value& v, const Bound& a) {
  const Text text = to_text(v);
  const std::int64_t width = a.integer(0, 80), n = static_cast<std::int64_t>(count_characters(text.view()));
  if (width <= n) return text;
  const std::int64_t gap = width - n;
  check_size(static_cast<std::size_t>(gap));
  in.charge(static_cast<std::size_t>(gap));
  const auto left = static_cast<std::size_t>(gap / 2 + (gap & width & 1)), right = static_cast<std::size_t>(gap) - left;
  return Text(std::string(left, ' ')).append(text).append(std::string(right, ' '));
}

Value escape(Interpreter&, const Value& v, const Bound&) {
  const Text text = to_text(v);
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text.str()[i]) {
      case '&':
        out.append("&amp;", text.mark_at(i));
        break;
      case '<':
        out.append("&lt;", text.mark_at(i));
        break;
      case '>':
        out.append("&gt;", text.mark_at(i));
        break;
      case '"':
        out.append("&#34;", text.mark_at(i));
        break;
      case '\'':
        out.append("&#39;", text.mark_at(i));
        break;
      default:
        out.append(text, i, i + 1);
    }
  }
  return out;
}

Value urlencode(Interpreter& in, const Value& v, const Bound&) {
  auto quote = [&](const Value& part, bool query) {
    const Text text = to_text(part);
    in.lose_marks(text);
    std::string out;
    for (char c : text.str()) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
      if (plain) out += c;
      else if (c == ' ' && query) out += '+';
      else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
  };
  if (!v.is_dict() && !v.is_list()) return Value(quote(v, false));
  std::string out;
  auto add = [&](const Value& key, const Value& value) {
    out += (out.empty() ? "" : "&") + quote(key, true) + "=" + quote(value, true);
  };
  if (v.is_dict())
    for (auto& [key, value] : v.dict().items) add(key, value);
  else
    for (auto& pair : iterate(v)) add(item(pair, 0), item(pair, 1));
  return Value(out);
}

/// A number as Python reads it: without the blanks around it, with ASCII digits for those of other scripts, and without
/// underscores between two characters that `joins` accepts.
std::string number_text(const Text& text, int (*joins)(int)) {
  const Text inner = strip(text, nullptr, true, true);
  std::string all, out;
  for (std::size_t i = 0; i < inner.size();) {
    const char32_t c = next_code_point(inner.view(), i);
    if (is_decimal(c)) all += static_cast<char>('0' + decimal_value(c));
    else append_utf8(all, c);
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!(all[i] == '_' && i > 0 && i + 1 < all.size() && joins(static_cast<unsigned char>(all[i - 1])) &&
          joins(static_cast<unsigned char>(all[i + 1]))))
      out += all[i];
  return out;
}

/// Python's float(text).
bool parse_float(const Value& v, double& out) {
  if (v.is_number()) return out = v.number(), true;
  if (!v.is_text()) return false;
  std::string s = number_text(v.text(), &std::isdigit);
  if (s.find('(') != std::string::npos) return false;  // C's nan(…)
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.erase(0, 1);
  return parse_decimal(s, out);
}

/// Python's int(text, base); Failure where it does not fit.
bool parse_integer(const Text& text, int base, std::int64_t& out) {
  std::string s = number_text(text, &std::isalnum);
  const std::size_t sign = !s.empty() && (s[0] == '-' || s[0] == '+');
  const char prefix = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  if (prefix && s.size() > sign + 2 && s[sign] == '0' && (s[sign + 1] | 0x20) == prefix) s.erase(sign, 2);
  if (s.find('-', sign) != s.npos) return false;  // from_chars takes a minus behind our plus or prefix
  if (sign && s[0] == '+') s.erase(0, 1);
  const auto r = std::from_chars(s.data(), s.data() + s.size(), out, base);
  if (r.ptr != s.data() + s.size() || r.ec == std::errc::invalid_argument) return false;
  if (r.ec == std::errc()) return true;
  throw Failure{fmt::format("int(): {} does not fit 64 bits", shown(text.view()))};
}

Value to_int(Interpreter&, const Value& v, const Bound& a) {
  v.defined();
  const Value fallback = a.value(0, 0);
  if (v.is_text()) {
    const std::int64_t base = a.integer(1, 10);
    if (base < 2 || base > 36) throw Failure{"int() base must be from 2 to 36"};
    std::int64_t n = 0;
    if (parse_integer(v.text(), static_cast<int>(base), n)) return n;
  }
  double d = 0;
  if (v.is_integer()) return v.integer();
  if (!parse_float(v, d) || !std::isfinite(d)) return fallback;
  if (!(std::abs(d) < 9.2e18)) throw Failure{"int(): " + float_repr(d) + " does not fit 64 bits"};
  return static_cast<std::int64_t>(d);
}

Value to_float(Interpreter&, const Value& v, const Bound& a) {
  double d = 0;
  return parse_float(v.defined(), d) ? Value(d) : a.value(0, 0.0);
}

/// Python's round(n, −zeros): the nearest multiple of 10^zeros, of two the even one.
std::int64_t round_integer(std::int64_t n, std::int64_t zeros) {
  if (zeros > 19) return 0;  // half a unit is more than any n
  std::uint64_t unit = 1;
  for (std::int64_t i = 0; i < zeros; ++i) unit *= 10;
  const std::uint64_t size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n),
                      rest = size % unit, other = unit - rest;
  const bool up = rest > other || (rest == other && size / unit % 2 == 1);
  const std::uint64_t rounded = size - rest + (up ? unit : 0), most = std::numeric_limits<std::int64_t>::max();
  if (rounded > most + (n < 0)) throw Failure{fmt::format("round(): the result of {} does not fit 64 bits", n)};
  return static_cast<std::int64_t>(n < 0 ? 0 - rounded : rounded);
}

Value round_filter(Interpreter&, const Value& v, const Bound& a) {
  const std::int64_t precision = a.integer(0, 0);
  const std::string method = a.str(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    throw Failure{"method must be common, ceil or floor"};
  const double x = v.defined().number();
  if (precision > 300 || precision < -300) throw Failure{"round(): the precision must be from -300 to 300"};
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(x * scale) / scale;
  if (method == "floor") return std::floor(x * scale) / scale;
  if (v.is_integer()) return precision >= 0 ? v.integer() : round_integer(v.integer(), -precision);
  if (precision < 0) return std::nearbyint(x * scale) / scale;
  double rounded = 0;  // rounds the exact decimal value half to even, as Python does
  const std::string digits = fmt::format("{:.{}f}", x, precision);
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

Value absolute(Interpreter& in, const Value& v, const Bound&) {
  if (v.defined().is_float()) return std::abs(v.number());
  return v.integer() < 0 ? binary(in, "-", 0, v) : Value(v.integer());
}

Value fallback_filter(Interpreter&, const Value& v, const Bound& a) {
  const bool absent = v.is_undefined() || (a.truth(1, false) && !v.truth());
  return absent ? a.value(0, "") : v;
}

Value tojson(Interpreter& in, const Value& v, const Bound& a) {
  JsonStyle style;
  style.ensure_ascii = a.truth(0, false);
  style.sort_keys = a.truth(3, false);
  if (a.has(1) && !a.at(1).is_none()) {
    style.pretty = true;
    if (!a.at(1).is_text() && a.at(1).integer() > 1000) throw Failure{"tojson(): an indent of more than 1000"};
    style.indent = a.at(1).is_text()
                       ? a.at(1).text().str()
                       : std::string(static_cast<std::size_t>(std::max<std::int64_t>(a.at(1).integer(), 0)), ' ');
    style.item = ",";
  }
  if (a.has(2) && !a.at(2).is_none()) {
    const auto separators = iterate(a.at(2));
    if (separators.size() != 2) throw Failure{"tojson(): separators must be (item, key)"};
    style.item = separators[0].text().str();
    style.key = separators[1].text().str();
  }
  Text out = to_json(v, style);
  in.charge(out.size());
  return out;
}

Value format_filter(Interpreter& in, const Value& v, const Arguments& a) {
  if (!a.positional.empty() && !a.named.empty())
    throw Failure{"can't handle positional and keyword arguments at the same time"};
  Value values = Value::list(a.positional, List::Kind::tuple);
  if (!a.named.empty()) {
    Dict d;
    for (auto& [key, value] : a.named) d.set(Text(key), value);
    values = std::move(d);
  }
  return format_percent(in, to_text(v), values);
}

const std::array kTextFilters = std::to_array<Filter>({
    {"abs", "", &absolute},
    {"attr", "name",
     [](Interpreter& in, const Value& v, const Bound& a) -> Value {
       if (v.is_dict()) {
         Value method;
         return find_method(v, a.at(0).text().view(), method)
                    ? method
                    : Value::undefined("'dict object' has no attribute '" + a.at(0).text().str() + "'");
       }
       return in.attribute(v, a.at(0).text().view());
     }},
    {"capitalize", "", &capitalize_filter},
    {"center", "width", &center},
    {"d", "default_value boolean", &fallback_filter},
    {"default", "default_value boolean", &fallback_filter},
    {"e", "", &escape},
    {"escape", "", &escape},
    {"float", "default", &to_float},
    {"format", "", nullptr, &format_filter},
    {"indent", "width first blank", &indent},
    {"int", "default base", &to_int},
    {"lower", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return lower(to_text(v)); }},
    {"replace", "old new count", &replace},
    {"round", "precision method", &round_filter},
    {"safe", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return to_text(v); }},
    {"string", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return to_text(v); }},
    {"title", "", &title_filter},
    {"tojson", "ensure_ascii indent separators sort_keys", &tojson},
    {"trim", "chars", &trim},
    {"truncate", "length killwords end leeway", &truncate},
    {"upper", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return upper(to_text(v)); }},
    {"urlencode", "", &urlencode},
    {"wordcount", "", &wordcount},
});

}  // namespace

std::span<const Filter> text_filters() { return kTextFilters; }

}  // namespace dml::jinja
