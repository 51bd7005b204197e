// Converts config.json to a ModelSpec and back. Families are rows of one table. A setting that changes the mathematics
// is either supported or rejected by name; others are ignored.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "model/spec.h"

namespace dml {

class ConfigFields;

/// A row of the table: everything dml knows about a family except its blocks.
struct Family {
  std::string model_type, architecture, help;
  void (*fields)(ConfigFields& config, ModelSpec& spec);  // reads or writes a config
  const Naming* naming = &kLlamaNaming;
};

/// A multimodal model whose text part, under "text_config", belongs to a family: that part is trained, the rest is
/// unchanged.
struct Wrapper {
  std::string_view model_type, architecture, family;
  const Naming* naming;
  std::pair<const char*, std::int64_t> defaults[5];  // of its text_config, which leaves out what equals them
};
/// Null if there is none.
const Wrapper* find_wrapper(std::string_view model_type);
const std::vector<Family>& families();
/// Null if there is none.
const Family* find_family(std::string_view model_type);
/// The modules that PEFT adapts in a family when target_modules is null.
std::vector<std::string> default_targets(std::string_view model_type);

class ModelFiles;
/// Sets what config.json does not tell from the files: the tensor names, if a family has several variants, and the
/// layout of experts (separate tensors, stacked, or mxfp4).
void fit_to_files(ModelSpec& spec, const ModelFiles& files);

/// Parses a config (config.json, or `model_config:` of a recipe) and checks the spec. `source`: prefix of errors.
ModelSpec read_model_config(const Json& config, const std::string& source);

/// A line for each key of `given`, the recipe's changes of `config`, that its family does not read and that is close to
/// one it reads.
std::vector<std::string> misspelt_config_keys(const Json& config, const Json& given);

/// Reads DIRECTORY/config.json, adding the EOS ids of generation_config.json, and checks the spec.
ModelSpec read_model_spec(const std::string& directory);

/// The config of a model trained from scratch; read_model_config() of it gives the same spec. `dtype`: "float32",
/// "bfloat16" or "float16".
Json config_json(const ModelSpec& spec, const std::string& dtype);

/// `original` with some keys changed (in the spelling of transformers 5: "dtype", not "torch_dtype"); keeps unknown
/// keys, their order and the spelling in use. A null value is written as null. A new dtype means that weights are not
/// quantized any more: the keys about quantization are removed.
Json rewrite_config(const Json& original, const Json& changes);

/// The architecture of a model with this head: "LlamaForCausalLM", "LlamaForSequenceClassification" …
std::string architecture_of(const Family& family, HeadKind head);
/// The class name of a model with this head if transformers (5.0) has no such class, so that only dml can load the
/// result; else "".
std::string class_missing_in_transformers(const ModelSpec& spec);

/// The keys of config.json for a head other than a language model's; empty for a language model.
Json head_settings(const ModelSpec& spec);

/// The dropout that a config requests for training, as "attn_pdrop 0.1, resid_pdrop 0.1"; "" if none. dml trains
/// without it.
std::string config_dropout(const Json& config);

/// Indented by 2, with a final newline, as Hugging Face writes it.
std::string pretty_json(const Json& value);

}  // namespace dml
