// What a model's snapshot in the cache holds. Hugging Face's tools download single files (AutoTokenizer those of the
// tokenizer), so a snapshot may hold only a part of its model.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace dml {

/// The parts of a model that a command reads.
struct SnapshotParts {
  bool config = true, weights = true, tokenizer = true;
};

/// Whether a file belongs to a model: config, tokenizer, template, card and safetensors, but not in subfolders
/// (original/, onnx/).
bool belongs_to_model(const std::string& path);
/// Whether it is one with weights, or their index.
bool holds_weights(const std::string& path);

/// The names of the files of a snapshot's commit, of which the snapshot may hold only some; empty if they are unknown,
/// as in snapshots of other tools. dml keeps them in REPOSITORY/listings/COMMIT.
std::optional<std::set<std::string>> listed_files(const std::string& snapshot);
void write_listed_files(const std::string& snapshot, const std::set<std::string>& names);

/// The parts that a snapshot lacks: "config.json and weights"; "" if it has all. A part that its commit does not have,
/// as far as that is known, is not lacking. Of an adapter only its weights are needed.
std::string lacking_parts(const std::string& snapshot, const SnapshotParts& needed);
/// The error message of a model of which the cache `lacks` these parts.
std::string partial_model_text(const std::string& name, const std::string& snapshot, const std::string& lacking);

}  // namespace dml
