#include "pipeline/preflight.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "assembly/custom_evals.h"
#include "assembly/eval_metrics.h"
#include "assembly/evaluators.h"
#include "assembly/job.h"
#include "assembly/model_head.h"
#include "assembly/model_location.h"
#include "assembly/objective_choice.h"
#include "assembly/optimization.h"
#include "assembly/reward_sources.h"
#include "assembly/unfrozen.h"
#include "assembly/vocabulary.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/model_config.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "data/prepare.h"
#include "data/records.h"
#include "data/row_range.h"
#include "data/sources.h"
#include "diagnose/requirements.h"
#include "model/adapter_plan.h"
#include "model/weight_names.h"
#include "pipeline/findings.h"
#include "plugin/tables.h"

namespace dml {
namespace {

// A dataset of up to this size is read completely, which takes seconds.
constexpr CheckLimits kFirstRows{.bytes = std::size_t{32} << 20, .same_problem = 20};

// The recipe's key for a field of PEFT's config: "modules_to_save" is lora_modules_to_save.
std::string recipe_key(const std::string& field) {
  static const std::vector<std::string> all = keys();
  for (const char* prefix : {"lora_", "peft_"})
    if (std::ranges::find(all, prefix + field) != all.end()) return prefix + field;
  return field;
}

void check_output_directory(const Recipe& recipe) {
  std::string out = real_path(recipe.train.output_dir);
  for (const std::string& input : {recipe.model.base_model, recipe.adapter.lora_model_dir.value_or("")})
    if (!input.empty() && real_path(input) == out)
      throw UserError("output_dir: training starts from {}, so its result cannot go there; choose another directory",
                      recipe.train.output_dir);
  std::error_code unreadable;
  if (file_exists(out) && !std::filesystem::is_directory(out, unreadable))
    throw UserError("output_dir: {} is a file", recipe.train.output_dir);
  const std::string folder = nearest_existing(out);
  if (!std::filesystem::is_directory(folder, unreadable))
    throw UserError("output_dir: {}: {} is a file", recipe.train.output_dir, folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError("output_dir: {}: {} cannot be written: {}", recipe.train.output_dir, folder, std::strerror(errno));
}

void check_targets(const Recipe& recipe, const BaseModel& base, std::int64_t tokens) {
  const AdapterSection& section = recipe.adapter;
  const ModelSpec spec = spec_with_rows(base.spec, tokens);
  if (section.adapter == AdapterKind::none) {
    auto unfrozen = unfrozen_rule(section.unfrozen_parameters);
    bool any = !unfrozen;
    for (const WeightName& w : weight_names(spec))
      any |= unfrozen && unfrozen(w.tensor, w.tensor_shape()[0]).has_value();
    if (!any) throw UserError("no parameter matches unfrozen_parameters, so nothing would be trained");
  } else if (section.lora_model_dir) {
    const std::string& folder = *section.lora_model_dir;
    plan_adapter(read_adapter_config_of(folder, spec.model_type), spec, path_in(folder, "adapter_config.json"));
  } else {
    if (section.peft_init_lora_weights == LoraInit::loftq && base.files &&
        std::ranges::any_of(base.files->tensors(), &TensorView::quantized))
      throw UserError("{}: its weights are quantized already, and peft_init_lora_weights: loftq quantizes them itself",
                      base.directory)
          .about("peft_init_lora_weights");
    plan_adapter(adapter_config(section, base.directory), spec,
                 base.directory.empty() ? "model_config" : base.directory);
  }
}

void check_length(const Recipe& recipe, const ModelSpec& spec) {
  const std::int64_t length = std::max(recipe.data.sequence_len, recipe.data.eval_sequence_len.value_or(0));
  if (spec.positions == Positions::learned && length > spec.max_positions)
    throw UserError("sequence_len: {} is above the {} positions of this {} model", length, spec.max_positions,
                    spec.model_type);
}

// Losses of single datasets, if there are several, have names that depend on the data of the validation split, and only
// a run knows the metrics of rewards and of plug-ins.
void check_best_metric(const Recipe& recipe, const std::vector<std::unique_ptr<Evaluator>>& evals, Findings& found) {
  const std::string& wanted = recipe.train.metric_for_best_model;
  const bool split = recipe.data.has_validation();
  if (wanted == TrainSection().metric_for_best_model || !plugin_evaluators().rows().empty()) return;
  const DataSection& d = recipe.data;
  const std::size_t datasets =
      d.test_datasets.empty() ? d.datasets.size() + d.pretraining_dataset.size() : d.test_datasets.size();
  const bool of_dataset = datasets > 1 && wanted.ends_with("_loss");
  if (split ? recipe.preference.sampling() || of_dataset : evals.empty()) return;
  std::vector<Metric> measured = split ? metrics_of_split(recipe) : std::vector<Metric>();
  for (auto& evaluator : evals) std::ranges::move(evaluator->metrics(), std::back_inserter(measured));
  if (std::string fault = fault_of_best_metric(wanted, measured); !fault.empty())
    found.add({"metric_for_best_model", "", std::move(fault)});
}

}  // namespace

std::vector<Problem> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer) {
  Findings found;
  const AdapterSection& adapter = recipe.adapter;
  const std::int64_t tokens = tokens_with_rows(tokenizer, adapter);
  found.attempt("output_dir", [&] { check_output_directory(recipe); });
  found.attempt("base_model", [&] { check_stored_base(base, recipe.model, adapter); });
  const auto targets = [&] { check_targets(recipe, base, tokens); };
  if (adapter.adapter == AdapterKind::none) found.attempt("unfrozen_parameters", targets);
  else if (adapter.lora_model_dir) found.attempt_files("lora_model_dir", targets);
  else if (found.attempt("adapter", targets))  // or else its targets are wrong for the resized base as well
    found.attempt("base_model", [&] { check_resize(base, tokens, adapter); });
  found.attempt("sequence_len", [&] { check_length(recipe, base.spec); });
  found.attempt(recipe.optim.optim_args.empty() ? "optimizer" : "optim_args", [&] { make_optimizer(recipe); });
  found.attempt(recipe.optim.lr_scheduler_kwargs.empty() ? "lr_scheduler" : "lr_scheduler_kwargs",
                [&] { LearningRate(learning_rate_settings(recipe.optim, recipe.train.max_steps.value_or(1000))); });
  found.attempt("rewards", [&] { const RewardSources readable(recipe); });
  const ModelSpec resized = spec_with_rows(base.spec, tokens);
  for (const std::string& metric : recipe.train.eval_metrics)
    found.attempt("eval_metrics", [&] { eval_metrics().at(metric).make.check(recipe); });
  found.attempt("evals", [&] { check_best_metric(recipe, custom_evaluators(recipe, tokenizer, resized), found); });
  found.attempt("plugin_args", [&] { check_plugin_names(recipe.plugin.plugin_args); });
  if (recipe.train.objective) found.attempt("objective", [&] { make_objective(recipe, {}); });
  const auto try_rows = [&](auto& table) {
    for (auto& row : table.rows())
      found.attempt("plugin_args." + row.name, [&] { row.make(arguments_of(recipe.plugin.plugin_args, row.name)); });
  };
  try_rows(plugin_evaluators());
  try_rows(plugin_observers());
  for (Problem& problem : found.all) problem.key = recipe_key(problem.key);
  return std::move(found.all);
}

std::vector<std::string> misspelt_names(const Recipe& recipe, const BaseModel& base) {
  std::vector<std::string> out = misspelt_config_keys(base.config, recipe.model.model_config);
  if (recipe.adapter.adapter == AdapterKind::none) {
    std::ranges::move(idle_unfrozen_patterns(recipe.adapter.unfrozen_parameters, base.spec), std::back_inserter(out));
    return out;
  }
  if (recipe.adapter.lora_model_dir) return out;
  for (std::string& line : misspelt_targets(adapter_config(recipe.adapter, base.directory), base.spec))
    out.push_back(std::move(line));
  try {
    for (std::string& line : idle_patterns(adapter_config(recipe.adapter, base.directory), base.spec))
      out.push_back(std::move(line));
  } catch (const UserError&) {  // the adapter does not fit the model, which is reported
  }
  return out;
}

BaseModel open_checked_base(const Recipe& recipe, const Tokenizer& tokenizer) {
  BaseModel base = open_base_files(recipe.model);
  if (auto problems = training_problems(recipe, base, tokenizer); !problems.empty()) throw UserError(problems);
  return base;
}

namespace {

// Checks the recipe against the model, its tokenizer and an adapter to start from.
void check_model(const Recipe& recipe, BaseModel& base, const Tokenizer* tokenizer, Findings& found) {
  if (tokenizer)
    for (auto& problem : training_problems(recipe, base, *tokenizer)) found.add(problem);
  const bool reported = std::ranges::find(found.all, "lora_model_dir", &Problem::key) != found.all.end();
  if (recipe.adapter.starts_from_adapter() && !reported)
    found.attempt_files("lora_model_dir", [&] {
      fit_vocabulary(base, {*recipe.adapter.lora_model_dir});  // it may hold more rows than the base
      const Adapter start = read_adapter(*recipe.adapter.lora_model_dir, base.spec, recipe.model.base_model);
      require_head(start.config, base.spec, *recipe.adapter.lora_model_dir);
    });
}

// Reads the data; the lengths of its examples when all of it was read and nothing is wrong.
CheckedRows::Entry read_rows(const Recipe& recipe, const Tokenizer* tokenizer) {
  CheckedRows::Entry out{recipe.model, recipe.data, recipe.templates, {}, {}, {}};
  Findings found;
  const auto add = [&](const Problem& problem) { found.add(problem); };
  if (!tokenizer) {
    check_sources(recipe.data, add);
    out.notes.push_back("without a tokenizer, no row was checked");
    out.problems = std::move(found.all);
    return out;
  }
  DataCheck data;
  found.attempt("datasets", [&] {
    data = check_data(recipe.data, recipe.templates, static_cast<std::uint64_t>(recipe.train.seed), *tokenizer,
                      kFirstRows, add);
  });
  for (auto& name : data.partial)
    out.notes.push_back(
        fmt::format("{} were checked, the remaining rows were not: dml preprocess RECIPE --check reads all", name));
  for (const DatasetReport& dataset : data.report.datasets)
    for (std::string& line : field_warnings(dataset)) out.notes.push_back(std::move(line));
  for (auto& doubt : data.possible_problems)
    out.notes.push_back(fmt::format("of the rows that were checked: {}", doubt));
  if (const std::int64_t rows = data.report.total(&DatasetReport::rows); data.partial.empty() && rows > 0)
    out.notes.push_back(fmt::format("{} checked", counted(rows, "row was", "rows were")));
  out.problems = std::move(found.all);
  out.lengths = {std::move(data.train_lengths), std::move(data.validation_lengths)};
  return out;
}

ExampleLengths check_rows_of(const Recipe& recipe, const Tokenizer* tokenizer, CheckedRows* known, Findings& found,
                             Validation& out) {
  const CheckedRows::Entry* before = known ? known->find(recipe) : nullptr;
  CheckedRows::Entry rows = before ? *before : read_rows(recipe, tokenizer);
  for (const Problem& problem : rows.problems) found.add(problem);
  out.notes.insert(out.notes.end(), rows.notes.begin(), rows.notes.end());
  ExampleLengths lengths = rows.lengths;
  if (known && !before) known->add(std::move(rows));
  return lengths;
}

// The base and the tokenizer of a recipe, as far as they can be opened.
struct Opened {
  BaseModel base;
  bool has_base = false;
  std::unique_ptr<Tokenizer> tokenizer;
};

Opened open_model(const ModelSection& model, Findings& found) {
  Opened out;
  out.has_base = found.attempt("base_model", [&] { out.base = open_base_files(model); });
  // A missing directory is one problem, not two.
  if (model.tokenizer_config || model.base_model.empty() || file_exists(model_directory(model.base_model)))
    found.attempt(model.tokenizer_config ? "tokenizer_config" : "base_model",
                  [&] { out.tokenizer = open_tokenizer(model); });
  return out;
}

// Adds the first rows of a dataset that are used.
void add_first_rows(const DatasetEntry& dataset, BadRow on_bad_row, std::vector<EvalRow>& rows) {
  constexpr std::int64_t kRows = 1000;
  const std::vector<SourceFile> files = find_sources(dataset);
  const RowRange range = rows_of(dataset, files);
  std::int64_t number = 0, left = std::min(kRows, range.most);
  for (const SourceFile& file : files) {
    RowReader reader(file);
    for (RawRow raw; left > 0 && number < range.end && reader.next(raw);) {
      if (!range.takes(number++)) continue;
      --left;
      try {
        Json record;
        reader.parse(raw, record);
        rows.push_back({std::move(record), reader.place(raw)});
      } catch (const UserError&) {
        if (on_bad_row == BadRow::error) throw;
      }
    }
  }
}

// Whether the rewards can judge the rows of the data. Checks nothing with `scores`, which drop rows later.
void check_rewarded_rows(const Recipe& recipe, const Tokenizer& tokenizer, Findings& found) {
  if (recipe.preference.rl != Rl::grpo || !found.all.empty() || recipe.data.scores != ScoreFilter{}) return;
  found.attempt("rewards", [&] {
    std::vector<EvalRow> rows;
    for (const DatasetEntry& dataset : recipe.data.datasets) add_first_rows(dataset, recipe.data.on_bad_row, rows);
    RewardSources sources(recipe);
    sources.open();
    if (const auto problems = sources.problems_with(rows, tokenizer); !problems.empty())
      throw UserError("{}", fmt::join(problems, "\n"));
  });
}

// Checks the run that valid settings describe; `lengths` are those of its examples.
void check_run(const Recipe& recipe, Opened& opened, const ExampleLengths& lengths, Findings& found, Validation& out) {
  auto& [base, has_base, tokenizer] = opened;
  if (has_base) {
    check_model(recipe, base, tokenizer.get(), found);
    if (tokenizer) check_rewarded_rows(recipe, *tokenizer, found);
    for (std::string& line : misspelt_names(recipe, base)) out.notes.push_back(std::move(line));
  }
  if (auto& checkpoint = recipe.train.resume_from_checkpoint)
    if (auto problem = manifest_problem(*checkpoint); !problem.empty())
      found.add({"resume_from_checkpoint", "", fmt::format("resume_from_checkpoint: {}: {}", *checkpoint, problem)});
  if (has_base && tokenizer && found.all.empty())
    found.attempt("base_model", [&] {
      base.spec = spec_with_rows(base.spec, tokens_with_rows(*tokenizer, recipe.adapter));
      Requirements needed = requirements(recipe, base, lengths);
      for (const Problem& problem : needed.problems) found.add(problem);
      for (auto& note : needed.notes) out.notes.push_back(std::move(note));
    });
  found.attempt("optimizer", [&] {
    if (const std::string advice = make_optimizer(recipe)->advice(); !advice.empty()) out.notes.push_back(advice);
  });
  if (!recipe.data.has_validation() && recipe.evaluation.evals.empty())
    out.notes.push_back(recipe.preference.rl == Rl::grpo
                            ? "there are no evals, so dml evaluate has nothing to do; set evals"
                            : "there is no validation split and there are no evals, so dml evaluate has nothing to "
                              "do; set val_set_size, test_datasets or evals");
}

}  // namespace

const CheckedRows::Entry* CheckedRows::find(const Recipe& recipe) const {
  const auto same = std::ranges::find_if(entries_, [&](const Entry& e) {
    return e.model == recipe.model && e.data == recipe.data && e.templates == recipe.templates;
  });
  return same == entries_.end() ? nullptr : &*same;
}

Validation validate(const RecipeFile& file, CheckedRows* known) {
  Findings found;
  Validation out;
  Opened opened;
  if (file.problems.empty() || !file.recipe.model.base_model.empty()) opened = open_model(file.recipe.model, found);
  ExampleLengths lengths;
  if (std::ranges::find(file.problems, "rl", &Problem::key) == file.problems.end())
    lengths = check_rows_of(file.recipe, opened.tokenizer.get(), known, found, out);
  else out.notes.push_back("rows are checked when the value of 'rl' is valid");
  if (file.problems.empty()) check_run(file.recipe, opened, lengths, found, out);
  else out.notes.push_back("memory, and whether the recipe suits the model, are checked when its settings are valid");

  // What is wrong with a setting or missing on disk is reported once.
  out.problems = file.problems;
  out.problems.insert(out.problems.end(), file.missing.begin(), file.missing.end());
  for (Problem& problem : found.all) {
    if (std::ranges::find(file.missing, problem.key, &Problem::key) != file.missing.end()) continue;
    problem = file.located(std::move(problem));
    const bool of_the_file = problem.place.starts_with(file.path + ":");
    const auto reported = [&](const Problem& p) { return of_the_file && p.place == problem.place; };
    if (std::ranges::none_of(file.problems, reported)) out.problems.push_back(std::move(problem));
  }
  return out;
}

}  // namespace dml
