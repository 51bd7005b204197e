// Rows of a prompt and its answers that are conversations, rendered by a chat template.
#pragma once

#include <memory>
#include <string>

#include "prompt/strategy.h"

namespace dml {

/// The columns of the messages.
struct ChatPreference {
  std::string prompt = "prompt";  // if missing: the common prefix of chosen and rejected
  std::string system = {};        // column of the system text; "": none
  std::string chosen = "chosen", rejected = "rejected";
  std::string completion = "completion", label = "label";
};

/// Pairs, labeled answers, or with RowKind::text a prompt with its completion.
std::unique_ptr<PromptStrategy> make_preference_chat(const PromptContext& context, ChatPreference fields);

}  // namespace dml
