// The tools of a chat request: what the template is told of them, and what a call of them must be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint/automaton.h"
#include "core/json.h"
#include "serve/fields.h"
#include "serve/reply_parser.h"

namespace dml {

struct ToolsAsked {
  Json list;                       // for the template; null: none
  bool parse = false;              // calls in the reply are taken out
  bool one = false;                // of several calls the first is kept
  bool required = false;           // the reply must be a call; else it may be one
  Json functions = Json::array();  // those that may be called
  std::string opened;              // what a prompt for such a reply ends with
};

/// tools, tool_choice and parallel_tool_calls. ApiError where they are wrong, or the template knows no tools.
ToolsAsked read_tools(Fields& fields, ToolStyle style);

/// What constraint() makes of tools and the format of replies, as text: equal texts, equal constraints.
std::string call_constraint(const ToolsAsked& tools, const ReplyParser::Format& reply,
                            const std::string& chat_template);
std::unique_ptr<Automaton> call_constraint_automaton(const std::string& text);

}  // namespace dml
