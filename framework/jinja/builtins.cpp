// Binding of arguments, tests, functions, and methods of lists and dicts.
#include "jinja/builtins.h"

#include <fmt/format.h>

#include <array>

#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {

Bound::Bound(std::string_view function, std::string_view parameters, const Arguments& a) : function_(function) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at < parameters.size();) {
    const std::size_t end = std::min(parameters.find(' ', at), parameters.size());
    names.push_back(parameters.substr(at, end - at));
    at = end + 1;
  }
  if (a.positional.size() > names.size())
    throw Failure{
        fmt::format("{}() takes at most {} argument(s), got {}", function, names.size(), a.positional.size())};
  values_.assign(names.size(), nullptr);
  for (std::size_t i = 0; i < a.positional.size(); ++i) values_[i] = &a.positional[i];
  for (auto& [key, value] : a.named) {
    std::size_t i = 0;
    while (i < names.size() && names[i] != key) ++i;
    if (i == names.size()) throw Failure{fmt::format("{}() got an unexpected keyword argument '{}'", function, key)};
    if (values_[i]) throw Failure{fmt::format("{}() got multiple values for argument '{}'", function, key)};
    values_[i] = &value;
  }
}

const Value& Bound::at(std::size_t i) const {
  if (!has(i)) throw Failure{fmt::format("{}() lacks its argument {}", function_, i + 1)};
  return *values_[i];
}

std::string Bound::str(std::size_t i, std::string_view fallback) const {
  return has(i) && !values_[i]->is_none() ? values_[i]->text().str() : std::string(fallback);
}

Value Filter::operator()(Interpreter& in, const Value& self, const Arguments& a) const {
  return run_variadic ? run_variadic(in, self, a) : run(in, self, Bound(name, parameters, a));
}

namespace {

std::int64_t modulo(const Value& a, const Value& b) {
  if (b.integer() == 0) throw Failure{"integer modulo by zero"};
  return b.integer() == -1 ? 0 : a.integer() % b.integer();
}
bool all_cased(const Value& v, bool upper_case) {
  const Text text = to_text(v);
  return (upper_case ? upper(text) : lower(text)) == text && !(upper(text) == lower(text));
}
bool is_iterable(const Value& v) { return v.is_text() || v.is_list() || v.is_dict() || v.is_undefined(); }

template <class Holds>
constexpr TestFn order(Holds) {
  return [](Interpreter&, const Value& v, const Bound& a) { return Holds{}(compare(v, a.at(0))); };
}
constexpr TestFn kEqual = [](Interpreter&, const Value& v, const Bound& a) { return equal(v, a.at(0)); };
constexpr TestFn kNotEqual = [](Interpreter&, const Value& v, const Bound& a) { return !equal(v, a.at(0)); };
constexpr TestFn kLess = order([](auto c) { return c < 0; }), kLessEqual = order([](auto c) { return c <= 0; });
constexpr TestFn kGreater = order([](auto c) { return c > 0; }), kGreaterEqual = order([](auto c) { return c >= 0; });

const std::array kTests = std::to_array<Test>({
    {"boolean", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_bool(); }},
    {"callable", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_object() && v.object().callable(); }},
    {"defined", "", [](Interpreter&, const Value& v, const Bound&) { return !v.is_undefined(); }},
    {"divisibleby", "num", [](Interpreter&, const Value& v, const Bound& a) { return modulo(v.defined(), a.at(0)) == 0; }},
    {"==", "other", kEqual},
    {"eq", "other", kEqual},
    {"equalto", "other", kEqual},
    {"escaped", "", [](Interpreter&, const Value&, const Bound&) { return false; }},
    {"even", "", [](Interpreter&, const Value& v, const Bound&) { return modulo(v.defined(), 2) == 0; }},
    {"false", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_bool() && !v.truth(); }},
    {"filter", "", [](Interpreter&, const Value& v, const Bound&) { return find_filter(v.text().view()) != nullptr; }},
    {"float", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_float(); }},
    {">=", "other", kGreaterEqual},
    {"ge", "other", kGreaterEqual},
    {">", "other", kGreater},
    {"gt", "other", kGreater},
    {"greaterthan", "other", kGreater},
    {"in", "seq", [](Interpreter& in, const Value& v, const Bound& a) { return contains(in, a.at(0), v); }},
    {"integer", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_integer() && !v.is_bool(); }},
    {"iterable", "", [](Interpreter&, const Value& v, const Bound&) { return is_iterable(v); }},
    {"<=", "other", kLessEqual},
    {"le", "other", kLessEqual},
    {"<", "other", kLess},
    {"lt", "other", kLess},
    {"lessthan", "other", kLess},
    {"lower", "", [](Interpreter&, const Value& v, const Bound&) { return all_cased(v, false); }},
    {"mapping", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_dict(); }},
    {"!=", "other", kNotEqual},
    {"ne", "other", kNotEqual},
    {"none", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_none(); }},
    {"number", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_number(); }},
    {"odd", "", [](Interpreter&, const Value& v, const Bound&) { return modulo(v.defined(), 2) != 0; }},
    {"sameas", "other", [](Interpreter&, const Value& v, const Bound& a) { return v.type_name() == a.at(0).type_name() && v.same_object(a.at(0)); }},
    {"sequence", "", [](Interpreter&, const Value& v, const Bound&) { return is_iterable(v) && !(v.is_list() && v.list().kind >= List::Kind::generator && v.list().kind != List::Kind::range); }},
    {"string", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_text(); }},
    {"test", "", [](Interpreter&, const Value& v, const Bound&) { return find_test(v.text().view()) != nullptr; }},
    {"true", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_bool() && v.truth(); }},
    {"undefined", "", [](Interpreter&, const Value& v, const Bound&) { return v.is_undefined(); }},
    {"upper", "", [](Interpreter&, const Value& v, const Bound&) { return all_cased(v, true); }},
});

