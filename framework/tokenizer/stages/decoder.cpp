#include "tokenizer/stages/decoder.h"

#include <algorithm>
#include <optional>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tokenizer/stages/json_fields.h"
#include "tokenizer/stages/pre_tokenizer.h"
#include "tokenizer/text/onig_pattern.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

constexpr std::string_view kUnknownChar = "\xef\xbf\xbd";

// Base of decoders that process tokens one by one.
class EachToken : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) decode_one(tokens[i], i == 0);
  }
};

class ByteLevel : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string text;
    for (auto& t : tokens) {
      decode_one(t, false);
      text += t;
    }
    tokens.assign(1, replace_invalid_utf8(text));
  }
  void decode_one(std::string& token, bool) const override {
    std::string bytes;
    if (spelling_to_bytes(token, bytes)) token = std::move(bytes);
  }
};

class ReplaceInTokens : public EachToken {
 public:
  ReplaceInTokens(std::string text, std::optional<OnigPattern> regex, std::string content)
      : text_(std::move(text)), content_(std::move(content)), regex_(std::move(regex)) {}
  void decode_one(std::string& token, bool) const override {
    if (!regex_) {
      token = with_replaced(token, text_, content_);
      return;
    }
    std::vector<ByteRange> matches;
    regex_->find_all(token, matches);
    for (auto m = matches.rbegin(); m != matches.rend(); ++m) token.replace(m->begin, m->end - m->begin, content_);
  }

 private:
  std::string text_, content_;
  std::optional<OnigPattern> regex_;
};

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? std::nullopt : std::optional(static_cast<char>(high * 16 + low));
}

// A run of "<0x..>" is text if all of it is UTF-8, else one U+FFFD for each byte.
class ByteFallback : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string run;
    auto flush = [&] {
      if (run.empty()) return;
      if (find_invalid_utf8(run) == run.npos) out.push_back(run);
      else out.insert(out.end(), run.size(), std::string(kUnknownChar));
      run.clear();
    };
    for (auto& t : tokens) {
      if (auto byte = fallback_byte(t)) {
        run += *byte;
      } else {
        flush();
        out.push_back(std::move(t));
      }
    }
    flush();
    tokens = std::move(out);
  }
  void decode_one(std::string& token, bool) const override {
    if (auto byte = fallback_byte(token)) token.assign(1, *byte);
  }
};

class Fuse : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string all;
    for (auto& t : tokens) all += t;
    tokens.assign(1, std::move(all));
  }
  void decode_one(std::string&, bool) const override {}
};

// Removes up to `start` and `stop` characters from the ends of every token (after a Fuse, of the text).
class StripOfTokens : public EachToken {
 public:
  StripOfTokens(std::string content, std::size_t start, std::size_t stop, bool fused)
      : content_(std::move(content)), start_(start), stop_(stop), fused_(fused) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (auto& t : tokens) strip(t, true);
  }
  void decode_one(std::string& token, bool first) const override {
    if (!fused_ || first) strip(token, !fused_);
  }

 private:
  void strip(std::string& token, bool at_end) const {
    std::size_t n = content_.size();
    for (std::size_t k = 0; k < start_ && token.starts_with(content_); ++k) token.erase(0, n);
    for (std::size_t k = 0; at_end && k < stop_ && token.ends_with(content_); ++k) token.erase(token.size() - n);
  }
  std::string content_;
  std::size_t start_, stop_;
  bool fused_;
};

class MetaspaceDecoder : public EachToken {
 public:
  MetaspaceDecoder(std::string mark, bool prefixed) : mark_(std::move(mark)), prefixed_(prefixed) {}
  void decode_one(std::string& token, bool first) const override {
    token = with_replaced(token, mark_, first && prefixed_ ? "" : " ");
  }

 private:
  std::string mark_;
  bool prefixed_;
};

void clean_up(std::string& s) {
  static constexpr std::string_view pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                                  {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                                  {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto& [from, to] : pairs) s = with_replaced(s, from, to);
}

class WordPieceDecoder : public EachToken {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void decode_one(std::string& token, bool first) const override {
    if (!first) {
      if (token.starts_with(prefix_)) token.erase(0, prefix_.size());
      else token = " " + token;
    }
    if (cleanup_) clean_up(token);
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

// The suffix marks the end of a word and becomes a space, except after the last one. A stream does not know which token
// is the last and writes a space there, too.
class WordSuffix : public Decoder {
 public:
  explicit WordSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = with_replaced(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }
  void decode_one(std::string& token, bool) const override { token = with_replaced(token, suffix_, " "); }

 private:
  std::string suffix_;
};

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (auto& part : parts_) part->decode(tokens);
  }
  void decode_one(std::string& token, bool first) const override {
    for (auto& part : parts_) part->decode_one(token, first);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::size_t read_count(const Json& spec, const char* key, std::string_view where) {
  auto n = json_integer(spec, key, 0, where);
  if (n < 0 || n > 1 << 20) throw UserError("{}: '{}' must be a small count, is {}", where, key, n);
  return static_cast<std::size_t>(n);
}

std::unique_ptr<Decoder> make_part(const Json& spec, bool fused, std::string_view where) {
  std::string type = stage_type(spec, where);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Decoder>> parts;
    for_each_part(spec, "decoders", where, [&](const Json& part, const std::string& at) {
      parts.push_back(make_part(part, fused, at));
      fused = fused || stage_type(part, at) == "Fuse";
    });
    return std::make_unique<DecoderSequence>(std::move(parts));
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") {
    std::string content = read_character(spec, "content", " ", where);
    return std::make_unique<StripOfTokens>(content, read_count(spec, "start", where), read_count(spec, "stop", where),
                                           fused);
  }
  if (type == "Metaspace")
    return std::make_unique<MetaspaceDecoder>(read_character(spec, "replacement", "\xe2\x96\x81", where),
                                              read_prefix_scheme(spec, where) != PrefixScheme::never);
  if (type == "Replace") {
    Pattern pattern = read_pattern(spec, where);
    std::optional<OnigPattern> regex;
    if (pattern.is_regex) regex.emplace(pattern.text, where);
    return std::make_unique<ReplaceInTokens>(pattern.text, std::move(regex), json_string(spec, "content", "", where));
  }
  if (type == "WordPiece")
    return std::make_unique<WordPieceDecoder>(json_string(spec, "prefix", "##", where),
                                              json_bool(spec, "cleanup", true, where));
  if (type == "BPEDecoder") return std::make_unique<WordSuffix>(json_string(spec, "suffix", "</w>", where));
  static const std::vector<std::string> known = {"ByteLevel", "ByteFallback", "Fuse",      "Strip",     "Metaspace",
                                                 "Replace",   "Sequence",     "WordPiece", "BPEDecoder"};
  throw UserError("{}: unknown decoder '{}'{}", where, shown(type, 60), did_you_mean(type, known));
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& spec, std::string_view where) {
  return spec.is_null() ? nullptr : make_part(spec, false, where);
}

std::unique_ptr<Decoder> make_sentencepiece_decoder(bool drop_first_space) {
  std::vector<std::unique_ptr<Decoder>> parts;
  parts.push_back(std::make_unique<ReplaceInTokens>("\xe2\x96\x81", std::nullopt, " "));
  parts.push_back(std::make_unique<ByteFallback>());
  parts.push_back(std::make_unique<Fuse>());
  if (drop_first_space) parts.push_back(std::make_unique<StripOfTokens>(" ", 1, 0, true));
  return std::make_unique<DecoderSequence>(std::move(parts));
}

}  // namespace dml
