// The files of a run's checkpoints and of its result: weights in the form that is trained, optimizer state, what
// belongs beside them; and back from them.
#pragma once

#include <functional>

#include "assembly/companions.h"
#include "assembly/trained_form.h"
#include "optim/optimizer.h"
#include "train/saver.h"

namespace dml {

/// All of it outlives the files.
struct CheckpointParts {
  FormParts form;
  TrainedForm& trained;
  const Optimizer& optimizer;
  const Companions& companions;
};

class CheckpointFiles : public CheckpointContents {
 public:
  explicit CheckpointFiles(CheckpointParts parts) : parts_(parts) {}

  /// Bytes of copies that a checkpoint of this rank may be written from; `state`: of its optimizer state. 0 where the
  /// recipe wants none.
  std::size_t planned_copies(std::size_t state) const;

  /// The text of the model card; called whenever it is written.
  std::function<CardFacts()> card_facts = [] { return CardFacts{}; };
  Jobs write(const std::string& folder) override;
  Jobs copy(const std::string& folder, Snapshot& room) override;
  /// The result into the output directory itself. A collective.
  void write_result();

  /// Weights of a checkpoint into a run under way. A collective.
  void return_to(const std::string& checkpoint);

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
