// dml init: examines a model: its size and family, its tokenizer, its chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "diagnose/weightless_model.h"
#include "model/spec.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct ModelFacts {
  std::string name;       // as the recipe names it: a directory, a GGUF file, a model of the Hub
  std::string directory;  // with config.json and the tokenizer
  bool scratch = false;   // only a tokenizer is given; the model is created and `spec` empty
  ModelSpec spec;
  std::size_t bytes = 0;   // of its weights
  std::string dtype;       // of most of them, "BF16", "q4_k"
  BaseStorage storage;     // of each of them
  bool quantised = false;  // to 8 or 4 bits already: for adapter: qlora alone
  std::shared_ptr<Tokenizer> tokenizer;
  std::vector<std::string> lines;  // for the user: model, tokenizer
};

/// `name`: what base_model may be (assembly/model_place.h), or a directory with a tokenizer alone. UserError when it is
/// missing, an adapter or without a tokenizer, or a model that dml cannot train.
ModelFacts look_at_model(const std::string& name);

/// The chat template for conversations.
struct ChatChoice {
  std::string chat_template;            // for `chat_template:`
  std::vector<std::string> eot_tokens;  // ends of a turn other than eos
  std::vector<std::string> new_tokens;  // special tokens that the tokenizer does not have
  std::string reason;                   // "the model's own"
};

/// The model's own template; else the built-in one whose markers the tokenizer knows; else, where every weight is
/// trained, ChatML with its markers as new tokens; else one that needs no new tokens.
ChatChoice choose_chat(const ModelFacts& model, bool full_training);

/// The token that ends a text where the tokenizer names none: one that it has, else a new one.
std::string missing_eos(const Tokenizer& tokenizer);

}  // namespace dml
