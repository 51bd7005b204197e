// Writes and reads the files of a run's checkpoints and of its result: the trained weights, optimizer state, companion
// files.
#pragma once

#include <functional>

#include "assembly/companions.h"
#include "assembly/trained_form.h"
#include "optim/optimizer.h"
#include "train/objective.h"
#include "train/saver.h"

namespace dml {

/// The objects whose state is written; all of them outlive CheckpointFiles.
struct CheckpointParts {
  FormParts form;
  TrainedForm& trained;
  const Optimizer& optimizer;
  const Objective& objective;
  const Companions& companions;
};

class CheckpointFiles : public CheckpointContents {
 public:
  explicit CheckpointFiles(CheckpointParts parts) : parts_(parts) {}

  /// Bytes of the copies that this rank's part of a checkpoint is written from; `state`: bytes of its optimizer state.
  /// 0 if the recipe wants no background saving.
  std::size_t planned_copies(std::size_t state) const;

  /// The results for the model card; called whenever the card is written.
  std::function<CardFacts()> card_facts = [] { return CardFacts{}; };
  Jobs write(const std::string& folder) override;
  Jobs copy(const std::string& folder, Snapshot& room) override;
  /// Writes the result into the output directory itself. A collective.
  void write_result();

  /// Loads the weights of a checkpoint into the running model. A collective.
  void load_weights(const std::string& checkpoint);

 private:
  bool writes_state() const;
  void write_weights_now(const std::string& folder);
  void write_carried(const std::string& folder) const;
  Comm& comm() const { return parts_.form.comm; }
  const TrainSection& settings() const { return parts_.form.recipe.train; }
  DistributionStrategy& strategy() const { return parts_.form.strategy; }

  CheckpointParts parts_;
};

}  // namespace dml
