// Computes the tokens of a vocabulary that an automaton over bytes allows next. The vocabulary is a prefix tree that is
// traversed once per automaton state; the resulting sets are cached.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraint/automaton.h"

namespace dml {

/// The texts of a vocabulary's tokens as a prefix tree in depth-first order.
class TokenTree {
 public:
  /// texts[i]: the bytes that token i adds to a text; empty for tokens without text, which are never allowed.
  /// `specials`: tokens that are allowed where any text is, with the text that the constraint reads for them.
  explicit TokenTree(std::vector<std::string> texts, std::vector<std::pair<std::int32_t, std::string>> specials = {});

  std::size_t vocabulary() const { return texts_.size(); }
  const std::string& text(std::int32_t token) const { return texts_[static_cast<std::size_t>(token)]; }
  std::span<const std::pair<std::int32_t, std::string>> specials() const { return specials_; }
  /// The text of a special token; "" for other tokens.
  std::string_view special(std::int32_t token) const;
  struct Node {
    unsigned char byte;
    std::uint32_t end;                  // the node after this one's subtree
    std::uint32_t first_token, tokens;  // range in token_ids() of the tokens that end here
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const std::int32_t> token_ids() const { return token_ids_; }
  /// The longest token that is a prefix of `text`; −1 if there is none.
  std::int32_t longest(std::string_view text) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::int32_t> token_ids_;
  std::vector<std::string> texts_;
  std::vector<std::pair<std::int32_t, std::string>> specials_;  // ascending
};

/// A set of tokens, one bit per token.
using TokenSet = std::vector<std::uint64_t>;

/// An automaton applied to a vocabulary; shared by all texts generated under the constraint. Not thread-safe except
/// where stated.
class TokenConstraint {
 public:
  /// `first`: the texts of tokens at the start of a text, if they differ (SentencePiece drops a space there).
  TokenConstraint(std::shared_ptr<Automaton> automaton, std::shared_ptr<const TokenTree> tree,
                  std::shared_ptr<const TokenTree> first = nullptr)
      : automaton_(std::move(automaton)),
        tree_(std::move(tree)),
        first_(first ? std::move(first) : tree_),
        automaton_bytes_(automaton_->bytes()),
        bytes_(automaton_bytes_.load()) {}

  /// The position of a text in the constraint.
  struct Text {
    Automaton::State state;
    bool begun = false;  // it has at least one token
  };
  /// The position of the empty text. UserError when the constraint allows no text at all.
  Text start();
  /// The tokens that may come next; stop tokens are not included. Valid until the next call. This and the following
  /// throw UserError when they take too long.
  const TokenSet& allowed(const Text& text);
  /// If the continuation is unique, its tokens, at most `most`: the longest ones, which a model most likely generates,
  /// although shorter ones form the same text.
  std::vector<std::int32_t> only_continuation(const Text& text, std::size_t most);
  /// Approximate bytes of sets and tables. Thread-safe.
  std::size_t bytes() const { return bytes_; }
  /// The automaton's share of bytes(), which grows with the generated texts.
  std::size_t automaton_bytes() const { return automaton_bytes_; }
  /// Whether the text may end.
  bool may_end(const Text& text) { return automaton_->may_end(text.state); }
  /// The position after one of the allowed tokens.
  Text after(const Text& text, std::int32_t token);

 private:
  const TokenTree& tree(const Text& text) const { return text.begun ? *tree_ : *first_; }
  TokenSet fitting(const Text& text);
  void note_bytes();

  std::shared_ptr<Automaton> automaton_;
  std::shared_ptr<const TokenTree> tree_, first_;
  std::unordered_map<std::uint64_t, TokenSet> sets_;  // by state and Text::begun
  std::size_t set_bytes_ = 0;
  std::atomic<std::size_t> automaton_bytes_, bytes_;
};

}  // namespace dml
