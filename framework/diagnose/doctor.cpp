#include "diagnose/doctor.h"

#include <langinfo.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "assembly/job.h"
#include "assembly/memory_plan.h"
#include "assembly/model_location.h"
#include "core/affinity.h"
#include "core/directory.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "core/memory_limits.h"
#include "core/size_text.h"
#include "core/topology.h"
#include "core/utf8.h"
#include "core/version.h"
#include "diagnose/launch.h"
#include "diagnose/rank_checks.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using Verdict = Finding::Verdict;
constexpr std::uint64_t kGigabyte = std::uint64_t{1} << 30;

/// First "NAME : value" of a /proc file.
std::string proc_value(const char* path, std::string_view name) {
  std::ifstream file(path);  // /proc files have no size
  for (std::string line; std::getline(file, line);) {
    auto colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos) continue;
    auto first = line.find_first_not_of(" \t", colon + 1);
    return first == line.npos ? "" : line.substr(first);
  }
  return "";
}

struct Space {
  std::uint64_t free = 0, total = 0;
};
Space space_of(const std::string& path) {
  struct statvfs info;
  if (statvfs(nearest_existing(path).c_str(), &info) != 0) return {};
  return {std::uint64_t{info.f_bavail} * info.f_frsize, std::uint64_t{info.f_blocks} * info.f_frsize};
}

Finding space_finding(std::string name, const std::string& path, std::uint64_t enough, std::string advice) {
  Space space = space_of(path);
  std::string value = fmt::format("{}: {} free of {}", path, size_text(space.free), size_text(space.total));
  return {space.free < enough ? Verdict::note : Verdict::fine, std::move(name), std::move(value),
          space.free < enough ? std::move(advice) : ""};
}

bool can_write(const std::string& folder) {
  const std::string place = nearest_existing(folder);
  std::error_code error;
  return fs::is_directory(place, error) && access(place.c_str(), W_OK) == 0;
}

void examine_processor(std::vector<Finding>& out, bool measure) {
  std::string model = proc_value("/proc/cpuinfo", "model name");
  out.push_back({Verdict::fine, "processor", model.empty() ? "unknown" : model, ""});
  std::string isa = kernels::isa_name();
  out.push_back({isa == "portable" ? Verdict::note : Verdict::fine, "inner loops", isa,
                 isa == "portable" ? "no AVX2: expect about a tenth of the usual speed" : ""});
  out.push_back(
      {Verdict::fine, "bf16",
       kernels::has_fast_bf16() ? "yes: bf16: auto multiplies in bfloat16" : "no: bf16: auto stays in float32", ""});
  int usable = available_processors();
  auto online = static_cast<int>(std::thread::hardware_concurrency());
  long all = sysconf(_SC_NPROCESSORS_ONLN);
  online = std::max(online, static_cast<int>(all));
  out.push_back({usable < online ? Verdict::note : Verdict::fine, "processors",
                 fmt::format("{} of {} usable ({})", usable, online, affinity_text()),
                 usable < online ? "bound by mpirun, taskset or a container" : ""});
  out.push_back({Verdict::fine, "topology", this_topology().text(), ""});
  std::string blas = kernels::blas_description();
  bool slow = blas.find("Prescott") != blas.npos || blas.ends_with(" Core2") || blas.find("Nehalem") != blas.npos;
  out.push_back({slow && isa != "portable" ? Verdict::note : Verdict::fine, "OpenBLAS", blas,
                 slow && isa != "portable" ? "kernels without AVX; set OPENBLAS_CORETYPE=Haswell or SkylakeX" : ""});
  if (measure)
    out.push_back(
        {Verdict::fine, "sgemm", fmt::format("{:.0f} GFLOP/s on one core", kernels::measured_sgemm_rate() / 1e9), ""});
}

void examine_memory(std::vector<Finding>& out) {
  std::size_t available = available_memory(),
              kilobytes = std::strtoull(proc_value("/proc/meminfo", "MemTotal").c_str(), nullptr, 10);
  bool low = available > 0 && available < 2 * kGigabyte;
  out.push_back({low ? Verdict::note : Verdict::fine, "memory",
                 fmt::format("{} available of {}", size_text(available), size_text(kilobytes * 1024)),
                 low ? "low; dml plan RECIPE shows what a run needs" : ""});
}

