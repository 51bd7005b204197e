// A preference format whose prompt and answers are strings: its columns, and the frame around them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prompt/strategy.h"

namespace dml {

/// The text around prompts. Placeholders: {system}; {prompt}.
struct PreferenceFrame {
  std::string system = {};
  std::string prompt = "{prompt}";
  bool ends_text = true;  // EOS is added after the answer, which has no end token of its own
  bool literal = false;   // special tokens in the row's texts are parsed
};

struct PreferenceAnswer {
  std::string field;        // in the syntax of FieldPath
  std::string layout, key;  // placeholder {chosen}, {rejected} or {completion}; the key it comes from, for errors
  DocumentRole role;        // desirable: `label` decides
};

struct PreferenceFormat {
  std::string name;
  std::string prompt;  // in the syntax of FieldPath
  std::string system;  // column; may be empty
  std::string label;   // column, of labeled answers
  PreferenceFrame frame;
  std::vector<PreferenceAnswer> answers;
};

std::unique_ptr<PromptStrategy> make_preference_text(PreferenceFormat format);
/// The user's own format (`type:` as a table) for context.rows.
std::unique_ptr<PromptStrategy> make_user_preference(const PromptContext& context);

}  // namespace dml
