// dml init: examines a model: its size, family, tokenizer and chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "diagnose/weightless_model.h"
#include "model/spec.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct ModelFacts {
  std::string name;       // as the recipe names it: a directory, a GGUF file, a model of the Hub
  std::string directory;  // the folder with config.json and the tokenizer
  bool scratch = false;   // only a tokenizer is given: the model is trained from scratch and `spec` is empty
  ModelSpec spec;
  std::size_t bytes = 0;   // total size of its weights
  std::string dtype;       // dtype of most weights: "BF16", "q4_k"
  BaseStorage storage;     // dtype of each weight
  bool quantized = false;  // already quantized to 8 or 4 bits: supports adapter: qlora only
  std::shared_ptr<Tokenizer> tokenizer;
  std::vector<std::string> lines;  // for the user: model, tokenizer
};

/// `name`: a value of base_model (assembly/model_location.h), or a directory with only a tokenizer. UserError when it
/// is missing, an adapter, without a tokenizer, or a model that dml cannot train.
ModelFacts examine_model(const std::string& name);

/// The chat template for conversations.
struct ChatChoice {
  std::string chat_template;            // for `chat_template:`
  std::string chat_template_jinja;      // its text, if `chat_template` is jinja
  std::vector<std::string> eot_tokens;  // end-of-turn tokens other than EOS
  std::vector<std::string> new_tokens;  // special tokens that the tokenizer does not have
  std::string reason;                   // "the model's own"
};

/// Chooses the model's own template; else the built-in one whose special tokens the tokenizer has; else, if every
/// weight is trained, ChatML with its special tokens added; else one that needs no new tokens. If the tokenizer begins
/// texts with BOS and the built-in template does not, its text is extended by BOS.
ChatChoice choose_chat(const ModelFacts& model, bool full_training);

/// The EOS token to use when the tokenizer names none: an existing one, else a new one.
std::string missing_eos(const Tokenizer& tokenizer);

}  // namespace dml
