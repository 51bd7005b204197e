#include "jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "core/closest.h"
#include "core/error.h"
#include "core/utf8.h"
#include "jinja/expression_parser.h"

namespace dml::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  Parser(std::string_view source, std::string_view name) : ExpressionParser(source, name) {}

  Body run() { return statements({}); }

 private:
  /// Parses statements up to a block tag named in `ends`, whose name is then the next token, or to the end of the
  /// template.
  Body statements(std::initializer_list<std::string_view> ends) {
    const std::size_t opened = now().offset;
    const Depth depth(*this, opened);
    Body body;
    for (;;) {
      const Token& t = now();
      if (t.kind == Tok::eof) {
        if (ends.size() > 0)
          fail(tags_.back().second,
               fmt::format("'{}' is not closed: expected '{{% {} %}}'", tags_.back().first, *(ends.end() - 1)));
        return body;
      }
      if (t.kind == Tok::data) {
        body.push_back(statement(Stmt::Kind::data, t.offset));
        body.back()->value = Text(take().text);
      } else if (t.kind == Tok::variable_begin) {
        take();
        body.push_back(statement(Stmt::Kind::output, t.offset));
        body.back()->expr = tuple_expression();
        if (now().kind != Tok::variable_end) fail_expected("'}}'");
        take();
      } else {
        take();
        if (now().kind != Tok::name) fail_expected("a tag name");
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) return body;
        body.push_back(block());
        expect_block_end();
      }
    }
  }
  static StmtPtr statement(Stmt::Kind kind, std::size_t offset) {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->offset = offset;
    return s;
  }
  /// Parses the body of the current tag: from its "%}" to the end tag, whose name is consumed.
  Body body_until(std::string_view end) {
    skip_op(":");
    expect_block_end();
    Body b = statements({end});
    take();
    return b;
  }

  StmtPtr block() {
    const Token tag = take();
    tags_.emplace_back(tag.text, tag.offset);
    StmtPtr s = block_named(tag);
    tags_.pop_back();
    return s;
  }

  StmtPtr block_named(const Token& tag) {
    const std::string& t = tag.text;
    if (t == "if") return if_block(tag.offset);
    if (t == "for") return for_block(tag.offset);
    if (t == "set") return set_block(tag.offset);
    if (t == "macro") return macro_block(tag.offset);
    if (t == "call") return call_block(tag.offset);
    if (t == "with") return with_block(tag.offset);
    if (t == "filter") {
      StmtPtr s = statement(Stmt::Kind::filter, tag.offset);
      s->expr = filter(nullptr, tag.offset);
      s->expr = filters_behind(std::move(s->expr));
      s->body = body_until("endfilter");
      return s;
    }
    if (t == "generation") {
      StmtPtr s = statement(Stmt::Kind::generation, tag.offset);
      s->body = body_until("endgeneration");
      return s;
    }
    if (t == "break" || t == "continue") {
      if (loops_ == 0) fail(tag.offset, fmt::format("'{}' outside of a loop", t));
      return statement(t == "break" ? Stmt::Kind::break_ : Stmt::Kind::continue_, tag.offset);
    }
    for (std::string_view refused : {"include", "import", "from", "extends", "block", "autoescape"})
      if (t == refused)
        fail(tag.offset, fmt::format("'{}' is not supported in chat templates: write everything in one template", t));
    static const std::vector<std::string> known = {
        "if",     "elif",    "else",     "endif",      "for",           "endfor", "set",
        "endset", "macro",   "endmacro", "call",       "endcall",       "filter", "endfilter",
        "with",   "endwith", "raw",      "generation", "endgeneration", "break",  "continue"};
    const bool closes = std::find(known.begin(), known.end(), t) != known.end();
    if (closes && tags_.size() > 1)
      fail(tag.offset, fmt::format("unexpected tag '{}': '{}' is still open", t, tags_[tags_.size() - 2].first));
    if (closes) fail(tag.offset, fmt::format("unexpected tag '{}': nothing is open here", t));
    fail(tag.offset, fmt::format("unknown tag '{}'{}", escape_controls(t), did_you_mean(t, known)));
  }

  StmtPtr if_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::if_, offset);
    Stmt::Branch branch;
    branch.condition = tuple_expression(false);
    for (;;) {
      skip_op(":");
      expect_block_end();
      branch.body = branch.condition ? statements({"elif", "else", "endif"}) : statements({"endif"});
      s->branches.push_back(std::move(branch));
      branch = {};
      const std::string end = take().text;
      if (end == "endif") return s;
      if (end == "elif") branch.condition = tuple_expression(false);
    }
  }

  StmtPtr for_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::for_, offset);
    s->target = target("in");
    if (!skip_name("in")) fail_expected("'in'");
    s->expr = tuple_expression(false, "recursive");
    if (skip_name("if")) s->test = expression();
    s->recursive = skip_name("recursive");
    skip_op(":");
    expect_block_end();
    ++loops_;
    s->body = statements({"endfor", "else"});
    --loops_;
    if (take().text == "else") s->other = body_until("endfor");
    return s;
  }

  StmtPtr set_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::set, offset);
    s->target = target("");
    if (skip_op("=")) {
      s->expr = tuple_expression();
      return s;
    }
    s->kind = Stmt::Kind::set_block;
    if (is_op("|")) s->expr = filters_behind(nullptr);
    s->body = body_until("endset");
    return s;
  }

  std::vector<Stmt::Parameter> parameters() {
    std::vector<Stmt::Parameter> out;
    expect_op("(");
    while (!is_op(")")) {
      if (!out.empty()) expect_op(",");
      Stmt::Parameter p;
      const std::size_t offset = now().offset;
      p.name = expect_name("a parameter name");
      if (skip_op("=")) p.default_value = expression();
      else if (!out.empty() && out.back().default_value)
        fail(offset, "a parameter without a default follows one with a default");
      out.push_back(std::move(p));
    }
    expect_op(")");
    return out;
  }

  /// Parses the body of a macro. `break` and `continue` in it do not refer to a loop around the macro.
  void macro_body(Stmt& s, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const bool varargs = std::exchange(varargs_, false), kwargs = std::exchange(kwargs_, false);
    s.body = body_until(end);
    s.takes_varargs = std::exchange(varargs_, varargs);
    s.takes_kwargs = std::exchange(kwargs_, kwargs);
    loops_ = loops;
  }

  StmtPtr macro_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::macro, offset);
    s->name = expect_name("a macro name");
    s->parameters = parameters();
    macro_body(*s, "endmacro");
    return s;
  }

  StmtPtr call_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::call_block, offset);
    if (is_op("(")) s->parameters = parameters();
    s->expr = expression();
    if (s->expr->kind != Kind::call) fail(s->expr->offset, "expected a call");
    macro_body(*s, "endcall");
    return s;
  }

  StmtPtr with_block(std::size_t offset) {
    StmtPtr s = statement(Stmt::Kind::with, offset);
    while (now().kind != Tok::block_end) {
      if (!s->parameters.empty()) expect_op(",");
      Stmt::Parameter p;
      p.name = expect_name("a variable name");
      expect_op("=");
      p.default_value = expression();
      s->parameters.push_back(std::move(p));
    }
    s->body = body_until("endwith");
    return s;
  }

  ExprPtr target(std::string_view end) {
    const std::size_t offset = now().offset;
    if (ahead().kind == Tok::op && ahead().text == "." && now().kind == Tok::name && end.empty()) {
      ExprPtr space = make(Kind::name, offset);
      space->text = take().text;
      take();
      ExprPtr e = make(Kind::attribute, offset, std::move(space));
      e->text = expect_name("an attribute name");
      return e;
    }
    std::vector<ExprPtr> names;
    bool tuple = false;
    do {
      if (!names.empty()) tuple = true;
      if (tuple && (is_name(end) || is_op("=") || is_op(")"))) break;
      if (is_op("(")) {
        const Depth depth(*this, offset);
        take();
        names.push_back(target(end));
        expect_op(")");
        continue;
      }
      const std::size_t at = now().offset;
      ExprPtr e = make(Kind::name, at);
      e->text = expect_name("a variable name");
      for (std::string_view word : {"true", "false", "none", "True", "False", "None"})
        if (e->text == word) fail(at, fmt::format("cannot assign to '{}'", word));
      names.push_back(std::move(e));
    } while (skip_op(","));
    if (!tuple) return std::move(names[0]);
    ExprPtr e = make(Kind::tuple, offset);
    e->args = std::move(names);
    return measured(std::move(e));
  }

  int loops_ = 0;
  std::vector<std::pair<std::string, std::size_t>> tags_;
};

}  // namespace

Body parse_body(std::string_view source, std::string_view name) { return Parser(source, name).run(); }

}  // namespace dml::jinja
