// The models of a server: a base and its adapters over one copy of the weights, each under a name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assembly/answer_format.h"
#include "assembly/base_model.h"
#include "generate/engine.h"
#include "generate/generator.h"
#include "model/causal_lm.h"
#include "recipe/recipe.h"

namespace dml {

struct ServedModel {
  std::string name, parent;  // parent: of an adapter, the base's name
};

struct ServedOptions {
  static constexpr std::int64_t kUsualSlots = 16, kUsualContext = 8192;  // longer contexts must be asked for

  std::optional<std::string> base_model;     // replaces the recipe's
  std::vector<std::string> adapters;         // NAME=DIR or DIR
  bool own_result = true;                    // serve what the recipe trained, as the default
  bool adapters_first = false;               // the first of `adapters` is the default, instead of the base
  std::optional<std::string> chat_template;  // a built-in name or a file; replaces the model's own
  std::optional<std::int64_t> slots, context;
  DType cache = DType::f32;
};

class ServedModels {
 public:
  /// Loads base and adapters. UserError when a file is missing or memory is insufficient.
  ServedModels(const Recipe* recipe, const ServedOptions& options);
  ~ServedModels();

  /// The first is the default.
  const std::vector<ServedModel>& list() const { return list_; }
  /// The index of the model of this name.
  std::optional<std::size_t> find(const std::string& name) const;
  const AnswerFormat& format() const { return *format_; }
  /// The base's. Adapters may have more tokens.
  const ModelSpec& spec() const { return base_.spec; }
  std::int64_t vocabulary(std::size_t model) const { return models_[model].base->spec.vocab; }
  /// Defaults of request fields: from the recipe, generation_config.json, then OpenAI's.
  const GenerationOptions& defaults() const { return defaults_; }
  const EngineOptions& engine_options() const { return engine_; }
  /// The engine's models, in the order of list(). Requests for adapters are batched with those for the base if the
  /// adapters leave its weights unchanged.
  const std::vector<EngineModel>& models() const { return models_; }
  const std::string& description() const { return description_; }

 private:
  std::unique_ptr<CausalLm> adapted(std::optional<DType> storage, const std::string& adapter,
                                    std::optional<std::int32_t>& number);
  void plan(const ServedOptions& options);

  BaseModel base_;
  std::vector<ServedModel> list_;
  std::vector<std::unique_ptr<CausalLm>> weights_;  // the base's first
  std::vector<EngineModel> models_;
  std::unique_ptr<AnswerFormat> format_;
  GenerationOptions defaults_;
  EngineOptions engine_;
  std::string description_;
};

}  // namespace dml
