#include "assembly/checkpoint_files.h"

#include <memory>
#include <optional>

#include "assembly/distribution.h"
#include "assembly/model_output.h"
#include "assembly/optimizer_state.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/left_over.h"
#include "core/staged_files.h"

namespace dml {

// Where several ranks hold the same state, one of them writes it.
bool CheckpointFiles::writes_state() const {
  return holds_slices(strategy()) ? strategy().writes_state() : comm().rank() == 0;
}

std::size_t CheckpointFiles::planned_copies(std::size_t state) const {
  if (!settings().save_in_background || settings().save_strategy == IntervalStrategy::never) return 0;
  return (settings().save_only_model ? 0 : state) + parts_.trained.copied_bytes();
}

void CheckpointFiles::write_weights_now(const std::string& folder) {
  const CardFacts facts = card_facts();
  parts_.trained.write_checkpoint(folder, facts.step);
  if (comm().rank() == 0) parts_.companions.write(folder, facts);
}

// Writes at once, without a copy: the rounding errors of bfloat16 gradients, which are half as large as the gradients,
// and the objective's state.
void CheckpointFiles::write_carried(const std::string& folder) const {
  if (settings().save_only_model) return;
  write_residuals(folder, strategy().residuals(), strategy_name(parts_.form.recipe, comm()), comm());
  if (comm().rank() == 0) parts_.objective.write_state(folder);
}

Jobs CheckpointFiles::write(const std::string& folder) {
  write_weights_now(folder);
  if (!settings().save_only_model && writes_state())
    write_optimizer_state(folder + "/" + optimizer_state_file(holds_slices(strategy()), comm().rank()),
                          shards_with_state(strategy()), parts_.optimizer.state());
  write_carried(folder);
  return {};
}

Jobs CheckpointFiles::copy(const std::string& folder, Snapshot& room) {
  const bool first = comm().rank() == 0, mine = writes_state(), values = mine && parts_.trained.copies_shards(),
             state = mine && !settings().save_only_model, units = first && parts_.trained.copies_units();
  const ParameterStore& store = parts_.form.trainable.model->parameters;
  std::span<Shard> shards = strategy().shards(), wholes = strategy().whole_states();
  std::size_t bytes = 0;
  for (const Shard& s : shards)
    bytes +=
        (values ? Snapshot::bytes(s.value_bytes().size()) : 0) + (state ? Snapshot::bytes(s.state.size_bytes()) : 0);
  for (const Shard& s : wholes) bytes += state ? Snapshot::bytes(s.state.size_bytes()) : 0;
  for (const Unit& u : store.units())
    if (units) bytes += Snapshot::bytes(static_cast<std::size_t>(u.size) * sizeof(float));
  room.begin(bytes);

  auto copies = std::make_shared<TrainedForm::Copies>();
  if (values || state) copies->shards.assign(shards.begin(), shards.end());
  for (Shard& s : copies->shards) {
    s.grad = {};
    if (values) s.value = room.copy(s.value), s.value16 = room.copy(s.value16);
    if (state) s.state = room.copy(s.state);
  }
  std::vector<Shard> states = copies->shards;
  for (Shard s : wholes)
    if (state) s.state = room.copy(s.state), states.push_back(s);
  if (parts_.trained.copies_units()) {
    const GatheredValues gathered(strategy());
    if (units)
      for (const Unit& u : store.units())
        copies->units.push_back(room.copy(std::span(u.value.floats(), static_cast<std::size_t>(u.size))));
  }

  Jobs jobs;
  if (parts_.trained.copies_shards() || parts_.trained.copies_units()) {
    auto weights = std::make_shared<TrainedForm::Copies>(*copies);
    if (!values) weights->shards.clear();
    if (Job job = parts_.trained.write_copies(folder, weights)) jobs.push_back(std::move(job));
    if (first)
      jobs.push_back(
          [=, this, facts = card_facts()](const std::stop_token&) { parts_.companions.write(folder, facts); });
  } else {
    write_weights_now(folder);
  }
  if (state)
    jobs.push_back([=, layout = parts_.optimizer.state(),
                    name = optimizer_state_file(holds_slices(strategy()), comm().rank())](const std::stop_token& stop) {
      write_optimizer_state(folder + "/" + name, states, layout, stop);
    });
  write_carried(folder);
  return jobs;
}

void CheckpointFiles::write_result() {
  const std::string& folder = settings().output_dir;
  std::optional<StagedFiles> out;
  if (comm().rank() == 0) out.emplace(folder);
  const std::string temporary = comm().broadcast_text(out ? out->path() : "", 0);
  parts_.trained.write_result(temporary, parts_.form.base.dtype());
  if (out) parts_.companions.write(temporary, card_facts());
  comm().barrier();
  if (out) {
    out->commit();
    remove_left_over(folder, 2);  // of a killed run that was still going down when this one began
  }
  comm().barrier();
}

void CheckpointFiles::load_weights(const std::string& checkpoint) {
  CausalLm& model = *parts_.form.trainable.model;
  if (trains_in_parts(parts_.form.recipe, strategy())) {
    load_shard_values(model, checkpoint, strategy().shards());
    strategy().publish();
    return;
  }
  strategy().gather_values();
  parts_.trained.load(checkpoint);
  publish_values(model.parameters, strategy());
}

}  // namespace dml
