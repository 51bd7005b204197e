// Reads the characters of strings and names, including escapes, against their language.
#include <algorithm>

#include "constraint/json_automaton.h"
#include "core/error.h"

namespace dml {

// Advances the string's language by a complete code point.
void JsonAutomaton::character(Frame f, char32_t c) {
  f.id = languages_.after(f.id, c);
  if (f.id == Languages::kNone) return;
  f.escape = Escape::none;
  f.missing = f.digits = 0;
  f.first = f.last = 0;
  keep(f);
}

// Whether some possible next character is written with a backslash.
bool JsonAutomaton::may_be_escaped(LanguageId id) {
  if (space_ == JsonSpace::any) return languages_.continues_in(id, 0, Languages::kLast);
  return languages_.continues_in(id, 0, 0x1F) || languages_.continues_in(id, '"', '"') ||
         languages_.continues_in(id, '\\', '\\');
}

void JsonAutomaton::read_text(Frame f, unsigned char byte) {
  auto expect = [&](Escape e) {
    f.escape = e;
    keep(f);
  };
  switch (f.escape) {
    case Escape::none: {
      PartialCodePoint c{f.missing, f.first, f.last};
      if (c.complete()) {
        if (byte == '"') return end_text(f);
        if (byte == '\\') {
          if (may_be_escaped(f.id)) expect(Escape::backslash);
          return;
        }
        if (byte < 0x20) return;
      }
      if (!c.read(byte)) return;
      if (c.complete()) return character(f, c.first);
      if (!languages_.continues_in(f.id, c.first, c.last)) return;
      f.missing = c.missing, f.first = c.first, f.last = c.last;
      return keep(f);
    }
    case Escape::backslash: {
      if (byte == 'u') {
        f.digits = 0, f.first = 0;
        if (space_ == JsonSpace::any || languages_.continues_in(f.id, 0, 0x1F)) expect(Escape::hex);
        return;
      }
      if (space_ == JsonSpace::one && byte == '/') return;
      static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      if (auto at = kFrom.find(static_cast<char>(byte)); at != std::string_view::npos)
        character(f, static_cast<unsigned char>(kTo[at]));
      return;
    }
    case Escape::low_backslash:
      if (byte == '\\') expect(Escape::low_u);
      return;
    case Escape::low_u:
      f.digits = 0, f.first = 0;
      if (byte == 'u') expect(Escape::low_hex);
      return;
    case Escape::hex:
    case Escape::low_hex:
      return read_hex(f, byte);
  }
}

void JsonAutomaton::read_hex(Frame f, unsigned char byte) {
  const unsigned char low = byte | 32;
  char32_t digit;
  if (byte >= '0' && byte <= '9') digit = byte - '0';
  else if (low >= 'a' && low <= 'f') digit = low - 'a' + 10;
  else return;
  f.first = f.first << 4 | digit;
  ++f.digits;
  const int bits = 4 * (4 - f.digits);
  const char32_t from = f.first << bits, to = from | ((char32_t{1} << bits) - 1);  // possible values of the four digits
  if (space_ == JsonSpace::one && from > 0x1F) return;
  auto astral = [&](char32_t high_from, char32_t high_to, char32_t low_from, char32_t low_to) {
    return languages_.continues_in(f.id, 0x10000 + ((high_from - 0xD800) << 10) + (low_from - 0xDC00),
                                   0x10000 + ((high_to - 0xD800) << 10) + (low_to - 0xDC00));
  };
  if (f.escape == Escape::low_hex) {
    const char32_t a = std::max<char32_t>(from, 0xDC00), b = std::min<char32_t>(to, 0xDFFF);
    if (a > b || !astral(f.last, f.last, a, b)) return;
    if (f.digits == 4) return character(f, 0x10000 + ((f.last - 0xD800) << 10) + (a - 0xDC00));
    return keep(f);
  }
  const char32_t high_a = std::max<char32_t>(from, 0xD800), high_b = std::min<char32_t>(to, 0xDBFF);
  const bool pair = high_a <= high_b && astral(high_a, high_b, 0xDC00, 0xDFFF);
  bool single = from < 0xD800 && languages_.continues_in(f.id, from, std::min<char32_t>(to, 0xD7FF));
  single = single || (to > 0xDFFF && languages_.continues_in(f.id, std::max<char32_t>(from, 0xE000), to));
  if (!pair && !single) return;
  if (f.digits < 4) return keep(f);
  if (single) return character(f, f.first);
  f.last = f.first;
  f.escape = Escape::low_backslash;
  keep(f);
}

void JsonAutomaton::end_text(const Frame& f) {
  if (!languages_.accepts_end(f.id)) return;
  if (f.expects == Expects::text) return ways_.push_back(behind_value(f.below, record_));
  for (std::uint32_t group : languages_.labels(f.id)) {
    Frame object = frames_[f.below];
    const auto& s = schema_.object(object.id);
    Progress p = progresses_[object.progress];
    if (!s.groups[group].single && counts_names(s, p)) {
      const std::string raw = record_text(record_before_, f.begin);
      p.push_back(text_id(recorded_value('"' + raw + '"').get<std::string>()));
      std::sort(p.begin() + static_cast<std::ptrdiff_t>(words(s)), p.end());
    }
    object.expects = Expects::colon;
    object.detail = group;
    object.progress = progress(with_member(s, std::move(p), group));
    keep(object);
  }
}

}  // namespace dml
