// Values of the template language, with Python's semantics for truth, equality across number types, order and
// formatting. Lists and dicts are immutable (as in Jinja's immutable sandbox), so values share structure freely and
// only a namespace can form a cycle.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/json.h"
#include "jinja/text.h"

namespace dml::jinja {

inline constexpr int kMaxValueDepth = 300;
/// The depth of a container whose deepest element has depth `deepest`; throws Failure beyond the limit.
int nested(int deepest);

/// An error during rendering; the interpreter adds the place and converts it to a UserError.
struct Failure {
  std::string text;
};

class Interpreter;
class Value;
struct Arguments;

/// Objects without a plain value: functions, macros, bound methods, loop, namespace.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  /// Looks up an attribute; false, with `out` undefined, if there is none.
  virtual bool attribute(std::string_view name, Value& out) const;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments) const;
  virtual std::string repr() const { return "<" + type_name() + ">"; }
  int depth = 1;
};

/// Lists, tuples and lazy sequences. A generator can be read once; `spent` counts the elements read.
struct List {
  enum class Kind { list, tuple, generator, range, keys, values, items };
  Kind kind = Kind::list;
  std::vector<Value> items;
  int depth = 1;
  std::array<std::int64_t, 3> range{0, 0, 1};  // start, stop and step of a range
  std::span<const std::string_view> names;     // of a named tuple's items
  mutable std::size_t spent = 0;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(Value key, Value value);
};

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> message;  // error message for its use
  };
  using TextPtr = std::shared_ptr<const Text>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;

  Value() : data_(nullptr) {}  // None
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool b) : data_(b) {}
  Value(int i) : data_(std::int64_t{i}) {}
  Value(std::int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  Value(Text text);
  Value(std::string_view text) : Value(Text(text)) {}
  Value(const char* text) : Value(Text(text)) {}
  Value(const std::string& text) : Value(Text(std::string_view(text))) {}
  /// Failure when nesting exceeds kMaxValueDepth, which bounds the recursion of all code that traverses or frees a
  /// value.
  Value(List list);
  Value(Dict dict);
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object) : data_(ObjectPtr(std::move(object))) {}

  static Value undefined(std::string message);
  static Value list(std::vector<Value> items, List::Kind kind = List::Kind::list);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_) || is_bool(); }  // as in Python
  bool is_number() const { return is_integer() || is_float(); }
  bool is_text() const { return std::holds_alternative<TextPtr>(data_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(data_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }
  bool is_object() const { return std::holds_alternative<ObjectPtr>(data_); }

  /// Accessors; Failure (a TypeError in Python) for another type.
  const Text& text() const;
  const List& list() const;
  const Dict& dict() const;
  std::int64_t integer() const;
  double number() const;
  Object& object() const { return *std::get<ObjectPtr>(data_); }
  const ObjectPtr& object_ptr() const { return std::get<ObjectPtr>(data_); }

  bool truth() const;
  /// Nesting depth of lists and dicts; 0 for a scalar.
  int depth() const;
  /// The type's name in error messages: "str", "list", "dict object" …
  std::string type_name() const;
  /// Failure for an undefined value: "'x' is undefined".
  const Value& defined() const;
  const std::string& undefined_message() const { return *std::get<Undefined>(data_).message; }
  bool same_object(const Value& other) const;

 private:
  std::variant<std::nullptr_t, Undefined, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, ObjectPtr> data_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

bool equal(const Value& a, const Value& b);
/// Compares two values; Failure for types without an order.
std::partial_ordering compare(const Value& a, const Value& b);

/// Converts JSON; all strings, including keys, get the mark.
Value from_json(const Json& json, Mark mark = 0);

}  // namespace dml::jinja
