#include "data/difference.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/error.h"
#include "data/input_text.h"

namespace dml {
namespace {

// The examples of one prepared folder by the place of their row, and the split of each.
class Rows {
 public:
  explicit Rows(const Prepared& prepared) : prepared_(prepared), all_(prepared.all()), list_(all_.size(), "no list") {
    auto mark = [&](const Examples& examples, const char* name) {
      for (std::int64_t i = 0; i < examples.size(); ++i) list_[static_cast<std::size_t>(examples.stored(i))] = name;
    };
    mark(prepared.train(), "train");
    mark(prepared.validation(), "validation");
    std::string last;
    std::int64_t part = 0;
    for (std::int32_t i = 0; i < all_.size(); ++i) {
      std::string place = prepared.place(i);
      part = place == last ? part + 1 : 0;
      last = place;
      if (part > 0) place += fmt::format(" part {}", part + 1);
      places_.push_back(std::move(place));
      index_.emplace(places_.back(), i);
    }
  }
  const std::vector<std::string>& places() const { return places_; }
  std::int32_t find(const std::string& place) const {
    auto at = index_.find(place);
    return at == index_.end() ? -1 : at->second;
  }
  std::span<const Token> ids(std::int32_t i) const { return all_.ids(i); }
  std::span<const Token> labels(std::int32_t i) const { return all_.labels(i); }
  const std::string& list(std::int32_t i) const { return list_[static_cast<std::size_t>(i)]; }
  std::string size(std::int32_t i) const {
    const std::span<const Token> l = labels(i);
    std::int64_t trained = 0;  // nothing predicts the first token of a document
    for (std::int64_t k = 1; k < std::ssize(l); ++k)
      trained += l[static_cast<std::size_t>(k)] != kIgnore && k != all_.split(i);
    return fmt::format("{} tokens, {} trained", l.size(), trained);
  }

 private:
  const Prepared& prepared_;
  Examples all_;
  std::vector<std::string> list_;
  std::vector<std::string> places_;
  std::unordered_map<std::string, std::int32_t> index_;
};

std::vector<std::string> compare_inputs(const Json& before, const Json& after) {
  std::vector<std::string> out;
  auto text = [](const std::string& name, const Json& value) {
    return value.is_string() ? input_text(name, value.get<std::string>()) : dump(value);
  };
  for (auto& [name, value] : after.items()) {
    if (!before.contains(name)) out.push_back(fmt::format("{}: added ({})", input_name(name), text(name, value)));
    else if (before[name] != value)
      out.push_back(fmt::format("{}: {} → {}", input_name(name), text(name, before[name]), text(name, value)));
  }
  for (auto& [name, value] : before.items())
    if (!after.contains(name)) out.push_back(fmt::format("{}: removed ({})", input_name(name), text(name, value)));
  return out;
}

}  // namespace

Difference compare(const Prepared& before, const Prepared& after) {
  Difference out;
  out.inputs = compare_inputs(before.manifest().value("inputs", Json::object()),
                              after.manifest().value("inputs", Json::object()));
  std::map<const std::int64_t*, std::size_t> shown;
  auto note = [&](std::int64_t& count, const std::string& place, std::string what) {
    ++count;
    if (shown[&count]++ < Difference::kShown) out.first.push_back({place, std::move(what)});
  };
  const Rows a(before), b(after);
  for (auto& place : a.places()) {
    const std::int32_t i = a.find(place), k = b.find(place);
    if (k < 0) note(out.gone, place, "removed, had " + a.size(i));
    else if (!std::ranges::equal(a.ids(i), b.ids(k))) note(out.other_tokens, place, a.size(i) + " → " + b.size(k));
    else if (!std::ranges::equal(a.labels(i), b.labels(k)))
      note(out.other_labels, place, "the same tokens, " + a.size(i) + " → " + b.size(k));
    else if (a.list(i) != b.list(k)) note(out.moved, place, fmt::format("from {} to {}", a.list(i), b.list(k)));
    else ++out.same;
  }
  for (auto& place : b.places())
    if (a.find(place) < 0) note(out.fresh, place, "added, has " + b.size(b.find(place)));
  return out;
}

std::vector<std::string> Difference::lines() const {
  std::vector<std::string> out = inputs;
  if (inputs.empty()) out.push_back("same settings and data files");
  out.push_back(fmt::format(
      "examples: {} unchanged, {} with other tokens, {} with other labels, {} in another split, {} removed, {} added",
      grouped(same), grouped(other_tokens), grouped(other_labels), grouped(moved), grouped(gone), grouped(fresh)));
  for (auto& change : first) out.push_back(fmt::format("  {}: {}", change.place, change.what));
  return out;
}

Json Difference::json() const {
  Json rows = Json::array();
  for (auto& change : first) rows.push_back({{"place", change.place}, {"what", change.what}});
  return {{"inputs", inputs},
          {"same", same},
          {"other_tokens", other_tokens},
          {"other_labels", other_labels},
          {"moved", moved},
          {"gone", gone},
          {"new", fresh},
          {"rows", std::move(rows)}};
}

}  // namespace dml
