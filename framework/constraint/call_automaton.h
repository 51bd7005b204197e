// The form in which a family of models calls tools, as a constraint on its replies: text as it likes, and calls that
// fit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint/automaton.h"

namespace dml {

struct CallForm {
  std::vector<std::string> marks;  // one of them begins the first call
  bool anywhere = true;            // after any text; else only where the reply begins
  std::string begun;               // the end of the mark that is the beginning of the call itself
  struct Call {
    std::string head;  // stands before `rest`; ordered, and either all are empty or none
    std::shared_ptr<Automaton> rest;
  };
  std::vector<Call> calls;
  std::string close, again;  // after each call; then before one more, with what has `begun` it; "": there is none
  bool required = false;     // the reply begins after the mark, but for what has `begun` the call
  bool thinks = false;       // <think> … </think> may stand in front
  bool thinking = false;     // the prompt has opened it
};

/// Not for an empty mark. UserError where a tool's parameters allow no call.
std::unique_ptr<Automaton> call_automaton(CallForm form);

}  // namespace dml
