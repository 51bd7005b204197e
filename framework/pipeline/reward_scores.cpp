#include "pipeline/reward_scores.h"

#include "assembly/job.h"
#include "core/error.h"
#include "data/example.h"
#include "data/prepare.h"
#include "data/records.h"
#include "prompt/stepwise.h"

namespace dml {
namespace {

// A prompt or an answer as messages: a list of messages is kept, a text becomes one of this role.
Json messages_of(const Json& value, const char* role, const std::string& column) {
  if (value.is_string()) return Json::array({Json{{"role", role}, {"content", value}}});
  if (!value.is_array() || value.empty()) throw UserError("'{}' must be a string or a list of messages", column);
  return value;
}

std::vector<Token> ids_of(const RewardModel& model, const Json& row, const std::string& answer) {
  if (!row.contains("prompt")) throw UserError("'prompt' is missing");
  if (row["prompt"].is_string() && row[answer].is_string())
    return model.ids(row["prompt"].get<std::string>(), row[answer].get<std::string>());
  Json all = messages_of(row["prompt"], "user", "prompt");
  for (const Json& message : messages_of(row[answer], "assistant", answer)) all.push_back(message);
  return model.ids(all);
}

Json rewards_of(RewardModel& model, const Json& row) {
  if (row.contains("messages")) return {{"reward", model.score(model.ids(row["messages"]))}};
  if (row.contains("completion")) return {{"reward", model.score(ids_of(model, row, "completion"))}};
  if (!row.contains("chosen") || !row.contains("rejected"))
    throw UserError("the row has neither 'messages', nor 'completion', nor 'chosen' and 'rejected'");
  const double chosen = model.score(ids_of(model, row, "chosen")),
               rejected = model.score(ids_of(model, row, "rejected"));
  return {{"chosen", chosen}, {"rejected", rejected}, {"margin", chosen - rejected}};
}

// Through the format of training, in which a step's label is at its last token.
std::vector<double> step_scores(RewardModel& model, const PromptStrategy& strategy, Json row) {
  if (!row.contains("completions") || !row["completions"].is_array())
    throw UserError("'completions' must be a list of texts");
  row["labels"] = std::vector<int>(row["completions"].size(), 1);
  const Example text = assemble(strategy.render(row).front(), model.tokenizer());
  std::vector<std::int64_t> ends;
  for (std::int64_t t = 0; t < text.size(); ++t)
    if (text.labels[static_cast<std::size_t>(t)] != kIgnore) ends.push_back(t);
  return model.step_scores(text.ids, ends);
}

// Calls use(number, row) for every row. An error of `use` gets the row's place.
std::size_t each_row(const std::string& path, const std::function<void(std::size_t, const Json&)>& use) {
  const SourceFile file{path, RowForm::json_lines, ""};
  RowReader reader(file);
  std::size_t number = 0;
  Json row;
  for (RawRow raw; reader.next(raw); ++number) {
    reader.parse(raw, row);
    try {
      use(number, row);
    } catch (const UserError& error) {
      throw UserError("{}: {}", reader.place(raw), error.what());
    }
  }
  return number;
}

// Passes the number and the line of each row from row `first` on to `use`.
void score_rows_from(RewardModel& model, const std::string& path, std::size_t first,
                     const std::function<void(std::size_t, const std::string&)>& use) {
  DatasetEntry stepwise;
  stepwise.type.name = "stepwise_supervised";
  const auto strategy = make_stepwise(prompt_context({}, {}, stepwise, model.tokenizer()));
  each_row(path, [&](std::size_t number, const Json& row) {
    if (number < first) return;
    Json out{{"row", number}};
    if (model.judges_steps()) out["steps"] = step_scores(model, *strategy, row);
    else out.update(rewards_of(model, row));
    use(number, dump(out));
  });
}

}  // namespace

void score_file(RewardModel& model, const std::string& path, const std::function<void(const std::string&)>& line) {
  score_rows_from(model, path, 0, [&](std::size_t, const std::string& text) { line(text); });
}

void score_file(RewardModel& model, const std::string& path, KeptRows& out) {
  const std::size_t total = each_row(path, [](std::size_t, const Json&) {});
  out.require_at_most(total);
  out.fill(total, [&] {
    score_rows_from(model, path, out.first_to_compute(),
                    [&](std::size_t number, const std::string& line) { out.put(number, line); });
  });
}

std::vector<PairRewards> score_pairs(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter) {
  set_up_processor(recipe.train, comm);
  const bool whole = recipe.adapter.makes_model();
  if (adapter && whole) throw UserError("--adapter: this recipe trains the whole model");
  const std::string folder = adapter.value_or(recipe.train.output_dir);
  RewardModel model = whole ? RewardModel(folder) : RewardModel(folder, recipe);
  const Prepared prepared = prepare_on_ranks(recipe, model.tokenizer(), comm);
  const Examples examples = prepared.all();
  std::vector<double> all(static_cast<std::size_t>(2 * examples.size()));  // zero where another rank computes it
  for (std::int64_t i = comm.rank(); i < examples.size(); i += comm.size()) {
    const auto ids = examples.ids(i);
    const auto split = static_cast<std::size_t>(examples.split(i));
    all[static_cast<std::size_t>(2 * i)] = model.score(ids.first(split));
    all[static_cast<std::size_t>(2 * i + 1)] = model.score(ids.subspan(split));
  }
  comm.sum(all);
  std::vector<PairRewards> out;
  for (std::int64_t i = 0; i < examples.size(); ++i)
    out.push_back({prepared.place(examples.stored(i)), all[static_cast<std::size_t>(2 * i)],
                   all[static_cast<std::size_t>(2 * i + 1)]});
  return out;
}

}  // namespace dml
