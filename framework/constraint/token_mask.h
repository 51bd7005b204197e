// From bytes to tokens: which tokens of a vocabulary an automaton allows next. The vocabulary is a prefix tree, walked
// once for each state that is met; the sets are kept.
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
  /// texts[i]: the bytes that token i adds to a text; empty for tokens that are no text, which are never allowed.
  /// `specials`: tokens that are allowed where anything is, and what a constraint reads for them.
  explicit TokenTree(std::vector<std::string> texts, std::vector<std::pair<std::int32_t, std::string>> specials = {});

  std::size_t vocabulary() const { return texts_.size(); }
  const std::string& text(std::int32_t token) const { return texts_[static_cast<std::size_t>(token)]; }
  std::span<const std::pair<std::int32_t, std::string>> specials() const { return specials_; }
  /// The text of a special token; "" of any other.
  std::string_view special(std::int32_t token) const;
  struct Node {
    unsigned char byte;
    std::uint32_t end;                  // the node after this one's subtree
    std::uint32_t first_token, tokens;  // of those that end here, in token_ids()
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const std::int32_t> token_ids() const { return token_ids_; }
  /// The longest token that begins `text`; −1 where there is none.
  std::int32_t longest(std::string_view text) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::int32_t> token_ids_;
  std::vector<std::string> texts_;
  std::vector<std::pair<std::int32_t, std::string>> specials_;  // ascending
};

/// A set of tokens, a bit each.
using TokenSet = std::vector<std::uint64_t>;

/// A constraint met by a vocabulary. One for all texts that are generated under the constraint. Not for several threads
/// at a time.
class TokenConstraint {
 public:
  /// `first`: what tokens add to a text as its first one, where that differs (SentencePiece drops a space there).
  TokenConstraint(std::shared_ptr<Automaton> automaton, std::shared_ptr<const TokenTree> tree,
                  std::shared_ptr<const TokenTree> first = nullptr)
      : automaton_(std::move(automaton)),
        tree_(std::move(tree)),
        first_(first ? std::move(first) : tree_),
        automaton_bytes_(automaton_->bytes()),
        bytes_(automaton_bytes_.load()) {}

  /// A text under the constraint so far.
  struct Text {
    Automaton::State state;
    bool begun = false;  // it has a token
  };
  /// The empty text. UserError when the constraint allows no text at all.
  Text start();
  /// The tokens that may come next; the end of the text is not among them. Valid until the next call.
  const TokenSet& allowed(const Text& text);
  /// The tokens of what must come next, where there is only one text: the longest tokens, `most` at most. They are what
  /// a model most likely writes; shorter ones make the same text.
  std::vector<std::int32_t> only_continuation(const Text& text, std::size_t most);
  /// Bytes of sets and tables so far, about. From any thread.
  std::size_t bytes() const { return bytes_; }
  /// Of those, the automaton's, which grow with the texts that were written.
  std::size_t automaton_bytes() const { return automaton_bytes_; }
  /// Whether the text may end.
  bool may_end(const Text& text) { return automaton_->may_end(text.state); }
  /// The text with one more token, one of those allowed.
  Text after(const Text& text, std::int32_t token);

 private:
  const TokenTree& tree(const Text& text) const { return text.begun ? *tree_ : *first_; }

  std::shared_ptr<Automaton> automaton_;
  std::shared_ptr<const TokenTree> tree_, first_;
  std::unordered_map<std::uint64_t, TokenSet> sets_;  // by state and whether the text has begun
  std::size_t set_bytes_ = 0;
  std::atomic<std::size_t> automaton_bytes_, bytes_;
};

}  // namespace dml
