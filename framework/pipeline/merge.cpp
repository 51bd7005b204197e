#include "pipeline/merge.h"

#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "pipeline/job.h"
#include "pipeline/model_output.h"

namespace dml {

void merge(const Recipe& recipe, const std::optional<std::string>& adapter, const std::string& output) {
  if (recipe.adapter.adapter == AdapterKind::none && !adapter) throw UserError("this recipe trains the whole model: there is no adapter to merge");
  std::string directory = adapter.value_or(recipe.train.output_dir);
  if (std::filesystem::exists(output) && !(std::filesystem::is_directory(output) && std::filesystem::is_empty(output)))
    throw UserError("--output: {} exists; choose a new directory", output);
  if (real_path(output) == real_path(recipe.model.base_model)) throw UserError("--output: {} is the base model", output);
  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  if (base.quantised)
    log_info("the adapter is merged into the base as it was trained on, the values of {}; for the original values set adapter: lora", scheme_name(base.quantised->scheme()));
  auto model = make_inference_model(base, Storage::automatic, directory);
  DirectoryWriter out(output);
  write_model_directory(out.path(), base, *model, base.dtype(), true);
  save_tokenizer_files(tokenizer_directory(recipe.model), tokenizer_overrides(recipe.model), out.path());
  if (!out.commit()) throw UserError("--output: {} has appeared in the meantime", output);
}

}  // namespace dml
