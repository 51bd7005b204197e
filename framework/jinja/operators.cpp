#include "jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  throw Failure{fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, a.type_name(), b.type_name())};
}
[[noreturn]] void overflow() { throw Failure{"integer result does not fit 64 bits"}; }

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value integer_arithmetic(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &r)) return r;
  if (op == "-" && !__builtin_sub_overflow(a, b, &r)) return r;
  if (op == "*" && !__builtin_mul_overflow(a, b, &r)) return r;
  if (op == "**" && b >= 0) return integer_power(a, b);
  if (op == "+" || op == "-" || op == "*") overflow();
  if (b == 0 && op != "**") throw Failure{op == "/" ? "division by zero" : "integer division or modulo by zero"};
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (op == "**") return std::pow(static_cast<double>(a), static_cast<double>(b));
  if (b == -1) return op == "//" ? integer_arithmetic("-", 0, a) : Value(0);
  const std::int64_t rest = a % b, floor_rest = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  return op == "%" ? Value(floor_rest) : Value(a / b - (floor_rest != rest));
}

/// Python's a // b and a % b.
double floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b), quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0));
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}
double floor_rest_of(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a == 0 && b < 0) throw Failure{"0.0 cannot be raised to a negative power"};
    return std::pow(a, b);
  }
  if (b == 0) throw Failure{"float division by zero"};
  if (op == "/") return a / b;
  return op == "%" ? floor_rest_of(a, b) : floor_quotient(a, b);
}

Value repeat(Interpreter& in, const Value& v, std::int64_t times) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (v.is_text()) {
    if (n && v.text().size() > kMaxText / n) check_size(kMaxText + 1);
    in.charge(v.text().size() * n);
    Text out;
    for (std::size_t i = 0; i < n && !v.text().empty(); ++i) out.append(v.text());
    return out;
  }
  const List& l = v.list();
  if (n && l.items.size() > kMaxList / n) throw Failure{fmt::format("a list of more than {} items", kMaxList)};
  in.charge(l.items.size() * n * sizeof(Value));
  std::vector<Value> items;
  for (std::size_t i = 0; i < n; ++i) items.insert(items.end(), l.items.begin(), l.items.end());
  return Value::list(std::move(items), l.kind);
}

bool is_sequence(const Value& v) {
  return v.is_list() && (v.list().kind == List::Kind::list || v.list().kind == List::Kind::tuple);
}
bool is_indexable(const Value& v) { return is_sequence(v) || (v.is_list() && v.list().kind == List::Kind::range); }

Value plus(Interpreter& in, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    check_size(a.text().size() + b.text().size());
    in.charge(a.text().size() + b.text().size());
    Text out = a.text();
    return out.append(b.text());
  }
  if (is_sequence(a) && is_sequence(b) && a.list().kind == b.list().kind) {
    if (a.list().items.size() + b.list().items.size() > kMaxList)
      throw Failure{fmt::format("a list of more than {} items", kMaxList)};
    in.charge((a.list().items.size() + b.list().items.size()) * sizeof(Value));
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return Value::list(std::move(items), a.list().kind);
  }
  if (a.is_text() || is_sequence(a))
    throw Failure{fmt::format("can only concatenate {0} (not \"{1}\") to {0}", a.type_name(), b.type_name())};
  unsupported("+", a, b);
}

}  // namespace

void check_size(std::size_t bytes) {
  if (bytes > kMaxText) throw Failure{fmt::format("a text of more than {} MiB", kMaxText >> 20)};
}

Value binary(Interpreter& in, std::string_view op, const Value& a, const Value& b) {
  a.defined();
  if (!(op == "%" && a.is_text())) b.defined();
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? float_arithmetic(op, a.number(), b.number())
                                        : integer_arithmetic(op, a.integer(), b.integer());
  if (op == "+") return plus(in, a, b);
  if (op == "%" && a.is_text()) return format_percent(in, a.text(), b);
  if (op == "*" && (a.is_text() || is_sequence(a)) && b.is_integer()) return repeat(in, a, b.integer());
  if (op == "*" && (b.is_text() || is_sequence(b)) && a.is_integer()) return repeat(in, b, a.integer());
  unsupported(op == "**" ? "** or pow()" : op, a, b);
}

bool contains(Interpreter& in, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (!item.is_text()) throw Failure{"'in <string>' requires string as left operand, not " + item.type_name()};
    in.charge(container.text().size());
    return container.text().view().find(item.text().view()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    in.charge(container.dict().items.size() * 8);
    return container.dict().find(item) != nullptr;
  }
  if (!container.is_list()) throw Failure{"argument of type '" + container.type_name() + "' is not iterable"};
  in.charge(container.list().items.size() * 16);
  for (const Value& v : iterate(container))
    if (equal(v, item)) return true;
  return false;
}

