// A prompt format: a row of data becomes pieces of text, each trained or only read. It never sees a token; labels
// follow from the pieces.
#pragma once

#include <string>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

struct Piece {
  std::string text;
  bool trained = false;  // its tokens have labels
  bool markup = false;   // text of the template: special tokens spelled out in it are parsed. Never for text of data
};

/// The pieces are tokenised as one text. A token belongs to the piece that contains its first byte other than a space.
struct Example {
  std::vector<Piece> pieces;
  bool begin = true;        // with the tokenizer's BOS, if it has one
  bool end = true;          // with EOS after it
  bool end_trained = true;  // … which is trained
};

/// Row<PromptFormat>::make gets, besides its arguments (all at their defaults), train_on_inputs, default_system_message
/// ("" when unset), bos_token and eos_token.
class PromptFormat {
 public:
  virtual ~PromptFormat() = default;
  /// Throws for a row that it cannot read; dml adds file and line. Called from many threads at once.
  virtual Example example(const Json& row) const = 0;
  /// The text up to the point where the model speaks, for inference; `end` is not read.
  virtual Example prompt(const Json& row) const = 0;
  /// Everything that decides what example() gives: prepared data are used again while it stays the same.
  virtual std::string fingerprint() const = 0;
  /// For the header of a run.
  virtual std::string description() const { return ""; }
};

}  // namespace dml::plugin
