// dml train: trains in this process, or on ranks that it starts if they are faster.
#include <filesystem>
#include <optional>
#include <utility>

#include "assembly/hub_files.h"
#include "cli/launching.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "cli/train_words.h"
#include "dist/started_rank.h"
#include "pipeline/own_ranks.h"
#include "pipeline/train.h"

namespace dml {
namespace {

// The command-line arguments for the ranks.
std::vector<std::string> words_of(const TrainWords& t) {
  std::vector<std::string> words{t.recipe};
  if (t.resume) words.push_back("--resume=" + *t.resume);
  for (const Override& o : t.overrides) words.push_back(fmt::format("--{}={}", o.key, o.value));
  return words;
}

int run_train(const std::vector<std::string>& words) {
  TrainWords t;
  t.options.parse(words);
  std::optional<LayoutChoice> layout = layout_from_parent();
  std::error_code unknown;
  // A recipe from a pipe can only be read once.
  if (!is_started_rank() && std::filesystem::is_regular_file(t.recipe, unknown)) {
    const RecipeFile file = load_recipe_to_run(t.recipe, t.overrides);
    require_files(file);
    layout = layout_of(file, own_host());
    if (file.recipe.train.ranks == 0) layout = startable(*layout);
    if (layout->layout.ranks > 1) return train_on_own_ranks(words_of(t), *layout);
  }
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe_to_run(t.recipe, t.overrides);
    file.recipe.train.ranks_share_step = layout_from_parent().has_value();
    show_notes(file, {.brief = true});
    return with_places(file, [&] {
      return static_cast<int>(train(
          file, comm,
          {.resume = t.resume, .overrides = t.overrides, .progress = progress_mode(), .layout = std::move(layout)}));
    });
  });
}

}  // namespace

Command train_command() {
  return {"train", "trains the model that the recipe describes", [] { return TrainWords().options.page(); }, run_train,
          Ranks::many};
}

}  // namespace dml