void examine_mpi(std::vector<Finding>& out) {
  std::string slurm = environment("SLURM_JOB_ID");
  std::string how = !environment("OMPI_COMM_WORLD_SIZE").empty() ? "Open MPI's mpirun"
                    : !environment("PMIX_RANK").empty()          ? "PMIx (srun --mpi=pmix)"
                                                                 : "none: one rank";
  out.push_back({Verdict::fine, "started by", slurm.empty() ? how : fmt::format("{}, Slurm job {}", how, slurm), ""});
  const bool seen = can_run("mpirun");
  out.push_back({seen ? Verdict::fine : Verdict::note, "mpirun", seen ? "on PATH" : "not on PATH",
                 seen ? "" : "for more than one rank: install Open MPI (openmpi-bin)"});
  if (geteuid() == 0 && environment("OMPI_ALLOW_RUN_AS_ROOT").empty())
    out.push_back({Verdict::note, "user", "root",
                   "mpirun refuses root; dml launch adds --allow-run-as-root, or export OMPI_ALLOW_RUN_AS_ROOT=1 and "
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  out.push_back(space_finding("shared memory", "/dev/shm", std::uint64_t{64} << 20,
                              "ranks of one host exchange data through it; in a container: --shm-size=1g"));
}

void examine_surroundings(std::vector<Finding>& out, const Recipe* recipe) {
  std::setlocale(LC_CTYPE, "");
  std::string codeset = nl_langinfo(CODESET);
  std::setlocale(LC_CTYPE, "C");
  out.push_back({codeset == "UTF-8" ? Verdict::fine : Verdict::note, "locale", codeset,
                 codeset == "UTF-8"
                     ? ""
                     : "a terminal may show … and × incorrectly; set LANG=C.UTF-8. Data is read as UTF-8 in any case"});
  std::string temporary = environment("TMPDIR").empty() ? "/tmp" : environment("TMPDIR");
  Finding tmp =
      space_finding("temporary files", temporary, std::uint64_t{64} << 20, "Open MPI keeps its session files there");
  // Socket names in there are limited to 108 characters.
  if (temporary.size() > 60)
    tmp.verdict = Verdict::note,
    tmp.advice = "the path is long, which makes Open MPI's socket names too long; use /tmp";
  out.push_back(tmp);
  if (!recipe) return;
  const std::string& output = recipe->train.output_dir;
  out.push_back(space_finding("output_dir", output, kGigabyte, "checkpoints need room"));
  if (!can_write(output)) out.back().verdict = Verdict::bad, out.back().advice = "cannot be written";
  out.push_back(
      space_finding("prepared data", recipe->data.dataset_prepared_path, kGigabyte, "prepared data need room"));
  if (!can_write(recipe->data.dataset_prepared_path))
    out.back().verdict = Verdict::bad, out.back().advice = "cannot be written";
  if (!recipe->model.base_model.empty() && !file_exists(model_directory(recipe->model.base_model) + "/config.json"))
    out.push_back({Verdict::bad, "base_model", recipe->model.base_model,
                   "no model on this host; every host needs the model under the same path"});
  if (recipe->train.threads && *recipe->train.threads > available_processors())
    out.push_back({Verdict::bad, "threads",
                   fmt::format("{} on {} usable", *recipe->train.threads, available_processors()),
                   "reduce threads, or start with dml launch (plain mpirun binds each rank to one core)"});
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths.resize(std::max(widths.size(), c + 1));
      widths[c] = std::max(widths[c], count_characters(row[c]));
    }
  std::string text;
  for (auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += row[c];
      if (c + 1 < row.size()) text.append(widths[c] - count_characters(row[c]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string processor_description() {
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  const int cores = available_cores();
  return fmt::format("{}, {} {}, {}", model.empty() ? "unknown processor" : model, cores, cores == 1 ? "core" : "cores",
                     kernels::isa_name());
}

bool Diagnosis::healthy() const {
  return std::ranges::none_of(findings, [](const Finding& f) { return f.verdict == Verdict::bad; });
}

std::string Diagnosis::text() const {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& f : findings) {
    const char* mark = f.verdict == Verdict::fine ? "ok" : f.verdict == Verdict::note ? "note" : "BAD";
    rows.push_back({mark, f.name, f.advice.empty() ? f.value : fmt::format("{} ({})", f.value, f.advice)});
  }
  std::string text = table_text(rows);
  for (auto* table : {&ranks, &links})
    if (!table->empty()) text += "\n" + table_text(*table);
  return text;
}

Diagnosis examine(Comm& comm, const Recipe* recipe) {
  Diagnosis mine;
  mine.findings.push_back({Verdict::fine, "dml", fmt::format("{} ({})", version(), build_description()), ""});
  examine_processor(mine.findings, comm.local_rank() == 0);
  const RankThreads threads = threads_of_rank(recipe ? recipe->train : TrainSection(), comm);
  mine.findings.push_back(
      {Verdict::fine, "placement",
       fmt::format("{} {}: {}", threads.count, threads.count == 1 ? "thread" : "threads", threads.placement.text), ""});
  examine_memory(mine.findings);
  examine_mpi(mine.findings);
  examine_surroundings(mine.findings, recipe);

  if (comm.size() == 1) return mine;
  // Rank 0's findings, and problems of the other ranks.
  std::string complaints;
  if (comm.rank() != 0)
    for (const Finding& f : mine.findings)
      if (f.verdict == Verdict::bad)
        complaints += fmt::format("rank {} on {}: {}: {} ({})\n", comm.rank(), comm.host(), f.name, f.value, f.advice);
  for (const std::string& other : comm.all_gather(complaints))
    for (const Line line : Lines(other))
      mine.findings.push_back({Verdict::bad, "another rank", std::string(line.text), ""});
  examine_ranks(comm, mine);
  const bool bad = comm.any(!mine.healthy());
  if (bad && mine.healthy()) mine.findings.push_back({Verdict::bad, "other ranks", "see rank 0", ""});
  return mine;
}

}  // namespace dml
