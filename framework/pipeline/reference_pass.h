// The pass over the data, before the first step, that finds what the reference says of each answer. The reference is
// the model that the run starts from. What it says is stored with the prepared data, so that later runs and resumed
// ones read it.
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
  std::vector<double>* mismatched;  // null: none are needed
};

/// Scores with all values unset, for `examples` stored examples and, where needed, every mismatched document.
void forget(ReferenceScores& scores, std::int64_t examples, const std::vector<ReferencePart>& parts);
/// Whether everything that the parts need is known.
bool complete(const ReferenceScores& scores, const std::vector<ReferencePart>& parts);

/// Reads what an earlier run stored; what is damaged or of another size stays unknown.
void read_references(const std::string& path, ReferenceScores& scores);
/// Atomically.
void write_references(const std::string& path, const ReferenceScores& scores);

/// Scores what is unknown with the model as it is now. A collective; the same bits on any number of ranks.
void compute_references(const std::vector<ReferencePart>& parts, CausalLm& model, UnitHooks& hooks, Comm& comm,
                        ReferenceScores& scores);

}  // namespace dml
