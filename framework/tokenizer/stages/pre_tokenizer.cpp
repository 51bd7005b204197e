#include "tokenizer/stages/pre_tokenizer.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"
#include "tokenizer/stages/json_fields.h"
#include "tokenizer/text/onig_pattern.h"
#include "tokenizer/text/scanner.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// A range of a word: a match of the pattern, or the text between two matches.
struct SplitRange {
  ByteRange range;
  bool match;
};

// Appends the words that the ranges become by the behavior. An empty range is a word until the end: others join it.
void arrange(std::vector<SplitRange>& ranges, Behavior behavior, std::vector<ByteRange>& words) {
  const std::size_t first = words.size();
  bool previous = false;
  switch (behavior) {
    case Behavior::isolated:
      for (auto& s : ranges) words.push_back(s.range);
      break;
    case Behavior::removed:
      for (auto& s : ranges)
        if (!s.match) words.push_back(s.range);
      break;
    case Behavior::contiguous:
    case Behavior::merged_with_previous:
      for (auto& s : ranges) {
        bool joins = behavior == Behavior::contiguous ? s.match == previous : s.match && !previous;
        if (joins && words.size() > first) words.back().end = s.range.end;
        else words.push_back(s.range);
        previous = s.match;
      }
      break;
    case Behavior::merged_with_next:
      for (auto s = ranges.rbegin(); s != ranges.rend(); ++s) {
        if (s->match && !previous && words.size() > first) words.back().begin = s->range.begin;
        else words.push_back(s->range);
        previous = s->match;
      }
      std::reverse(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
      break;
  }
  words.erase(std::remove_if(words.begin() + static_cast<std::ptrdiff_t>(first), words.end(),
                             [](ByteRange r) { return r.begin == r.end; }),
              words.end());
}

class Split : public PreTokenizer {
 public:
  using Finder = std::function<void(std::string_view word, std::vector<ByteRange>& matches)>;
  Split(Finder find, Behavior behavior, bool invert) : find_(std::move(find)), behavior_(behavior), invert_(invert) {}
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    std::vector<ByteRange> out, matches;
    std::vector<SplitRange> ranges;
    for (ByteRange word : words) {
      std::string_view s = text.bytes().substr(word.begin, word.end - word.begin);
      matches.clear();
      find_(s, matches);
      ranges.clear();
      std::uint32_t done = word.begin;
      for (ByteRange m : matches) {
        if (word.begin + m.begin > done) ranges.push_back({{done, word.begin + m.begin}, invert_});
        ranges.push_back({{word.begin + m.begin, word.begin + m.end}, !invert_});
        done = word.begin + m.end;
      }
      if (done < word.end) ranges.push_back({{done, word.end}, invert_});
      arrange(ranges, behavior_, out);
    }
    words = std::move(out);
  }

 private:
  Finder find_;
  Behavior behavior_;
  bool invert_;
};

// A pattern with a hand-written scanner.
class ScannedWords : public PreTokenizer {
 public:
  explicit ScannedWords(Scanner scanner) : scanner_(scanner) {}
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    std::vector<ByteRange> out;
    out.reserve(text.size() / 4 + 8);
    for (ByteRange word : words) {
      std::string_view s = text.bytes().substr(word.begin, word.end - word.begin);
      for (std::uint32_t i = 0; i < s.size();) {
        std::uint32_t end = scanner_.next(s, i);
        out.push_back({word.begin + i, word.begin + end});
        i = end;
      }
    }
    words = std::move(out);
  }

 private:
  Scanner scanner_;
};

// Rewrites every word separately.
template <class F>
void rewrite_words(AlignedText& text, std::vector<ByteRange>& words, F&& rewrite) {
  AlignedText::Rewriter out(text);
  for (ByteRange& word : words) {
    std::uint32_t begin = out.size();
    rewrite(out, word);
    word = {begin, out.size()};
  }
  out.finish();
}

class PrefixSpace : public PreTokenizer {
 public:
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    auto lacks = [&](ByteRange w) { return text.bytes()[w.begin] != ' '; };
    if (std::none_of(words.begin(), words.end(), lacks)) return;
    rewrite_words(text, words, [&](AlignedText::Rewriter& out, ByteRange w) {
      if (lacks(w)) out.put(" ", w.begin);
      out.keep(w.begin, w.end);
    });
  }
};

