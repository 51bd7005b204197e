// The syntax tree of a template, with one node type for expressions and one for statements; the kind defines which
// members are used. Trees are at most kMaxTreeDepth deep, so recursion over them cannot overflow the stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace dml::jinja {

inline constexpr int kMaxTreeDepth = 400;

struct Expr {
  enum class Kind {
    constant,  // value
    name,      // text
    list,      // a list of args
    tuple,
    dict,       // args: key, value, key, value …
    attribute,  // args[0].text
    item,       // args[0][args[1]]
    slice,      // args[0][args[1]:args[2]:args[3]], absent ones null
    call,       // args[0](call)
    filter,     // args[0] | text(call); args[0] null in {% filter %} and block set: the captured text
    test,       // args[0] is text(call)
    condition,  // args[0] if args[1] else args[2] (may be null)
    compare,    // args[0] ops[0] args[1] ops[1] args[2] …
    concat,     // args ~ …
    binary,     // args[0] text args[1]
    logical_and,
    logical_or,
    logical_not,
    negative,
    positive,
  };
  struct Call {
    std::vector<std::unique_ptr<Expr>> positional;
    std::vector<std::pair<std::string, std::unique_ptr<Expr>>> named;
    std::unique_ptr<Expr> star, star_star;  // *list, **dict
  };

  Kind kind = Kind::constant;
  std::size_t offset = 0;
  int depth = 1;
  Value value;
  std::string text;
  std::vector<std::unique_ptr<Expr>> args;
  std::vector<std::string> ops;
  Call call;
};
using ExprPtr = std::unique_ptr<Expr>;

struct Stmt {
  enum class Kind {
    data,        // value
    output,      // expr
    if_,         // branches (condition null: else)
    for_,        // target in expr [if test]: body, else: other
    set,         // target = expr
    set_block,   // target = captured body, through expr when there is one
    macro,       // name, parameters, body
    call_block,  // {% call(parameters) expr %} body
    filter,      // body through expr
    with,        // parameters = their defaults, body
    generation,  // body, marked
    break_,
    continue_,
  };
  struct Parameter {
    std::string name;
    ExprPtr default_value;
  };
  struct Branch {
    ExprPtr condition;
    std::vector<std::unique_ptr<Stmt>> body;
  };

  Kind kind = Kind::data;
  std::size_t offset = 0;
  Value value;
  std::string name;
  ExprPtr target, expr, test;  // target: name, tuple of names or ns.attribute
  std::vector<Parameter> parameters;
  std::vector<Branch> branches;
  std::vector<std::unique_ptr<Stmt>> body, other;
  bool recursive = false;                            // for
  bool takes_varargs = false, takes_kwargs = false;  // macro: its body reads them
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

}  // namespace dml::jinja
