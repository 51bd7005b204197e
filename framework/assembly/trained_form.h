// The form of a run's result: a full model, an adapter, or an adapter that is merged repeatedly (ReLoRA). Only this
// class decides how the weights are loaded and written.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "assembly/base_model.h"
#include "assembly/vocabulary.h"
#include "dist/strategy.h"
#include "train/background.h"

namespace dml {

/// The objects that a form uses; all of them outlive it.
struct FormParts {
  const Recipe& recipe;
  const BaseModel& base;
  TrainableModel& trainable;
  DistributionStrategy& strategy;
  Comm& comm;
  NewRows merged_rows = {};  // for tokens that no batch has: a model with the adapter merged has them
};

/// Whether ranks hold shards of optimizer state and gradients instead of all of them.
bool holds_slices(const DistributionStrategy& strategy);

class TrainedForm {
 public:
  explicit TrainedForm(FormParts parts) : parts_(parts) {}
  virtual ~TrainedForm() = default;

  /// A short description for messages: "full", "LoRA r=8 alpha=16".
  virtual std::string description() const = 0;
  /// The recipe key that names this result in order to continue training from it.
  virtual const char* continuation_key() const = 0;
  /// Whether the run computes with copies only and reads nothing from the base's files.
  virtual bool copies_base() const { return false; }
  /// Whether the run changes frozen weights of the base.
  virtual bool changes_base() const { return false; }
  /// Mapped bytes of the base that are no longer used.
  virtual std::size_t unused_base_bytes() const { return 0; }
  /// Bytes of weights in a checkpoint.
  virtual std::size_t stored_bytes() const = 0;
  /// Called before the next step when `done` steps are finished; may change the model. A collective.
  virtual void before_step(std::int64_t /*done*/, const StateLayout& /*state*/) {}

  /// Loads the values of a checkpoint. Called before the strategy adopts the model, or between gather_values() and
  /// publish_values().
  virtual void load(const std::string& checkpoint) = 0;
  /// Write the weights into the folder of a result, or of a checkpoint after `step` steps, without companion files.
  /// Collectives.
  virtual void write_result(const std::string& folder, DType dtype) = 0;
  virtual void write_checkpoint(const std::string& folder, std::int64_t step) = 0;

  /// Bytes of the copies that a checkpoint can be written from, on the rank that copies most; 0 if it must be written
  /// directly.
  virtual std::size_t copied_bytes() const { return 0; }
  /// What is copied for a checkpoint: this rank's shards, or whole units; neither if it is written directly.
  virtual bool copies_shards() const { return false; }
  virtual bool copies_units() const { return false; }
  /// The copies that a checkpoint is written from.
  struct Copies {
    std::vector<Shard> shards;
    std::vector<std::span<float>> units;
  };
  /// The job that writes the copies into `folder`. A collective.
  virtual Job write_copies(const std::string& /*folder*/, std::shared_ptr<const Copies> /*copies*/) { return {}; }

 protected:
  CausalLm& model() const { return *parts_.trainable.model; }
  bool is_first_rank() const { return parts_.comm.rank() == 0; }

  FormParts parts_;
};

/// UserError when the model does not support the recipe's form.
std::unique_ptr<TrainedForm> make_trained_form(const FormParts& parts);

}  // namespace dml
