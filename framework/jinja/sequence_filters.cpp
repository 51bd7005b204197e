// Filters over lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python.h"
#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

std::vector<Value> items_of(Interpreter& in, const Value& v) {
  std::vector<Value> items = iterate(v);
  in.charge(items.size() * 64);
  return items;
}

/// Follows a path "a.b.0" of attributes and elements; None returns the value itself. `fallback` replaces a missing
/// value at each step.
Value reach(Interpreter& in, Value v, const Value& path, const Value* fallback = nullptr) {
  if (path.is_none()) return v;
  auto enter = [&](const Value& key) {
    v = in.item(v, key);
    if (fallback && v.is_undefined()) v = *fallback;
  };
  if (path.is_integer()) {
    enter(path);
    return v;
  }
  const std::string& names = path.text().str();
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find('.', at), names.size());
    const std::string name = names.substr(at, end - at);
    std::int64_t index = 0;
    const auto r = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = !name.empty() && r.ec == std::errc() && r.ptr == name.data() + name.size();
    enter(number ? Value(index) : Value(Text(name)));
    at = end + 1;
  }
  return v;
}

Value folded(const Value& v, bool case_sensitive) {
  return !case_sensitive && v.is_text() ? Value(lower(v.text())) : v;
}

void sort_by(std::vector<std::pair<std::vector<Value>, Value>>& rows, bool reverse) {
  auto less = [](const auto& a, const auto& b) {
    for (std::size_t i = 0; i < a.first.size(); ++i)
      if (!equal(a.first[i], b.first[i])) return compare(a.first[i], b.first[i]) < 0;
    return false;
  };
  if (reverse) {  // a stable sort, as in Python
    std::reverse(rows.begin(), rows.end());
    std::stable_sort(rows.begin(), rows.end(), less);
    std::reverse(rows.begin(), rows.end());
  } else {
    std::stable_sort(rows.begin(), rows.end(), less);
  }
}

Value sort(Interpreter& in, const Value& v, const Bound& a) {
  std::vector<Value> paths;
  if (a.has(2) && a.at(2).is_text()) {
    const std::string names = a.at(2).text().str();
    for (std::size_t at = 0; at <= names.size();) {
      const std::size_t end = std::min(names.find(',', at), names.size());
      paths.emplace_back(Text(names.substr(at, end - at)));
      at = end + 1;
    }
  } else {
    paths.push_back(a.value(2, nullptr));
  }
  std::vector<std::pair<std::vector<Value>, Value>> rows;
  for (Value& item : items_of(in, v)) {
    std::vector<Value> keys;
    for (const Value& path : paths) keys.push_back(folded(reach(in, item, path), a.truth(1, false)));
    rows.emplace_back(std::move(keys), std::move(item));
  }
  sort_by(rows, a.truth(0, false));
  std::vector<Value> out;
  for (auto& row : rows) out.push_back(std::move(row.second));
  return Value::list(std::move(out));
}

Value dictsort(Interpreter& in, const Value& v, const Bound& a) {
  const std::string by = a.str(1, "key");
  if (by != "key" && by != "value") throw Failure{"You can only sort by either \"key\" or \"value\""};
  in.charge(v.dict().items.size() * 64);
  std::vector<std::pair<std::vector<Value>, Value>> rows;
  for (auto& [key, value] : v.dict().items)
    rows.push_back(
        {{folded(by == "key" ? key : value, a.truth(0, false))}, Value::list({key, value}, List::Kind::tuple)});
  sort_by(rows, a.truth(2, false));
  std::vector<Value> out;
  for (auto& row : rows) out.push_back(std::move(row.second));
  return Value::list(std::move(out));
}

/// A named tuple (grouper, list) for each value of the attribute.
Value groupby(Interpreter& in, const Value& v, const Bound& a) {
  static constexpr std::string_view names[] = {"grouper", "list"};
  const Value fallback = a.value(1, nullptr);
  std::vector<std::pair<std::vector<Value>, Value>> rows;
  for (Value& item : items_of(in, v)) {
    const Value key = reach(in, item, a.at(0), a.has(1) ? &fallback : nullptr);
    rows.push_back({{folded(key, a.truth(2, false))}, Value::list({key, std::move(item)})});
  }
  sort_by(rows, false);
  std::vector<Value> out;
  for (std::size_t i = 0; i < rows.size();) {
    std::vector<Value> group;
    std::size_t j = i;
    for (; j < rows.size() && equal(rows[j].first[0], rows[i].first[0]); ++j)
      group.push_back(rows[j].second.list().items[1]);
    List pair;
    pair.kind = List::Kind::tuple;
    pair.items = {rows[i].second.list().items[0], Value::list(std::move(group))};
    pair.names = names;
    out.emplace_back(std::move(pair));
    i = j;
  }
  return Value::list(std::move(out));
}

