// Converts a record to the conversation that a template renders, marking every string with the turn it belongs to and
// whether it may be trained. Everything that depends on the format of conversations (mappings, roles, parts, flags,
// reasoning, tools) is here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "jinja/value.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {

/// The origin of marked bytes.
struct Source {
  int turn = -1;         // index into Conversation::turns; -1: none (tools, names, ids)
  bool spoken = false;   // content, reasoning or a tool call, which the model generates
  bool trained = false;  // in a trained turn and not excluded by a part or a detail
};

struct Turn {
  std::string role;
  bool trained = false;
  float weight = 1;  // weight of its tokens' losses
  bool calls_tools = false;
  bool has_text = false;  // its content is not blank
};

struct Conversation {
  std::vector<Turn> turns;
  std::vector<Source> sources;  // mark m refers to sources[m - 1]
  jinja::Value messages, tools;
  SeenFields fields;
};

struct ConversationOptions {
  DatasetEntry entry;
  bool train_on_inputs = false;
  std::map<std::string, std::string> role_names;  // role name in the data → the template's role
  std::string default_system;                     // for conversations without a system message
};

ConversationOptions conversation_options(const DatasetEntry& entry, bool train_on_inputs);

/// Reads a record. UserError naming the field, as in "messages[2].content: …".
Conversation read_conversation(const Json& record, const ConversationOptions& options);

}  // namespace dml
