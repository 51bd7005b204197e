// dml evaluate, dml merge, dml plan.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "assembly/harness_task.h"
#include "assembly/hub_files.h"
#include "assembly/job.h"
#include "assembly/optimization.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/size_text.h"
#include "diagnose/requirements.h"
#include "diagnose/scaling_plan.h"
#include "dist/strategy_rows.h"
#include "hub/fetch.h"
#include "pipeline/convert.h"
#include "pipeline/evals.h"
#include "pipeline/evaluate.h"
#include "pipeline/merge.h"
#include "pipeline/own_ranks.h"
#include "pipeline/run_plan.h"
#include "train/progress.h"

namespace dml {
namespace {

struct Evaluate {
  std::string recipe;
  std::optional<std::string> base_model, evals;
  std::vector<std::string> adapters;
  bool json = false;
  std::vector<Override> overrides;
  Options options{"evaluate",
                  "evaluate [RECIPE] [--evals FILE] [--base-model DIR] [--adapter DIR …] [--json]",
                  {"dml evaluate recipe.yml", "dml evaluate recipe.yml --adapter out/checkpoint-100 --adapter out",
                   "dml evaluate --base-model models/tiny --evals evals.yml --json"}};
  Evaluate() {
    options.about(
        "Computes the loss on the validation data (val_set_size or test_datasets): of the base model, and of the "
        "adapter or model in output_dir. Prints one row each, with loss and perplexity. Then runs the evaluations of "
        "the recipe's 'evals', or those of another file, on the same models, side by side. Exit code 3: a metric of "
        "the last model is below its fail_below.");
    options.positional("RECIPE", recipe, "the recipe", false);
    options.text(
        "evals", evals,
        "a file with the key 'evals', in place of the recipe's, or a task of lm-evaluation-harness; only these are run",
        "FILE");
    options.text("base-model", base_model,
                 "evaluate this model directory in place of the recipe's models; with --evals, no recipe is needed",
                 "DIR");
    options.texts("adapter", adapters,
                  "evaluate this adapter instead of the one in output_dir; several: one row each; none: the base alone",
                  "DIR");
    options.flag("json", json, "print one JSON object per line");
    options.take_overrides(overrides);
  }
};

void print_losses(const std::vector<Evaluation>& rows, bool json) {
  std::size_t width = 5;
  for (auto& r : rows) width = std::max(width, r.name.size());
  if (!json)
    print(fmt::format("{:<{}}  {:>8}  {:>10}  {:>9}  {:>10}\n", "model", width, "loss", "perplexity", "examples",
                      "trained"));
  for (auto& r : rows) {
    if (json) {
      Json row{{"model", r.name},        {"loss", r.loss},     {"ppl", r.perplexity},
               {"examples", r.examples}, {"tokens", r.tokens}, {"trained_tokens", r.trained}};
      if (std::isnan(r.perplexity)) row.erase("ppl");
      for (const NamedValue& v : r.values) row[v.name] = v.value;
      print(dump(row) + "\n");
    } else {
      const std::string perplexity = std::isnan(r.perplexity) ? "" : fmt::format("{:.3f}", r.perplexity);
      print(fmt::format("{:<{}}  {:>8.4f}  {:>10}  {:>9}  {:>10}\n", r.name, width, r.loss, perplexity, r.examples,
                        r.trained));
      for (const NamedValue& v : r.values) print(fmt::format("{:<{}}  {:>8.4f}  {}\n", "", width, v.value, v.name));
    }
  }
}

bool is_of_evals(const std::string& key) { return key == "evals" || key.starts_with("evals."); }

// The recipe of `dml evaluate`, with the evaluations of another file if one is given.
RecipeFile evaluated_recipe(const Evaluate& e) {
  if (e.recipe.empty() && !(e.base_model && e.evals))
    throw UserError("evaluate needs a recipe, or --base-model DIR and --evals FILE");
  std::vector<Override> measured = e.overrides;
  measured.push_back({"base_model", e.base_model.value_or("")});
  if (e.evals && is_harness_task(read_file(*e.evals))) {
    RecipeFile file = e.recipe.empty() ? read_recipe("{}", *e.evals, measured, RecipeUse::measure)
                                       : load_recipe_to_run(e.recipe, e.overrides, RecipeUse::measure);
    EvalEntry entry;
    entry.name = std::filesystem::path(*e.evals).stem().string();
    entry.task = *e.evals;
    file.recipe.evaluation.evals = {std::move(entry)};
    file.origins["evals.0"] = *e.evals;
    return file;
  }
  RecipeFile file = e.recipe.empty() ? load_recipe_to_run(*e.evals, measured, RecipeUse::measure)
                                     : load_recipe_to_run(e.recipe, e.overrides, RecipeUse::measure);
  if (e.evals && !e.recipe.empty()) {
    RecipeFile other = load_recipe(*e.evals, {{"base_model", file.recipe.model.base_model}}, RecipeUse::measure);
    file.recipe.evaluation = std::move(other.recipe.evaluation);
    std::erase_if(file.origins, [](const auto& origin) { return is_of_evals(origin.first); });
    for (const auto& origin : other.origins)
      if (is_of_evals(origin.first)) file.origins.insert(origin);
  }
  return file;
}

int run_evaluate(const std::vector<std::string>& words) {
  Evaluate e;
  e.options.parse(words);
  if (e.base_model && !file_exists(*e.base_model)) hub_model_folder(*e.base_model);
  return run_on_ranks([&](Comm& comm) {
    const RecipeFile file = evaluated_recipe(e);
    show_notes(file);
    const Recipe& recipe = file.recipe;
    const bool evals = !recipe.evaluation.evals.empty(), split = recipe.data.has_validation();
    if (!e.evals && (split || !evals)) {
      const auto rows = evaluate(recipe, comm, e.adapters, e.base_model);
      if (comm.rank() == 0) print_losses(rows, e.json);
      if (!evals) return 0;
    }
    const EvalsOutcome outcome = with_places(file, [&] { return run_evals(recipe, {e.base_model, e.adapters}, comm); });
    if (comm.rank() == 0) print(e.json ? dump(evals_json(outcome)) + "\n" : evals_markdown(outcome));
    for (const std::string& line : outcome.below) log_error("{}", line);
    return outcome.below.empty() ? 0 : static_cast<int>(ExitCode::below_limit);
  });
}

struct Merge {
  std::string recipe;
  std::vector<std::string> adapters;
  std::optional<std::string> output, format, dtype;
  std::vector<Override> overrides;
  Options options{"merge",
                  "merge RECIPE [--adapter DIR[=WEIGHT] …] --output PATH [--format gguf [--dtype TYPE]]",
                  {"dml merge recipe.yml --output merged",
                   "dml merge recipe.yml --format gguf --dtype q4_k_m --output merged-q4_k_m.gguf",
                   "dml merge recipe.yml --adapter style=0.5 --adapter facts --output merged"}};
  Merge() {
    options.about(
        "Adds the adapter to the base model's weights and writes a complete model directory that needs neither PEFT "
        "nor dml. Compares the logits of base with adapter and of the merged model, and reports the largest "
        "difference.");
    options.positional("RECIPE", recipe, "the recipe");
    options.texts("adapter", adapters,
                  "this adapter instead of the one in output_dir: DIR or DIR=WEIGHT; several are added up", "DIR");
    options.text("output", output, "the new model directory; with --format gguf the new file, FILE.gguf", "PATH");
    options.choice("format", format, {"safetensors", "gguf"},
                   "safetensors (a model directory), or gguf: one file for llama.cpp and ollama");
    options.text("dtype", dtype, "with --format gguf: type of the weights, as dml convert has them", "TYPE");
    options.values("dtype", stored_types());
    options.take_overrides(overrides);
  }
};

int run_merge(const std::vector<std::string>& words) {
  Merge m;
  m.options.parse(words);
  if (!m.output) throw UserError("merge needs --output PATH");
  const bool gguf = m.format == "gguf";
  if (m.dtype && !gguf)
    throw UserError("--dtype requires --format gguf; dml convert changes the type of a model directory");
  require_name_of_format("--output", *m.output, gguf);
  RecipeFile file = load_recipe_to_run(m.recipe, m.overrides, RecipeUse::measure, {.rows = false});
  show_notes(file);
  merge(file, m.adapters, *m.output, gguf ? std::optional(m.dtype.value_or("")) : std::nullopt);
  print(*m.output + "\n");
  return 0;
}

struct Plan {
  std::string recipe;
  std::optional<std::string> ranks, bandwidth, latency;
  std::optional<std::int64_t> ranks_per_host;
  bool lr = false;
  std::vector<Override> overrides;
  Options options{
      "plan",
      "plan RECIPE [--lr] [--ranks N,N… --bandwidth RATE --latency TIME [--ranks-per-host N]] [--KEY VALUE …]",
      {"dml plan recipe.yml", "dml plan recipe.yml --micro_batch_size 4",
       "dml plan recipe.yml --ranks 2,8,64 --bandwidth 10Gbit --latency 0.05ms"}};
  Plan() {
    options.about(
        "Predicts a run: its memory by category, the size of a checkpoint, the number of steps and their time on this "
        "machine, and the largest micro_batch_size that fits.");
    options.positional("RECIPE", recipe,
                       "the recipe; with --ranks it needs no datasets, and no base_model if it has a model_config");
    options.flag("lr", lr, "only draw the learning rate over the steps");
    options.text(
        "ranks", ranks,
        "predict step time and memory of every strategy on this many ranks, from a measurement on this machine");
    options.text("bandwidth", bandwidth, "network bandwidth of a host, per direction (1Gbit)");
    options.text("latency", latency, "network latency between hosts (0.1ms)");
    options.integer("ranks-per-host", ranks_per_host, "number of ranks on each host, which share its network (1)");
    options.take_overrides(overrides);
  }
};

int plan_ranks(const Plan& p) {
  constexpr int kMaxRanks = 1'000'000;
  const std::vector<int> numbers = number_list("ranks", *p.ranks, kMaxRanks);
  Network network;
  network.bandwidth = parse_bandwidth(p.bandwidth.value_or("1Gbit"));
  network.latency = parse_latency(p.latency.value_or("0.1ms"));
  network.ranks_per_host = static_cast<int>(within("ranks-per-host", p.ranks_per_host.value_or(1), 1, kMaxRanks));
  RecipeFile file = load_recipe_to_run(p.recipe, p.overrides, RecipeUse::measure, {.rows = false});
  require_files(file, {.rows = false});
  show_notes(file);
  auto self = make_self_comm();
  set_up_processor(file.recipe.train, *self);
  ScalingPlan plan(file.recipe);
  const Calibration& c = plan.calibration();
  log_info(
      "measured on this machine with {} thread{}: {:.3f} s per micro-batch of {} tokens, {:.3f} s per optimizer update",
      threads(), threads() == 1 ? "" : "s", c.pass, c.tokens, c.update);
  print(fmt::format("{:>6}  {:<12}  {:>9}  {:>9}  {:>8}  {:>11}  {:>10}\n", "ranks", "", "step", "waiting", "speed-up",
                    "sent a rank", "memory"));
  for (int ranks : numbers) {
    const std::int64_t micro_batches = plan.micro_batches(ranks);
    const double alone = plan.forecast("ddp", 1, micro_batches, network).step;
    const std::int64_t group = file.recipe.distribution.dp_shard_size.value_or(network.ranks_per_host);
    const bool groups = group > 1 && ranks > group && ranks % group == 0;
    for (const auto rows : kStrategies)
      for (const auto& row : rows()) {
        if (!row.make.several_ranks || (row.make.reads("dp_shard_size") && !groups)) continue;
        const StepForecast f = plan.forecast(row.name, ranks, micro_batches, network);
        print(fmt::format("{:>6}  {:<12}  {:>7.3f} s  {:>7.3f} s  {:>8.2f}  {:>11}  {:>10}\n", ranks, row.name, f.step,
                          f.waiting, alone / f.step, size_text(static_cast<std::size_t>(f.sent)),
                          size_text(static_cast<std::size_t>(f.memory))));
      }
  }
  return 0;
}

// Draws the learning rate at the first, the last and evenly spaced steps between them, with a bar each.
int plan_learning_rate(const RecipeFile& file) {
  constexpr std::int64_t kLines = 40, kColumns = 50;
  auto self = make_self_comm();
  const auto tokenizer = open_tokenizer(file.recipe.model);
  const RunData data(file.recipe, *tokenizer, *self);
  const std::int64_t steps = data.schedule.steps(), lines = std::min(kLines, steps);
  const LearningRate rate(learning_rate_settings(file.recipe.optim, steps));
  double most = 0;
  for (std::int64_t s = 0; s < steps; ++s) most = std::max(most, rate.at(s));
  print(fmt::format("{:>8}  {:>12}\n", "step", "lr"));
  for (std::int64_t i = 0; i < lines; ++i) {
    const std::int64_t s = lines > 1 ? i * (steps - 1) / (lines - 1) : 0;
    const auto width = static_cast<std::int64_t>(std::lround(most > 0 ? rate.at(s) / most * kColumns : 0));
    std::string bar;
    for (std::int64_t k = 0; k < width; ++k) bar += "█";
    print(fmt::format("{:>8}  {:>12.4e}  {}\n", s + 1, rate.at(s), bar));
  }
  return 0;
}

int run_plan(const std::vector<std::string>& words) {
  Plan p;
  p.options.parse(words);
  if (p.ranks && p.lr) throw UserError("set either --ranks or --lr, not both");
  if (p.ranks) return plan_ranks(p);
  if (p.bandwidth || p.latency || p.ranks_per_host)
    throw UserError("--bandwidth, --latency and --ranks-per-host require --ranks");
  RecipeFile file = load_recipe_to_run(p.recipe, p.overrides, RecipeUse::train, {.weights = !p.lr});
  require_files(file);
  show_notes(file);
  if (p.lr) return plan_learning_rate(file);
  const LayoutChoice layout = layout_of(file, own_host());
  auto self = make_self_comm();
  set_up_processor(file.recipe.train, *self);
  RunPlan plan(file, *self);
  const std::int64_t steps = plan.data.schedule.steps();
  for (auto& line : plan.header()) log_info("{}", line);
  if (!layout.why.empty()) log_info("layout     dml train runs as {} ({})", layout.layout.text(), layout.why);
  for (auto& line : plan.details()) log_info("{}", line);
  for (auto& line : plan.data.prepared.report().warnings()) log_warning("{}", line);
  for (auto& [name, bytes] : plan.memory.rows()) print(fmt::format("{:<24} {:>10}\n", name, size_text(bytes)));
  print(fmt::format("{:<24} {:>10}\n", "total", size_text(plan.memory.total())));
  print(fmt::format("{:<24} {:>10}\n", "a checkpoint, on disk", size_text(plan.checkpoint_bytes())));
  if (const std::int64_t most = most_checkpoints(plan.recipe.train, plan.data.calendar.checkpoints()); most > 1)
    print(fmt::format("{:<24} {:>10}\n", fmt::format("up to {} checkpoints", most),
                      size_text(plan.checkpoint_bytes() * static_cast<std::size_t>(most))));
  if (plan.data.schedule.options().micro_batch_tokens == 0)
    if (const std::string fitting = plan.fitting_text(); !fitting.empty()) print(fitting + "; ");
  print(fmt::format("{} {} about {} on this machine\n", count_text(static_cast<double>(steps)),
                    steps == 1 ? "step takes" : "steps take", clock_text(plan.estimated_seconds())));
  return 0;
}

}  // namespace

Command evaluate_command() {
  return {"evaluate", "loss on the validation split, of the base and of adapters",
          [] { return Evaluate().options.page(); }, run_evaluate, Ranks::many};
}
Command merge_command() {
  return {"merge", "merges adapters into a model directory", [] { return Merge().options.page(); }, run_merge};
}
Command plan_command() {
  return {"plan", "predicts memory and time of a run; with --ranks, step times on many ranks",
          [] { return Plan().options.page(); }, run_plan};
}

}  // namespace dml
