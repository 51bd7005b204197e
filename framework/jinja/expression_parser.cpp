#include "jinja/expression_parser.h"

#include <charconv>

#include "core/error.h"
#include "core/utf8.h"
#include "jinja/builtins.h"
#include "jinja/python.h"

namespace dml::jinja {

ExprPtr ExpressionParser::binary(std::size_t offset, std::string op, ExprPtr a, ExprPtr b) {
  ExprPtr e = make(Kind::binary, offset, std::move(a), std::move(b));
  e->text = std::move(op);
  return e;
}

ExprPtr ExpressionParser::constant(std::size_t offset, Value value) {
  ExprPtr e = make(Kind::constant, offset);
  e->value = std::move(value);
  return e;
}

ExprPtr ExpressionParser::measured(ExprPtr e) {
  int deepest = 0;
  auto look = [&](const ExprPtr& child) {
    if (child) deepest = std::max(deepest, child->depth);
  };
  std::for_each(e->args.begin(), e->args.end(), look);
  std::for_each(e->call.positional.begin(), e->call.positional.end(), look);
  for (auto& [key, value] : e->call.named) look(value);
  look(e->call.star);
  look(e->call.star_star);
  e->depth = deepest + 1;
  if (e->depth > kMaxTreeDepth) fail(e->offset, "this expression is nested too deeply");
  return e;
}

std::string ExpressionParser::describe(const Token& t) {
  switch (t.kind) {
    case Tok::eof:
      return "the end of the template";
    case Tok::block_end:
      return "'%}'";
    case Tok::variable_end:
      return "'}}'";
    case Tok::block_begin:
      return "'{%'";
    case Tok::variable_begin:
      return "'{{'";
    case Tok::data:
      return "template text";
    case Tok::string:
      return "a string";
    default:
      return fmt::format("'{}'", escape_controls(t.text));
  }
}

ExprPtr ExpressionParser::tuple_expression(bool conditions, std::string_view end) {
  const std::size_t offset = now().offset;
  std::vector<ExprPtr> items;
  bool tuple = false;
  while (!(items.empty() ? false : !tuple)) {
    if (tuple_ends(end)) break;
    items.push_back(conditions ? expression() : logical_or());
    tuple = skip_op(",");
    if (!tuple && items.size() == 1) return std::move(items[0]);
  }
  if (items.empty()) fail_expected("an expression");
  ExprPtr e = make(Kind::tuple, offset);
  e->args = std::move(items);
  return measured(std::move(e));
}

bool ExpressionParser::tuple_ends(std::string_view end) const {
  return now().kind == Tok::variable_end || now().kind == Tok::block_end || now().kind == Tok::eof || is_op(")") ||
         (!end.empty() && is_name(end));
}

ExprPtr ExpressionParser::expression() {
  const Depth depth(*this, now().offset);
  ExprPtr e = logical_or();
  while (is_name("if")) {
    const std::size_t offset = take().offset;
    ExprPtr condition = logical_or();
    ExprPtr other = skip_name("else") ? expression() : nullptr;
    e = make(Kind::condition, offset, std::move(e), std::move(condition), std::move(other));
  }
  return e;
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr e = logical_and();
  while (is_name("or")) {
    const std::size_t offset = take().offset;
    e = make(Kind::logical_or, offset, std::move(e), logical_and());
  }
  return e;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr e = logical_not();
  while (is_name("and")) {
    const std::size_t offset = take().offset;
    e = make(Kind::logical_and, offset, std::move(e), logical_not());
  }
  return e;
}

ExprPtr ExpressionParser::logical_not() {
  if (!is_name("not")) return comparison();
  const Depth depth(*this, now().offset);
  const std::size_t offset = take().offset;
  return make(Kind::logical_not, offset, logical_not());
}

ExprPtr ExpressionParser::comparison() {
  const std::size_t offset = now().offset;
  ExprPtr first = sum();
  ExprPtr e;
  for (;;) {
    std::string op;
    for (std::string_view o : {"==", "!=", "<", "<=", ">", ">="})
      if (is_op(o)) op = o;
    if (is_name("in")) op = "in";
    const bool negated = is_name("not") && ahead().kind == Tok::name && ahead().text == "in";
    if (negated) op = "not in";
    if (op.empty()) break;
    take();
    if (negated) take();
    if (!e) e = make(Kind::compare, offset, std::move(first));
    e->ops.push_back(op);
    e->args.push_back(sum());
  }
  return e ? measured(std::move(e)) : std::move(first);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr e = concat();
  while (is_op("+") || is_op("-")) {
    const Token op = take();
    e = binary(op.offset, op.text, std::move(e), concat());
  }
  return e;
}

ExprPtr ExpressionParser::concat() {
  const std::size_t offset = now().offset;
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr e = make(Kind::concat, offset, std::move(first));
  while (skip_op("~")) e->args.push_back(product());
  return measured(std::move(e));
}

ExprPtr ExpressionParser::product() {
  ExprPtr e = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token op = take();
    e = binary(op.offset, op.text, std::move(e), power());
  }
  return e;
}