Value unique(Interpreter& in, const Value& v, const Bound& a) {
  std::vector<Value> seen, out;
  for (Value& item : items_of(in, v)) {
    const Value key = folded(reach(in, item, a.value(1, nullptr)), a.truth(0, false));
    in.charge(seen.size() * 16);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key); })) continue;
    seen.push_back(key);
    out.push_back(std::move(item));
  }
  return Value::list(std::move(out), List::Kind::generator);
}

Value extreme(Interpreter& in, const Value& v, const Bound& a, bool largest) {
  std::vector<Value> items = items_of(in, v);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  auto key = [&](std::size_t i) { return folded(reach(in, items[i], a.value(1, nullptr)), a.truth(0, false)); };
  for (std::size_t i = 1; i < items.size(); ++i)
    if (largest ? compare(key(i), key(best)) > 0 : compare(key(i), key(best)) < 0) best = i;
  return items[best];
}

Value sum(Interpreter& in, const Value& v, const Bound& a) {
  Value total = a.value(1, 0);
  if (total.is_text()) throw Failure{"sum() can't sum strings [use ''.join(seq) instead]"};
  for (Value& item : items_of(in, v)) total = binary(in, "+", total, reach(in, item, a.value(0, nullptr)));
  return total;
}

Value join(Interpreter& in, const Value& v, const Bound& a) {
  const Text separator = a.has(0) ? to_text(a.at(0)) : Text();
  Text out;
  bool first = true;
  for (Value& item : items_of(in, v)) {
    const Text part = to_text(reach(in, item, a.value(1, nullptr)));
    check_size(out.size() + separator.size() + part.size());
    in.charge(separator.size() + part.size());
    if (!std::exchange(first, false)) out.append(separator);
    out.append(part);
  }
  return out;
}

/// map('filter', …) or map(attribute=…, default=…); of None and other false values, nothing
Value map(Interpreter& in, const Value& v, const Arguments& a) {
  std::vector<Value> out;
  if (!v.truth()) return Value::list({}, List::Kind::generator);
  if (a.positional.empty()) {
    const Bound b("map", "attribute default", a);
    const Value fallback = b.value(1, nullptr);
    for (Value& item : items_of(in, v)) out.push_back(reach(in, item, b.at(0), b.has(1) ? &fallback : nullptr));
  } else {
    const Filter* filter = find_filter(a.positional[0].text().view());
    if (!filter) throw Failure{"there is no filter '" + a.positional[0].text().str() + "'"};
    Arguments rest = a;
    rest.positional.erase(rest.positional.begin());
    for (Value& item : items_of(in, v)) {
      if (item.is_text()) in.charge(item.text().size());
      out.push_back((*filter)(in, item, rest));
    }
  }
  return Value::list(std::move(out), List::Kind::generator);
}

/// select/reject (by a test) and selectattr/rejectattr (by a test of an attribute); without a test, by truth value. Of
/// None and other false values, nothing.
Value choose(Interpreter& in, const Value& v, Arguments a, bool by_attribute, bool keep) {
  Value path;
  if (by_attribute) {
    if (a.positional.empty()) throw Failure{"Missing parameter for attribute name"};
    path = a.positional[0];
    a.positional.erase(a.positional.begin());
  }
  const Test* test = nullptr;
  if (!a.positional.empty()) {
    test = find_test(a.positional[0].text().view());
    if (!test) throw Failure{"there is no test '" + a.positional[0].text().str() + "'"};
    a.positional.erase(a.positional.begin());
  }
  std::vector<Value> out;
  if (!v.truth()) return Value::list({}, List::Kind::generator);
  for (Value& item : items_of(in, v)) {
    const Value subject = reach(in, item, path);
    const bool holds = test ? test->run(in, subject, Bound(test->name, test->parameters, a)) : subject.truth();
    if (holds == keep) out.push_back(std::move(item));
  }
  return Value::list(std::move(out), List::Kind::generator);
}

