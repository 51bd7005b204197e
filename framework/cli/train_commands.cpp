// train, evaluate, merge, plan: the math half.
#include <cstdio>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/evaluate.h"
#include "pipeline/merge.h"
#include "pipeline/progress.h"
#include "pipeline/train.h"
#include "pipeline/training_run.h"

namespace dml {
namespace {

struct Train {
  std::string recipe;
  std::optional<std::string> resume;
  std::vector<Override> overrides;
  Options options{"train", "train RECIPE [--resume auto|DIR|none] [--KEY VALUE …]",
                  {"dml train recipe.yml", "mpirun -np 4 dml train recipe.yml", "dml train recipe.yml --resume auto", "dml train recipe.yml --learning_rate 1e-4"}};
  Train() {
    options.positional("RECIPE", recipe, "the recipe");
    options.text("resume", resume, "auto: from the newest checkpoint; a checkpoint directory; none: anew");
    options.take_overrides(overrides);
  }
};

int run_train(const std::vector<std::string>& words) {
  Train t;
  t.options.parse(words);
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe(t.recipe, t.overrides);
    show_notes(file);
    return static_cast<int>(train(file, comm, {.resume = t.resume}));
  });
}

struct Evaluate {
  std::string recipe;
  std::optional<std::string> adapter;
  bool json = false;
  std::vector<Override> overrides;
  Options options{"evaluate", "evaluate RECIPE [--adapter DIR] [--json]", {"dml evaluate recipe.yml", "dml evaluate recipe.yml --adapter out/checkpoint-100"}};
  Evaluate() {
    options.positional("RECIPE", recipe, "the recipe");
    options.text("adapter", adapter, "another adapter than the one in output_dir");
    options.flag("json", json, "one JSON object a line");
    options.take_overrides(overrides);
  }
};

int run_evaluate(const std::vector<std::string>& words) {
  Evaluate e;
  e.options.parse(words);
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe(e.recipe, e.overrides);
    show_notes(file);
    auto rows = evaluate(file.recipe, comm, e.adapter);
    if (comm.rank() != 0) return 0;
    std::size_t width = 5;
    for (auto& r : rows) width = std::max(width, r.name.size());
    if (!e.json) print(fmt::format("{:<{}}  {:>8}  {:>10}  {:>9}  {:>10}\n", "model", width, "loss", "perplexity", "examples", "learned"));
    for (auto& r : rows) {
      if (e.json)
        print(dump(Json{{"model", r.name}, {"loss", r.loss}, {"ppl", r.perplexity}, {"examples", r.examples}, {"tokens", r.tokens}, {"learned_tokens", r.learned}}) + "\n");
      else
        print(fmt::format("{:<{}}  {:>8.4f}  {:>10.3f}  {:>9}  {:>10}\n", r.name, width, r.loss, r.perplexity, r.examples, r.learned));
    }
    return 0;
  });
}

struct Merge {
  std::string recipe;
  std::vector<std::string> adapters;
  std::optional<std::string> output;
  std::vector<Override> overrides;
  Options options{"merge", "merge RECIPE [--adapter DIR[=WEIGHT] …] --output DIR", {"dml merge recipe.yml --output merged", "dml merge recipe.yml --adapter style=0.5 --adapter facts --output merged"}};
  Merge() {
    options.positional("RECIPE", recipe, "the recipe");
    options.texts("adapter", adapters, "another adapter than the one in output_dir; several add up, DIR=WEIGHT");
    options.text("output", output, "a new Hugging Face model directory");
    options.take_overrides(overrides);
  }
};

int run_merge(const std::vector<std::string>& words) {
  Merge m;
  m.options.parse(words);
  if (!m.output) throw UserError("merge needs --output DIR");
  RecipeFile file = load_recipe(m.recipe, m.overrides);
  show_notes(file);
  merge(file.recipe, m.adapters, *m.output);
  print(*m.output + "\n");
  return 0;
}

struct Plan {
  std::string recipe;
  std::vector<Override> overrides;
  Options options{"plan", "plan RECIPE [--KEY VALUE …]", {"dml plan recipe.yml", "dml plan recipe.yml --micro_batch_size 4"}};
  Plan() {
    options.positional("RECIPE", recipe, "the recipe");
    options.take_overrides(overrides);
  }
};

int run_plan(const std::vector<std::string>& words) {
  Plan p;
  p.options.parse(words);
  RecipeFile file = load_recipe(p.recipe, p.overrides);
  show_notes(file);
  auto self = make_self_comm();
  TrainingRun run(file, *self);
  for (auto& line : run.header()) log_info("{}", line);
  for (auto& [name, bytes] : run.memory().rows()) print(fmt::format("{:<24} {:>10}\n", name, memory_text(bytes)));
  print(fmt::format("{:<24} {:>10}\n", "total", memory_text(run.memory().total())));
  print(fmt::format("{:<24} {:>10}\n", "a checkpoint, on disk", memory_text(run.checkpoint_bytes())));
  print(fmt::format("micro_batch_size up to {} fits in the {} that are available; {} take about {} here\n", run.largest_micro_batch(), memory_text(available_memory()),
                    count_text(static_cast<double>(run.total())) + (run.total() == 1 ? " step" : " steps"), clock_text(run.estimated_seconds())));
  return 0;
}

}  // namespace

Command train_command() {
  return {"train", "trains what the recipe describes", [] { return Train().options.page(); }, run_train};
}
Command evaluate_command() {
  return {"evaluate", "loss on the validation split, before and after", [] { return Evaluate().options.page(); }, run_evaluate};
}
Command merge_command() {
  return {"merge", "merges an adapter into a model directory", [] { return Merge().options.page(); }, run_merge};
}
Command plan_command() {
  return {"plan", "memory and steps of a run, before it is started", [] { return Plan().options.page(); }, run_plan};
}

}  // namespace dml
