#include "pipeline/output_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint_dir.h"
#include "core/clock.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/model_file_names.h"
#include "core/size_text.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEarlier = "earlier-";
constexpr std::size_t kManyRuns = 3;  // number of earlier runs from which their size is a warning

// What a run writes beside its result and its checkpoints.
constexpr std::array<std::string_view, 13> kRunRecords{
    "metrics.jsonl", "latest",        "best", "report.html", "recipe.yml", "recipe.resolved.yml", "run.json",
    "loss.svg",      "samples.jsonl", "runs", "wandb",       "mlruns",     "mlflow_run.json"};
// Files of a result, besides the weights and the tokenizer.
constexpr std::array<std::string_view, 9> kResultFiles{"README.md",
                                                       "LICENSE",
                                                       "adapter_config.json",
                                                       "config.json",
                                                       "generation_config.json",
                                                       "quantization_config.json",
                                                       "model.safetensors.index.json",
                                                       "relora.safetensors",
                                                       "Modelfile"};
bool is_weights(std::string_view name) {
  return (name.starts_with("model") || name.starts_with("adapter_model")) && name.ends_with(".safetensors");
}
bool is_checkpoint(std::string_view name) { return name.starts_with(kCheckpointPrefix); }
bool is_of_a_tokenizer(std::string_view name) {
  return name == kTemplateFolder || std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}
bool is_of_a_run(std::string_view name) {
  return is_checkpoint(name) || is_weights(name) || is_of_a_tokenizer(name) || is_record_of_a_run(name) ||
         std::ranges::find(kResultFiles, name) != kResultFiles.end();
}

// The number N of "earlier-N", 0 for any other name.
std::int64_t earlier_number(std::string_view name) {
  std::int64_t n = 0;
  if (!name.starts_with(kEarlier)) return 0;
  name.remove_prefix(kEarlier.size());
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
  return error == std::errc() && end == name.data() + name.size() && n > 0 ? n : 0;
}

std::uint64_t bytes_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(path, error))) return folder_bytes(path.string());
  const std::uint64_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

std::string names_text(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool holds(const std::string& folder, const std::string& path) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

}  // namespace

bool is_record_of_a_run(std::string_view name) { return std::ranges::find(kRunRecords, name) != kRunRecords.end(); }

std::uint64_t folder_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file(error)) bytes += it->file_size(error);
  return bytes;
}

OutputLock::OutputLock(const std::string& output_dir, const std::string& owner, double patience)
    : lock_(take(output_dir, patience)) {
  lock_.describe(owner + "\n");
  if (!lock_.held())
    log_debug("{}: this file system has no locks; make sure that no other run writes into it", output_dir);
}

