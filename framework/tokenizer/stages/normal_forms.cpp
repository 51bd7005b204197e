#include "tokenizer/stages/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/utf8.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

// Whether c may combine with the preceding character: marks, Hangul vowels and finals, and what decomposes to these.
bool joins(char32_t c) {
  if (c < 0x300) return false;
  auto code = static_cast<utf8proc_int32_t>(c);
  auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME ||
         (c >= 0x1160 && c <= 0x11ff) || (c >= 0x3131 && c <= 0x318e) || (c >= 0xff9e && c <= 0xffdc) ||
         (c >= 0xd7b0 && c <= 0xd7fb);
}

// Whether c is unchanged unless something combines with it.
bool inert(char32_t c, NormalForm form) {
  if (c < 0xa0) return true;
  if (c >= 0xac00 && c <= 0xd7a3) return form.compose;
  if (joins(c)) return false;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->decomp_seqindex == UINT16_MAX;
}

void normalize_part(std::string_view part, NormalForm form, std::vector<utf8proc_int32_t>& codes, std::string& out) {
  auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (form.compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                     (form.compatible ? UTF8PROC_COMPAT : 0));
  codes.clear();
  for (std::size_t i = 0; i < part.size();) {
    utf8proc_int32_t buffer[32];  // the longest decomposition has 18
    int boundary = 0;
    auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(decode_char(part.data(), i)), buffer, 32, options,
                                     &boundary);
    codes.insert(codes.end(), buffer, buffer + std::clamp<utf8proc_ssize_t>(n, 0, 32));
  }
  auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto it = codes.begin(); it != codes.end();) {
    auto end = it;
    while (end != codes.end() && mark_class(*end) != 0) ++end;
    std::stable_sort(it, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    it = end == codes.end() ? end : end + 1;
  }
  auto n = static_cast<utf8proc_ssize_t>(codes.size());
  if (form.compose) n = utf8proc_normalize_utf32(codes.data(), n, options);
  out.clear();
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(codes[i]));
}

}  // namespace

void apply_normal_form(AlignedText& text, NormalForm form) {
  std::string_view s = text.bytes();
  bool all_inert = true;  // the usual case
  for (std::size_t i = 0; i < s.size() && all_inert;)
    all_inert = static_cast<unsigned char>(s[i]) < 0x80 ? (++i, true) : inert(decode_char(s.data(), i), form);
  if (all_inert) return;
  AlignedText::Rewriter out(text);
  std::vector<utf8proc_int32_t> codes;
  std::string part;
  for (std::size_t begin = 0; begin < s.size();) {
    std::size_t end = begin;
    bool simple = inert(decode_char(s.data(), end), form);
    for (std::size_t next = end; end < s.size(); end = next) {
      if (!joins(decode_char(s.data(), next))) break;
      simple = false;
    }
    if (simple) {
      out.keep(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    } else {
      normalize_part(s.substr(begin, end - begin), form, codes, part);
      out.put(part, static_cast<std::uint32_t>(begin));
    }
    begin = end;
  }
  out.finish();
}

}  // namespace dml
