#include "jinja/interpreter.h"

#include "core/error.h"
#include "jinja/lexer.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/python.h"

namespace dml::jinja {

void Scope::set(std::string_view name, Value value) {
  for (auto& [n, v] : variables)
    if (n == name) {
      v = std::move(value);
      return;
    }
  variables.emplace_back(std::string(name), std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* s = this; s; s = s->parent.get())
    for (auto& [n, v] : s->variables)
      if (n == name) return &v;
  return nullptr;
}

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& in) : in_(in) {
    if (++in.depth_ > kMaxRecursion) {
      --in.depth_;
      throw Failure{"maximum recursion depth exceeded"};
    }
  }
  ~DepthGuard() { --in_.depth_; }

 private:
  Interpreter& in_;
};

Interpreter::Interpreter(std::string_view source, std::string_view name, const Value& context,
                         const RenderOptions& options)
    : meter_(options.max_steps), source_(source), name_(name), context_(context), options_(options) {}

Interpreter::~Interpreter() {
  for (auto& space : spaces_) space->values.items.clear();
  for (auto& scope : closures_) scope->variables.clear();
}

void Interpreter::fail(std::size_t offset, const std::string& what) const { fail_at(name_, source_, offset, what); }

Text Interpreter::run(const Body& body) {
  execute(body, std::make_shared<Scope>());
  return std::move(out_);
}

void Interpreter::write(const Text& text) {
  check_size(out_.size() + text.size());
  charge(text.size());
  out_.append(text);
}

