// Interpreter objects visible to templates: the loop variable and macros.
#pragma once

#include <string>
#include <vector>

#include "jinja/interpreter.h"

namespace dml::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(const Stmt& stmt, ScopePtr scope, std::vector<Value> items, int level)
      : stmt_(stmt), scope_(std::move(scope)), items_(std::move(items)), size_(items_.size()), level_(level) {}
  /// Releases the items at the end of the loop, since a template may keep the loop variable.
  struct Finish {
    explicit Finish(Loop& l) : loop(l) {}
    ~Finish() {
      loop.items_.clear();
      loop.last_changed_.clear();
      loop.scope_.reset();
    }
    Loop& loop;
  };

  bool done() const { return index_ >= size_; }
  void advance() { ++index_; }
  const Value& current() const { return items_[index_]; }

  std::string type_name() const override { return "LoopContext"; }
  bool attribute(std::string_view name, Value& out) const override;
  bool callable() const override { return true; }
  /// loop(children) in a recursive loop.
  Value call(Interpreter& in, const Arguments& a) const override;
  std::string repr() const override;
  /// Whether the values differ from those of the previous call.
  bool changed(const std::vector<Value>& values);
  std::size_t index() const { return index_; }

 private:
  const Stmt& stmt_;
  ScopePtr scope_;
  std::vector<Value> items_, last_changed_;
  std::size_t index_ = 0, size_;
  int level_;
};

class Macro : public Object {
 public:
  Macro(const Stmt& stmt, ScopePtr closure, std::string name)
      : stmt_(stmt), closure_(std::move(closure)), name_(std::move(name)) {}
  std::string type_name() const override { return "Macro"; }
  bool attribute(std::string_view name, Value& out) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& a) const override { return in.call_macro(stmt_, closure_, name_, a); }
  std::string repr() const override { return "<Macro '" + name_ + "'>"; }

 private:
  const Stmt& stmt_;
  ScopePtr closure_;
  std::string name_;
};

}  // namespace dml::jinja
