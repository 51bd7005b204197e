#include "jinja/value.h"

#include <algorithm>
#include <limits>

#include "jinja/meter.h"

namespace dml::jinja {
namespace {

constexpr std::size_t kShared = 32;        // overhead of a shared pointer and the allocator
constexpr std::size_t kComparedKeys = 16;  // per step

template <class T>
struct Weighed {
  Weighed(T v, std::size_t inside) : weight(kShared + sizeof(Weighed) + inside), value(std::move(v)) {}
  Weight weight;
  T value;
};

template <class T>
std::shared_ptr<const T> weighed(T value, std::size_t inside) {
  auto held = std::make_shared<const Weighed<T>>(std::move(value), inside);
  return std::shared_ptr<const T>(held, &held->value);
}

}  // namespace

bool Object::attribute(std::string_view, Value&) const { return false; }
Value Object::call(Interpreter&, const Arguments&) const {
  throw Failure{"'" + type_name() + "' object is not callable"};
}

const Value* Dict::find(std::string_view key) const {
  for (auto& [k, v] : items)
    if (k.is_text() && k.text().view() == key) return &v;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find(key.text().view());
  for (auto& [k, v] : items)
    if (equal(k, key)) return &v;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  Meter::work(static_cast<std::int64_t>(items.size() / kComparedKeys));
  for (auto& [k, v] : items)
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  items.emplace_back(std::move(key), std::move(value));
}

int nested(int deepest) {
  if (deepest >= kMaxValueDepth) throw Failure{"this value is nested too deeply"};
  return deepest + 1;
}

int Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth;
  return is_object() ? object().depth : 0;
}

Value::Value(Text text) {
  const std::size_t inside = text.capacity();
  data_ = weighed(std::move(text), inside);
}
Value::Value(List l) {
  int deepest = 0;
  for (auto& v : l.items) deepest = std::max(deepest, v.depth());
  l.depth = nested(deepest);
  const std::size_t inside = l.items.capacity() * sizeof(Value);
  Meter::move(inside);
  data_ = weighed(std::move(l), inside);
}
Value::Value(Dict d) {
  int deepest = 0;
  for (auto& [k, v] : d.items) deepest = std::max({deepest, k.depth(), v.depth()});
  d.depth = nested(deepest);
  const std::size_t inside = d.items.capacity() * sizeof(d.items.front());
  Meter::move(inside);
  data_ = weighed(std::move(d), inside);
}

Value Value::undefined(std::string message) {
  Value v;
  v.data_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return v;
}

Value Value::list(std::vector<Value> items, List::Kind kind) {
  List l;
  l.kind = kind;
  l.items = std::move(items);
  return Value(std::move(l));
}

const Value& Value::defined() const {
  if (is_undefined()) throw Failure{undefined_message()};
  return *this;
}

const Text& Value::text() const {
  if (auto* p = std::get_if<TextPtr>(&data_)) return **p;
  throw Failure{"expected a string, got " + defined().type_name()};
}
const List& Value::list() const {
  if (auto* p = std::get_if<ListPtr>(&data_)) return **p;
  throw Failure{"expected a list, got " + defined().type_name()};
}
const Dict& Value::dict() const {
  if (auto* p = std::get_if<DictPtr>(&data_)) return **p;
  throw Failure{"expected a dict, got " + defined().type_name()};
}
std::int64_t Value::integer() const {
  if (auto* p = std::get_if<std::int64_t>(&data_)) return *p;
  if (auto* p = std::get_if<bool>(&data_)) return *p;
  throw Failure{"expected an integer, got " + defined().type_name()};
}
double Value::number() const {
  if (auto* p = std::get_if<double>(&data_)) return *p;
  return static_cast<double>(integer());
}

bool Value::truth() const {
  struct Truth {
    bool operator()(std::nullptr_t) const { return false; }
    bool operator()(const Undefined&) const { return false; }
    bool operator()(bool b) const { return b; }
    bool operator()(std::int64_t i) const { return i != 0; }
    bool operator()(double d) const { return d != 0; }
    bool operator()(const TextPtr& t) const { return !t->empty(); }
    bool operator()(const ListPtr& l) const { return l->kind == List::Kind::generator || !l->items.empty(); }
    bool operator()(const DictPtr& d) const { return !d->items.empty(); }
    bool operator()(const ObjectPtr&) const { return true; }
  };
  return std::visit(Truth{}, data_);
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "str";
  if (is_dict()) return "dict";
  if (is_object()) return object().type_name();
  switch (list().kind) {
    case List::Kind::list:
      return "list";
    case List::Kind::tuple:
      return "tuple";
    case List::Kind::generator:
      return "generator";
    case List::Kind::range:
      return "range";
    case List::Kind::keys:
      return "dict_keys";
    case List::Kind::values:
      return "dict_values";
    case List::Kind::items:
      return "dict_items";
  }
  return "list";
}

bool Value::same_object(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_list()) return std::get<ListPtr>(data_) == std::get<ListPtr>(other.data_);
  if (is_dict()) return std::get<DictPtr>(data_) == std::get<DictPtr>(other.data_);
  if (is_object()) return object_ptr() == other.object_ptr();
  return equal(*this, other);
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.number() == b.number() : a.integer() == b.integer();
  if (a.is_text() && b.is_text()) {
    if (a.text().size() == b.text().size()) Meter::move(a.text().size());
    return a.text() == b.text();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_list() && b.is_list()) {
    if (a.same_object(b)) return true;
    Meter::work(1);  // lists that share elements can take exponential time to compare
    const List &x = a.list(), &y = b.list();
    if (x.kind != y.kind || x.items.size() != y.items.size() || x.kind == List::Kind::generator) return false;
    for (std::size_t i = 0; i < x.items.size(); ++i)
      if (!equal(x.items[i], y.items[i])) return false;
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.same_object(b)) return true;
    Meter::work(1);
    const Dict &x = a.dict(), &y = b.dict();
    if (x.items.size() != y.items.size()) return false;
    for (auto& [k, v] : x.items) {
      const Value* w = y.find(k);
      if (!w || !equal(v, *w)) return false;
    }
    return true;
  }
  return a.is_object() && b.is_object() && a.object_ptr() == b.object_ptr();
}

std::partial_ordering compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.number() <=> b.number();
    return a.integer() <=> b.integer();
  }
  if (a.is_text() && b.is_text()) {
    Meter::move(std::min(a.text().size(), b.text().size()));
    return a.text().view().compare(b.text().view()) <=> 0;  // the order of UTF-8 bytes is that of code points
  }
  if (a.is_list() && b.is_list() && a.list().kind == b.list().kind &&
      (a.list().kind == List::Kind::list || a.list().kind == List::Kind::tuple)) {
    Meter::work(1);
    const auto &x = a.list().items, &y = b.list().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return compare(x[i], y[i]);
    return x.size() <=> y.size();
  }
  throw Failure{"'<' not supported between instances of '" + a.defined().type_name() + "' and '" +
                b.defined().type_name() + "'"};
}

Value from_json(const Json& json, Mark mark) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto n = json.get<std::uint64_t>();
      if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw Failure{"the integer " + std::to_string(n) + " does not fit 64 bits"};
      return static_cast<std::int64_t>(n);
    }
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return Text(json.get_ref<const std::string&>(), mark);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (auto& item : json) items.push_back(from_json(item, mark));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      dict.items.reserve(json.size());
      for (auto& [key, value] : json.items())  // keys are unique: the parser rejects duplicates
        dict.items.emplace_back(Text(key, mark), from_json(value, mark));
      return dict;
    }
    default:
      return nullptr;
  }
}

}  // namespace dml::jinja
