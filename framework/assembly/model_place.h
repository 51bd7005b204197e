// What `base_model` may name, and where its files lie: a folder, a GGUF file, or a model of the Hub that is in its
// cache. A GGUF file's config and tokenizer become a folder once, in the user's cache, so that everything that reads
// these from a folder can.
#pragma once

#include <string>

#include "checkpoint/model_files.h"
#include "model/spec.h"

namespace dml {

/// The folder with config.json and the tokenizer: `name` itself, what was made of a GGUF file, or a snapshot of
/// the Hub's cache. Safe to call from any thread.
std::string model_directory(const std::string& name);

/// The weights of either.
ModelFiles open_model_files(const std::string& name, const ModelSpec& spec);

}  // namespace dml
