// The pass over the data before the first step that computes reference scores: log-probabilities of the answers under
// the model that the run starts from. They are stored with the prepared data, so later and resumed runs can read them.
#pragma once

#include <string>
#include <vector>

#include "data/loader.h"
#include "train/objective.h"

namespace dml {

/// The micro-batches of a run that have answers to score.
struct ReferencePart {
  const Examples& examples;
  const Schedule& schedule;
  Loader& loader;
  std::vector<double>* mismatched;  // null if not needed
};

/// Sizes `scores` for `examples` stored examples and, if needed, every mismatched document, and sets all values to
/// unknown.
void forget(ReferenceScores& scores, std::int64_t examples, const std::vector<ReferencePart>& parts);
/// Whether all scores of the parts are known.
bool complete(const ReferenceScores& scores, const std::vector<ReferencePart>& parts);

/// Reads stored scores; damaged ones, or those of another size, remain unknown.
void read_references(const std::string& path, ReferenceScores& scores);
/// Writes the scores atomically.
void write_references(const std::string& path, const ReferenceScores& scores);

/// Computes the unknown scores with the model's current values. A collective; the same bits for any number of ranks.
void compute_references(const std::vector<ReferencePart>& parts, CausalLm& model, UnitHooks& hooks, Comm& comm,
                        ReferenceScores& scores);

}  // namespace dml
