// One training example: token ids with a label each. A label is the token's own id where it is learned and kIgnore
// where it is only read; the shift by one happens in the loader.
#pragma once

#include <cstdint>
#include <vector>

#include "core/packed_batch.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct Example {
  std::vector<Token> ids, labels;
  bool goes_on = false;  // the document continues in the next example, so no end of text is expected

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  /// Labels that can count in the loss: the first position of a document is never a target.
  std::int64_t learned() const;
};

/// Tokenises the segments one by one and lays them end to end. A token belongs to the piece its first byte is in.
/// UserError on ids the tokenizer does not have or when an end is asked for and there is no eos token.
Example assemble(const Rendered& rendered, const Tokenizer& tokenizer);

/// Cuts a document into examples of at most `length` tokens, none lost and none doubled. The last one is at least
/// `least` long (the one before gives some of its tokens).
std::vector<Example> cut(Example document, std::int64_t length, std::int64_t least);

/// Parts of at most `length` tokens that each end behind a learned run, as many of them as fit in one; a turn that is
/// longer than `length`, and what comes after it, is left out.
std::vector<Example> split_turns(const Example& whole, std::int64_t length);

}  // namespace dml
