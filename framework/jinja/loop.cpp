#include "jinja/loop.h"

#include <fmt/format.h>

namespace dml::jinja {
namespace {

Loop& loop_of(const Value& self) { return dynamic_cast<Loop&>(self.object()); }

Value cycle(Interpreter&, const Value& self, const Arguments& a) {
  if (a.positional.empty()) throw Failure{"no items for cycling given"};
  return a.positional[loop_of(self).index() % a.positional.size()];
}
Value changed(Interpreter&, const Value& self, const Arguments& a) { return loop_of(self).changed(a.positional); }

}  // namespace

bool Loop::changed(const std::vector<Value>& values) {
  if (!scope_) throw Failure{"loop.changed() was called after its loop"};
  bool same = values.size() == last_changed_.size();
  for (std::size_t i = 0; same && i < values.size(); ++i) same = equal(values[i], last_changed_[i]);
  last_changed_ = values;
  return !same;
}

bool Loop::attribute(std::string_view name, Value& out) const {
  const auto i = static_cast<std::int64_t>(index_), n = static_cast<std::int64_t>(size_);
  const auto self = [this] { return Value(Value::ObjectPtr(std::const_pointer_cast<Loop>(shared_from_this()))); };
  if (name == "index") out = i + 1;
  else if (name == "index0") out = i;
  else if (name == "revindex") out = n - i;
  else if (name == "revindex0") out = n - i - 1;
  else if (name == "first") out = i == 0;
  else if (name == "last") out = i + 1 == n;
  else if (name == "length") out = n;
  else if (name == "depth") out = level_;
  else if (name == "depth0") out = level_ - 1;
  else if (name == "previtem")
    out = index_ > 0 && index_ <= items_.size() ? items_[index_ - 1] : Value::undefined("there is no previous item");
  else if (name == "nextitem")
    out = index_ + 1 < items_.size() ? items_[index_ + 1] : Value::undefined("there is no next item");
  else if (name == "cycle") out = std::make_shared<Function>("cycle", &jinja::cycle, self());
  else if (name == "changed") out = std::make_shared<Function>("changed", &jinja::changed, self());
  else return false;
  return true;
}

Value Loop::call(Interpreter& in, const Arguments& a) const {
  if (!stmt_.recursive) throw Failure{"the loop must have the 'recursive' marker to be called recursively"};
  if (a.positional.size() != 1 || !scope_) throw Failure{"loop() takes one argument, inside of the loop"};
  return in.run_loop(stmt_, scope_, a.positional[0], level_ + 1);
}

std::string Loop::repr() const { return fmt::format("<LoopContext {}/{}>", index_ + 1, size_); }

bool Macro::attribute(std::string_view name, Value& out) const {
  if (name == "name") {
    out = Value(name_);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (auto& p : stmt_.parameters) names.emplace_back(p.name);
    out = Value::list(std::move(names), List::Kind::tuple);
  } else {
    return false;
  }
  return true;
}

}  // namespace dml::jinja
