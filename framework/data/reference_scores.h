// Sums of log-probabilities of answers under the reference model, computed once before a run.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace dml {

struct ReferenceScores {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::vector<double> answers;  // (stored examples, 2): of an example's documents
  // Scores of prompts with other prompts' answers: one per document of all training steps (of all evaluation batches),
  // in order.
  std::vector<double> mismatched, mismatched_validation;

  double& answer(std::int64_t stored, std::int64_t document) {
    return answers[static_cast<std::size_t>(2 * stored + document)];
  }
  double answer(std::int64_t stored, std::int64_t document) const {
    return answers[static_cast<std::size_t>(2 * stored + document)];
  }
};

}  // namespace dml
