// What dml infer and dml serve have in common: the options that choose a model, its precision and its threads, and how
// the commands start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "core/dtype.h"

namespace dml {

struct AnsweringOptions {
  std::string recipe;
  std::optional<std::string> base_model;
  std::optional<DType> kv_cache;
  std::optional<Bf16> bf16;
  std::optional<std::int64_t> threads;
  std::vector<Override> overrides;

  /// Adds RECIPE and --base-model.
  void add_model_to(Options& options);
  /// Adds --kv-cache and --bf16.
  void add_precision_to(Options& options);
  /// Adds --threads and the keys of the recipe.
  void add_threads_to(Options& options);

  /// UserError if no model is named, or --threads is out of range. `command`: the name that the message gives.
  void check(std::string_view command) const;
  /// Downloads --base-model if it is a model of the Hub, reads the recipe and prints its warnings, and starts the
  /// threads. Returns the recipe, if there is one. UserError for a recipe or model that cannot be used.
  std::optional<RecipeFile> start() const;
  /// Sets the precision of products in this process: float32 unless --bf16 was given.
  void set_precision() const;
  /// The element type of the key-value cache.
  DType cache() const { return kv_cache.value_or(DType::f32); }
};

/// UserError when --output FILE, or the file beside it while it is written, is a folder or a file that the command
/// reads (`read`, or those of its recipe).
void require_free_rows(const std::string& output, const std::vector<std::string>& read, const RecipeFile* recipe);

}  // namespace dml
