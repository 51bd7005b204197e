#include "constraint/number.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

using Id = Languages::Id;

// Languages of magnitudes: digits without a sign, optionally with a fraction.
class Magnitudes {
 public:
  explicit Magnitudes(Languages& l) : l_(l) {}

  Id digit(char first = '0', char last = '9') {
    return first > last ? Languages::kNone
                        : l_.characters({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  }
  Id digits(std::uint32_t least, std::uint32_t most = Languages::kUnbounded) {
    return l_.repetition(digit(), least, most);
  }
  Id text(std::string_view s) { return l_.literal(std::u32string(s.begin(), s.end())); }
  Id point() { return l_.character('.'); }
  /// An optional fraction.
  Id fraction() { return l_.optional(l_.concatenation(point(), digits(1))); }
  Id zero_fraction() {
    return l_.optional(l_.concatenation(point(), l_.repetition(l_.character('0'), 1, Languages::kUnbounded)));
  }
  Id whole() { return l_.either({l_.character('0'), l_.concatenation(digit('1'), digits(0))}); }
  Id any() { return l_.concatenation(whole(), fraction()); }
  Id zero() { return l_.concatenation(l_.character('0'), zero_fraction()); }
  Id equal(const Decimal& d) {
    const Id zeros = l_.repetition(l_.character('0'), 0, Languages::kUnbounded);
    if (d.fraction.empty()) return l_.concatenation(text(whole_of(d)), zero_fraction());
    return l_.concatenation({text(whole_of(d)), point(), text(d.fraction), zeros});
  }
  /// Magnitudes larger than that of d.
  Id above(const Decimal& d) {
    const std::string w = whole_of(d);
    const auto n = static_cast<std::uint32_t>(w.size());
    std::vector<Id> out{l_.concatenation({digit('1'), digits(n), fraction()})};  // more digits
    for (std::uint32_t i = 0; i < n; ++i)                                        // the first differing digit is larger
      out.push_back(l_.concatenation(
          {text(w.substr(0, i)), digit(static_cast<char>(w[i] + 1)), digits(n - i - 1, n - i - 1), fraction()}));
    std::vector<Id> behind;  // the same integer part, a larger fraction
    for (std::size_t i = 0; i < d.fraction.size(); ++i)
      behind.push_back(
          l_.concatenation({text(d.fraction.substr(0, i)), digit(static_cast<char>(d.fraction[i] + 1)), digits(0)}));
    behind.push_back(l_.concatenation({text(d.fraction), digits(0), digit('1'), digits(0)}));
    out.push_back(l_.concatenation({text(w), point(), l_.either(std::move(behind))}));
    return l_.either(std::move(out));
  }
  /// Magnitudes smaller than that of d.
  Id below(const Decimal& d) {
    const std::string w = whole_of(d);
    const auto n = static_cast<std::uint32_t>(w.size());
    std::vector<Id> out;
    if (n > 1)
      out.push_back(
          l_.concatenation(l_.either({l_.character('0'), l_.concatenation(digit('1'), digits(0, n - 2))}), fraction()));
    for (std::uint32_t i = 0; i < n; ++i) {
      const char least = i == 0 && n > 1 ? '1' : '0';
      if (w[i] > least)
        out.push_back(l_.concatenation({text(w.substr(0, i)), digit(least, static_cast<char>(w[i] - 1)),
                                        digits(n - i - 1, n - i - 1), fraction()}));
    }
    if (!d.fraction.empty()) {
      std::vector<Id> behind;
      for (std::size_t i = 0; i < d.fraction.size(); ++i) {
        if (i > 0)
          behind.push_back(text(d.fraction.substr(0, i)));  // a proper prefix is smaller, since the last digit is not 0
        if (d.fraction[i] > '0')
          behind.push_back(l_.concatenation(
              {text(d.fraction.substr(0, i)), digit('0', static_cast<char>(d.fraction[i] - 1)), digits(0)}));
      }
      out.push_back(text(w));
      out.push_back(l_.concatenation({text(w), point(), l_.either(std::move(behind))}));
    }
    return l_.either(std::move(out));
  }

 private:
  static std::string whole_of(const Decimal& d) { return d.digits.empty() ? "0" : d.digits; }
  Languages& l_;
};

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text, std::size_t most) {
  Decimal out;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') out.negative = true, ++i;
  std::string digits;
  std::int64_t point = -1, exponent = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') point = static_cast<std::int64_t>(digits.size());
    else digits += text[i];
  }
  if (point < 0) point = static_cast<std::int64_t>(digits.size());
  if (i < text.size()) {
    const bool negative = text[++i] == '-';
    if (text[i] == '-' || text[i] == '+') ++i;
    for (; i < text.size(); ++i) exponent = std::min<std::int64_t>(exponent * 10 + (text[i] - '0'), 100'000);
    if (negative) exponent = -exponent;
  }
  point += exponent;
  if (digits.size() > most || point > static_cast<std::int64_t>(most) || -point > static_cast<std::int64_t>(most))
    return std::nullopt;
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<std::size_t>(point) > digits.size())
    digits.append(static_cast<std::size_t>(point) - digits.size(), '0');
  out.digits = digits.substr(0, static_cast<std::size_t>(point));
  out.fraction = digits.substr(static_cast<std::size_t>(point));
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  while (!out.fraction.empty() && out.fraction.back() == '0') out.fraction.pop_back();
  if (out.zero()) out.negative = false;
  return out;
}

