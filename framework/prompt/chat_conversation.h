// A record → the conversation a template sees, every string of it marked with the turn it belongs to and whether it may
// be trained. All that depends on how people spell conversations (mappings, roles, parts, flags, reasoning, tools) is
// here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "jinja/value.h"
#include "recipe/recipe.h"

namespace dml {

/// Where marked bytes come from.
struct Source {
  int turn = -1;         // of Conversation::turns; -1: of none (tools, names, ids)
  bool spoken = false;   // content, reasoning or a tool call: what a model would have to say
  bool trained = false;  // of a trained turn, and not excluded by a part or a detail
};

struct Turn {
  std::string role;
  bool trained = false;
  float weight = 1;  // of its tokens' losses
  bool calls_tools = false;
  bool has_text = false;  // some of its content is not blank
};

struct Conversation {
  std::vector<Turn> turns;
  std::vector<Source> sources;  // mark m is sources[m - 1]
  jinja::Value messages, tools;
};

struct ConversationOptions {
  DatasetEntry entry;
  bool train_on_inputs = false;
  std::map<std::string, std::string> role_names;  // spelling in the data → the template's role
  std::string default_system;                     // for conversations without a system message
};

ConversationOptions conversation_options(const DatasetEntry& entry, bool train_on_inputs);

/// UserError naming the field, as "messages[2].content: …".
Conversation read_conversation(const Json& record, const ConversationOptions& options);

}  // namespace dml
