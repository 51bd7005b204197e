// Loads micro-batches: whole documents laid end to end; positions restart and labels are shifted inside each document.
// The last position of a document has no label, so no token is predicted from another document. The documents of a pair
// are adjacent, and each has its group and role.
#pragma once

#include <vector>

#include "core/packed_batch.h"
#include "data/examples.h"
#include "data/reference_scores.h"
#include "data/schedule.h"

namespace dml {

/// The labels of a micro-batch.
enum class LabelRule {
  next_token,  // the next token, if it is trained
  classes,     // the stored labels, not shifted: classes of steps
  text_end     // one label at the last token of every document, where a reward model computes its score
};

struct LoaderOptions {
  LabelRule labels = LabelRule::next_token;
  double ld_alpha = 1;      // of pairs (LD-DPO): weight of the tokens by which one answer is longer than the other
  bool mismatched = false;  // also load each prompt with the answer of the preceding document of the step
  std::int64_t most_tokens = INT64_MAX;  // of such a document; longer ones are truncated
  bool share_prompts = false;            // sets the common prefix of the documents of a pair (PackedBatch::shared)
  const ReferenceScores* references = nullptr;                 // null: the objective computes them with the base
  const std::vector<double>* mismatched_references = nullptr;  // of this schedule
};

class Loader {
 public:
  /// Allocates memory for the largest micro-batch of the schedule; load() allocates nothing.
  Loader(const Examples& examples, const Schedule& schedule, LoaderOptions options = {});

  /// Micro-batch m of a step. Valid until the next call.
  PackedBatch load(std::int64_t global_step, std::int64_t m);
  /// A micro-batch of these examples, in this order.
  PackedBatch load(std::span<const std::int32_t> chosen);

  /// Index of a step's first example, counted over the whole run.
  std::int64_t number(std::int64_t global_step) const { return first_of_step_[static_cast<std::size_t>(global_step)]; }
  /// Number of examples of all steps.
  std::int64_t examples() const { return first_of_step_.back(); }
  /// Number of tokens of the run's largest mismatched micro-batch; 0 without that option.
  std::int64_t longest_mismatched() const { return longest_mismatched_; }

 private:
  // The arrays of a micro-batch; their memory is reused.
  struct Buffers {
    std::vector<Token> tokens, labels;
    std::vector<std::int32_t> positions, starts;
    std::vector<DocumentGroup> groups;
    std::vector<float> weights;  // of the labels; empty if the data has no weights
    std::vector<std::int32_t> shared;

    void reserve(std::int64_t tokens, std::int64_t documents);
    void clear();
    void append(std::span<const Token> ids, std::span<const Token> document_labels, DocumentGroup group,
                LabelRule rule);
    PackedBatch batch() const { return {tokens, labels, positions, starts, groups, weights, 0, nullptr, shared}; }
  };
  void append_documents(std::int32_t example, std::int32_t group);
  void append_weights(std::int32_t example);
  void plan_steps();
  void load_mismatched(std::int64_t global_step, std::int64_t m);
  // Sets scratch_ids_ and scratch_labels_ to one example's prompt with another's answer.
  void mismatch(std::int32_t prompt, std::int32_t answer);
  std::int32_t previous_in_step(std::int64_t global_step, std::int64_t m, std::size_t index) const;

  Examples examples_;
  const Schedule& schedule_;
  LoaderOptions options_;
  bool weighted_;
  Buffers buffers_, mismatched_;
  PackedBatch mismatched_batch_;
  std::vector<Token> scratch_ids_, scratch_labels_;
  std::vector<std::int64_t> first_of_step_;
  std::int64_t longest_mismatched_ = 0;
};

}  // namespace dml
