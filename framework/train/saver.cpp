#include "train/saver.h"

#include "core/error.h"
#include "core/fault.h"
#include "dist/agreement.h"
#include "train/average.h"

namespace dml {
namespace {

// The fault "flip": flips one bit of one trained value, as faulty memory would.
void flip_a_bit(CausalLm& model) {
  for (Unit& unit : model.parameters.units())
    if (unit.value && unit.size > 0) {
      unit.value.data[1] ^= std::byte{1};
      return;
    }
}

// Checks that replicated state is equal on all ranks.
void check_copies(const StepParts& parts) {
  const ParameterStore& store = parts.model.parameters;
  check_replicas(parts.comm, value_replicas(store), parts.comm.rank());
  if (Comm* replicas = parts.strategy.replica_group())
    check_replicas(*replicas, shard_replicas(store, parts.strategy.shards()), parts.comm.rank());
}

}  // namespace

void Saver::begin(const TrainState& state, const TrainerState& trainer) {
  DML_CHECK(!saving_);
  const bool first = parts_.comm.rank() == 0;
  if (fault_point("save", parts_.comm.rank(), state.step)) flip_a_bit(parts_.model);
  check_copies(parts_);
  Save& save = saving_.emplace();
  if (first) {
    save.state = state;
    save.trainer = trainer;
    save.writer.emplace(settings_.output_dir, state.step);
  }
  const std::string folder = parts_.comm.broadcast_text(first ? save.writer->path() : "", 0);
  work_.start(with_average(parts_.optimizer, parts_.strategy, [&] {
    return settings_.in_background ? contents_.copy(folder, snapshot_) : contents_.write(folder);
  }));
}

void Saver::begin_commit() {
  saving_->committing = true;
  if (parts_.comm.rank() != 0) return;
  work_.start({[this](const std::stop_token&) {
    saving_->path = saving_->writer->commit(saving_->state, saving_->trainer);
    rotate_checkpoints(settings_.output_dir, settings_.save_total_limit, saving_->state.best_step);
  }});
}

std::string Saver::end() {
  std::string path = parts_.comm.broadcast_text(saving_->path, 0);
  saving_.reset();
  return path;
}

std::string Saver::poll() {
  if (!saving_) return "";
  const bool busy = work_.busy();
  if (!busy) work_.wait();
  if (parts_.comm.max(busy ? 1 : 0) > 0) return "";
  if (saving_->committing) return end();
  begin_commit();
  return "";
}

std::string Saver::finish() {
  if (!saving_) return "";
  work_.wait();
  if (!saving_->committing) {
    parts_.comm.barrier();
    begin_commit();
    work_.wait();
  }
  return end();
}

}  // namespace dml
