// dml bench --scaling: how a training step would scale to more threads than this machine has, by work and span
// (core/virtual_threads.h), and which operation is in the way.
#pragma once

#include <string>
#include <vector>

#include "diagnose/bench.h"

namespace dml {

struct WorkSpan {
  struct Row {
    std::string name;
    double work = 0;              // seconds of a step on one thread
    std::vector<double> seconds;  // of a step, for each of `threads`
  };
  std::vector<int> threads;
  std::vector<Row> rows;  // operations, the longest first
  Row total;

  /// work ÷ (threads × seconds): 1 is perfect.
  double efficiency(const Row& row, std::size_t i) const;
  /// A line per operation: seconds on one thread, efficiency for each number of threads, and the operation's share of
  /// the time that the largest number of threads waits.
  std::vector<std::string> table() const;
};

/// A step of `options` for one thread and one for each of `threads`; warmup and steps have no meaning. On one rank.
WorkSpan work_span(const Recipe& recipe, Comm& comm, const BenchOptions& options, std::vector<int> threads);

}  // namespace dml
