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
  auto end_all = [&](ExitCode code, const char* text) -> int {
    log_error("{}", text);
    comm->abort(static_cast<int>(code));
  };
  try {
    return body(*comm);
  } catch (const Error& e) {
    return end_all(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return end_all(ExitCode::memory, "out of memory");
  } catch (const std::exception& e) {
    return end_all(ExitCode::internal, e.what());
  }
}

}  // namespace dml
