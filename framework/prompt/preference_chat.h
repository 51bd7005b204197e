// Preference rows that are conversations, through a chat template.
#pragma once

#include <memory>
#include <string>

#include "prompt/strategy.h"

namespace dml {

/// Columns of the messages.
struct ChatPreference {
  std::string prompt = "prompt";  // where it is missing: what chosen and rejected have in common
  std::string system = {};        // where the prompt is a text: column of a text before it
  std::string chosen = "chosen", rejected = "rejected";
  std::string completion = "completion", label = "label";
};

std::unique_ptr<PromptStrategy> make_preference_chat(const PromptContext& context, ChatPreference fields);

}  // namespace dml
