#include "tokenizer/stages/normalizer.h"

#include <utf8proc.h>

#include <functional>
#include <optional>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "tokenizer/stages/json_fields.h"
#include "tokenizer/stages/normal_forms.h"
#include "tokenizer/text/onig_pattern.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

// The replacement of a character; unset: unchanged.
using CharMap = std::function<std::optional<std::string>(char32_t)>;

class EachChar : public Normalizer {
 public:
  explicit EachChar(CharMap map) : map_(std::move(map)) {}
  void apply(AlignedText& text) const override {
    std::string_view s = text.bytes();
    AlignedText::Rewriter out(text);
    bool changed = false;
    for (std::size_t i = 0; i < s.size();) {
      std::size_t begin = i;
      if (auto mapped = map_(decode_char(s.data(), i))) {
        out.put(*mapped, static_cast<std::uint32_t>(begin));
        changed = true;
      } else {
        out.keep(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(i));
      }
    }
    if (changed) out.finish();
  }

 private:
  CharMap map_;
};

std::optional<std::string> lowered(char32_t c) {
  std::string lower = lower_case(c), same;
  append_utf8(same, c);
  return lower == same ? std::nullopt : std::optional(lower);
}

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(AlignedText& text) const override { apply_normal_form(text, form_); }

 private:
  NormalForm form_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override {
    if (text.size() == 0) return;
    AlignedText::Rewriter out(text);
    out.put(prefix_, 0);
    out.keep(0, text.size());
    out.finish();
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::string text, std::optional<OnigPattern> regex, std::string content, std::string_view where)
      : text_(std::move(text)), regex_(std::move(regex)), content_(std::move(content)), where_(where) {}
  void apply(AlignedText& text) const override {
    std::string_view s = text.bytes();
    std::vector<ByteRange> matches;
    if (regex_) {
      regex_->find_all(s, matches);
    } else if (!text_.empty()) {
      for (std::size_t at = s.find(text_); at != std::string_view::npos; at = s.find(text_, at + text_.size()))
        matches.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + text_.size())});
    }
    if (matches.empty()) return;
    // Relative to the input, not to the result of an earlier stage, so that several stages cannot multiply the size.
    const std::size_t input = text.origin(text.size()) - text.origin(0);
    const std::size_t grown = s.size() + matches.size() * content_.size();
    if (grown > kMaxGrowth + 32 * input) throw UserError("{}: replacing makes {} bytes of {}", where_, grown, input);
    AlignedText::Rewriter out(text);
    std::uint32_t done = 0;
    for (ByteRange m : matches) {
      out.keep(done, m.begin);
      out.put(content_, m.begin);
      done = m.end;
    }
    out.keep(done, text.size());
    out.finish();
  }

 private:
  static constexpr std::size_t kMaxGrowth = std::size_t{16} << 20;
  std::string text_;
  std::optional<OnigPattern> regex_;
  std::string content_, where_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    std::string_view s = text.bytes();
    std::size_t begin = 0, end = s.size();
    const std::uint8_t* classes = char_classes();
    for (std::size_t i = 0; left_ && i < end && (classes[decode_char(s.data(), i)] & kSpace);) begin = i;
    for (std::size_t i = begin, kept = begin; right_ && i < s.size();) {
      if (!(classes[decode_char(s.data(), i)] & kSpace)) kept = i;
      end = kept;
    }
    if (begin == 0 && end == s.size()) return;
    AlignedText::Rewriter out(text);
    out.keep(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    out.finish();
  }

 private:
  bool left_, right_;
};

// SentencePiece's map as applied by Hugging Face: by grapheme if it is short, otherwise by character; the shortest key
// is used.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void apply(AlignedText& text) const override {
    std::string_view s = text.bytes();
    AlignedText::Rewriter out(text);
    bool changed = false;
    for (std::size_t begin = 0; begin < s.size();) {
      std::size_t end = begin;
      utf8proc_int32_t state = 0;
      auto last = static_cast<utf8proc_int32_t>(decode_char(s.data(), end));
      for (std::size_t next = end; end < s.size(); end = next) {
        auto c = static_cast<utf8proc_int32_t>(decode_char(s.data(), next));
        if (utf8proc_grapheme_break_stateful(last, c, &state)) break;
        last = c;
      }
      std::string_view grapheme = s.substr(begin, end - begin);
      auto whole = grapheme.size() < 6 ? map_.find(grapheme, true) : Charsmap::Match{};
      if (whole.length > 0) {
        out.put(whole.replacement, static_cast<std::uint32_t>(begin));
        changed = true;
        begin = end;
      }
      while (begin < end) {
        std::size_t n = char_length(s[begin]);
        auto match = map_.find(s.substr(begin, n), true);
        if (match.length > 0) out.put(match.replacement, static_cast<std::uint32_t>(begin)), changed = true;
        else out.keep(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + n));
        begin += n;
      }
    }
    if (changed) out.finish();
  }

 private:
  Charsmap map_;
};

