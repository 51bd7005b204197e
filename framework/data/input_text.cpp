#include "data/input_text.h"

#include <fmt/format.h>

#include "recipe/spellings.h"

namespace dml {
namespace {

template <class E>
std::string spelling_of(const std::string& value) {
  for (const auto& row : recipe::kEnumRows<E>)
    if (fmt::format("{}", static_cast<int>(row.value)) == value) return row.spelling;
  return value;
}

// Several values of rl, reward_model and process_reward_model have the same kind of rows.
std::string kind_of_rows(const std::string& value) {
  for (auto [kind, name] : {std::pair{RowKind::text, "text"},
                            {RowKind::pairs, "pairs"},
                            {RowKind::labeled, "labeled answers"},
                            {RowKind::prompts, "prompts"},
                            {RowKind::steps, "steps"}})
    if (fmt::format("{}", static_cast<int>(kind)) == value) return name;
  return value;
}

}  // namespace

std::string input_name(std::string_view name) { return name == "rl" ? "kind of rows" : std::string(name); }

std::string input_text(std::string_view name, const std::string& value) {
  if (name == "excess_length_strategy") return spelling_of<ExcessLength>(value);
  if (name == "rl") return kind_of_rows(value);
  if (name.ends_with(".train_on_eos") || name.ends_with(".train_on_eot")) return spelling_of<TrainOnEnd>(value);
  return value;
}

}  // namespace dml
