#include "cli/ranks.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

constexpr std::chrono::milliseconds kRankZeroFirst{800};

}  // namespace

int run_on_ranks(const std::function<int(Comm&)>& body) {
  auto comm = make_comm();
  set_log_rank(comm->rank());
  if (comm->size() == 1) return body(*comm);
  ExitCode code = ExitCode::internal;
  try {
    return body(*comm);
  } catch (const Error& e) {
    // A mistake in the recipe or the data meets every rank; rank 0 tells it, and ends the others before they say it again.
    if (comm->rank() != 0 && e.code() == ExitCode::user) std::this_thread::sleep_for(kRankZeroFirst);
    log_error("{}", e.what());
    code = e.code();
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    code = ExitCode::memory;
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
  // The deadlines of all who wait for a rank pass at about the same time: each of them says what it was in.
  if (code == ExitCode::distributed) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  comm->abort(static_cast<int>(code));
  return static_cast<int>(code);
}

}  // namespace dml