class SpellBytes : public PreTokenizer {
 public:
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    rewrite_words(text, words, [&](AlignedText::Rewriter& out, ByteRange w) {
      for (std::uint32_t i = w.begin; i < w.end; ++i) out.put(bytes_to_spelling(text.bytes().substr(i, 1)), i);
    });
  }
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string mark, PrefixScheme prefix, bool split)
      : mark_(std::move(mark)), prefix_(prefix), split_(split) {}
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    rewrite_words(text, words, [&](AlignedText::Rewriter& out, ByteRange w) {
      std::string_view s = text.bytes().substr(w.begin, w.end - w.begin);
      bool marked = s.starts_with(' ') || s.starts_with(mark_);
      if (!marked && (prefix_ == PrefixScheme::always || (prefix_ == PrefixScheme::first && text.origin(w.begin) == 0)))
        out.put(mark_, w.begin);
      for (std::uint32_t i = w.begin; i < w.end;) {
        std::uint32_t end = std::min<std::size_t>(text.bytes().find(' ', i), w.end);
        out.keep(i, end);
        if (end < w.end) out.put(mark_, end);
        i = end + 1;
      }
    });
    if (!split_) return;
    std::vector<ByteRange> out;
    for (ByteRange w : words) {
      // Every mark begins a word, like Split with MergedWithNext.
      std::uint32_t begin = w.begin;
      for (std::uint32_t i = w.begin; i < w.end;) {
        bool mark = text.bytes().substr(i, w.end - i).starts_with(mark_);
        if (mark && i > begin) out.push_back({begin, i}), begin = i;
        i += mark ? static_cast<std::uint32_t>(mark_.size()) : 1;
      }
      if (begin < w.end) out.push_back({begin, w.end});
    }
    words = std::move(out);
  }

 private:
  std::string mark_;
  PrefixScheme prefix_;
  bool split_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text, std::vector<ByteRange>& words) const override {
    for (auto& part : parts_) part->apply(text, words);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

Behavior read_behavior(const Json& spec, Behavior fallback, std::string_view where) {
  static const std::vector<std::string> names = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                 "Contiguous"};
  std::string name = json_string(spec, "behavior", names[static_cast<int>(fallback)], where);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Behavior>(i);
  throw UserError("{}: unknown behavior '{}'{}", where, shown(name, 60), did_you_mean(name, names));
}

// Each character of a class is one match.
Split::Finder each_char(std::function<bool(char32_t)> wanted) {
  return [wanted = std::move(wanted)](std::string_view s, std::vector<ByteRange>& matches) {
    for (std::size_t i = 0; i < s.size();) {
      auto begin = static_cast<std::uint32_t>(i);
      if (wanted(decode_char(s.data(), i))) matches.push_back({begin, static_cast<std::uint32_t>(i)});
    }
  };
}
Split::Finder regex_finder(std::string_view pattern, std::string_view where) {
  return [regex = OnigPattern(pattern, where)](std::string_view s, std::vector<ByteRange>& matches) {
    regex.find_all(s, matches);
  };
}
Split::Finder text_finder(std::string text) {
  return [text = std::move(text)](std::string_view s, std::vector<ByteRange>& matches) {
    for (std::size_t at = text.empty() ? s.npos : s.find(text); at != s.npos; at = s.find(text, at + text.size()))
      matches.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + text.size())});
  };
}

bool is_punctuation(char32_t c) { return char_classes()[c] & (kPunctuation | kAsciiSymbol); }
bool is_space(char32_t c) { return char_classes()[c] & kSpace; }

std::unique_ptr<PreTokenizer> split(Split::Finder find, Behavior behavior, bool invert = false) {
  return std::make_unique<Split>(std::move(find), behavior, invert);
}

// \w+|[^\w\s]+ as Rust's regex crate reads it, which has joiners in \w and no fractions.
constexpr std::string_view kWordsAndOthers =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";

using Parts = std::vector<std::unique_ptr<PreTokenizer>>;

void add_split(const Json& spec, Parts& parts, std::string_view where) {
  Pattern pattern = read_pattern(spec, where);
  Behavior behavior = read_behavior(spec, Behavior::isolated, where);
  bool invert = json_bool(spec, "invert", false, where);
  auto scanner = pattern.is_regex ? Scanner::for_pattern(pattern.text) : std::nullopt;
  // These patterns match every character, so isolating matches and removing the rest are equivalent.
  if (scanner && (behavior == Behavior::isolated || (behavior == Behavior::removed && invert)))
    parts.push_back(std::make_unique<ScannedWords>(*scanner));
  else
    parts.push_back(
        split(pattern.is_regex ? regex_finder(pattern.text, where) : text_finder(pattern.text), behavior, invert));
}

