#include "pipeline/preflight.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/adapter_io.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/files.h"
#include "data/prepare.h"
#include "model/weight_names.h"
#include "pipeline/job.h"
#include "pipeline/optimization.h"
#include "pipeline/own_evals.h"
#include "pipeline/unfrozen.h"
#include "pipeline/vocabulary.h"

namespace dml {
namespace {

constexpr CheckLimits kFirstRows{.rows = 2000, .bytes = std::size_t{16} << 20};

class Findings {
 public:
  void add(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {  // one error may list several problems
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
      at = end + 1;
    }
  }
  template <class F>
  bool attempt(F&& part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      add(error.what());
      return false;
    }
  }
  std::vector<std::string> lines;
};

void check_output_directory(const Recipe& recipe) {
  std::string out = real_path(recipe.train.output_dir);
  for (const std::string& input : {recipe.model.base_model, recipe.adapter.lora_model_dir.value_or("")})
    if (!input.empty() && real_path(input) == out)
      throw UserError("output_dir: {} is also what training starts from; choose another directory",
                      recipe.train.output_dir);
  std::error_code unreadable;
  if (file_exists(out) && !std::filesystem::is_directory(out, unreadable))
    throw UserError("output_dir: {} is a file", recipe.train.output_dir);
}

void check_targets(const Recipe& recipe, const BaseModel& base, std::int64_t tokens) {
  const AdapterSection& section = recipe.adapter;
  ModelSpec spec = base.spec;
  spec.vocab = std::max(spec.vocab, tokens);  // as it will be
  if (section.adapter == AdapterKind::none) {
    auto unfrozen = unfrozen_rule(section.unfrozen_parameters);
    bool any = !unfrozen;
    for (const WeightName& w : weight_names(spec))
      any |= unfrozen && unfrozen(w.tensor, w.tensor_shape()[0]).has_value();
    if (!any) throw UserError("no parameter matches unfrozen_parameters, so nothing would be trained");
  } else if (section.lora_model_dir) {
    plan_adapter(read_adapter_config_of(*section.lora_model_dir, spec.model_type), spec, *section.lora_model_dir);
  } else {
    plan_adapter(adapter_config(section, base.directory), spec,
                 base.directory.empty() ? "model_config" : base.directory);
  }
}

void check_length(const Recipe& recipe, const ModelSpec& spec) {
  const std::int64_t length = std::max(recipe.data.sequence_len, recipe.data.eval_sequence_len.value_or(0));
  if (spec.learned_positions && length > spec.max_positions)
    throw UserError("sequence_len: {} is above the {} positions of this {} model", length, spec.max_positions,
                    spec.model_type);
}

}  // namespace

std::vector<std::string> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer) {
  Findings found;
  found.attempt([&] { check_output_directory(recipe); });
  found.attempt([&] { check_stored_base(base, recipe.model, recipe.adapter); });
  found.attempt([&] { check_targets(recipe, base, tokens_with_rows(tokenizer, recipe.adapter)); });
  found.attempt([&] { check_growth(base, tokens_with_rows(tokenizer, recipe.adapter), recipe.adapter); });
  found.attempt([&] { check_length(recipe, base.spec); });
  found.attempt([&] { make_optimizer(recipe.optim); });
  found.attempt([&] { own_evaluators(recipe, tokenizer, base.spec); });
  found.attempt([&] { LearningRate(learning_rate_settings(recipe.optim, recipe.train.max_steps.value_or(1000))); });
  return found.lines;
}

Validation validate(const Recipe& recipe) {
  Findings found;
  Validation out;
  BaseModel base;
  std::unique_ptr<Tokenizer> tokenizer;
  const ModelSection& model = recipe.model;
  const bool has_base = found.attempt([&] { base = open_base_files(model); });
  // A directory that is missing has been told.
  if (model.tokenizer_config || model.base_model.empty() || file_exists(model.base_model))
    found.attempt([&] { tokenizer = open_tokenizer(model); });
  if (has_base && tokenizer)
    for (auto& line : training_problems(recipe, base, *tokenizer)) found.add(line);
  if (has_base && recipe.adapter.adapter != AdapterKind::none && recipe.adapter.lora_model_dir)
    found.attempt([&] {
      fit_vocabulary(base, {*recipe.adapter.lora_model_dir});  // it may hold more rows than the base
      read_adapter(*recipe.adapter.lora_model_dir, base.spec, model.base_model);
    });
  if (auto& checkpoint = recipe.train.resume_from_checkpoint; checkpoint && *checkpoint != "auto")
    if (auto problem = manifest_problem(*checkpoint); !problem.empty())
      found.add(fmt::format("resume_from_checkpoint: {}: {}", *checkpoint, problem));

  auto add = [&](const std::string& problem) { found.add(problem); };
  if (tokenizer) {
    DataCheck data;
    found.attempt([&] {
      data = check_data(recipe.data, recipe.templates, static_cast<std::uint64_t>(recipe.train.seed), *tokenizer,
                        kFirstRows, add);
    });
    for (auto& name : data.partial)
      out.notes.push_back(fmt::format("checked the first rows of {}; dml preprocess --check reads all of them", name));
    for (auto& doubt : data.doubts) out.notes.push_back(fmt::format("of the first rows: {}", doubt));
  } else {
    check_sources(recipe.data, add);
    out.notes.push_back("without a tokenizer, no row was checked");
  }
  found.attempt([&] {
    if (const std::string advice = make_optimizer(recipe.optim)->advice(); !advice.empty()) out.notes.push_back(advice);
  });
  if (recipe.data.val_set_size == 0 && recipe.data.test_datasets.empty())
    out.notes.push_back(
        "there is no validation split, so dml evaluate has nothing to do; set val_set_size or test_datasets");
  out.problems = std::move(found.lines);
  return out;
}

}  // namespace dml
