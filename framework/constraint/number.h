// The texts of JSON numbers as languages: all numbers, those within bounds, those equal to a value, multiples. Bounds
// are decimals and compared digit by digit, so no value is rounded.
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

/// Parses the text of a JSON number, with or without an exponent; empty if it has more than `most` digits.
std::optional<Decimal> parse_decimal(std::string_view text, std::size_t most = 400);

/// A JSON text with its numbers as plain decimals ("0.00001" for "1e-05", "3" for "3.0"): the languages below that
/// compare numbers have no exponents. `json` is valid; a number of too many digits stays as it is.
std::string with_plain_numbers(std::string_view json);

/// All JSON numbers; with an exponent, those within the range of a double (9.99e307).
Languages::Id any_number(Languages& languages);
/// Numbers without a fractional part: 3, 3.0, 3e2.
Languages::Id any_integer(Languages& languages);
/// Numbers without an exponent that are at least `bound` (above it if `exclusive`).
Languages::Id at_least(Languages& languages, const Decimal& bound, bool exclusive);
Languages::Id at_most(Languages& languages, const Decimal& bound, bool exclusive);
/// Numbers without an exponent that equal `value`.
Languages::Id equal_to(Languages& languages, const Decimal& value);
/// Numbers without an exponent that are multiples of `divisor` (not zero); empty if it has too many digits.
std::optional<Languages::Id> multiple_of(Languages& languages, const Decimal& divisor);

}  // namespace dml
