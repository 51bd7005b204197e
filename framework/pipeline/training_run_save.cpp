// Checkpoints of a run. Rank 0 makes the folder, every rank writes what it holds, rank 0 gives it its manifest and its name.
//
// In the background a save copies what it is to hold, and a thread of each rank writes the copies while steps go on. Threads
// touch files only: that all ranks have written is found out between steps, by all of them together (poll_save), and then
// rank 0's thread ends the save. Whatever comes next waits for it: another save, the end of the run, a stop. What goes wrong
// in a thread ends the job like anything else.
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/fault.h"
#include "dist/agreement.h"
#include "pipeline/distribution.h"
#include "pipeline/model_output.h"
#include "pipeline/optimizer_state.h"
#include "pipeline/training_run.h"

namespace dml {
namespace {

// The fault "flip": one bit of one trained value, as a failing memory would do.
void flip_a_bit(CausalLm& model) {
  for (Unit& unit : model.parameters.units())
    if (unit.value && unit.size > 0) {
      reinterpret_cast<unsigned char*>(unit.value)[1] ^= 1;
      return;
    }
}

std::size_t float_bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

}  // namespace

bool TrainingRun::holds_slices() const { return strategy_->total(1) > 1.5; }

bool TrainingRun::copies_model() const {
  return recipe_.adapter.adapter == AdapterKind::none && ModelInParts::possible(*model_);
}

bool TrainingRun::copies_adapter() const { return recipe_.adapter.adapter != AdapterKind::none && !relora_; }

// Of the rank that copies most; `state` is that of its shards.
std::size_t TrainingRun::planned_copies(std::size_t state) const {
  if (!recipe_.train.save_in_background || recipe_.train.save_strategy == Cadence::never) return 0;
  const auto parts = std::max<std::int64_t>(1, std::llround(strategy_->total(1)));
  std::size_t bytes = recipe_.train.save_only_model ? 0 : state;
  if (copies_model()) bytes += float_bytes(model_->parameters.floats() / parts);
  if (copies_adapter()) bytes += float_bytes(model_->parameters.floats());
  return bytes;
}

void TrainingRun::begin_save(const MetricsLog* log) {
  DML_CHECK(!saving_);
  if (fault_point("save", comm_.rank(), state_.step)) flip_a_bit(*model_);
  // A checkpoint of ranks that have drifted apart helps nobody.
  check_replicas(comm_, value_replicas(model_->parameters), comm_.rank());
  if (Comm* twins = strategy_->twins())
    check_replicas(*twins, shard_replicas(model_->parameters, strategy_->shards()), comm_.rank());
  Save& save = saving_.emplace();
  if (comm_.rank() == 0) {
    state_.extra["without_improvement"] = without_improvement_;
    state_.extra["recipe"] = recipe_text_;
    state_.extra["steps"] = schedule_.steps();
    save.state = state_;
    save.trainer = trainer_state(*log);
    save.writer.emplace(recipe_.train.output_dir, state_.step);
  }
  const std::string folder = comm_.broadcast_text(save.writer ? save.writer->path() : "", 0);
  work_.start(saves_in_background() ? copy_for(folder) : write_now(folder));
}

Jobs TrainingRun::write_now(const std::string& folder) {
  write_weights(folder, Dtype::f32, false);
  if (recipe_.train.save_only_model) return {};
  const bool slices = holds_slices();
  if (slices ? strategy_->writes_state() : comm_.rank() == 0)
    write_optimizer_state(folder + "/" + optimizer_state_file(slices, comm_.rank()), strategy_->shards(),
                          optimizer_->state());
  write_residuals(folder, strategy_->residuals(), strategy_name(recipe_, comm_), comm_);
  return {};
}

Jobs TrainingRun::copy_for(const std::string& folder) {
  Jobs jobs;
  const bool slices = holds_slices(), first = comm_.rank() == 0, mine = slices ? strategy_->writes_state() : first,
             values = mine && copies_model(), state = mine && !recipe_.train.save_only_model,
             units = first && copies_adapter();
  std::span<Shard> shards = strategy_->shards();
  std::size_t bytes = 0;
  for (const Shard& s : shards)
    bytes += (values ? Snapshot::bytes(s.value.size()) : 0) + (state ? Snapshot::bytes(s.state.size()) : 0);
  for (const Unit& u : model_->parameters.units())
    if (units) bytes += Snapshot::bytes(static_cast<std::size_t>(u.size));
  snapshot_.begin(bytes);

  std::vector<Shard> copies;
  if (values || state) copies.assign(shards.begin(), shards.end());
  for (Shard& s : copies) {
    s.grad = {};
    if (values) s.value = snapshot_.copy(s.value);
    if (state) s.state = snapshot_.copy(s.state);
  }
  if (copies_model()) {
    auto parts = std::make_shared<ModelInParts>(folder, base_, *model_, Dtype::f32);
    if (first) parts->create();
    comm_.barrier();
    jobs.push_back([=](const std::stop_token& stop) {
      parts->write(values ? std::span<const Shard>(copies) : std::span<const Shard>(), first, stop);
    });
    if (first) jobs.push_back([=, this, facts = card_facts()](const std::stop_token&) { companions_->write(folder, facts); });
  } else if (copies_adapter()) {
    strategy_->gather_values();
    std::vector<std::span<float>> all;
    if (units)
      for (const Unit& u : model_->parameters.units())
        all.push_back(snapshot_.copy({u.value, static_cast<std::size_t>(u.size)}));
    strategy_->release_values();
    if (first)
      jobs.push_back([=, this, facts = card_facts()](const std::stop_token&) {
        write_adapter_directory(folder, *trainable_.adapter, *model_, all);
        companions_->write(folder, facts);
      });
  } else {
    write_weights(folder, Dtype::f32, false);
  }
  if (state)
    jobs.push_back([=, layout = optimizer_->state(),
                    name = optimizer_state_file(slices, comm_.rank())](const std::stop_token& stop) {
      write_optimizer_state(folder + "/" + name, copies, layout, stop);
    });
  // They are half as many bytes as the gradients of a run whose ranks are many: written at once.
  if (!recipe_.train.save_only_model)
    write_residuals(folder, strategy_->residuals(), strategy_name(recipe_, comm_), comm_);
  return jobs;
}

void TrainingRun::begin_commit() {
  saving_->committing = true;
  if (comm_.rank() != 0) return;
  work_.start({[this](const std::stop_token&) {
    saving_->path = saving_->writer->commit(saving_->state, saving_->trainer);
    rotate_checkpoints(recipe_.train.output_dir, recipe_.train.save_total_limit, saving_->state.best_step);
  }});
}

std::string TrainingRun::end_save() {
  std::string path = comm_.broadcast_text(saving_->path, 0);
  saving_.reset();
  return path;
}

std::string TrainingRun::poll_save() {
  if (!saving_) return "";
  const bool busy = work_.busy();
  if (!busy) work_.wait();
  if (comm_.max(busy ? 1 : 0) > 0) return "";
  if (saving_->committing) return end_save();
  begin_commit();
  return "";
}

std::string TrainingRun::finish_save() {
  if (!saving_) return "";
  work_.wait();
  if (!saving_->committing) {
    comm_.barrier();
    begin_commit();
    work_.wait();
  }
  return end_save();
}

}  // namespace dml
