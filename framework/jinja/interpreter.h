// Evaluates the tree of a template and writes its text. Steps, recursion and the size of values are limited.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/meter.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace dml::jinja {

/// Maximum number of nested nodes, including macro calls; bounds the use of the stack.
inline constexpr int kMaxRecursion = 1500;

/// The variables of a block. A look-up searches the enclosing scopes, too; an assignment affects this scope only, so
/// variables set in a loop end with it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  Interpreter(std::string_view source, std::string_view name, const Value& context, const RenderOptions& options);
  /// Empties namespaces and closures, the only values that can form reference cycles.
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text run(const Body& body);
  bool marks_lost() const { return marks_lost_; }

  /// Charges steps for moving `bytes` bytes.
  void charge(std::size_t bytes) { Meter::move(bytes); }
  /// Records that an operation on a marked text has lost the marks.
  void lose_marks(const Text& from) { marks_lost_ |= !from.runs().empty(); }
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Stmt& macro, const ScopePtr& closure, const std::string& name, const Arguments& arguments);
  Value run_loop(const Stmt& loop, const ScopePtr& scope, const Value& iterable, int depth);
  void remember(std::shared_ptr<Namespace> space) { spaces_.push_back(std::move(space)); }
  std::int64_t now() const { return options_.now; }
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);

 private:
  enum class Flow { next, break_, continue_ };
  class DepthGuard;

  Flow execute(const Body& body, const ScopePtr& scope);
  Flow execute(const Stmt& s, const ScopePtr& scope);
  Flow execute_for(const Stmt& s, const ScopePtr& scope, const Value& iterable, int depth);
  Flow execute_if(const Stmt& s, const ScopePtr& scope);
  Flow execute_with(const Stmt& s, const ScopePtr& scope);
  void define_macro(const Stmt& s, const ScopePtr& scope);
  void execute_call_block(const Stmt& s, const ScopePtr& scope);
  /// Executes `body` into a new text.
  Text capture(const Body& body, const ScopePtr& scope);
  Value captured(const Stmt& s, const ScopePtr& scope);
  void assign(const Expr& target, Value value, const ScopePtr& scope);
  void write(const Text& text);

  Value evaluate(const Expr& e, const ScopePtr& scope);
  Value evaluate_here(const Expr& e, const ScopePtr& scope);
  Value evaluate_dict(const Expr& e, const ScopePtr& scope);
  Value evaluate_test(const Expr& e, const ScopePtr& scope);
  Value with_sign(bool negative, const Value& a);
  Value evaluate_slice(const Expr& e, const ScopePtr& scope);
  Value evaluate_call(const Expr& e, const ScopePtr& scope, const Value* caller);
  Value evaluate_compare(const Expr& e, const ScopePtr& scope);
  Value evaluate_concat(const Expr& e, const ScopePtr& scope);
  Value evaluate_filter(const Expr& e, const ScopePtr& scope);
  /// The value; a failure for an undefined one if the render is strict.
  const Value& checked(const Value& value) const { return options_.strict ? value.defined() : value; }
  bool truth(const Expr& e, const ScopePtr& scope) { return checked(evaluate(e, scope)).truth(); }
  Value look_up(const std::string& name, const ScopePtr& scope);
  Arguments arguments(const Expr::Call& call, const ScopePtr& scope);
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const;

  Meter meter_;  // destroyed after all values
  std::string_view source_, name_;
  const Value& context_;
  const RenderOptions& options_;
  int depth_ = 0;
  bool marks_lost_ = false;
  Text out_;
  const Value* capture_ = nullptr;  // the captured text of {% filter %} and of block set
  std::vector<std::shared_ptr<Namespace>> spaces_;
  std::vector<ScopePtr> closures_;
};

}  // namespace dml::jinja