Text Interpreter::capture(const Body& body, const ScopePtr& scope) {
  Text outer = std::exchange(out_, Text());
  execute(body, scope);
  return std::exchange(out_, std::move(outer));
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope) {
  for (const StmtPtr& s : body) {
    Flow flow = Flow::next;
    try {
      const DepthGuard deeper(*this);
      Meter::work(1);
      flow = execute(*s, scope);
    } catch (const Failure& f) {
      fail(s->offset, f.text);
    }
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Stmt& s, const ScopePtr& scope) {
  switch (s.kind) {
    case Stmt::Kind::data:
      write(s.value.text());
      break;
    case Stmt::Kind::output:
      write(to_text(checked(evaluate(*s.expr, scope))));
      break;
    case Stmt::Kind::if_:
      return execute_if(s, scope);
    case Stmt::Kind::for_:
      execute_for(s, scope, evaluate(*s.expr, scope), 1);
      break;
    case Stmt::Kind::set:
      assign(*s.target, evaluate(*s.expr, scope), scope);
      break;
    case Stmt::Kind::set_block:
      assign(*s.target, captured(s, scope), scope);
      break;
    case Stmt::Kind::filter:
      write(to_text(captured(s, scope)));
      break;
    case Stmt::Kind::macro:
      define_macro(s, scope);
      break;
    case Stmt::Kind::call_block:
      execute_call_block(s, scope);
      break;
    case Stmt::Kind::with:
      return execute_with(s, scope);
    case Stmt::Kind::generation:
      write(capture(s.body, scope).flagged(kGenerated));
      break;
    case Stmt::Kind::break_:
      return Flow::break_;
    case Stmt::Kind::continue_:
      return Flow::continue_;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& s, const ScopePtr& scope) {
  for (const Stmt::Branch& branch : s.branches)
    if (!branch.condition || truth(*branch.condition, scope)) return execute(branch.body, scope);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& s, const ScopePtr& scope) {
  auto inner = std::make_shared<Scope>(Scope{scope, {}});
  for (auto& p : s.parameters) inner->set(p.name, evaluate(*p.default_value, scope));
  return execute(s.body, inner);
}

Interpreter::Flow Interpreter::execute_for(const Stmt& s, const ScopePtr& scope, const Value& iterable, int depth) {
  std::vector<Value> items = iterate(checked(iterable));
  charge(items.size() * sizeof(Value));
  if (s.test) {
    std::vector<Value> kept;
    for (Value& v : items) {
      auto inner = std::make_shared<Scope>(Scope{scope, {}});
      assign(*s.target, v, inner);
      if (truth(*s.test, inner)) kept.push_back(std::move(v));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    execute(s.other, std::make_shared<Scope>(Scope{scope, {}}));
    return Flow::next;
  }
  const auto loop = std::make_shared<Loop>(s, scope, std::move(items), depth);
  const Loop::Finish finish(*loop);
  for (; !loop->done(); loop->advance()) {
    Meter::work(1);
    auto inner = std::make_shared<Scope>(Scope{scope, {}});
    inner->variables.emplace_back("loop", Value(loop));
    assign(*s.target, loop->current(), inner);
    if (execute(s.body, inner) == Flow::break_) break;
  }
  return Flow::next;
}

Value Interpreter::run_loop(const Stmt& s, const ScopePtr& scope, const Value& iterable, int depth) {
  const DepthGuard deeper(*this);
  Text outer = std::exchange(out_, Text());
  execute_for(s, scope, iterable, depth);
  return std::exchange(out_, std::move(outer));
}

void Interpreter::define_macro(const Stmt& s, const ScopePtr& scope) {
  if (closures_.empty() || closures_.back() != scope) closures_.push_back(scope);
  scope->set(s.name, std::make_shared<Macro>(s, scope, s.name));
}

void Interpreter::execute_call_block(const Stmt& s, const ScopePtr& scope) {
  if (closures_.empty() || closures_.back() != scope) closures_.push_back(scope);
  const Value caller = std::make_shared<Macro>(s, scope, "caller");
  write(to_text(evaluate_call(*s.expr, scope, &caller)));
}

Value Interpreter::call_macro(const Stmt& macro, const ScopePtr& closure, const std::string& name,
                              const Arguments& given) {
  const DepthGuard deeper(*this);
  auto scope = std::make_shared<Scope>(Scope{closure, {}});
  std::vector<Value> rest;
  for (std::size_t i = 0; i < given.positional.size(); ++i) {
    if (i < macro.parameters.size()) scope->set(macro.parameters[i].name, given.positional[i]);
    else if (macro.takes_varargs) rest.push_back(given.positional[i]);
    else throw Failure{fmt::format("macro '{}' takes not more than {} argument(s)", name, macro.parameters.size())};
  }
  Dict extra;
  for (auto& [key, value] : given.named) {
    std::size_t i = 0;
    while (i < macro.parameters.size() && macro.parameters[i].name != key) ++i;
    if (i < given.positional.size() && i < macro.parameters.size())
      throw Failure{fmt::format("macro '{}' got multiple values for argument '{}'", name, key)};
    if (i < macro.parameters.size() || key == "caller") scope->set(key, value);
    else if (macro.takes_kwargs) extra.set(key, value);
    else throw Failure{fmt::format("macro '{}' takes no keyword argument '{}'", name, key)};
  }
  for (std::size_t i = given.positional.size(); i < macro.parameters.size(); ++i) {
    const auto& p = macro.parameters[i];
    bool bound = false;
    for (auto& v : given.named) bound |= v.first == p.name;
    if (!bound)
      scope->set(p.name, p.default_value ? evaluate(*p.default_value, scope)
                                         : Value::undefined(fmt::format("parameter '{}' was not provided", p.name)));
  }
  if (macro.takes_varargs) scope->set("varargs", Value::list(std::move(rest), List::Kind::tuple));
  if (macro.takes_kwargs) scope->set("kwargs", std::move(extra));
  return capture(macro.body, scope);
}

Value Interpreter::captured(const Stmt& s, const ScopePtr& scope) {
  const Value text = capture(s.body, std::make_shared<Scope>(Scope{scope, {}}));
  if (!s.expr) return text;
  const Value* outer = std::exchange(capture_, &text);
  Value result = evaluate(*s.expr, scope);
  capture_ = outer;
  return result;
}

void Interpreter::assign(const Expr& target, Value value, const ScopePtr& scope) {
  if (target.kind == Expr::Kind::name) return scope->set(target.text, std::move(value));
  if (target.kind == Expr::Kind::attribute) {
    const Value space = look_up(target.args[0]->text, scope);
    auto* n = space.is_object() ? dynamic_cast<Namespace*>(&space.object()) : nullptr;
    if (!n) throw Failure{"cannot assign attribute on non-namespace object"};
    charge(n->values.items.size() * 8);
    return n->values.set(target.text, std::move(value));
  }
  const std::vector<Value> items = iterate(value.defined());
  if (items.size() != target.args.size())
    throw Failure{fmt::format("{} values to unpack (expected {}, got {})",
                              items.size() < target.args.size() ? "not enough" : "too many", target.args.size(),
                              items.size())};
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.args[i], items[i], scope);
}

}  // namespace dml::jinja
