// dml bench --scaling: predicts how a training step scales to more threads than this machine has, by work and span
// (core/virtual_threads.h), and which operations limit it.
#pragma once

#include <string>
#include <vector>

#include "diagnose/bench.h"

namespace dml {

struct WorkSpan {
  struct Row {
    std::string name;
    double work = 0;              // seconds per step on one thread
    std::vector<double> seconds;  // per step, for each entry of `threads`
  };
  std::vector<int> threads;
  std::vector<Row> rows;  // operations, the longest first
  Row total;

  /// work ÷ (threads × seconds): 1 is perfect.
  double efficiency(const Row& row, std::size_t i) const;
  /// One line per operation: seconds on one thread, efficiency for each number of threads, and its share of the waiting
  /// time with the largest number of threads.
  std::vector<std::string> table() const;
};

/// Measures the step of `options` on one thread and simulates each entry of `threads`; options.warmup and options.steps
/// are ignored. On one rank.
WorkSpan work_span(const Recipe& recipe, Comm& comm, const BenchOptions& options, std::vector<int> threads);

}  // namespace dml