FileLock OutputLock::take(const std::string& output_dir, double patience) {
  const std::string path = output_dir + "/.lock";
  const auto start = Clock::now();
  while (true) {
    if (auto lock = FileLock::try_for(path)) return std::move(*lock);
    if (seconds_since(start) < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    std::string owner;
    try {
      owner = read_file(path, 4096);
    } catch (const UserError&) {  // the lock was released meanwhile
    }
    while (!owner.empty() && owner.back() == '\n') owner.pop_back();
    throw UserError("output_dir: another run is writing into {}{}; wait until it ends, or choose another output_dir",
                    output_dir, owner.empty() ? "" : fmt::format(" ({})", owner));
  }
}

std::vector<EarlierRun> earlier_runs(const std::string& output_dir) {
  std::vector<EarlierRun> runs;
  std::error_code error;
  for (fs::directory_iterator it(output_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (earlier_number(name) == 0 || it->symlink_status(error).type() != fs::file_type::directory) continue;
    const std::string path = it->path().string();
    runs.push_back({name, path, folder_bytes(path), static_cast<std::int64_t>(list_checkpoints(path).size())});
  }
  std::ranges::sort(runs, {}, [](const EarlierRun& r) { return earlier_number(r.name); });
  return runs;
}

namespace {

std::string next_name(const std::vector<EarlierRun>& runs) {
  return fmt::format("{}{}", kEarlier, runs.empty() ? 1 : earlier_number(runs.back().name) + 1);
}

// Returns the number of bytes.
std::uint64_t move_into(const std::string& folder, const std::vector<fs::path>& paths) {
  make_directories(folder);
  std::uint64_t bytes = 0;
  for (const fs::path& path : paths) {
    bytes += bytes_of(path);
    std::error_code error;
    fs::rename(path, fs::path(folder) / path.filename(), error);
    if (error) throw IoError(fmt::format("{}: cannot be moved to {}: {}", path.string(), folder, error.message()));
  }
  return bytes;
}

}  // namespace

void archive_later_checkpoints(const std::string& output_dir, std::int64_t step) {
  std::vector<fs::path> later;
  for (const Checkpoint& c : list_checkpoints(output_dir))
    if (c.step > step && manifest_problem(c.path, Compare::sizes).empty()) later.emplace_back(c.path);
  if (later.empty()) return;
  const std::string aside = output_dir + "/" + next_name(earlier_runs(output_dir));
  move_into(aside, later);
  log_info("Moved checkpoints after step {} ({}) to {}: these steps are computed again", step, names_text(later),
           aside);
}

void archive_earlier_run(const std::string& output_dir, const std::vector<std::string>& inputs) {
  std::vector<fs::path> found;
  std::int64_t checkpoints = 0;
  bool result = false, steps = false;
  // A tokenizer that is read from this folder is not moved: it was there before the run.
  const bool tokenizer_stays =
      std::ranges::any_of(inputs, [&](const std::string& i) { return real_path(i) == real_path(output_dir); });
  for (auto& entry : fs::directory_iterator(output_dir)) {
    const std::string name = entry.path().filename().string();
    if (!is_of_a_run(name) || (tokenizer_stays && is_of_a_tokenizer(name))) continue;
    found.push_back(entry.path());
    checkpoints += is_checkpoint(name);
    result = result || is_weights(name);
    steps = steps || (name == "metrics.jsonl" && bytes_of(entry.path()) > 0);
  }
  // Neither a run nor anything else that the user may want back.
  if (checkpoints == 0 && !result && !steps && (found.empty() || file_exists(output_dir + "/run.json"))) return;
  for (const std::string& input : inputs)
    for (const fs::path& path : found)
      if (holds(real_path(path.string()), real_path(input)))
        throw UserError(
            "{}: training starts from this part of an earlier run, which would be moved; choose another output_dir",
            input);

  std::vector<EarlierRun> runs = earlier_runs(output_dir);
  const std::string name = next_name(runs), aside = output_dir + "/" + name;
  const std::uint64_t bytes = move_into(aside, found);
  std::vector<std::string> parts;
  if (checkpoints > 0) parts.push_back(fmt::format("{} checkpoint{}", checkpoints, checkpoints == 1 ? "" : "s"));
  if (result) parts.push_back("result");
  if (steps && parts.empty()) parts.push_back("metrics");
  if (!parts.empty())
    log_info(
        "Moved the earlier run ({}, {}) to {}; --resume auto would have continued it. To remove it: dml ckpt rm {} {}",
        fmt::join(parts, " and "), size_text(bytes), aside, output_dir, name);
  else log_info("Moved files of {} that the run would replace ({}) to {}", output_dir, names_text(found), aside);
  runs.push_back({name, aside, bytes, checkpoints});
  if (runs.size() < kManyRuns) return;
  std::uint64_t total = 0;
  for (const EarlierRun& r : runs) total += r.bytes;
  log_warning("{} holds {} earlier runs ({}). To remove them all: dml ckpt rm {} earlier", output_dir, runs.size(),
              size_text(total), output_dir);
}

void remove_earlier_runs(const std::string& output_dir, const std::string& name) {
  require_directory(output_dir);
  const std::vector<EarlierRun> runs = earlier_runs(output_dir);
  bool removed = false;
  for (const EarlierRun& r : runs) {
    if (name != r.name && name != "earlier") continue;
    std::error_code error;
    fs::remove_all(r.path, error);
    if (error) throw IoError(fmt::format("{}: cannot be removed: {}", r.path, error.message()));
    removed = true;
  }
  if (removed) return;
  std::vector<std::string> names;
  for (const EarlierRun& r : runs) names.push_back(r.name);
  throw UserError("{}: no {}{}", output_dir, name == "earlier" ? "earlier run" : name,
                  names.empty() ? "" : fmt::format("; there are {}", fmt::join(names, ", ")));
}

}  // namespace dml
