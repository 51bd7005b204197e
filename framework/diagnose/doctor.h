// dml doctor: checks what affects a run before it starts. On one host: processor, cores, memory, BLAS, MPI, disks.
// Under mpirun or srun: that every rank runs the same program, the binding of each rank, clock differences, and latency
// and bandwidth between ranks.
#pragma once

#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct Finding {
  enum class Verdict { fine, note, bad } verdict = Verdict::fine;
  std::string name, value, advice;
};

struct Diagnosis {
  std::vector<Finding> findings;
  std::vector<std::vector<std::string>> ranks, links;  // tables with a header row; empty on one rank

  bool healthy() const;
  std::string text() const;
};

/// "Intel Xeon …, 16 cores, avx512": the model, the cores that this process may use, the instruction set of the
/// kernels.
std::string processor_description();

/// Examines host and recipe; every rank gets the same findings, rank 0 also the tables. A collective.
Diagnosis examine(Comm& comm, const Recipe* recipe);

}  // namespace dml