std::string with_plain_numbers(std::string_view json) {
  std::string out;
  for (std::size_t i = 0; i < json.size();) {
    std::size_t end = i + 1;
    if (json[i] == '"') {
      while (json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      out += json.substr(i, ++end - i);
    } else if (json[i] == '-' || (json[i] >= '0' && json[i] <= '9')) {
      end = std::min(json.find_first_not_of("0123456789.eE+-", i), json.size());
      const std::string_view number = json.substr(i, end - i);
      if (const auto d = parse_decimal(number))
        out += (d->negative ? "-" : "") + (d->digits.empty() ? "0" : d->digits) +
               (d->fraction.empty() ? "" : '.' + d->fraction);
      else out += number;
    } else {
      out += json[i];
    }
    i = end;
  }
  return out;
}

namespace {

// Scientific notation, d.ddde±n, within the range of a double.
Id exponent(Languages& l, Id sign) {
  Magnitudes m(l);
  const Id size = l.either({m.digits(1, 2), l.concatenation(m.digit('1', '2'), m.digits(2, 2)),
                            l.concatenation(m.text("30"), m.digit('0', '7'))});
  return l.concatenation({l.characters({{'e', 'e'}, {'E', 'E'}}), l.optional(sign), size});
}

}  // namespace

Id any_number(Languages& l) {
  Magnitudes m(l);
  const Id sign = l.characters({{'+', '+'}, {'-', '-'}});
  const Id scientific = l.concatenation({m.digit(), m.fraction(), exponent(l, sign)});
  return l.concatenation(l.optional(l.character('-')), l.either({m.any(), scientific}));
}

Id any_integer(Languages& l) {
  Magnitudes m(l);
  const Id scientific = l.concatenation({m.digit(), m.zero_fraction(), exponent(l, l.character('+'))});
  return l.concatenation(l.optional(l.character('-')),
                         l.either({l.concatenation(m.whole(), m.zero_fraction()), scientific}));
}

Id equal_to(Languages& l, const Decimal& value) {
  Magnitudes m(l);
  const Id minus = l.character('-');
  const Id sign = value.zero() ? l.optional(minus) : value.negative ? minus : Languages::kEmptyText;
  return l.concatenation(sign, m.equal(value));
}

Id at_least(Languages& l, const Decimal& bound, bool exclusive) {
  Magnitudes m(l);
  const Id minus = l.character('-');
  std::vector<Id> out;
  if (!exclusive) out.push_back(equal_to(l, bound));
  if (bound.negative) {
    out.push_back(m.any());
    out.push_back(l.concatenation(minus, m.below(bound)));
  } else {
    out.push_back(m.above(bound));
  }
  return l.either(std::move(out));
}

Id at_most(Languages& l, const Decimal& bound, bool exclusive) {
  Magnitudes m(l);
  const Id minus = l.character('-');
  std::vector<Id> out;
  if (!exclusive) out.push_back(equal_to(l, bound));
  if (bound.negative) {
    out.push_back(l.concatenation(minus, m.above(bound)));
  } else if (bound.zero()) {
    out.push_back(l.concatenation(minus, m.above(bound)));
  } else {
    out.push_back(m.below(bound));
    out.push_back(l.concatenation(minus, m.any()));
  }
  return l.either(std::move(out));
}

std::optional<Id> multiple_of(Languages& l, const Decimal& divisor) {
  DML_CHECK(!divisor.zero());
  const std::string all = divisor.digits + divisor.fraction;
  if (all.size() > 18) return std::nullopt;
  Magnitudes m(l);
  const Id multiples = l.multiples(std::stoull(all), static_cast<std::uint32_t>(divisor.fraction.size()));
  return l.concatenation(l.optional(l.character('-')), l.all_of({m.any(), multiples}));
}

}  // namespace dml
