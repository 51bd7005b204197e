// A prompt format turns a row of data into pieces of text, each trained or not. It does not see tokens; labels follow
// from the pieces.
#pragma once

#include <string>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

struct Piece {
  std::string text;
  bool trained = false;  // whether its tokens have labels
  bool markup = false;   // text of the template, in which special tokens are parsed; never set for text of the data
};

/// The pieces are tokenized together. A token belongs to the piece that contains its first byte other than a space.
struct Example {
  std::vector<Piece> pieces;
  bool begin = true;        // begins with the tokenizer's BOS, if it has one
  bool end = true;          // ends with EOS …
  bool end_trained = true;  // … which has a label
};

/// Row<PromptFormat>::make receives, besides the row's arguments (all at their defaults), train_on_inputs,
/// default_system_message ("" if unset), bos_token and eos_token.
class PromptFormat {
 public:
  virtual ~PromptFormat() = default;
  /// Converts a row; throws if it cannot read it, and dml adds file and line. Called from several threads at once.
  virtual Example example(const Json& row) const = 0;
  /// For inference: the text up to the model's answer; `end` is ignored.
  virtual Example prompt(const Json& row) const = 0;
  /// Everything that determines the result of example(). Prepared data are reused while it stays the same.
  virtual std::string fingerprint() const = 0;
  /// Printed in the header of a run.
  virtual std::string description() const { return ""; }
};

}  // namespace dml::plugin
