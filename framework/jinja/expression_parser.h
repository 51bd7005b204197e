// The parser for expressions: tokens, precedences (Jinja 3.1's) and limits on the depth of trees.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace dml::jinja {

class ExpressionParser {
 protected:
  using Kind = Expr::Kind;

  ExpressionParser(std::string_view source, std::string_view name)
      : source_(source), name_(name), tokens_(tokenize(source, name)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_op(std::string_view op) const { return now().kind == Tok::op && now().text == op; }
  bool is_name(std::string_view word) const { return now().kind == Tok::name && now().text == word; }
  bool skip_op(std::string_view op) { return is_op(op) && (take(), true); }
  bool skip_name(std::string_view word) { return is_name(word) && (take(), true); }
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const { fail_at(name_, source_, offset, what); }
  [[noreturn]] void fail_expected(std::string_view what) const {
    fail(now().offset, fmt::format("expected {}, got {}", what, describe(now())));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_expected(fmt::format("'{}'", op));
  }
  std::string expect_name(std::string_view what) {
    if (now().kind != Tok::name) fail_expected(what);
    return take().text;
  }
  void expect_block_end() {
    if (now().kind != Tok::block_end) fail_expected("'%}'");
    take();
  }
  static std::string describe(const Token& t);

  /// Limits the recursion depth of the parser.
  struct Depth {
    explicit Depth(ExpressionParser& p, std::size_t offset) : parser(p) {
      if (++p.depth_ > kMaxTreeDepth / 4) p.fail(offset, "nested too deeply");
    }
    ~Depth() { --parser.depth_; }
    ExpressionParser& parser;
  };

  template <class... Args>
  ExprPtr make(Kind kind, std::size_t offset, Args... args) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->offset = offset;
    (e->args.push_back(std::move(args)), ...);
    return measured(std::move(e));
  }
  /// Sets the depth of a tree to that of its deepest child plus one. UserError beyond the limit.
  ExprPtr measured(ExprPtr e);
  ExprPtr constant(std::size_t offset, Value value);
  ExprPtr binary(std::size_t offset, std::string op, ExprPtr a, ExprPtr b);

  ExprPtr tuple_expression(bool conditions = true, std::string_view end = "");
  bool tuple_ends(std::string_view end) const;
  ExprPtr expression();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary();
  ExprPtr list(std::size_t offset);
  ExprPtr dict(std::size_t offset);
  Value integer(const Token& t) const;
  Value floating(const Token& t) const;
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters_behind(ExprPtr e);
  ExprPtr call(ExprPtr callee);
  ExprPtr subscript(ExprPtr e);
  Expr::Call arguments();
  std::string dotted_name(std::string_view what);
  ExprPtr filter(ExprPtr input, std::size_t offset);
  ExprPtr test(ExprPtr input);

  std::string_view source_, name_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool varargs_ = false, kwargs_ = false;  // used in the current macro
};

}  // namespace dml::jinja
