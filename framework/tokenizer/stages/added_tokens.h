// Tokens added to the model's vocabulary, which are matched in the text first, the longest match at each position.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/text/byte_trie.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct AddedToken {
  Token id = -1;
  std::string text;
  bool special = false;                 // skipped in decoding; not parsed in literal text
  bool normalized = false;              // matched in the normalized text
  bool lstrip = false, rstrip = false;  // includes white space before, after
  std::string decoded;                  // set by prepare(): its text in decoding, normalized if `normalized`
  bool single_word = false;             // matched only between non-word characters
};

class AddedTokens {
 public:
  static constexpr std::size_t kMaxCount = 65536, kMaxBytes = 4096;
  /// Adds a token, or replaces one of the same id or text. Throws UserError for an empty or too long text, or too many
  /// tokens.
  void add(AddedToken token, std::string_view where);
  const AddedToken* find(Token id) const;
  const AddedToken* find(std::string_view text) const;
  const std::vector<AddedToken>& all() const { return tokens_; }
  /// Marks an existing token as special.
  void make_special(Token id);

  struct Cut {
    ByteRange range;
    Token id;  // -1: text between tokens
  };
  /// Normalizes the text of a token that is matched in normalized text.
  using Normalize = std::string (*)(const void* context, std::string_view text);
  /// To be called once, after the last add().
  void prepare(const void* context, Normalize normalize);

  /// The allowed matches: no special tokens if `specials` is false, and none that overlap a literal range.
  struct Allowed {
    bool specials = true;
    std::span<const ByteRange> literal = {};
  };
  /// Splits a text into added tokens and the text between them. origin(i) maps offsets to the input, which `literal`
  /// refers to.
  template <class Origin>
  void cut(std::string_view text, bool normalized, const Allowed& allowed, const Origin& origin,
           std::vector<Cut>& out) const;
  bool any(bool normalized) const { return !(normalized ? normalized_ : raw_).empty(); }

 private:
  struct Found {
    std::uint32_t length = 0;
    Token id = -1;
  };
  void push(std::string_view text, ByteRange match, const AddedToken& token, std::uint32_t& done,
            std::vector<Cut>& out) const;
  bool stands_alone(std::string_view text, ByteRange match) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<Token, std::size_t> by_id_;
  std::unordered_map<std::string, std::size_t> by_text_;
  ByteTrie raw_, normalized_;
};

template <class Origin>
void AddedTokens::cut(std::string_view text, bool normalized, const Allowed& allowed, const Origin& origin,
                      std::vector<Cut>& out) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  std::uint32_t done = 0;
  auto literal = allowed.literal.begin();
  for (std::uint32_t i = 0; i < text.size();) {
    if (!trie.starts_key(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    std::uint32_t here = origin(i);
    while (literal != allowed.literal.end() && (literal->end <= here || literal->begin >= literal->end)) ++literal;
    Found best;
    trie.prefixes(text.substr(i), [&](std::size_t n, std::int32_t id) {
      if (tokens_[id].special) {
        if (!allowed.specials) return;
        if (literal != allowed.literal.end() && literal->begin < origin(i + static_cast<std::uint32_t>(n))) return;
      }
      best = {static_cast<std::uint32_t>(n), id};
    });
    if (best.length == 0) {
      ++i;
      continue;
    }
    ByteRange match{i, i + best.length};
    i = match.end;
    if (tokens_[best.id].single_word && !stands_alone(text, match)) continue;
    push(text, match, tokens_[best.id], done, out);
    i = std::max(i, done);
  }
  if (done < text.size()) out.push_back({{done, static_cast<std::uint32_t>(text.size())}, -1});
}

}  // namespace dml