Value first(Interpreter&, const Value& v, const Bound&) {
  if (v.is_list() && v.list().kind == List::Kind::generator) {
    const List& l = v.list();
    if (l.spent < l.items.size()) return l.items[l.spent++];
  } else if (v.is_text() && !v.text().empty()) {
    return item(v, 0);
  } else if (const std::vector<Value> items = iterate(v); !items.empty()) {
    return items[0];
  }
  return Value::undefined("No first item, sequence was empty.");
}
Value last(Interpreter& in, const Value& v, const Bound&) {
  if (v.is_list() && v.list().kind == List::Kind::generator) throw Failure{"'generator' object is not reversible"};
  if (v.is_text() && !v.text().empty()) return item(v, -1);
  const std::vector<Value> items = items_of(in, v);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Interpreter& in, const Value& v, const Bound&) {
  if (v.is_text()) return slice(v, nullptr, nullptr, -1);
  std::vector<Value> items = items_of(in, v);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items), List::Kind::generator);
}

Value batch(Interpreter& in, const Value& v, const Bound& a) {
  const std::int64_t n = a.at(0).integer();
  std::vector<Value> out, row;
  for (Value& item : items_of(in, v)) {
    if (static_cast<std::int64_t>(row.size()) == n) out.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (a.has(1) && !a.at(1).is_none()) {
      if (n > static_cast<std::int64_t>(kMaxList)) throw Failure{"batch(): this row is too long"};
      while (static_cast<std::int64_t>(row.size()) < n) row.push_back(a.at(1));
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::list(std::move(out), List::Kind::generator);
}

Value slices(Interpreter& in, const Value& v, const Bound& a) {
  const std::vector<Value> items = items_of(in, v);
  const std::int64_t n = a.at(0).integer(), length = static_cast<std::int64_t>(items.size());
  if (n <= 0 || n > static_cast<std::int64_t>(kMaxList))
    throw Failure{"slice(): the number of slices must be from 1 to 200000"};
  const std::int64_t per = length / n, longer = length % n;
  std::vector<Value> out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t take = per + (i < longer);
    std::vector<Value> row(items.begin() + at, items.begin() + at + take);
    if (a.has(1) && !a.at(1).is_none() && i >= longer) row.push_back(a.at(1));
    out.push_back(Value::list(std::move(row)));
    at += take;
  }
  return Value::list(std::move(out), List::Kind::generator);
}

Value dict_items(Interpreter& in, const Value& v, const Bound&) {
  if (v.is_undefined()) return Value::list({}, List::Kind::generator);
  if (!v.is_dict()) throw Failure{"Can only get item pairs from a mapping."};
  in.charge(v.dict().items.size() * 64);
  std::vector<Value> out;
  for (auto& [key, value] : v.dict().items) out.push_back(Value::list({key, value}, List::Kind::tuple));
  return Value::list(std::move(out), List::Kind::generator);
}

constexpr FilterFn kLength = [](Interpreter&, const Value& v, const Bound&) -> Value { return length(v); };

const std::array kFilters = std::to_array<Filter>({
    {"batch", "linecount fill_with", &batch},
    {"count", "", kLength},
    {"dictsort", "case_sensitive by reverse", &dictsort},
    {"first", "", &first},
    {"groupby", "attribute default case_sensitive", &groupby},
    {"items", "", &dict_items},
    {"join", "d attribute", &join},
    {"last", "", &last},
    {"length", "", kLength},
    {"list", "", [](Interpreter& in, const Value& v, const Bound&) { return Value::list(items_of(in, v)); }},
    {"map", "", nullptr, &map},
    {"max", "case_sensitive attribute",
     [](Interpreter& in, const Value& v, const Bound& a) { return extreme(in, v, a, true); }},
    {"min", "case_sensitive attribute",
     [](Interpreter& in, const Value& v, const Bound& a) { return extreme(in, v, a, false); }},
    {"reject", "", nullptr,
     [](Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, false, false); }},
    {"rejectattr", "", nullptr,
     [](Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, true, false); }},
    {"reverse", "", &reverse},
    {"select", "", nullptr,
     [](Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, false, true); }},
    {"selectattr", "", nullptr,
     [](Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, true, true); }},
    {"slice", "slices fill_with", &slices},
    {"sort", "reverse case_sensitive attribute", &sort},
    {"sum", "attribute start", &sum},
    {"unique", "case_sensitive attribute", &unique},
});

}  // namespace

std::span<const Filter> sequence_filters() { return kFilters; }

}  // namespace dml::jinja