// `last`: no other pre-tokenizer follows, so a byte-level model may read the bytes.
void add_parts(const Json& spec, Parts& parts, bool last, PreTokenizers& result, std::string_view where) {
  std::string type = stage_type(spec, where);
  if (type == "Sequence") {
    auto list = spec.find("pretokenizers");
    std::size_t count = list != spec.end() && list->is_array() ? list->size() : 0, i = 0;
    for_each_part(spec, "pretokenizers", where, [&](const Json& part, const std::string& at) {
      add_parts(part, parts, last && ++i == count, result, at);
    });
  } else if (type == "ByteLevel") {
    if (json_bool(spec, "add_prefix_space", true, where)) parts.push_back(std::make_unique<PrefixSpace>());
    if (json_bool(spec, "use_regex", true, where))
      parts.push_back(std::make_unique<ScannedWords>(*Scanner::for_pattern(Scanner::gpt2_pattern())));
    if (last) result.byte_level = true;
    else parts.push_back(std::make_unique<SpellBytes>());
  } else if (type == "Split") {
    add_split(spec, parts, where);
  } else if (type == "Metaspace") {
    parts.push_back(std::make_unique<Metaspace>(read_character(spec, "replacement", "\xe2\x96\x81", where),
                                                read_prefix_scheme(spec, where),
                                                json_bool(spec, "split", true, where)));
  } else if (type == "Digits") {
    auto digit = [](char32_t c) { return (char_classes()[c] & kNumber) != 0; };
    bool each = json_bool(spec, "individual_digits", false, where);
    parts.push_back(split(each_char(digit), each ? Behavior::isolated : Behavior::contiguous));
  } else if (type == "Whitespace") {
    parts.push_back(split(regex_finder(kWordsAndOthers, where), Behavior::removed, true));
  } else if (type == "WhitespaceSplit") {
    parts.push_back(split(each_char(is_space), Behavior::removed));
  } else if (type == "Punctuation") {
    parts.push_back(split(each_char(is_punctuation), read_behavior(spec, Behavior::isolated, where)));
  } else if (type == "BertPreTokenizer") {
    parts.push_back(split(each_char(is_space), Behavior::removed));
    parts.push_back(split(each_char(is_punctuation), Behavior::isolated));
  } else if (type == "CharDelimiterSplit") {
    parts.push_back(split(text_finder(read_character(spec, "delimiter", "", where)), Behavior::removed));
  } else if (type == "FixedLength") {
    auto length = json_integer(spec, "length", 0, where);
    if (length < 1) throw UserError("{}: 'length' must be at least 1, is {}", where, length);
    parts.push_back(split(
        [length](std::string_view s, std::vector<ByteRange>& matches) {
          for (std::size_t i = 0; i < s.size();) {
            auto begin = static_cast<std::uint32_t>(i);
            for (std::int64_t k = 0; k < length && i < s.size(); ++k) decode_char(s.data(), i);
            matches.push_back({begin, static_cast<std::uint32_t>(i)});
          }
        },
        Behavior::isolated));
  } else {
    static const std::vector<std::string> known = {
        "ByteLevel",       "Split",       "Sequence",         "Metaspace",          "Digits",     "Whitespace",
        "WhitespaceSplit", "Punctuation", "BertPreTokenizer", "CharDelimiterSplit", "FixedLength"};
    throw UserError("{}: unknown pre-tokenizer '{}'{}", where, shown(type, 60), did_you_mean(type, known));
  }
}

}  // namespace

PrefixScheme read_prefix_scheme(const Json& spec, std::string_view where) {
  bool old = json_bool(spec, "add_prefix_space", true, where);
  std::string name = json_string(spec, "prepend_scheme", old ? "always" : "never", where);
  if (name == "always") return PrefixScheme::always;
  if (name == "first") return PrefixScheme::first;
  if (name == "never") return PrefixScheme::never;
  throw UserError("{}: 'prepend_scheme' must be always, first or never, is '{}'", where, shown(name, 60));
}

PreTokenizers make_pre_tokenizer(const Json& spec, bool model_reads_bytes, std::string_view where) {
  PreTokenizers result;
  if (spec.is_null()) return result;
  Parts parts;
  add_parts(spec, parts, model_reads_bytes, result, where);
  if (parts.size() == 1) result.splitter = std::move(parts[0]);
  else if (!parts.empty()) result.splitter = std::make_unique<Sequence>(std::move(parts));
  return result;
}

}  // namespace dml
