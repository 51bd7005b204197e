// Postfix expressions: attributes, items and slices, calls, filters and tests.
#include "core/closest.h"
#include "core/error.h"
#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/expression_parser.h"

namespace dml::jinja {

ExprPtr ExpressionParser::postfix(ExprPtr e) {
  for (;;) {
    if (is_op(".") || is_op("[")) e = subscript(std::move(e));
    else if (is_op("(")) e = call(std::move(e));
    else return e;
  }
}

ExprPtr ExpressionParser::filters_behind(ExprPtr e) {
  for (;;) {
    if (is_op("|")) {
      const std::size_t offset = take().offset;
      e = filter(std::move(e), offset);
    } else if (e && is_name("is")) {
      e = test(std::move(e));
    } else if (e && is_op("(")) {
      e = call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  const std::size_t offset = callee->offset;
  ExprPtr e = make(Kind::call, offset, std::move(callee));
  e->call = arguments();
  return measured(std::move(e));
}

ExprPtr ExpressionParser::subscript(ExprPtr e) {
  const Token open = take();
  if (open.text == ".") {
    if (now().kind == Tok::integer) {
      const Token t = take();
      return make(Kind::item, open.offset, std::move(e), constant(t.offset, integer(t)));
    }
    ExprPtr a = make(Kind::attribute, open.offset, std::move(e));
    a->text = expect_name("a name or a number");
    return a;
  }
  ExprPtr parts[3];
  int colons = 0;
  while (!is_op("]")) {
    if (skip_op(":")) {
      if (++colons > 2) fail(open.offset, "a slice has at most three parts");
    } else if (parts[colons]) {
      fail_expected("']'");
    } else {
      parts[colons] = expression();
    }
  }
  if (colons == 0 && !parts[0]) fail_expected("a subscript");
  take();
  if (colons == 0) return make(Kind::item, open.offset, std::move(e), std::move(parts[0]));
  return make(Kind::slice, open.offset, std::move(e), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
}

Expr::Call ExpressionParser::arguments() {
  Expr::Call c;
  expect_op("(");
  bool first = true;
  while (!skip_op(")")) {
    if (!std::exchange(first, false)) expect_op(",");
    if (skip_op(")")) break;
    const std::size_t offset = now().offset;
    if (skip_op("*")) {
      if (c.star || c.star_star) fail(offset, "only one *list is possible in a call");
      c.star = expression();
    } else if (skip_op("**")) {
      if (c.star_star) fail(offset, "only one **dict is possible in a call");
      c.star_star = expression();
    } else if (now().kind == Tok::name && ahead().kind == Tok::op && ahead().text == "=") {
      std::string key = take().text;
      take();
      c.named.emplace_back(std::move(key), expression());
    } else {
      if (c.star || c.star_star || !c.named.empty()) fail(offset, "a positional argument follows a named one");
      c.positional.push_back(expression());
    }
  }
  return c;
}

std::string ExpressionParser::dotted_name(std::string_view what) {
  std::string name = expect_name(what);
  while (skip_op(".")) name += "." + expect_name(what);
  return name;
}

ExprPtr ExpressionParser::filter(ExprPtr input, std::size_t offset) {
  const std::size_t at = now().offset;
  ExprPtr e = make(Kind::filter, offset, std::move(input));
  e->text = dotted_name("a filter name");
  if (!find_filter(e->text))
    fail(at, fmt::format("there is no filter '{}'{}", escape_controls(e->text), did_you_mean(e->text, filter_names())));
  if (is_op("(")) e->call = arguments();
  return measured(std::move(e));
}

ExprPtr ExpressionParser::test(ExprPtr input) {
  const std::size_t offset = take().offset;
  const bool negated = skip_name("not");
  const std::size_t at = now().offset;
  ExprPtr e = make(Kind::test, offset, std::move(input));
  e->text = dotted_name("a test name");
  if (!find_test(e->text))
    fail(at, fmt::format("there is no test '{}'{}", escape_controls(e->text), did_you_mean(e->text, test_names())));
  const Token& t = now();
  if (is_op("(")) {
    e->call = arguments();
  } else if (t.kind == Tok::string || t.kind == Tok::integer || t.kind == Tok::floating || is_op("[") || is_op("{") ||
             (t.kind == Tok::name && t.text != "else" && t.text != "or" && t.text != "and" && t.text != "if" &&
              t.text != "in" && t.text != "not" && t.text != "recursive")) {
    if (is_name("is")) fail(t.offset, "tests cannot be chained with 'is'");
    e->call.positional.push_back(postfix(primary()));
  }
  e = measured(std::move(e));
  return negated ? make(Kind::logical_not, offset, std::move(e)) : std::move(e);
}

}  // namespace dml::jinja
