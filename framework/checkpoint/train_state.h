// The state of a run: everything besides weights and optimizer state that a resumed run needs to continue as if
// uninterrupted. dml_state.json is dml's own; trainer_state.json is written beside it in the format of transformers for
// other tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

struct TrainState {
  std::int64_t step = 0;           // optimizer steps done
  double epoch = 0;                // passes over the data, with a fraction
  std::int64_t pass = 0, row = 0;  // data position: pass `pass` continues at row `row`
  std::uint64_t seed = 0;
  std::int64_t tokens = 0, trained_tokens = 0;
  std::string recipe, data, base, numerics;  // digests that must match when the run is resumed
  std::optional<double> best_metric;
  std::int64_t best_step = -1;
  Json extra = Json::object();  // state of observers: loss average, early stopping, log position

  bool operator==(const TrainState&) const = default;
};

/// Limits of dml_state.json.
inline constexpr JsonLimits kTrainStateLimits{std::size_t{64} << 20, 64, 65536, 1u << 24};
/// Limits of trainer_state.json, which has an entry for every step.
inline constexpr JsonLimits kTrainerStateLimits{.bytes = std::size_t{1} << 30, .elements = std::size_t{1} << 27};

std::string train_state_text(const TrainState& state);
/// Parses dml_state.json. UserError for anything missing, of another type or of a newer format; `source`: prefix of
/// errors.
TrainState read_train_state(const Json& json, const std::string& source);

/// The contents of transformers' trainer_state.json: sorted keys, indent 2.
struct TrainerState {
  std::int64_t step = 0, max_steps = 0, logging_steps = 1, save_steps = 0, eval_steps = 0, batch_size = 1, tokens = 0;
  double epoch = 0, epochs = 1;
  std::optional<double> best_metric;
  std::int64_t best_step = -1;
  std::string best_checkpoint;    // path; empty: null
  std::vector<Json> log_history;  // objects with epoch, step, loss, grad_norm, learning_rate or eval_loss …
};
std::string trainer_state_text(const TrainerState& state);

}  // namespace dml