std::unique_ptr<Normalizer> chars(CharMap map) { return std::make_unique<EachChar>(std::move(map)); }

bool is_mark(char32_t c) {
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}
bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

std::unique_ptr<Normalizer> make_bert(const Json& spec, std::string_view where) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  bool lowercase = json_bool(spec, "lowercase", true, where);
  if (json_bool(spec, "clean_text", true, where))
    parts.push_back(chars([](char32_t c) -> std::optional<std::string> {
      std::uint8_t kind = char_classes()[c];
      bool keeps = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xfffd || ((kind & kControl) && !keeps)) return "";
      return (kind & kSpace) && c != ' ' ? std::optional<std::string>(" ") : std::nullopt;
    }));
  if (json_bool(spec, "handle_chinese_chars", true, where))
    parts.push_back(chars([](char32_t c) -> std::optional<std::string> {
      if (!is_chinese(c)) return std::nullopt;
      std::string out = " ";
      append_utf8(out, c);
      return out + " ";
    }));
  if (json_bool(spec, "strip_accents", lowercase, where)) {
    parts.push_back(std::make_unique<Form>(NormalForm{false, false}));
    parts.push_back(
        chars([](char32_t c) { return char_classes()[c] & kMark ? std::optional<std::string>("") : std::nullopt; }));
  }
  if (lowercase) parts.push_back(chars(lowered));
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

std::optional<std::string> nmt(char32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return "";
  bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
               c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  return space ? std::optional<std::string>(" ") : std::nullopt;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& spec, std::string_view where) {
  if (spec.is_null()) return nullptr;
  std::string type = stage_type(spec, where);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for_each_part(spec, "normalizers", where, [&](const Json& part, const std::string& at) {
      if (auto made = make_normalizer(part, at)) parts.push_back(std::move(made));
    });
    return std::make_unique<NormalizerSequence>(std::move(parts));
  }
  if (type == "NFC") return std::make_unique<Form>(NormalForm{true, false});
  if (type == "NFD") return std::make_unique<Form>(NormalForm{false, false});
  if (type == "NFKC") return std::make_unique<Form>(NormalForm{true, true});
  if (type == "NFKD") return std::make_unique<Form>(NormalForm{false, true});
  if (type == "Lowercase") return chars(lowered);
  if (type == "Nmt") return chars(nmt);
  if (type == "StripAccents")
    return chars([](char32_t c) { return is_mark(c) ? std::optional<std::string>("") : std::nullopt; });
  if (type == "BertNormalizer") return make_bert(spec, where);
  if (type == "Prepend") return std::make_unique<Prepend>(json_string(spec, "prepend", "", where));
  if (type == "Strip")
    return std::make_unique<Strip>(json_bool(spec, "strip_left", true, where),
                                   json_bool(spec, "strip_right", true, where));
  if (type == "Replace") {
    Pattern pattern = read_pattern(spec, where);
    std::optional<OnigPattern> regex;
    if (pattern.is_regex) regex.emplace(pattern.text, where);
    return std::make_unique<Replace>(pattern.text, std::move(regex), json_string(spec, "content", "", where), where);
  }
  if (type == "Precompiled")
    return std::make_unique<Precompiled>(
        Charsmap(decode_base64(json_string(spec, "precompiled_charsmap", "", where), where), where));
  if (type == "ByteLevel")
    return chars([](char32_t c) -> std::optional<std::string> {
      std::string bytes;
      append_utf8(bytes, c);
      return bytes_to_spelling(bytes);
    });
  static const std::vector<std::string> known = {
      "NFC",      "NFD",   "NFKC",         "NFKD",        "Lowercase",      "Prepend", "Replace",
      "Sequence", "Strip", "StripAccents", "Precompiled", "BertNormalizer", "Nmt",     "ByteLevel"};
  throw UserError("{}: unknown normalizer '{}'{}", where, shown(type, 60), did_you_mean(type, known));
}

}  // namespace dml
