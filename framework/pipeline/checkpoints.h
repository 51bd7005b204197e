// The checkpoints of an output directory for dml ckpt ls, verify and rm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dml {

struct CheckpointRow {
  std::string path;
  std::int64_t step = 0;                  // −1: not known
  std::optional<double> loss, eval_loss;  // the last training loss up to its step; the validation loss after it
  std::uint64_t bytes = 0;
  std::string problem;                // why the checkpoint is invalid; "": it is valid
  bool latest = false, best = false;  // latest: what --resume auto would take
};

/// Lists checkpoints, newest first. With `contents` every byte is compared with the manifest, else only names and
/// sizes. `output_dir` may be a checkpoint itself. UserError when there is no such directory.
std::vector<CheckpointRow> checkpoint_rows(const std::string& output_dir, bool contents,
                                           std::optional<std::int64_t> step = {});

/// Removes the checkpoint of a step. UserError when there is none, when no step is given, when the folder is a
/// checkpoint itself, or when it is the newest valid one and `force` is not set.
void remove_checkpoint_of_step(const std::string& output_dir, std::optional<std::int64_t> step, bool force);

}  // namespace dml
