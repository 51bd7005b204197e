// dml bench: measures the speed and memory of a recipe's training step on random tokens and (without base_model) random
// weights. It needs neither tokenizer nor data. The step is the trainer's own: same model, strategy and optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assembly/memory_plan.h"
#include "core/profile.h"
#include "diagnose/synthetic.h"
#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct BenchOptions {
  double masked = 0;  // fraction of every document that is an untrained prompt
  std::vector<SyntheticDocument>
      documents;  // replace micro_batch_size × sequence_len; assigned to micro-batches in order
  std::int64_t warmup = 2, steps = 6;
  bool yardstick = true;  // measure the rates of large products before and after
  std::function<void(std::int64_t step, const ModelSpec&)> before_step =
      {};  // may be null; steps are counted from the first warmup step
};

/// Seconds of one step on this rank. Forward and backward of the loss head are one pass.
struct BenchPhases {
  double forward = 0, head = 0, backward = 0, communication = 0, optimizer = 0, step = 0;
  double processor =
      0;  // CPU seconds of all threads: more reliable than `step` on a busy machine if there is one thread
};

struct BenchResult {
  BenchPhases median;
  std::int64_t tokens = 0, trained_tokens = 0;  // of one step over all ranks
  double operations = 0;                        // FLOPs of the step
  double sgemm = 0, product = 0;                // FLOP/s of all ranks and threads: of sgemm, of kernels::gemm_nt
  double fraction = 0;                          // operations ÷ seconds ÷ sgemm
  double first_loss = 0, last_loss = 0;         // per trained token
  std::int64_t parameters = 0, trained = 0;
  int ranks = 1, threads = 1;
  MemoryPlan plan;
  std::size_t peak = 0;             // high-water mark of this rank's process
  std::vector<ProfileRow> profile;  // of all measured steps, with DML_PROFILE=1
};

BenchResult bench(const Recipe& recipe, Comm& comm, const BenchOptions& options);

}  // namespace dml
