// Methods of strings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

constexpr auto npos = std::string_view::npos;

Value strip_ends(const Value& v, const Bound& a, bool left, bool right) {
  const std::string set = a.str(0, "");
  return strip(v.text(), a.has(0) && !a.at(0).is_none() ? &set : nullptr, left, right);
}

/// startswith and endswith, with one affix or a tuple of them.
bool has_affix(const Value& v, const Bound& a, bool front) {
  const Value from = a.value(1, nullptr), to = a.value(2, nullptr);
  const Text text = from.is_none() && to.is_none() ? v.text() : slice(v, from, to, nullptr).text();
  auto matches = [&](const Value& affix) {
    return front ? text.view().starts_with(affix.text().view()) : text.view().ends_with(affix.text().view());
  };
  if (!a.at(0).is_list()) return matches(a.at(0));
  const auto& choices = a.at(0).list().items;
  return std::any_of(choices.begin(), choices.end(), matches);
}

Value split_blanks(const Text& text, std::int64_t most, bool from_right) {
  std::vector<std::pair<std::size_t, std::size_t>> words;  // every word
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const bool blank = is_space(next_code_point(text.view(), i));
    if (blank) inside = false;
    else if (std::exchange(inside, true)) words.back().second = i;
    else words.emplace_back(at, i);
  }
  if (most >= 0 && static_cast<std::int64_t>(words.size()) > most) {     // what is not split keeps its outer blanks
    const auto rest = static_cast<std::ptrdiff_t>(words.size()) - most;  // number of words that are not split
    if (from_right) {
      words[0].second = words[static_cast<std::size_t>(rest - 1)].second;
      words.erase(words.begin() + 1, words.begin() + rest);
      words[0].first = 0;
    } else {
      words[static_cast<std::size_t>(most)].second = text.size();
      words.resize(static_cast<std::size_t>(most) + 1);
    }
  }
  std::vector<Value> out;
  for (auto [begin, end] : words) out.emplace_back(text.slice(begin, end));
  return Value::list(std::move(out));
}

Value split(Interpreter& in, const Value& v, const Bound& a, bool from_right) {
  const Text& text = v.text();
  const std::int64_t most = a.integer(1, -1);
  in.charge(text.size() * 8);
  if (!a.has(0) || a.at(0).is_none()) return split_blanks(text, most, from_right);
  const std::string& separator = a.at(0).text().str();
  if (separator.empty()) throw Failure{"empty separator"};
  std::vector<Value> out;
  if (from_right) {
    std::size_t end = text.size();
    while (most < 0 || static_cast<std::int64_t>(out.size()) < most) {
      const std::size_t at = end < separator.size() ? npos : text.view().rfind(separator, end - separator.size());
      if (at == npos) break;
      out.emplace_back(text.slice(at + separator.size(), end));
      end = at;
    }
    out.emplace_back(text.slice(0, end));
    std::reverse(out.begin(), out.end());
  } else {
    std::size_t begin = 0;
    while (most < 0 || static_cast<std::int64_t>(out.size()) < most) {
      const std::size_t at = text.view().find(separator, begin);
      if (at == npos) break;
      out.emplace_back(text.slice(begin, at));
      begin = at + separator.size();
    }
    out.emplace_back(text.slice(begin));
  }
  return Value::list(std::move(out));
}

Value splitlines(Interpreter& in, const Value& v, const Bound& a) {
  const Text& text = v.text();
  in.charge(text.size() * 8);
  std::vector<Value> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(text.view(), i);
    if (!((c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029)) continue;
    if (c == '\r' && i < text.size() && text.str()[i] == '\n') ++i;
    out.emplace_back(text.slice(begin, a.truth(0, false) ? i : at));
    begin = i;
  }
  if (begin < text.size()) out.emplace_back(text.slice(begin));
  return Value::list(std::move(out));
}

Value partition(const Value& v, const Bound& a, bool from_right) {
  const Text& text = v.text();
  const Text& separator = a.at(0).text();
  if (separator.empty()) throw Failure{"empty separator"};
  const std::size_t at = from_right ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  std::vector<Value> out;
  if (at == npos) out = from_right ? std::vector<Value>{"", "", text} : std::vector<Value>{text, "", ""};
  else out = {text.slice(0, at), text.slice(at, at + separator.size()), text.slice(at + separator.size())};
  return Value::list(std::move(out), List::Kind::tuple);
}

