// The part of the interpreter that evaluates expressions.
#include "core/error.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"

namespace dml::jinja {

Value Interpreter::evaluate(const Expr& e, const ScopePtr& scope) {
  try {
    if (e.kind == Expr::Kind::constant) return e.value;
    if (++depth_ > kMaxRecursion) throw Failure{"maximum recursion depth exceeded"};
    Meter::work(1);
    Value v = evaluate_here(e, scope);
    --depth_;
    return v;
  } catch (const Failure& f) {
    fail(e.offset, f.text);
  }
}

Value Interpreter::evaluate_here(const Expr& e, const ScopePtr& scope) {
  using Kind = Expr::Kind;
  switch (e.kind) {
    case Kind::constant:
      return e.value;
    case Kind::name:
      return look_up(e.text, scope);
    case Kind::list:
    case Kind::tuple: {
      std::vector<Value> items;
      for (auto& a : e.args) items.push_back(evaluate(*a, scope));
      return Value::list(std::move(items), e.kind == Kind::list ? List::Kind::list : List::Kind::tuple);
    }
    case Kind::dict:
      return evaluate_dict(e, scope);
    case Kind::attribute:
      return attribute(evaluate(*e.args[0], scope), e.text);
    case Kind::item: {
      const Value object = evaluate(*e.args[0], scope);
      return item(object, evaluate(*e.args[1], scope));
    }
    case Kind::slice:
      return evaluate_slice(e, scope);
    case Kind::call:
      return evaluate_call(e, scope, nullptr);
    case Kind::filter:
      return evaluate_filter(e, scope);
    case Kind::test:
      return evaluate_test(e, scope);
    case Kind::condition:
      if (truth(*e.args[1], scope)) return evaluate(*e.args[0], scope);
      return e.args[2]
                 ? evaluate(*e.args[2], scope)
                 : Value::undefined("the inline if-expression evaluated to false and no else section was defined");
    case Kind::compare:
      return evaluate_compare(e, scope);
    case Kind::concat:
      return evaluate_concat(e, scope);
    case Kind::binary: {
      const Value a = evaluate(*e.args[0], scope);
      return binary(*this, e.text, a, evaluate(*e.args[1], scope));
    }
    case Kind::logical_and: {
      Value a = evaluate(*e.args[0], scope);
      return checked(a).truth() ? evaluate(*e.args[1], scope) : a;
    }
    case Kind::logical_or: {
      Value a = evaluate(*e.args[0], scope);
      return checked(a).truth() ? a : evaluate(*e.args[1], scope);
    }
    case Kind::logical_not:
      return !truth(*e.args[0], scope);
    case Kind::negative:
    case Kind::positive:
      return with_sign(e.kind == Kind::negative, evaluate(*e.args[0], scope));
  }
  return nullptr;
}

Value Interpreter::evaluate_dict(const Expr& e, const ScopePtr& scope) {
  Dict dict;
  for (std::size_t i = 0; i < e.args.size(); i += 2)
    dict.set(evaluate(*e.args[i], scope), evaluate(*e.args[i + 1], scope));
  return dict;
}

Value Interpreter::evaluate_test(const Expr& e, const ScopePtr& scope) {
  const Value self = evaluate(*e.args[0], scope);
  const Test& test = *find_test(e.text);
  const Arguments given = arguments(e.call, scope);
  return test.run(*this, self, Bound(e.text, test.parameters, given));
}

Value Interpreter::with_sign(bool negative, const Value& a) {
  if (!a.defined().is_number())
    throw Failure{fmt::format("bad operand type for unary {}: '{}'", negative ? '-' : '+', a.type_name())};
  if (a.is_float()) return negative ? -a.number() : a.number();
  return negative ? binary(*this, "-", 0, a) : Value(a.integer());
}

Value Interpreter::look_up(const std::string& name, const ScopePtr& scope) {
  if (const Value* v = scope->find(name)) return *v;
  if (const Value* v = context_.dict().find(std::string_view(name))) return *v;
  Value function;
  if (find_function(name, function)) return function;
  return Value::undefined("'" + name + "' is undefined");
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  object.defined();
  Value out;
  if (object.is_object() ? object.object().attribute(name, out) : find_method(object, name, out)) return out;
  if (object.is_dict()) {
    charge(object.dict().items.size() * 4);
    if (const Value* v = object.dict().find(name)) return *v;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_dict()) charge(object.dict().items.size() * 4);
  if (object.is_text()) charge(object.text().size());
  Value v = jinja::item(object, key);
  return v.is_undefined() && key.is_text() ? attribute(object, key.text().view()) : v;
}

Value Interpreter::evaluate_slice(const Expr& e, const ScopePtr& scope) {
  const Value object = evaluate(*e.args[0], scope);
  auto bound = [&](std::size_t i) { return e.args[i] ? evaluate(*e.args[i], scope).defined() : Value(); };
  const Value begin = bound(1), end = bound(2);
  charge(object.is_text() ? object.text().size() : object.is_list() ? object.list().items.size() * sizeof(Value) : 0);
  return slice(object, begin, end, bound(3));
}

Value Interpreter::evaluate_compare(const Expr& e, const ScopePtr& scope) {
  Value left = evaluate(*e.args[0], scope);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.args[i + 1], scope);
    const std::string& op = e.ops[i];
    bool holds = false;
    if (op == "==" || op == "!=") holds = equal(left, right) == (op == "==");
    else if (op == "in" || op == "not in") holds = contains(*this, right, left) == (op == "in");
    else if (op == "<") holds = compare(left, right) < 0;
    else if (op == "<=") holds = compare(left, right) <= 0;
    else if (op == ">") holds = compare(left, right) > 0;
    else holds = compare(left, right) >= 0;
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_concat(const Expr& e, const ScopePtr& scope) {
  Text out;
  for (auto& a : e.args) {
    const Text part = to_text(evaluate(*a, scope));
    check_size(out.size() + part.size());
    charge(part.size());
    out.append(part);
  }
  return out;
}

Arguments Interpreter::arguments(const Expr::Call& call, const ScopePtr& scope) {
  Arguments out;
  for (auto& a : call.positional) out.positional.push_back(evaluate(*a, scope));
  if (call.star)
    for (Value& v : iterate(evaluate(*call.star, scope))) out.positional.push_back(std::move(v));
  for (auto& [key, value] : call.named) out.named.emplace_back(key, evaluate(*value, scope));
  if (call.star_star) {
    const Value dict = evaluate(*call.star_star, scope);
    for (auto& [key, value] : dict.dict().items) out.named.emplace_back(key.text().str(), value);
  }
  for (std::size_t i = 0; i < out.named.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (out.named[i].first == out.named[j].first)
        throw Failure{"multiple values for keyword argument '" + out.named[i].first + "'"};
  return out;
}

Value Interpreter::evaluate_call(const Expr& e, const ScopePtr& scope, const Value* caller) {
  const Value callee = evaluate(*e.args[0], scope);
  Arguments given = arguments(e.call, scope);
  if (caller) given.named.emplace_back("caller", *caller);
  return call(callee, given);
}

Value Interpreter::call(const Value& callee, const Arguments& given) {
  callee.defined();
  if (!callee.is_object() || !callee.object().callable())
    throw Failure{"'" + callee.type_name() + "' object is not callable"};
  const Value::ObjectPtr alive = callee.object_ptr();
  return alive->call(*this, given);
}

Value Interpreter::evaluate_filter(const Expr& e, const ScopePtr& scope) {
  const Value self = e.args[0] ? evaluate(*e.args[0], scope) : *capture_;
  if (self.is_text()) charge(self.text().size());
  return (*find_filter(e.text))(*this, self, arguments(e.call, scope));
}

}  // namespace dml::jinja
