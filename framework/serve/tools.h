// The tools of a chat request: their form for the template, and the constraint that calls satisfy.
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
  Json list;                       // for the template; null if there are none
  bool parse = false;              // tool calls are parsed out of the reply
  bool one = false;                // keep only the first of several calls
  bool required = false;           // the reply must be a call
  Json functions = Json::array();  // the functions that may be called
  std::string opened;              // the text that opens a call, appended to the prompt
};

/// Reads tools, tool_choice and parallel_tool_calls. ApiError when they are invalid, or the template does not support
/// tools.
ToolsAsked read_tools(Fields& fields, ToolStyle style);

/// The constraint that the calls of a reply satisfy. With `answer`, the reply is calls or a text that it accepts;
/// without, any text.
std::unique_ptr<Automaton> call_constraint(const ToolsAsked& tools, const ReplyParser::Format& reply,
                                           const std::string& chat_template,
                                           std::unique_ptr<Automaton> answer = nullptr);
/// For the cache: with one chat template, equal strings mean equal constraints.
std::string call_constraint_key(const ToolsAsked& tools, const ReplyParser::Format& reply);

}  // namespace dml
