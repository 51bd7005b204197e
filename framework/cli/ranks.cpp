#include "cli/ranks.h"

#include <exception>
#include <new>

#include "core/error.h"
#include "core/log.h"

namespace dml {

int run_on_ranks(const std::function<int(Comm&)>& body) {
  auto comm = make_comm();
  set_log_rank(comm->rank());
  if (comm->size() == 1) return body(*comm);
  ExitCode code = ExitCode::internal;
  try {
    return body(*comm);
  } catch (const Error& e) {
    log_error("{}", e.what());
    code = e.code();
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    code = ExitCode::memory;
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
  comm->abort(static_cast<int>(code));
  return static_cast<int>(code);
}

}  // namespace dml
