// Resolves what `base_model` may name: a folder, a GGUF file, or a model of the Hub in the local cache. For a GGUF
// file, its config and tokenizer are extracted once to a folder in the user's cache, so that code that reads them from
// a folder works.
#pragma once

#include <string>

#include "checkpoint/model_files.h"
#include "hub/snapshot_parts.h"
#include "model/adapter_config.h"
#include "model/spec.h"

namespace dml {

/// The folder with config.json and the tokenizer: `name` itself, the one extracted from a GGUF file, or a snapshot in
/// the Hub's cache. Thread-safe.
std::string model_directory(const std::string& name);

/// Sets base_model and revision of an adapter's config. `name`: a path, or a model of the Hub with "@REVISION".
void set_base(AdapterConfig& config, const std::string& name);

/// UserError with how to get them if `name` is a model of the Hub of which the cache lacks some of these parts.
void require_parts(const std::string& name, const SnapshotParts& needed);

/// Opens the weights of a folder or GGUF file.
ModelFiles open_model_files(const std::string& name, const ModelSpec& spec);

}  // namespace dml
