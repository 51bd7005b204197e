#include "cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

// Most errors occur on every rank: a mistake in the recipe or the data, ranks that disagree, a loss that is not finite.
// Rank 0 then reports the error and terminates the other ranks while they wait here. An error that rank 0 does not have
// is reported by the first rank that has it.
constexpr std::chrono::milliseconds kRankZeroFirst{3000}, kThenOneByOne{200};

void let_others_report_first(int rank) {
  if (rank > 0) std::this_thread::sleep_for(kRankZeroFirst + std::min(rank - 1, 50) * kThenOneByOne);
}

}  // namespace

int run_on_ranks(const std::function<int(Comm&)>& body) {
  auto comm = make_comm();
  set_log_rank(comm->rank());
  if (comm->size() == 1) return body(*comm);
  ExitCode code = ExitCode::internal;
  try {
    return body(*comm);
  } catch (const Error& e) {
    let_others_report_first(comm->rank());
    log_error("{}", e.what());
    code = e.code();
  } catch (const std::bad_alloc&) {
    let_others_report_first(comm->rank());
    log_error("out of memory");
    code = ExitCode::memory;
  } catch (const std::exception& e) {
    let_others_report_first(comm->rank());
    log_error("{}", e.what());
  }
  comm->abort(static_cast<int>(code));
  return static_cast<int>(code);
}

}  // namespace dml
