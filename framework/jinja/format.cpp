// Python's str % values.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <cmath>

#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

struct Field {
  std::string flags;
  int width = 0, precision = -1;
  char type = 's';
};

/// Formats a number as printf does. The caller has bounded width and precision.
std::string number(const Field& f, const Value& v) {
  const std::string format = "%" + f.flags + (f.width ? std::to_string(f.width) : "") +
                             (f.precision >= 0 ? "." + std::to_string(f.precision) : "");
  if (std::string_view("diuxXo").find(f.type) == std::string_view::npos)
    return fmt::sprintf(format + f.type, v.number());
  if (!v.is_number()) throw Failure{fmt::format("%{} format: a number is required, not {}", f.type, v.type_name())};
  if (v.is_float() && (f.type == 'x' || f.type == 'X' || f.type == 'o'))
    throw Failure{fmt::format("%{} format: an integer is required, not float", f.type)};
  if (v.is_float() && !(std::abs(v.number()) < 9.2e18)) throw Failure{"this float is too large for %d"};
  const std::int64_t n = v.is_float() ? static_cast<std::int64_t>(v.number()) : v.integer();
  return fmt::sprintf(format + (f.type == 'i' || f.type == 'u' ? 'd' : f.type), n);
}

/// The text of %s, %r or %c.
Text text_of(const Field& f, const Value& v) {
  if (f.type == 'c') {
    if (v.is_text() && count_characters(v.text().view()) == 1) return v.text();
    if (!v.is_integer()) throw Failure{"%c requires an integer or a text of one character"};
    const std::int64_t code = v.integer();
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw Failure{fmt::format("%c: {} is not a character", code)};
    std::string out;
    append_utf8(out, static_cast<char32_t>(code));
    return Text(std::move(out));
  }
  const Text text = f.type == 'r' ? repr(v) : to_text(v);
  if (f.precision < 0) return text;
  return text.slice(0, character_offset(text.view(), static_cast<std::size_t>(f.precision)));
}

Text padded(const Field& f, Text text) {
  const std::size_t n = count_characters(text.view()), width = static_cast<std::size_t>(f.width);
  if (n >= width) return text;
  const std::string blanks(width - n, ' ');
  return f.flags.find('-') != std::string::npos ? text.append(blanks) : Text(blanks).append(text);
}

}  // namespace

Text format_percent(Interpreter& in, const Text& format, const Value& values) {
  const std::string& s = format.str();
  const bool tuple = values.is_list() && values.list().kind == List::Kind::tuple;
  std::size_t used = 0;
  auto next_value = [&]() -> Value {
    if (!tuple && used++ == 0) return values;
    if (tuple && used < values.list().items.size()) return values.list().items[used++];
    throw Failure{"not enough arguments for format string"};
  };
  auto bounded = [&](std::size_t& i) {
    int n = 0;
    for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i)
      if ((n = n * 10 + (s[i] - '0')) > 1000) throw Failure{"a width of more than 1000 in a format string"};
    return n;
  };
  Text out;
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t percent = std::min(s.find('%', i), s.size());
    out.append(format, i, percent);
    if ((i = percent + 1) > s.size()) break;
    Field f;
    Value value;
    bool has_value = false;
    if (i < s.size() && s[i] == '(') {
      const std::size_t end = s.find(')', i);
      if (end == std::string::npos) throw Failure{"incomplete format key"};
      if (!values.is_dict()) throw Failure{"format requires a mapping"};
      const Value* found = values.dict().find(std::string_view(s).substr(i + 1, end - i - 1));
      if (!found) throw Failure{"format(): there is no key '" + s.substr(i + 1, end - i - 1) + "'"};
      value = *found;
      has_value = true;
      used = 1;
      i = end + 1;
    }
    while (i < s.size() && std::string_view("-+ 0#").find(s[i]) != std::string_view::npos) f.flags += s[i++];
    f.width = bounded(i);
    if (i < s.size() && s[i] == '.') f.precision = bounded(++i);
    if (i >= s.size()) throw Failure{"incomplete format"};
    f.type = s[i++];
    if (f.type == '%') {
      out.append("%");
      continue;
    }
    if (!has_value) value = next_value();
    if (f.type == 's' || f.type == 'r' || f.type == 'c') {
      out.append(padded(f, text_of(f, value)));
    } else if (std::string_view("diuxXofFeEgG").find(f.type) != std::string_view::npos) {
      out.append(number(f, value.defined()));
    } else {
      throw Failure{fmt::format("unsupported format character '{}'", escape_controls(std::string_view(&s[i - 1], 1)))};
    }
    check_size(out.size());
    in.charge(out.size());
  }
  if (tuple ? used < values.list().items.size() : used == 0 && !values.is_dict())
    throw Failure{"not all arguments converted during string formatting"};
  return out;
}

}  // namespace dml::jinja
