// dml score: computes the loss of rows, or the rewards of their answers.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "assembly/hub_files.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/row_view.h"
#include "cli/stages.h"
#include "core/files.h"
#include "pipeline/kept_rows.h"
#include "pipeline/reward_scores.h"
#include "pipeline/score.h"

namespace dml {
namespace {

constexpr std::size_t kShown = 10;

struct Score {
  std::string recipe;
  std::optional<std::string> adapter, output, input;
  bool resume = false;
  std::vector<Override> overrides;
  Options options{
      "score",
      "score RECIPE [--adapter DIR|none] [--output FILE] | score DIR --input FILE [--output FILE [--resume]]",
      {"dml score recipe.yml", "dml score recipe.yml --adapter none --output scores.jsonl",
       "dml score outputs/reward --input answers.jsonl --output rewards.jsonl"}};
  Score() {
    options.about(
        "Computes the loss of every row of the data (datasets and test_datasets), of the base and of the adapter or "
        "model in output_dir, and writes a JSON line for each: loss, perplexity, trained tokens, and how much lower "
        "the loss is than the base's. Prints the rows with the highest loss: mistakes in the data are often among "
        "them; `dml inspect --scores` shows them, `scores` in the recipe drops them. With reward_model: true, it "
        "writes the rewards of both answers of every pair. With the folder of a reward model "
        "instead of a recipe, the rows of --input are scored: {\"messages\": …}, {\"prompt\": …, \"completion\": …}, "
        "or {\"prompt\": …, \"chosen\": …, \"rejected\": …}; a model that judges steps reads {\"prompt\": …, "
        "\"completions\": […]}.");
    options.positional("RECIPE", recipe, "the recipe, or the folder of a reward model");
    options.text("input", input, "rows for the reward model in DIR, as JSON lines", "FILE");
    options.text("adapter", adapter, "this adapter instead of the one in output_dir; none: the base alone", "DIR");
    options.text("output", output, "where to write; default: scores.jsonl in output_dir, with --input standard output",
                 "FILE");
    options.flag(
        "resume", resume,
        "with --input and --output: continue FILE.partial, which an interrupted run has left, or a complete FILE");
    options.take_overrides(overrides);
  }
};

// Scores the rows of a file with the reward model in a folder.
int score_input(const Score& s) {
  require_no_keys(s.overrides, "the folder of a reward model");
  if (!s.input)
    throw UserError("{}: is a folder; give the rows that its reward model is to score with --input FILE", s.recipe);
  if (s.adapter)
    throw UserError("--adapter requires a recipe; name the folder of the adapter of a reward model in place of {}",
                    s.recipe);
  if (s.resume && !s.output) throw UserError("--resume requires --output FILE, whose FILE.partial it continues");
  if (!s.output) {
    RewardModel model(s.recipe);
    score_file(model, *s.input, [](const std::string& line) { print(line + "\n"); });
    return 0;
  }
  for (const std::string& path : {*s.output, KeptRows::partial_name(*s.output)})
    require_free_output("--output", path, {*s.input});
  make_parent_directories(*s.output);
  KeptRows out(*s.output, s.resume);
  RewardModel model(s.recipe);
  score_file(model, *s.input, out);
  return 0;
}

std::string scores_path(const RecipeFile& file, const Score& s) {
  return s.output.value_or(file.recipe.train.output_dir + "/scores.jsonl");
}
// On the first rank. Called before the rows are scored, so that an output that cannot be written is reported at once.
std::optional<FileWriter> create_scores_file(const RecipeFile& file, const Score& s, Comm& comm) {
  if (comm.rank() != 0) return {};
  const std::string path = scores_path(file, s);
  RecipeFile read = file;
  read.recipe.data.scores = {};  // scoring does not read the scores of the last time
  require_free_output(s.output ? "--output" : "output_dir", path, {}, &read);
  make_parent_directories(path);
  return std::optional<FileWriter>(std::in_place, path);
}

int score_recipe_pairs(const RecipeFile& file, const Score& s, Comm& comm) {
  std::optional<FileWriter> writer = create_scores_file(file, s, comm);
  const std::vector<PairRewards> pairs = score_pairs(file.recipe, comm, s.adapter);
  if (!writer) return 0;
  FileWriter& out = *writer;
  std::vector<std::pair<double, std::size_t>> order;
  double right = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const PairRewards& p = pairs[i];
    const double margin = p.chosen - p.rejected;
    out.write(
        dump(Json{{"row", i}, {"place", p.place}, {"chosen", p.chosen}, {"rejected", p.rejected}, {"margin", margin}}) +
        "\n");
    order.emplace_back(margin, i);
    right += margin > 0;
  }
  out.commit();
  std::ranges::sort(order);
  print(fmt::format("{:>10}  {:>10}  {:>10}  {}\n", "margin", "chosen", "rejected", "row"));
  for (std::size_t i = 0; i < std::min(kShown, order.size()); ++i) {
    const PairRewards& p = pairs[order[i].second];
    print(fmt::format("{:>10.4f}  {:>10.4f}  {:>10.4f}  {}\n", order[i].first, p.chosen, p.rejected, p.place));
  }
  print(fmt::format("the chosen answer scores higher in {:.0f} of {} pairs; all in {}\n", right, pairs.size(),
                    scores_path(file, s)));
  return 0;
}

// Only texts have a loss for each row.
void check_rows_are_texts(const RecipeFile& file) {
  const Recipe& recipe = file.recipe;
  if (recipe.data.rows == RowKind::text) return;
  if (recipe.model.task == ModelTask::process_reward)
    throw UserError({file.located({"process_reward_model", "",
                                   fmt::format("a process reward model scores the rows of a file: dml score {} "
                                               "--input FILE",
                                               recipe.train.output_dir)})});
  throw UserError({file.located(
      {"rl", "",
       fmt::format(
           "dml score measures the loss of texts or, with reward_model: true, the rewards of pairs; the rows of "
           "this recipe are {}",
           recipe.data.rows == RowKind::prompts ? "prompts without an answer" : "preferences")})});
}

int run_score(const std::vector<std::string>& words) {
  Score s;
  s.options.parse(words);
  if (std::filesystem::is_directory(s.recipe))
    return run_on_ranks([&](Comm& comm) { return comm.rank() == 0 ? score_input(s) : 0; });
  if (s.input) throw UserError("--input needs the folder of a reward model instead of a recipe");
  if (s.resume) throw UserError("--resume requires --input");
  return run_on_ranks([&](Comm& comm) {
    const RecipeFile file = load_recipe_to_run(s.recipe, s.overrides, RecipeUse::measure);
    show_notes(file);
    if (file.recipe.preference.reward_model) return score_recipe_pairs(file, s, comm);
    check_rows_are_texts(file);
    std::optional<FileWriter> writer = create_scores_file(file, s, comm);
    const std::vector<RowScore> rows = score_rows(file.recipe, comm, s.adapter);
    if (!writer) return 0;
    FileWriter& out = *writer;
    double base = 0, loss = 0, tokens = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out.write(score_line(i, rows[i]) + "\n");
      const auto weight = static_cast<double>(rows[i].trained_tokens);
      base += rows[i].base_loss * weight, loss += rows[i].last_loss() * weight, tokens += weight;
    }
    out.commit();
    print_scores(rows, sorted_scores(rows, "loss", false), kShown);
    if (tokens > 0)
      print(fmt::format(
          "{}all {} rows, in {}\n",
          score_columns(loss / tokens, have_two_losses(rows) ? std::optional(base / tokens) : std::nullopt, tokens),
          rows.size(), scores_path(file, s)));
    return 0;
  });
}

}  // namespace

Command score_command() {
  return {"score", "the loss of every row of the data", [] { return Score().options.page(); }, run_score, Ranks::many};
}

}  // namespace dml
