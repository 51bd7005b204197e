#include "cli/answering_options.h"

#include "assembly/hub_files.h"
#include "assembly/job.h"
#include "cli/output.h"
#include "core/affinity.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/placement.h"
#include "hub/fetch.h"
#include "pipeline/kept_rows.h"

namespace dml {

void AnsweringOptions::add_model_to(Options& options) {
  options.positional("RECIPE", recipe, "the recipe that trained the model", false);
  options.text("base-model", base_model, "a model directory or GGUF file instead of the recipe's", "DIR");
}

void AnsweringOptions::add_precision_to(Options& options) {
  options.choice("kv-cache", kv_cache, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::int8}},
                 "element type of the key-value cache (f32). bf16 and int8 take a half and a quarter of the memory; "
                 "answers may differ");
  options.choice(
      "bf16", bf16, {{"true", Bf16::on}, {"false", Bf16::off}, {"auto", Bf16::automatic}},
      "round the factors of matrix products to bfloat16 (false); auto: those that the processor then multiplies "
      "faster, most of all for quantized models and long prompts; answers may differ");
}

void AnsweringOptions::add_threads_to(Options& options) {
  options.integer("threads", threads, "threads (all cores)");
  options.take_overrides(overrides);
}

void AnsweringOptions::check(std::string_view command) const {
  constexpr std::int64_t kMostThreads = 4096;  // as in a recipe
  if (recipe.empty() && !base_model)
    throw UserError("{0} needs a RECIPE or --base-model DIR\nusage: dml {0} (RECIPE | --base-model DIR) …", command);
  if (threads) within("threads", *threads, 1, kMostThreads);
}

std::optional<RecipeFile> AnsweringOptions::start() const {
  if (base_model && !file_exists(*base_model)) hub_model_folder(*base_model);
  std::optional<RecipeFile> file;
  if (recipe.empty()) {
    require_no_keys(overrides, "--base-model alone");
  } else {
    file = load_recipe_to_run(recipe, overrides, RecipeUse::measure, {.rows = false});
    for (auto& line : file->warnings) log_warning("{}", line);
  }
  const TrainSection settings = file ? file->recipe.train : TrainSection{};
  set_placed_threads(threads ? static_cast<int>(*threads) : settings.threads.value_or(available_cores()),
                     settings.thread_affinity);
  return file;
}

void AnsweringOptions::set_precision() const { set_generation_precision(bf16.value_or(Bf16::off)); }

void require_free_rows(const std::string& output, const std::vector<std::string>& read, const RecipeFile* recipe) {
  for (const std::string& path : {output, KeptRows::partial_name(output)})
    require_free_output("--output", path, read, recipe);
}

}  // namespace dml
