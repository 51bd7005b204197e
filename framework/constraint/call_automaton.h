// A family's form of tool calls, as a constraint on its replies: arbitrary text, and valid calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint/automaton.h"

namespace dml {

struct CallForm {
  std::vector<std::string> marks;  // one of these opens the first call
  bool anywhere = true;            // calls may follow any text; else only at the start of the reply
  std::string begun;               // suffix of the mark that already belongs to the call
  struct Call {
    std::string head;  // text before `rest`; sorted; either all are empty or none
    std::shared_ptr<Automaton> rest;
  };
  std::vector<Call> calls;
  std::string close, again;  // text after each call; text before a further call, including `begun`; "": only one call
  bool text = true;          // a reply may be other text instead; if not, calls follow nothing
  bool required = false;     // a call is required: the reply starts after the mark, except for `begun`
  bool thinks = false;       // <think> … </think> may precede
  bool thinking = false;     // the prompt already contains <think>
};

/// Marks must not be empty. UserError when a tool's parameters allow no call.
std::unique_ptr<Automaton> call_automaton(CallForm form);

}  // namespace dml