// --- methods of lists and dicts

Value dict_view(const Value& self, List::Kind kind) {
  std::vector<Value> out;
  for (auto& [key, value] : self.dict().items)
    out.push_back(kind == List::Kind::keys     ? key
                  : kind == List::Kind::values ? value
                                               : Value::list({key, value}, List::Kind::tuple));
  return Value::list(std::move(out), kind);
}

const std::array kDictMethods = std::to_array<Filter>({
    {"get", "key default",
     [](Interpreter& in, const Value& v, const Bound& a) -> Value {
       in.charge(v.dict().items.size() * 4);
       const Value* found = v.dict().find(a.at(0));
       return found ? *found : a.value(1, nullptr);
     }},
    {"items", "",
     [](Interpreter& in, const Value& v, const Bound&) {
       return in.charge(v.dict().items.size() * 64), dict_view(v, List::Kind::items);
     }},
    {"keys", "",
     [](Interpreter& in, const Value& v, const Bound&) {
       return in.charge(v.dict().items.size() * 32), dict_view(v, List::Kind::keys);
     }},
    {"values", "",
     [](Interpreter& in, const Value& v, const Bound&) {
       return in.charge(v.dict().items.size() * 32), dict_view(v, List::Kind::values);
     }},
    {"copy", "", [](Interpreter&, const Value& v, const Bound&) -> Value { return v; }},
});
const std::array kListMethods = std::to_array<Filter>({
    {"count", "value",
     [](Interpreter&, const Value& v, const Bound& a) -> Value {
       std::int64_t n = 0;
       for (auto& item : v.list().items) n += equal(item, a.at(0));
       return n;
     }},
    {"index", "value",
     [](Interpreter&, const Value& v, const Bound& a) -> Value {
       for (std::size_t i = 0; i < v.list().items.size(); ++i)
         if (equal(v.list().items[i], a.at(0))) return static_cast<std::int64_t>(i);
       throw Failure{std::string(repr(a.at(0)).view()) + " is not in list"};
     }},
});
const std::array kListChanges =
    std::to_array<std::string_view>({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
const std::array kDictChanges = std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});

class Method : public Object {
 public:
  Method(const Filter& row, Value self) : row_(row), self_(std::move(self)) { depth = nested(self_.depth()); }
  std::string type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& a) const override {
    if (self_.is_text()) in.charge(self_.text().size());
    return row_(in, self_, a);
  }
  std::string repr() const override {
    return fmt::format("<built-in method {} of {} object>", row_.name, self_.type_name());
  }

 private:
  const Filter& row_;
  Value self_;
};

// --- functions

Value range(Interpreter& in, const Value&, const Arguments& a) {
  const Bound b("range", "start stop step", a);
  const bool one = !b.has(1);
  const std::int64_t begin = one ? 0 : b.at(0).integer(), end = one ? b.at(0).integer() : b.at(1).integer(),
                     step = b.integer(2, 1);
  if (step == 0) throw Failure{"range() arg 3 must not be zero"};
  // Unsigned, since a distance may take all 64 bits.
  const auto distance = [](std::int64_t from, std::int64_t to) {
    return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
  };
  const std::uint64_t stride = step > 0 ? distance(0, step) : distance(step, 0);
  const std::uint64_t gap = step > 0      ? (begin < end ? distance(begin, end) : 0)
                            : begin > end ? distance(end, begin)
                                          : 0;
  const std::uint64_t count = gap / stride + (gap % stride != 0);
  constexpr int kMaxRange = 100'000;  // the limit of Jinja's sandbox
  if (count > kMaxRange) throw Failure{fmt::format("Range too big: a template may count to {} at most", kMaxRange)};
  List out;
  out.kind = List::Kind::range;
  out.range = {begin, end, step};
  in.charge(count * sizeof(Value));
  for (std::uint64_t i = 0; i < count; ++i)
    out.items.emplace_back(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(begin) + i * static_cast<std::uint64_t>(step)));
  return out;
}

