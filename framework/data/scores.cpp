#include "data/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/lines.h"

namespace dml {
namespace {

using Value = double (*)(const RowScore&);
constexpr std::array<std::pair<const char*, Value>, 7> kValues{
    {{"loss", [](const RowScore& s) { return s.last_loss(); }},
     {"perplexity", [](const RowScore& s) { return s.last_loss(); }},
     {"base_loss", [](const RowScore& s) { return s.base_loss; }},
     {"difference", [](const RowScore& s) { return s.difference(); }},
     {"tokens", [](const RowScore& s) { return static_cast<double>(s.tokens); }},
     {"trained_tokens", [](const RowScore& s) { return static_cast<double>(s.trained_tokens); }},
     {"row", nullptr}}};

RowScore parsed(std::string_view line, const std::string& place) {
  const Json row = parse_json(line, place);
  if (!row.is_object() || !row.contains("loss") || !row["loss"].is_number())
    throw UserError("{}: not a line of `dml score`: it has no 'loss'", place);
  RowScore s;
  s.place = json_string(row, "place", "", place);
  s.digest = json_string(row, "digest", "", place);
  s.tokens = json_integer(row, "tokens", 0, place);
  s.trained_tokens = json_integer(row, "trained_tokens", 0, place);
  const double loss = row["loss"].get<double>();
  s.base_loss = json_number(row, "base_loss", loss, place);
  if (row.contains("base_loss")) s.loss = loss;
  return s;
}

}  // namespace

bool have_two_losses(const std::vector<RowScore>& scores) {
  return std::ranges::any_of(scores, [](const RowScore& s) { return s.loss.has_value(); });
}

std::string score_line(std::size_t row, const RowScore& s) {
  Json out{{"row", row},
           {"place", s.place},
           {"digest", s.digest},
           {"tokens", s.tokens},
           {"trained_tokens", s.trained_tokens},
           {"loss", s.last_loss()},
           {"perplexity", std::exp(s.last_loss())}};
  if (s.loss) out["base_loss"] = s.base_loss, out["difference"] = s.difference();
  return dump(out);
}

std::vector<RowScore> read_scores(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<RowScore> out;
  for (const Line line : Lines(text))
    if (!line.blank()) out.push_back(parsed(line.text, fmt::format("{}:{}", path, line.number)));
  if (out.empty()) throw UserError("{}: no scores; `dml score` writes them", path);
  return out;
}

std::vector<std::string> score_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : kValues) names.emplace_back(name);
  return names;
}

std::vector<std::size_t> sorted_scores(const std::vector<RowScore>& scores, const std::string& by, bool lowest) {
  const auto found = std::ranges::find(kValues, by, [](const auto& v) { return std::string(v.first); });
  if (found == kValues.end()) throw UserError("there is no score '{}'{}", by, did_you_mean(by, score_names()));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  if (!found->second) return order;
  if (by == "difference" && !have_two_losses(scores))
    throw UserError(
        "these scores have no 'difference': dml score writes it for an adapter, or a trained model that has a base");
  auto value = [&](std::size_t i) { return found->second(scores[i]); };
  if (lowest) std::ranges::stable_sort(order, std::less<>(), value);
  else std::ranges::stable_sort(order, std::greater<>(), value);
  return order;
}

}  // namespace dml