Value replace_method(Interpreter& in, const Value& v, const Bound& a) {
  const Text &text = v.text(), &from = a.at(0).text(), &to = a.at(1).text();
  std::int64_t left = std::max<std::int64_t>(a.integer(2, -1), -1);
  Text out;
  auto put = [&](const Text& t, std::size_t begin, std::size_t end) {
    check_size(out.size() + end - begin);
    in.charge(end - begin);
    out.append(t, begin, end);
  };
  std::size_t at = 0;
  for (; left != 0; --left) {
    const std::size_t found = text.view().find(from.view(), at);
    if (found == npos) break;
    put(text, at, found);
    put(to, 0, to.size());
    in.charge(64);
    at = found + from.size();
    if (!from.empty()) continue;
    if (at >= text.size()) break;  // an empty pattern matches between all characters and at both ends
    std::size_t next = at;
    next_code_point(text.view(), next);
    put(text, at, next);
    at = next;
  }
  put(text, at, std::max(at, text.size()));
  return out;
}

std::int64_t find(const Value& v, const Bound& a, bool from_right, bool must) {
  const Text part = slice(v, a.value(1, nullptr), a.value(2, nullptr), nullptr).text();
  const std::int64_t n = length(v), from = a.integer(1, 0),
                     skipped = std::clamp<std::int64_t>(from < 0 ? from + n : from, 0, n);
  const auto at = from_right ? part.view().rfind(a.at(0).text().view()) : part.view().find(a.at(0).text().view());
  if (at == npos && must) throw Failure{"substring not found"};
  return at == npos ? -1 : skipped + static_cast<std::int64_t>(count_characters(part.view().substr(0, at)));
}

std::int64_t count(const Value& v, const Bound& a) {
  const std::string &s = v.text().str(), &what = a.at(0).text().str();
  if (what.empty()) return length(v) + 1;
  std::int64_t n = 0;
  for (std::size_t at = s.find(what); at != npos; at = s.find(what, at + what.size())) ++n;
  return n;
}

Value join_method(Interpreter& in, const Value& v, const Bound& a) {
  Text out;
  bool first = true;
  for (const Value& part : iterate(a.at(0))) {
    if (!part.is_text()) throw Failure{"sequence item: expected str instance, " + part.type_name() + " found"};
    check_size(out.size() + v.text().size() + part.text().size());
    in.charge(v.text().size() + part.text().size());
    if (!std::exchange(first, false)) out.append(v.text());
    out.append(part.text());
  }
  return out;
}

/// ljust, rjust, center, zfill: pads the text on both sides in the proportion left : right.
Value pad(Interpreter& in, const Value& v, const Bound& a, char where) {
  const Text& text = v.text();
  const Text fill = a.has(1) ? a.at(1).text() : Text(" ");
  if (count_characters(fill.view()) != 1) throw Failure{"The fill character must be exactly one character long"};
  const std::int64_t width = a.at(0).integer(), n = length(v);
  if (width <= n) return text;
  const std::int64_t gap = width - n;
  const auto missing = static_cast<std::size_t>(gap);
  if (missing > kMaxText / fill.size()) check_size(kMaxText + 1);
  in.charge(missing * fill.size());
  const std::size_t left = where == 'r'   ? missing
                           : where == 'c' ? static_cast<std::size_t>(gap / 2 + (gap & width & 1))
                                          : 0;
  Text out;
  for (std::size_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = left; i < missing; ++i) out.append(fill);
  return out;
}

Value zfill(Interpreter& in, const Value& v, const Bound& a) {
  const Text& text = v.text();
  const std::int64_t width = a.at(0).integer(), n = length(v);
  if (width <= n) return text;
  const std::int64_t gap = width - n;
  check_size(static_cast<std::size_t>(gap));
  in.charge(static_cast<std::size_t>(gap));
  const std::size_t sign = !text.empty() && (text.str()[0] == '-' || text.str()[0] == '+');
  return text.slice(0, sign).append(std::string(static_cast<std::size_t>(gap), '0')).append(text, sign, text.size());
}

template <class Is>
bool every(const Value& v, Is is) {
  const Text& text = v.text();
  for (std::size_t i = 0; i < text.size();)
    if (!is(next_code_point(text.view(), i))) return false;
  return !text.empty();
}

bool is_title(const Text& text) { return title(text) == text && !(upper(text) == lower(text)); }