Dict dict_of(const Arguments& a, std::string_view function) {
  Dict d;
  if (a.positional.size() > 1)
    throw Failure{fmt::format("{} expected at most 1 argument, got {}", function, a.positional.size())};
  if (!a.positional.empty() && a.positional[0].is_dict()) {
    d = a.positional[0].dict();
  } else if (!a.positional.empty()) {
    for (auto& pair : iterate(a.positional[0])) {
      const auto kv = iterate(pair);
      if (kv.size() != 2) throw Failure{fmt::format("{}: a sequence of pairs is needed", function)};
      d.set(kv[0], kv[1]);
    }
  }
  for (auto& [key, value] : a.named) d.set(Text(key), value);
  return d;
}

Value make_namespace(Interpreter& in, const Value&, const Arguments& a) {
  auto space = std::make_shared<Namespace>();
  space->values = dict_of(a, "namespace");
  in.remember(space);
  return Value(Value::ObjectPtr(std::move(space)));
}
Value make_dict(Interpreter&, const Value&, const Arguments& a) { return dict_of(a, "dict"); }
Value raise_exception(Interpreter&, const Value&, const Arguments& a) {
  throw Failure{to_text(Bound("raise_exception", "message", a).at(0)).str()};
}
Value strftime_now(Interpreter& in, const Value&, const Arguments& a) {
  return Value(format_time(in.now(), Bound("strftime_now", "format", a).at(0).text().str()));
}

/// joiner(sep): its first call returns "", every later one sep.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) { depth = nested(separator_.depth()); }
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, const Arguments&) const override {
    return std::exchange(used_, true) ? separator_ : Value("");
  }

 private:
  Value separator_;
  mutable bool used_ = false;
};
Value make_joiner(Interpreter&, const Value&, const Arguments& a) {
  return Value(std::make_shared<Joiner>(Bound("joiner", "sep", a).value(0, ", ")));
}

struct FunctionRow {
  std::string_view name;
  Function::Run run;
};
const std::array kFunctions = std::to_array<FunctionRow>({
    {"range", &range},
    {"namespace", &make_namespace},
    {"dict", &make_dict},
    {"raise_exception", &raise_exception},
    {"strftime_now", &strftime_now},
    {"joiner", &make_joiner},
});

template <class Rows>
auto* find_row(const Rows& rows, std::string_view name) {
  for (auto& row : rows)
    if (row.name == name) return &row;
  return static_cast<decltype(&*rows.begin())>(nullptr);
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  if (const Filter* f = find_row(text_filters(), name)) return f;
  return find_row(sequence_filters(), name);
}
const Test* find_test(std::string_view name) { return find_row(kTests, name); }

std::vector<std::string> filter_names() {
  std::vector<std::string> out;
  for (auto& f : text_filters()) out.emplace_back(f.name);
  for (auto& f : sequence_filters()) out.emplace_back(f.name);
  return out;
}
std::vector<std::string> test_names() {
  std::vector<std::string> out;
  for (auto& t : kTests) out.emplace_back(t.name);
  return out;
}

bool find_method(const Value& self, std::string_view name, Value& out) {
  if (self.is_list())
    for (std::size_t i = 0; i < self.list().names.size(); ++i)
      if (self.list().names[i] == name) return out = self.list().items[i], true;
  const Filter* row = nullptr;
  const bool plain_list = self.is_list() && self.list().kind == List::Kind::list;
  if (self.is_text()) row = find_row(text_methods(), name);
  else if (self.is_dict()) row = find_row(kDictMethods, name);
  else if (plain_list || (self.is_list() && self.list().kind == List::Kind::tuple)) row = find_row(kListMethods, name);
  if (row) {
    out = Value(std::make_shared<Method>(*row, self));
    return true;
  }
  const auto changes = plain_list       ? std::span<const std::string_view>(kListChanges)
                       : self.is_dict() ? std::span<const std::string_view>(kDictChanges)
                                        : std::span<const std::string_view>();
  for (std::string_view change : changes)
    if (change == name) {
      out = Value::undefined(
          fmt::format("'{}' would change a {}: templates cannot change values", name, self.type_name()));
      return true;
    }
  return false;
}

bool find_function(std::string_view name, Value& out) {
  const FunctionRow* row = find_row(kFunctions, name);
  if (row) out = Value(std::make_shared<Function>(std::string(name), row->run));
  return row != nullptr;
}

bool Namespace::attribute(std::string_view name, Value& out) const {
  const Value* v = values.find(name);
  if (v) out = *v;
  return v != nullptr;
}
std::string Namespace::repr() const { return "<Namespace of " + std::to_string(values.items.size()) + " values>"; }

}  // namespace dml::jinja
