// Filters, tests, methods and functions of the language as tables, each row with its parameter names. The semantics are
// those of Jinja 3.1 on Python values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace dml::jinja {

/// Arguments bound to parameter names; `fallback` replaces absent ones.
class Bound {
 public:
  Bound(std::string_view function, std::string_view parameters, const Arguments& arguments);
  bool has(std::size_t i) const { return i < values_.size() && values_[i]; }
  const Value& at(std::size_t i) const;  // throws Failure if the argument is missing
  Value value(std::size_t i, Value fallback) const { return has(i) ? *values_[i] : std::move(fallback); }
  std::int64_t integer(std::size_t i, std::int64_t fallback) const {
    return has(i) && !values_[i]->is_none() ? values_[i]->integer() : fallback;
  }
  bool truth(std::size_t i, bool fallback) const { return has(i) ? values_[i]->truth() : fallback; }
  std::string str(std::size_t i, std::string_view fallback) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

using FilterFn = Value (*)(Interpreter&, const Value& self, const Bound&);
using VariadicFn = Value (*)(Interpreter&, const Value& self, const Arguments&);
using TestFn = bool (*)(Interpreter&, const Value& self, const Bound&);

struct Filter {
  std::string_view name, parameters;  // parameters: "a b c"
  FilterFn run = nullptr;
  VariadicFn run_variadic = nullptr;  // for functions with any arguments
  Value operator()(Interpreter& in, const Value& self, const Arguments& a) const;
};
struct Test {
  std::string_view name, parameters;
  TestFn run = nullptr;
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();
/// Finds an item of a named tuple, or a bound method of a string, list or dict; false if there is none.
bool find_method(const Value& self, std::string_view name, Value& out);
/// Finds one of range, namespace, dict, raise_exception, strftime_now, joiner; false if there is none.
bool find_function(std::string_view name, Value& out);

/// The tables of filters; each is defined in the .cpp file of its name.
std::span<const Filter> text_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> text_methods();

/// str % values: %s %r %d %i %f %g %e %x %o %c %% with flags, width and precision.
Text format_percent(Interpreter& in, const Text& format, const Value& values);

/// The result of namespace(), the only mutable value.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  bool attribute(std::string_view name, Value& out) const override;
  std::string repr() const override;
  Dict values;
};

/// A callable that wraps a C++ function.
class Function : public Object {
 public:
  using Run = Value (*)(Interpreter&, const Value& self, const Arguments&);
  Function(std::string name, Run run, Value self = nullptr)
      : name_(std::move(name)), run_(run), self_(std::move(self)) {
    depth = nested(self_.depth());
  }
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& a) const override { return run_(in, self_, a); }
  std::string repr() const override { return "<function " + name_ + ">"; }

 private:
  std::string name_;
  Run run_;
  Value self_;
};

}  // namespace dml::jinja
