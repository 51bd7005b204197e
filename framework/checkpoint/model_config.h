// config.json ↔ ModelSpec. The families are rows of one table; whatever in a config changes the mathematics is
// honoured or refused by name, whatever does not is ignored.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "model/spec.h"

namespace dml {

class ConfigFields;

/// A row of the table: all that dml knows of a family beside its blocks.
struct Family {
  std::string model_type, architecture, help;
  void (*fields)(ConfigFields& config, ModelSpec& spec);  // reads a config, and writes one
  const Naming* naming = &kLlamaNaming;
};

/// A model of several parts whose text part, under "text_config", is a family's: that part is trained, the rest stays.
struct Wrapper {
  std::string_view model_type, architecture, family;
  const Naming* naming;
  std::int64_t vocab = 0, heads = 0;  // of a text_config that does not say
};
/// Null if there is none.
const Wrapper* find_wrapper(std::string_view model_type);
const std::vector<Family>& families();
/// Null if there is none.
const Family* find_family(std::string_view model_type);
/// The modules that PEFT adapts in a family when target_modules is null.
std::vector<std::string> default_targets(std::string_view model_type);

class ModelFiles;
/// Takes from the files what config.json does not say: the names, where a family has more than one kind, and the layout
/// of experts (tensors of their own, stacked, or mxfp4), whatever the family has by default.
void fit_to_files(ModelSpec& spec, const ModelFiles& files);

/// A config as an object (config.json, or `model_config:` of a recipe). `source` stands before errors. Checked.
ModelSpec read_model_config(const Json& config, const std::string& source);

/// DIRECTORY/config.json, with the end-of-text ids of generation_config.json added. Checked.
ModelSpec read_model_spec(const std::string& directory);

/// The config of a model trained from scratch, so that read_model_config() gives the same spec again.
/// `dtype`: "float32", "bfloat16" or "float16".
Json config_json(const ModelSpec& spec, const std::string& dtype);

/// `original` with some keys set (as transformers 5 spells them: "dtype", not "torch_dtype"); keeps unknown keys, their
/// order and the dialect. A null removes nothing: it is written as null. With a new dtype, weights are no longer
/// quantised: keys that say so are removed.
Json rewrite_config(const Json& original, const Json& changes);

/// The architecture of a model with this head: "LlamaForCausalLM", "LlamaForSequenceClassification" …
std::string architecture_of(const Family& family, HeadKind head);
/// The class of a model with this head where transformers (5.0) has none by that name, so that only dml reads the
/// result; else "".
std::string class_missing_in_transformers(const ModelSpec& spec);

/// What config.json says of a head that is none of a language model; nothing of others.
Json head_settings(const ModelSpec& spec);

/// The dropout that a config asks of training in transformers, as "attn_pdrop 0.1, resid_pdrop 0.1"; "" if none. dml
/// trains without it.
std::string config_dropout(const Json& config);

/// Indented by 2, with a final newline, as Hugging Face writes it.
std::string pretty_json(const Json& value);

}  // namespace dml
