// dml score: rows by their loss.
#include "assembly/hub_files.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/row_view.h"
#include "cli/stages.h"
#include "core/files.h"
#include "core/log.h"
#include "pipeline/score.h"

namespace dml {
namespace {

constexpr std::size_t kShown = 10;

struct Score {
  std::string recipe;
  std::optional<std::string> adapter, output;
  std::vector<Override> overrides;
  Options options{"score",
                  "score RECIPE [--adapter DIR|none] [--output FILE]",
                  {"dml score recipe.yml", "dml score recipe.yml --adapter none --output scores.jsonl"}};
  Score() {
    options.about(
        "Computes the loss of every row of the data (datasets and test_datasets), of the base and of the adapter or model in "
        "output_dir, and writes a JSON line for each: loss, perplexity, trained tokens, and how much lower the loss is than the "
        "base's. Prints the rows with the highest loss: mistakes in the data are often among them; `dml inspect --scores` shows "
        "them, `scores` in the recipe drops them.");
    options.positional("RECIPE", recipe, "the recipe");
    options.text("adapter", adapter, "this adapter instead of the one in output_dir; none: the base alone", "DIR");
    options.text("output", output, "where to write; default: scores.jsonl in output_dir", "FILE");
    options.take_overrides(overrides);
  }
};

int run_score(const std::vector<std::string>& words) {
  Score s;
  s.options.parse(words);
  return run_on_ranks([&](Comm& comm) {
    const RecipeFile file = load_recipe_to_run(s.recipe, s.overrides, RecipeUse::measure);
    show_notes(file);
    const std::vector<RowScore> rows = score_rows(file.recipe, comm, s.adapter);
    if (comm.rank() != 0) return 0;
    const std::string path = s.output.value_or(file.recipe.train.output_dir + "/scores.jsonl");
    if (!s.output) make_directories(file.recipe.train.output_dir);
    FileWriter out(path);
    double base = 0, loss = 0, tokens = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out.write(score_line(i, rows[i]) + "\n");
      const auto weight = static_cast<double>(rows[i].trained_tokens);
      base += rows[i].base_loss * weight, loss += rows[i].last_loss() * weight, tokens += weight;
    }
    out.commit();
    print_scores(rows, sorted_scores(rows, "loss", false), kShown);
    if (tokens > 0)
      print(fmt::format("{:>10.4f}  {:>10.4f}  {:>8.0f}  all {} rows, in {}\n", loss / tokens, base / tokens, tokens, rows.size(), path));
    return 0;
  });
}

}  // namespace

Command score_command() {
  return {"score", "the loss of every row of the data", [] { return Score().options.page(); }, run_score};
}

}  // namespace dml
