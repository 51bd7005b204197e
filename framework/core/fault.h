// Faults on purpose, for tests of what a run does when a rank dies or is stopped. DML_FAULT="rank=1,point=step,kind=kill,step=3"
// makes rank 1 die at the named point of step 3 (any step, when none is given). Without the variable a point costs one
// branch.
//
// Points: load, step, exchange, evaluation, save. Kinds: kill, segv, abort, exit0, exit3, throw, bad_alloc, hang,
// stop (until SIGCONT: a test does then what it means to do at this very point), and flip, which is left to the caller.
#pragma once

#include <cstdint>
#include <string_view>

namespace dml {

/// Dies or stops as DML_FAULT says when this is the point, rank and step it names; true when the fault is `flip`.
bool fault_point(std::string_view point, int rank, std::int64_t step = -1);

}  // namespace dml
