#include "jinja/lexer.h"

#include <array>

#include "core/error.h"
#include "core/utf8.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return is_digit_char(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}
bool is_space_char(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : s_(source), name_(name) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) template_data();
    emit(Tok::eof, "", s_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const { fail_at(name_, s_, offset, what); }
  bool has(std::string_view what, std::size_t at) const { return s_.substr(at, what.size()) == what; }
  void emit(Tok kind, std::string text, std::size_t offset) { tokens_.push_back({kind, std::move(text), offset}); }
  void skip_space() {
    while (at_ < s_.size() && is_space_char(s_[at_])) ++at_;
  }

  /// Reads template data up to the next tag, then the tag.
  void template_data() {
    std::size_t tag = at_;
    while (tag < s_.size() && !(s_[tag] == '{' && tag + 1 < s_.size() &&
                                std::string_view("{%#").find(s_[tag + 1]) != std::string_view::npos))
      ++tag;
    const std::size_t begin = at_;
    if (tag >= s_.size()) {
      emit(Tok::data, std::string(s_.substr(begin)), begin);
      at_ = s_.size();
      return;
    }
    const char kind = s_[tag + 1];
    at_ = tag + 2;
    const char sign = at_ < s_.size() && (s_[at_] == '-' || s_[at_] == '+') ? s_[at_++] : '\0';
    data_before(begin, tag, sign, kind != '{');
    if (kind == '#') comment(tag);
    else if (kind == '%' && raw_block(tag)) return;
    else tag_body(tag, kind == '%');
  }

  void data_before(std::size_t begin, std::size_t end, char sign, bool block) {
    std::string_view data = s_.substr(begin, end - begin);
    if (sign == '-') {
      data = data.substr(0, strip(Text(data), nullptr, false, true).size());
    } else if (sign != '+' && block) {
      const std::size_t line = data.rfind('\n') + 1;  // npos + 1 is 0: no newline in this piece of data
      if ((line > 0 || line_starting_) && strip(Text(data.substr(line)), nullptr, true, false).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) emit(Tok::data, std::string(data), begin);
  }

  /// If a closing tag starts at at_, moves past it and trims whitespace according to its sign; else returns false.
  bool close(std::string_view end, bool trims) {
    std::size_t at = at_;
    char sign = '\0';
    if (at < s_.size() && (s_[at] == '-' || (s_[at] == '+' && trims))) sign = s_[at++];
    if (!has(end, at)) return false;
    at_ = at + end.size();
    if (sign == '-') skip_space();
    else if (sign == '\0' && trims && has("\n", at_)) ++at_;
    line_starting_ = at_ > 0 && s_[at_ - 1] == '\n';
    return true;
  }

  void comment(std::size_t begin) {
    for (; at_ < s_.size(); ++at_)
      if (close("#}", true)) return;
    fail(begin, "missing end of comment: expected '#}'");
  }

  /// Reads {% raw %} … {% endraw %}; false for any other tag.
  bool raw_block(std::size_t begin) {
    const std::size_t back = at_;
    skip_space();
    if (!has("raw", at_)) return at_ = back, false;
    at_ += 3;
    skip_space();
    if (!close("%}", false)) return at_ = back, false;  // the newline after {% raw %} is kept
    const std::size_t data = at_;
    for (std::size_t at = at_; at < s_.size(); ++at) {
      if (!has("{%", at)) continue;
      at_ = at + 2;
      const char sign = at_ < s_.size() && (s_[at_] == '-' || s_[at_] == '+') ? s_[at_++] : '\0';
      skip_space();
      if (!has("endraw", at_)) continue;
      at_ += 6;
      skip_space();
      if (!close("%}", true)) continue;
      const bool starting = std::exchange(line_starting_, false);
      data_before(data, at, sign, true);
      line_starting_ = starting;
      return true;
    }
    fail(begin, "missing end of raw block: expected '{% endraw %}'");
  }

  void tag_body(std::size_t begin, bool block) {
    emit(block ? Tok::block_begin : Tok::variable_begin, "", begin);
    std::string open;  // brackets still open: "}}" inside a dict does not end the tag
    for (;;) {
      skip_space();
      const std::size_t at = at_;
      if (at >= s_.size())
        fail(begin, block ? "this tag is not closed: expected '%}'" : "this tag is not closed: expected '}}'");
      if (open.empty() && close(block ? "%}" : "}}", block)) {
        emit(block ? Tok::block_end : Tok::variable_end, "", at);
        return;
      }
      const char c = s_[at];
      if (is_digit_char(c)) number();
      else if (is_name_char(c)) word();
      else if (c == '\'' || c == '"') string(c);
      else op(open);
    }
  }

  void word() {
    const std::size_t begin = at_;
    while (at_ < s_.size() && is_name_char(s_[at_])) ++at_;
    emit(Tok::name, std::string(s_.substr(begin, at_ - begin)), begin);
  }

  std::size_t digits(std::size_t at) const {
    while (at < s_.size() &&
           (is_digit_char(s_[at]) || (s_[at] == '_' && at + 1 < s_.size() && is_digit_char(s_[at + 1]))))
      ++at;
    return at;
  }

  void number() {
    const std::size_t begin = at_;
    std::size_t end = digits(begin);
    bool is_float = false;
    const bool behind_dot = begin > 0 && s_[begin - 1] == '.';  // foo.0.1 is two subscripts
    const std::string_view prefixes = "bBoOxX";
    if (s_[begin] == '0' && end == begin + 1 && end < s_.size() && prefixes.find(s_[end]) != std::string_view::npos) {
      for (++end; end < s_.size() && is_name_char(s_[end]); ++end) {
      }
    } else if (!behind_dot) {
      if (end + 1 < s_.size() && s_[end] == '.' && is_digit_char(s_[end + 1])) end = digits(end + 1), is_float = true;
      if (end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < s_.size() && (s_[exponent] == '+' || s_[exponent] == '-')) ++exponent;
        if (exponent < s_.size() && is_digit_char(s_[exponent])) end = digits(exponent), is_float = true;
      }
    }
    std::string text;
    for (char c : s_.substr(begin, end - begin))
      if (c != '_') text += c;
    at_ = end;
    emit(is_float ? Tok::floating : Tok::integer, std::move(text), begin);
  }

  void op(std::string& open) {
    static constexpr std::array<std::string_view, 6> two = {"//", "**", "==", "!=", ">=", "<="};
    const std::size_t at = at_;
    for (auto t : two)
      if (has(t, at)) {
        at_ += 2;
        return emit(Tok::op, std::string(t), at);
      }
    const char c = s_[at];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      std::size_t next = at;
      next_code_point(s_, next);
      fail(at, fmt::format("unexpected character '{}'", escape_controls(s_.substr(at, next - at))));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail(at, fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail(at, fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    ++at_;
    emit(Tok::op, std::string(1, c), at);
  }

  /// Reads a string literal with Python's escapes; an unknown escape is kept as written.
  void string(char quote) {
    const std::size_t begin = at_++;
    std::string out;
    while (at_ < s_.size() && s_[at_] != quote) {
      if (s_[at_] != '\\') {
        out += s_[at_++];
        continue;
      }
      if (++at_ >= s_.size()) break;
      const char c = s_[at_++];
      static constexpr std::string_view kNames = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
      if (auto k = kNames.find(c); k != std::string_view::npos) out += kMeant[k];
      else if (c == '\n') continue;
      else if (c == 'x' || c == 'u' || c == 'U') append_utf8(out, code(begin, c == 'x' ? 2 : c == 'u' ? 4 : 8));
      else if (c >= '0' && c <= '7') append_utf8(out, octal(c));
      else out += '\\', out += c;
    }
    if (at_ >= s_.size()) fail(begin, fmt::format("this string is not closed: expected {}", quote));
    ++at_;
    emit(Tok::string, std::move(out), begin);
  }

  char32_t octal(char first) {
    char32_t v = static_cast<char32_t>(first - '0');
    for (int i = 0; i < 2 && at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '7'; ++i)
      v = v * 8 + static_cast<char32_t>(s_[at_++] - '0');
    return v;
  }

  char32_t hex(std::size_t string_begin, int n) {
    char32_t v = 0;
    for (int i = 0; i < n; ++i) {
      const char c = at_ < s_.size() ? s_[at_++] : '\0';
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit_char(c) && !(lower >= 'a' && lower <= 'f'))
        fail(string_begin, fmt::format("a \\x, \\u or \\U escape in this string lacks some of its {} hex digits", n));
      v = v * 16 + static_cast<char32_t>(is_digit_char(c) ? c - '0' : lower - 'a' + 10);
    }
    return v;
  }

  /// Reads the digits of a character escape; a surrogate pair is one character.
  char32_t code(std::size_t string_begin, int n) {
    char32_t v = hex(string_begin, n);
    if (v >= 0xd800 && v < 0xdc00 && has("\\u", at_)) {
      at_ += 2;
      const char32_t low = hex(string_begin, 4);
      if (low >= 0xdc00 && low < 0xe000) v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    }
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
      fail(string_begin, "an escape in this string is not a Unicode character");
    return v;
  }

  std::string_view s_, name_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_newlines(std::string_view source, bool drop_last) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (drop_last && !out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

void fail_at(std::string_view name, std::string_view source, std::size_t offset, const std::string& what) {
  offset = std::min(offset, source.size());
  std::size_t line = 1, start = 0;
  for (std::size_t i = 0; i < offset; ++i)
    if (source[i] == '\n') ++line, start = i + 1;
  throw UserError("{}:{}:{}: {}", name, line, count_characters(source.substr(start, offset - start)) + 1, what);
}

std::vector<Token> tokenize(std::string_view source, std::string_view name) { return Lexer(source, name).run(); }

}  // namespace dml::jinja
