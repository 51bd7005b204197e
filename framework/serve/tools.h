// The tools of a chat request: what the template is told of them, and what a call of them must be.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "serve/fields.h"
#include "serve/reply_parser.h"

namespace dml {

struct ToolsAsked {
  Json list;                 // for the template; null: none
  bool parse = false;        // calls in the reply are taken out
  bool one = false;          // of several calls the first is kept
  std::string schema;        // a reply must be a call, and be JSON of this schema; "": it may be
  std::string opened;        // what a prompt for such a reply ends with
};

/// tools, tool_choice and parallel_tool_calls. ApiError where they are wrong, or the template knows no tools.
ToolsAsked read_tools(Fields& fields, ToolStyle style);

}  // namespace dml
