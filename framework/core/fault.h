// Fault injection, for tests of runs in which a rank dies or is stopped.
// DML_FAULT="rank=1,point=step,kind=kill,step=3" kills rank 1 at the named point of step 3 (of any step if none is
// given). Without the variable, a point costs one branch.
//
// Points: load, step, exchange, evaluation, save. Kinds: kill, segv, abort, exit0, exit3, throw, bad_alloc, hang,
// stop (until SIGCONT, so that a test can act at this point), and flip, a flipped bit that the caller makes.
#pragma once

#include <cstdint>
#include <string_view>

namespace dml {

/// Dies or stops if DML_FAULT names this point, rank and step. Returns true if the fault is `flip`.
bool fault_point(std::string_view point, int rank, std::int64_t step = -1);

}  // namespace dml
