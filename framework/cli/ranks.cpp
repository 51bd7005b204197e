#include "cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "dist/started_rank.h"

namespace dml {
namespace {

// Most errors occur on every rank: a mistake on the command line, in the recipe or the data, ranks that disagree, a
// loss that is not finite. Rank 0 then reports the error and terminates the other ranks while they wait here. An error
// that rank 0 does not have is reported by the first rank that has it.
constexpr std::chrono::milliseconds kRankZeroFirst{3000}, kThenOneByOne{200};

void let_others_report_first() {
  const int rank = started_rank().rank;
  if (rank > 0) std::this_thread::sleep_for(kRankZeroFirst + std::min(rank - 1, 50) * kThenOneByOne);
}

}  // namespace

int report_failure() {
  const auto report = [](const std::string& text, ExitCode code) {
    log_error("{}", text);
    return static_cast<int>(code);
  };
  let_others_report_first();
  try {
    throw;
  } catch (const Error& e) {
    return report(e.what(), e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    return report(fmt::format("{}: {}", e.path1().string(), e.code().message()), ExitCode::io);
  } catch (const std::bad_alloc&) {
    return report("out of memory", ExitCode::memory);
  } catch (const std::exception& e) {
    return report(e.what(), ExitCode::internal);
  }
}

int run_on_ranks(const std::function<int(Comm&)>& body) {
  auto comm = make_comm();
  if (comm->size() == 1) return body(*comm);
  try {
    return body(*comm);
  } catch (const std::exception&) {
    const int code = report_failure();
    comm->abort(code);
    return code;
  }
}

}  // namespace dml
