#include "diagnose/slurm.h"

#include <filesystem>

#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/regex.h"
#include "core/text.h"

namespace dml {
namespace {

constexpr std::int64_t kMaxNodes = 1 << 16;
constexpr int kSecondsToSave = 120;  // before the time is up

bool is_time(const std::string& text) {
  static const Regex pattern("(?:[0-9]+|[0-9]+:[0-9]{2}|[0-9]+:[0-9]{2}:[0-9]{2}|[0-9]+-[0-9]{1,2}(?::[0-9]{2}){0,2})",
                             "time");
  return pattern.matches(text);
}

void check(const SlurmRequest& slurm, const LaunchRequest& request) {
  Problems problems;
  const auto count = [&](const char* option, std::int64_t value) {
    if (value < 1 || value > kMaxNodes)
      problems.add(fmt::format("launch: {} {}: expected 1 to {}", option, value, kMaxNodes));
  };
  count("--nodes", slurm.nodes);
  count("--ranks-per-node", slurm.ranks_per_node);
  if (request.threads) count("--threads", *request.threads);
  if (slurm.time && !is_time(*slurm.time))
    problems.add(fmt::format("launch: --time {}: expected minutes, HH:MM:SS or DAYS-HH:MM:SS", *slurm.time));
  if (request.ranks) problems.add("launch: -n does not work with --submit; give --nodes and --ranks-per-node");
  if (request.hostfile) problems.add("launch: --hostfile does not work with --submit; Slurm chooses the hosts");
  for (const auto& word : {slurm.partition, slurm.account})
    if (word && (word->empty() || word->find_first_of(" \t\n\r") != word->npos))
      problems.add(fmt::format("launch: '{}' is not a name of a partition or account", *word));
  if (request.command.empty())
    problems.add("launch needs a command to start, as in: dml launch --submit slurm train recipe.yml");
  problems.raise();
}

struct ResumePoint {
  std::size_t at;     // the word that names it for the first start
  std::string later;  // for the starts of a job that was requeued
};

// What a training resumes from; its words get --resume. Unset where the words name the same for every start.
std::optional<ResumePoint> resume_point(std::vector<std::string>& words) {
  if (words[1] == "train") {
    const std::string given = take_resume(words).value_or("auto");
    words.insert(words.end(), {"--resume", given});
    if (given != "auto") return ResumePoint{words.size() - 1, "auto"};
    return std::nullopt;
  }
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::filesystem::path path(words[i]);
    const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
    if (name.string().starts_with(kCheckpointPrefix)) return ResumePoint{i, run_folder_of(words[i])};
  }
  return std::nullopt;
}

}  // namespace

std::string slurm_name(const LaunchRequest& request) {
  std::string name = request.command.empty() ? "dml" : request.command[0];
  if (request.command.size() > 1) name += "-" + std::filesystem::path(request.command[1]).stem().string();
  return safe_file_name(std::move(name));
}

std::string slurm_script(const SlurmRequest& slurm, const LaunchRequest& request, const LaunchHost& host) {
  check(slurm, request);
  const bool trains = is_training(request.command);
  const std::string name = slurm_name(request);
  std::string out = "#!/bin/bash\n";
  const auto option = [&](const std::string& text) { out += "#SBATCH --" + text + "\n"; };
  option("job-name=" + name);
  option(fmt::format("nodes={}", slurm.nodes));
  option(fmt::format("ntasks-per-node={}", slurm.ranks_per_node));
  if (request.threads) option(fmt::format("cpus-per-task={}", *request.threads));
  else option("exclusive");
  if (slurm.time) option("time=" + *slurm.time);
  if (slurm.partition) option("partition=" + *slurm.partition);
  if (slurm.account) option("account=" + *slurm.account);
  option(fmt::format("output={}-%j.log", name));
  option("open-mode=append");
  if (trains) {
    option("requeue");
    option(fmt::format("signal=USR2@{}", kSecondsToSave));
  }

  std::vector<std::string> words{host.program};
  words.insert(words.end(), request.command.begin(), request.command.end());
  const auto resume = trains ? resume_point(words) : std::nullopt;
  out += request.threads ? fmt::format("\nthreads={}\n", *request.threads)
                         : fmt::format("\nthreads=$((SLURM_CPUS_ON_NODE / {} > 0 ? SLURM_CPUS_ON_NODE / {} : 1))\n",
                                       slurm.ranks_per_node, slurm.ranks_per_node);
  std::string command = shell_text(words);
  if (resume) {
    const auto word = words.begin() + static_cast<std::ptrdiff_t>(resume->at);
    out += fmt::format("resume={}  # of the first start\n[ \"${{SLURM_RESTART_COUNT:-0}}\" -gt 0 ] && resume={}\n",
                       shell_text({*word}), shell_text({resume->later}));
    command = shell_text({words.begin(), word}) + " \"$resume\"";
    if (word + 1 != words.end()) command += " " + shell_text({word + 1, words.end()});
  }
  out += fmt::format(
      "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=\"$threads\" --cpu-bind=cores \\\n  {} --threads "
      "\"$threads\"\n",
      command);
  if (!trains) return out;
  out += fmt::format(
      "code=$?\n\n"
      "# {}: saved and stopped, {} seconds before the time was up. The job goes back to the queue and resumes from "
      "that checkpoint.\n"
      "# A job that makes room for another is requeued by Slurm itself, which counts as a restart.\n"
      "restarts=$(scontrol show job \"$SLURM_JOB_ID\" | sed -n 's/.*Restarts=\\([0-9]*\\).*/\\1/p')\n"
      "if [ $code -eq {} ] && [ \"$restarts\" = \"${{SLURM_RESTART_COUNT:-0}}\" ]; then\n"
      "  scontrol requeue \"$SLURM_JOB_ID\"\nfi\nexit $code\n",
      static_cast<int>(ExitCode::stopped), kSecondsToSave, static_cast<int>(ExitCode::stopped));
  return out;
}

}  // namespace dml