std::string object_name(const Value& v) {
  return v.is_none() ? "None" : v.is_object() ? "'" + v.type_name() + " object'" : v.type_name() + " object";
}

Value item(const Value& container, const Value& key) {
  container.defined();
  if (container.is_dict()) {
    if (const Value* v = container.dict().find(key)) return *v;
  } else if (key.is_integer() && (container.is_text() || is_indexable(container))) {
    const std::int64_t n = length(container);
    std::int64_t i = key.integer();
    if (i < 0) i += n;
    if (i >= 0 && i < n) {
      if (container.is_list()) return container.list().items[static_cast<std::size_t>(i)];
      const Text& text = container.text();
      const std::size_t begin = character_offset(text.view(), static_cast<std::size_t>(i));
      std::size_t end = begin;
      next_code_point(text.view(), end);
      return text.slice(begin, end);
    }
  }
  if (key.is_text())
    return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(container), key.text().view()));
  return Value::undefined(fmt::format("{} has no element {}", object_name(container), repr(key).view()));
}

Value slice(const Value& container, const Value& from, const Value& to, const Value& by) {
  container.defined();
  if (!container.is_text() && !is_indexable(container))
    return Value::undefined(object_name(container) + " cannot be sliced");
  const std::int64_t n = length(container), step = by.is_none() ? 1 : std::clamp(by.integer(), -n - 1, n + 1);
  if (step == 0) throw Failure{"slice step cannot be zero"};
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto bound = [&](const Value& v, std::int64_t fallback) {
    if (v.is_none()) return fallback;
    const std::int64_t i = v.integer();
    return std::clamp(i < 0 ? (i < -n ? low : i + n) : i, low, high);
  };
  const std::int64_t begin = bound(from, step > 0 ? low : high), end = bound(to, step > 0 ? high : low);
  if (container.is_text() && step == 1) {
    const std::string_view s = container.text().view();
    const std::size_t first = character_offset(s, static_cast<std::size_t>(begin));
    const std::size_t count = static_cast<std::size_t>(std::max<std::int64_t>(end - begin, 0));
    return container.text().slice(first, first + character_offset(s.substr(first), count));
  }
  const std::int64_t count = step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
  std::int64_t i = begin;
  if (container.is_list()) {
    const List& l = container.list();
    List out;
    out.kind = l.kind;
    for (std::int64_t k = 0; k < count; ++k, i += step) out.items.push_back(l.items[static_cast<std::size_t>(i)]);
    if (l.kind == List::Kind::range) {
      // An end that nothing reaches may lie outside of 64 bits, so this wraps.
      const auto at = [&](std::int64_t k) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(l.range[0]) +
                                         static_cast<std::uint64_t>(k) * static_cast<std::uint64_t>(l.range[2]));
      };
      out.range = {
          at(begin), at(end),
          static_cast<std::int64_t>(static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(l.range[2]))};
    }
    return out;
  }
  const Text& text = container.text();
  std::vector<std::size_t> starts;  // of characters
  for (std::size_t at = 0; at < text.size(); next_code_point(text.view(), at)) starts.push_back(at);
  starts.push_back(text.size());
  Text out;
  for (std::int64_t k = 0; k < count; ++k, i += step)
    out.append(text, starts[static_cast<std::size_t>(i)], starts[static_cast<std::size_t>(i) + 1]);
  return out;
}

std::vector<Value> iterate(const Value& v) {
  if (v.is_undefined()) return {};
  std::vector<Value> out;
  if (v.is_text()) {
    const Text& text = v.text();
    if (text.size() > kMaxList)
      throw Failure{fmt::format("a text of {} bytes is too long to be taken apart", text.size())};
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t at = i;
      next_code_point(text.view(), i);
      out.push_back(text.slice(at, i));
    }
    return out;
  }
  if (v.is_dict()) {
    for (auto& [key, value] : v.dict().items) out.push_back(key);
    return out;
  }
  if (!v.is_list()) throw Failure{"'" + v.type_name() + "' object is not iterable"};
  const List& l = v.list();
  if (l.kind != List::Kind::generator) return l.items;
  out.assign(l.items.begin() + static_cast<std::ptrdiff_t>(l.spent), l.items.end());
  l.spent = l.items.size();
  return out;
}

std::int64_t length(const Value& v) {
  if (v.is_undefined()) return 0;
  if (v.is_text()) return static_cast<std::int64_t>(count_characters(v.text().view()));
  if (v.is_dict()) return static_cast<std::int64_t>(v.dict().items.size());
  if (v.is_list() && v.list().kind != List::Kind::generator) return static_cast<std::int64_t>(v.list().items.size());
  throw Failure{"object of type '" + v.type_name() + "' has no len()"};
}

}  // namespace dml::jinja