/// "{} {0} {name}".format(…): fields without format specifications.
Value format(Interpreter& in, const Value& v, const Arguments& a) {
  const Text& text = v.text();
  const std::string& s = text.str();
  Text out;
  std::size_t automatic = 0;
  for (std::size_t i = 0; i < s.size();) {
    if (s[i] != '{' && s[i] != '}') {
      const std::size_t end = std::min(s.find_first_of("{}", i), s.size());
      out.append(text, i, end);
      i = end;
      continue;
    }
    if (i + 1 < s.size() && s[i + 1] == s[i]) {
      out.append(text, i, i + 1);
      i += 2;
      continue;
    }
    const std::size_t end = s[i] == '{' ? s.find('}', i) : npos;
    if (end == npos) throw Failure{"a single '{' or '}' in a format string"};
    const std::string name = s.substr(i + 1, end - i - 1);
    std::size_t index = automatic;
    const auto r = std::from_chars(name.data(), name.data() + name.size(), index);
    const Value* value = nullptr;
    if (name.empty() || r.ptr == name.data() + name.size()) {
      automatic += name.empty();
      if (index < a.positional.size()) value = &a.positional[index];
    }
    for (auto& [key, named] : a.named)
      if (key == name) value = &named;
    if (!value)
      throw Failure{"format(): there is no value for the field '{" + name +
                    "}' (format specifications are not supported)"};
    const Text part = to_text(*value);
    check_size(out.size() + part.size());
    in.charge(part.size());
    out.append(part);
    i = end + 1;
  }
  return out;
}

const std::array kTextMethods = std::to_array<Filter>({
    {"capitalize", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return capitalize(v.text()); }},
    {"casefold", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return casefold(v.text()); }},
    {"center", "width fillchar", [](Interpreter& in, const Value& v, const Bound& a) { return pad(in, v, a, 'c'); }},
    {"count", "sub", [](Interpreter&, const Value& v, const Bound& a) -> Value { return count(v, a); }},
    {"endswith", "suffix start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return has_affix(v, a, false); }},
    {"find", "sub start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return find(v, a, false, false); }},
    {"format", "", nullptr, &format},
    {"index", "sub start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return find(v, a, false, true); }},
    {"isalnum", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_alnum); }},
    {"isalpha", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_alpha); }},
    {"isascii", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return v.text().empty() || every(v, [](char32_t c) { return c < 0x80; }); }},
    {"isdecimal", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_decimal); }},
    {"isdigit", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_digit); }},
    {"islower", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return lower(v.text()) == v.text() && !(upper(v.text()) == v.text()); }},
    {"isnumeric", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_numeric); }},
    {"isspace", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return every(v, is_space); }},
    {"istitle", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return is_title(v.text()); }},
    {"isupper", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return upper(v.text()) == v.text() && !(lower(v.text()) == v.text()); }},
    {"join", "iterable", &join_method},
    {"ljust", "width fillchar", [](Interpreter& in, const Value& v, const Bound& a) { return pad(in, v, a, 'l'); }},
    {"lower", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return lower(v.text()); }},
    {"lstrip", "chars", [](Interpreter&, const Value& v, const Bound& a) { return strip_ends(v, a, true, false); }},
    {"partition", "sep", [](Interpreter&, const Value& v, const Bound& a) { return partition(v, a, false); }},
    {"removeprefix", "prefix", [](Interpreter&, const Value& v, const Bound& a) -> Value { return v.text().slice(v.text().view().starts_with(a.at(0).text().view()) ? a.at(0).text().size() : 0); }},
    {"removesuffix", "suffix", [](Interpreter&, const Value& v, const Bound& a) -> Value { return v.text().slice(0, v.text().size() - (v.text().view().ends_with(a.at(0).text().view()) ? a.at(0).text().size() : 0)); }},
    {"replace", "old new count", &replace_method},
    {"rfind", "sub start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return find(v, a, true, false); }},
    {"rindex", "sub start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return find(v, a, true, true); }},
    {"rjust", "width fillchar", [](Interpreter& in, const Value& v, const Bound& a) { return pad(in, v, a, 'r'); }},
    {"rpartition", "sep", [](Interpreter&, const Value& v, const Bound& a) { return partition(v, a, true); }},
    {"rsplit", "sep maxsplit", [](Interpreter& in, const Value& v, const Bound& a) { return split(in, v, a, true); }},
    {"rstrip", "chars", [](Interpreter&, const Value& v, const Bound& a) { return strip_ends(v, a, false, true); }},
    {"split", "sep maxsplit", [](Interpreter& in, const Value& v, const Bound& a) { return split(in, v, a, false); }},
    {"splitlines", "keepends", &splitlines},
    {"startswith", "prefix start end", [](Interpreter&, const Value& v, const Bound& a) -> Value { return has_affix(v, a, true); }},
    {"strip", "chars", [](Interpreter&, const Value& v, const Bound& a) { return strip_ends(v, a, true, true); }},
    {"title", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return title(v.text()); }},
    {"upper", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return upper(v.text()); }},
    {"zfill", "width", &zfill},
});

}  // namespace

std::span<const Filter> text_methods() { return kTextMethods; }

}  // namespace dml::jinja