ExprPtr ExpressionParser::power() {
  ExprPtr e = unary();
  while (is_op("**")) {
    const std::size_t offset = take().offset;
    e = binary(offset, "**", std::move(e), unary());
  }
  return e;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  ExprPtr e;
  if (is_op("-") || is_op("+")) {
    const Depth depth(*this, now().offset);
    const Token op = take();
    e = make(op.text == "-" ? Kind::negative : Kind::positive, op.offset, unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters_behind(std::move(e)) : std::move(e);
}

ExprPtr ExpressionParser::primary() {
  const Token t = now();
  switch (t.kind) {
    case Tok::name: {
      take();
      if (t.text == "true" || t.text == "True") return constant(t.offset, true);
      if (t.text == "false" || t.text == "False") return constant(t.offset, false);
      if (t.text == "none" || t.text == "None") return constant(t.offset, nullptr);
      ExprPtr e = make(Kind::name, t.offset);
      e->text = t.text;
      varargs_ |= t.text == "varargs";
      kwargs_ |= t.text == "kwargs";
      return e;
    }
    case Tok::string: {
      std::string text;
      while (now().kind == Tok::string) text += take().text;
      return constant(t.offset, Text(std::move(text)));
    }
    case Tok::integer:
      return constant(take().offset, integer(t));
    case Tok::floating:
      return constant(take().offset, floating(t));
    default:
      break;
  }
  if (skip_op("(")) {
    const Depth depth(*this, t.offset);
    if (skip_op(")")) return make(Kind::tuple, t.offset);
    ExprPtr e = tuple_expression();
    expect_op(")");
    return e;
  }
  if (skip_op("[")) return list(t.offset);
  if (skip_op("{")) return dict(t.offset);
  fail_expected("an expression");
}

ExprPtr ExpressionParser::list(std::size_t offset) {
  ExprPtr e = make(Kind::list, offset);
  while (!skip_op("]")) {
    if (!e->args.empty()) expect_op(",");
    if (skip_op("]")) break;
    e->args.push_back(expression());
  }
  return measured(std::move(e));
}

ExprPtr ExpressionParser::dict(std::size_t offset) {
  ExprPtr e = make(Kind::dict, offset);
  while (!skip_op("}")) {
    if (!e->args.empty()) expect_op(",");
    if (skip_op("}")) break;
    e->args.push_back(expression());
    expect_op(":");
    e->args.push_back(expression());
  }
  return measured(std::move(e));
}

Value ExpressionParser::integer(const Token& t) const {
  std::string_view digits = t.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0')
    base = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : (digits[1] | 0x20) == 'b' ? 2 : 10;
  if (base != 10) digits.remove_prefix(2);
  std::int64_t v = 0;
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), v, base);
  if (r.ec == std::errc::result_out_of_range)
    fail(t.offset, fmt::format("the integer {} does not fit 64 bits", t.text));
  if (r.ptr != digits.data() + digits.size()) fail(t.offset, fmt::format("'{}' is not a number", t.text));
  return v;
}

Value ExpressionParser::floating(const Token& t) const {
  double v = 0;
  if (!parse_decimal(t.text, v)) fail(t.offset, fmt::format("'{}' is not a number", t.text));
  return v;
}

}  // namespace dml::jinja
