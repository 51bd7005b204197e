// The texts of JSON numbers, as languages: all of them, those within bounds, those equal to one value, multiples. A
// bound is a decimal, compared digit by digit, so no value is rounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "constraint/language.h"

namespace dml {

/// A decimal number: ±digits.fraction, without leading or trailing zeros ("0" has no digits at all).
struct Decimal {
  bool negative = false;
  std::string digits, fraction;

  bool zero() const { return digits.empty() && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

/// From the text of a JSON number, with or without an exponent; nothing where it has more than `most` digits.
std::optional<Decimal> parse_decimal(std::string_view text, std::size_t most = 400);

/// JSON's numbers; with an exponent as far as a double goes (9.99e307).
Languages::Id any_number(Languages& languages);
/// Numbers without a fractional part: 3, 3.0, 3e2.
Languages::Id any_integer(Languages& languages);
/// Numbers, written without an exponent, at least `bound` (above it when `exclusive`).
Languages::Id at_least(Languages& languages, const Decimal& bound, bool exclusive);
Languages::Id at_most(Languages& languages, const Decimal& bound, bool exclusive);
/// Numbers, written without an exponent, equal to `value`.
Languages::Id equal_to(Languages& languages, const Decimal& value);
/// Numbers, written without an exponent, that are multiples of `divisor` (not zero); nothing where it has too many
/// digits.
std::optional<Languages::Id> multiple_of(Languages& languages, const Decimal& divisor);

}  // namespace dml
