// What a run trains and in which form it is stored: all weights, an adapter, or an adapter that is merged again and
// again (ReLoRA). The one place that asks the recipe which of them it is.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "assembly/base_model.h"
#include "dist/strategy.h"
#include "train/background.h"

namespace dml {

/// The objects that the forms use; all of them outlive the forms.
struct FormParts {
  const Recipe& recipe;
  const BaseModel& base;
  TrainableModel& trainable;
  DistributionStrategy& strategy;
  Comm& comm;
};

/// Whether ranks hold slices of optimizer state and gradients, not all of them.
bool holds_slices(const DistributionStrategy& strategy);

class TrainedForm {
 public:
  explicit TrainedForm(FormParts parts) : parts_(parts) {}
  virtual ~TrainedForm() = default;

  /// For people: "full", "LoRA r=8 alpha=16".
  virtual std::string description() const = 0;
  /// The key of a recipe that continues from the result.
  virtual const char* continued_by() const = 0;
  /// Whether everything that the run computes with is a copy, and nothing is read from the base's files.
  virtual bool copies_base() const { return false; }
  /// Whether the run changes frozen weights of the base.
  virtual bool changes_base() const { return false; }
  /// Of the base's mapped bytes, those that are not used any more.
  virtual std::size_t replaced() const { return 0; }
  /// Bytes of weights in a checkpoint.
  virtual std::size_t stored_bytes() const = 0;
  /// Every `steps` steps something happens to the model; before step `done`, a collective.
  virtual void before_step(std::int64_t /*done*/, const StateLayout& /*state*/) {}

  /// Values of a checkpoint. Before the strategy adopts the model, or between gather_values() and publish_values().
  virtual void load(const std::string& checkpoint) = 0;
  /// Into the folder of a result or of a checkpoint after `step` steps; what belongs beside weights is not written. A
  /// collective.
  virtual void write_result(const std::string& folder, DType dtype) = 0;
  virtual void write_checkpoint(const std::string& folder, std::int64_t step) = 0;

  /// Bytes of the copies that a checkpoint can be written from, on the rank that copies most; 0: it is written at once.
  virtual std::size_t copied_bytes() const { return 0; }
  /// Which of this rank's values a checkpoint is written from: its shards', or whole units. Neither: written at once.
  virtual bool copies_shards() const { return false; }
  virtual bool copies_units() const { return false; }
  /// Copied values on their way into a checkpoint.
  struct Copies {
    std::vector<Shard> shards;
    std::vector<std::span<float>> units;
  };
  /// Writes them; a collective.
  virtual Job write_copies(const std::string& /*folder*/, std::shared_ptr<const Copies> /*copies*/) { return {}; }

 protected:
  CausalLm& model() const { return *parts_.trainable.model; }
  bool first() const { return parts_.comm.rank() == 0; }

  FormParts parts_;
};

/// UserError where the recipe's form needs what the model does not have.
std::unique_ptr<TrainedForm> make_trained_form(const FormParts& parts);

}  // namespace dml
