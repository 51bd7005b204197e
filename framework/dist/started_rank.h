// What mpirun and srun tell the processes that they start, read from the environment before MPI is initialized.
#pragma once

namespace dml {

/// Whether this process is a rank that mpirun or srun (with PMIx or PMI) started.
bool is_started_rank();

struct StartedRank {
  int rank = 0, ranks = 1;
};
/// The rank of this process and the number of ranks; rank 0 of 1 where neither program started it.
StartedRank started_rank();

/// UserError if srun started this process as one of several without MPI: each would do the whole job.
void refuse_tasks_without_mpi();

}  // namespace dml
