// One training example: token ids with a label each. The label is the token's own id if it is trained, else kIgnore;
// the loader shifts labels by one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/packed_batch.h"
#include "data/examples.h"
#include "data/phases.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct Example {
  std::vector<Token> ids, labels;
  bool continues = false;  // the document continues in the next example, so it has no end-of-text token
  bool fused = false;      // a token begins in untrained text and ends in trained text
  bool truncated = false;  // lost tokens at sequence_len; a pair: one of its documents did
  ExampleKind kind = ExampleKind::document;
  std::int32_t split = 0;  // of a pair: number of tokens of the chosen document, which comes before the rejected one
  float weight = 1;        // of its loss
  float margin = 0;        // of a pair for a reward model
  std::vector<float> weights = {};  // of each token's loss; empty: all 1

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  /// Keeps the first `length` tokens.
  void truncate(std::int64_t length) {
    ids.resize(static_cast<std::size_t>(length));
    labels.resize(static_cast<std::size_t>(length));
    if (!weights.empty()) weights.resize(static_cast<std::size_t>(length));
  }
  /// Number of labels that count in the loss; the first position of a document is never a target.
  std::int64_t trained() const;
};

/// Tokenizes segments and concatenates their tokens. A token belongs to the piece that contains its first byte that is
/// not a space. One object serves many rows, reusing its working memory.
class Assembler {
 public:
  /// Time is added to Phase::tokenize and Phase::mask of `clock`, if it is not null.
  explicit Assembler(const Tokenizer& tokenizer, PhaseClock* clock = nullptr) : tokenizer_(tokenizer), clock_(clock) {}
  /// The result is valid until the next call; it may be swapped with another example, so that memory is reused.
  /// UserError for ids that the tokenizer does not have, or when EOS is requested and there is no EOS token.
  Example& operator()(const Rendered& rendered);
  /// Example::trained() of the last result.
  std::int64_t trained() const { return trained_; }

 private:
  struct Bound {  // of a piece
    std::size_t end;
    bool trained;
    float weight;
  };
  void take_tokens(const Rendered& rendered);
  void cut(std::size_t length);
  void append(const Segment& segment);
  void append_tokens(const std::string& text);
  void append_end(const Segment& segment);
  void label_last(std::size_t first, Token label);

  const Tokenizer& tokenizer_;
  PhaseClock* clock_;
  Example out_;
  std::int64_t trained_ = 0;
  Encoding encoding_;
  std::vector<ByteRange> literal_;  // text of users: special tokens in it are not parsed
  std::vector<Bound> bounds_;
};

/// Joins two documents into one example, a pair.
Example joined(Example&& chosen, const Example& rejected);

/// XXH3-64 of an example's tokens and labels.
std::uint64_t hash_of_example(std::span<const Token> ids, std::span<const Token> labels);
/// The hash as 16 hex digits.
std::string digest_of_example(std::span<const Token> ids, std::span<const Token> labels);

Example assemble(const Rendered& rendered, const Tokenizer& tokenizer);

Example slice(const Example& whole, std::int64_t begin, std::int64_t end);

/// Splits a document into examples of at most `length` tokens; every token is in exactly one. The last example has at
/// least `least` tokens; the missing ones are taken from the example before.
std::vector<Example> cut(const Example& document, std::int64_t length, std::int64_t least);

/// Splits a conversation into examples of at most `length` tokens, each ending after a trained range, with as many
/// turns as fit. A turn longer than `length`, and everything after it, is dropped.
std::vector<Example> split_turns(const Example& whole, std::int64_t length);

}  // namespace dml
