// The memory of a run on one rank by category, computed before any of it is allocated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dml {

struct MemoryPlan {
  std::size_t process = 0;  // already in use by the process (libraries, tokenizer, tables)
  std::size_t frozen = 0;   // base weights: mapped files, shared by the ranks of a host
  std::size_t owned = 0;    // frozen values that are copied
  std::size_t trained = 0;  // values of trained parameters
  std::size_t packed = 0;   // copies of weights (nn/packed_weights.h)
  std::size_t gradients = 0, optimizer = 0, communication = 0;
  std::size_t activations = 0;  // working memory of the largest micro-batch, loss head included
  std::size_t samples = 0;      // keys, values and logits of generate_samples
  std::size_t data = 0;         // mapped examples
  std::size_t snapshot = 0;     // copies for writing a checkpoint in the background

  std::size_t total() const {
    return process + frozen + owned + trained + packed + gradients + optimizer + communication + activations + samples +
           data + snapshot;
  }
  /// Name and bytes of every category that is not 0.
  std::vector<std::pair<std::string, std::size_t>> rows() const;
};

}  // namespace dml
