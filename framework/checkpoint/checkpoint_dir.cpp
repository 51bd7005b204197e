#include "checkpoint/checkpoint_dir.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "core/hash.h"
#include "core/left_over.h"
#include "core/log.h"
#include "core/shown.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kManifestFormat = 1;
constexpr const char* kBestCheckpoint = "best_checkpoint";  // in the state: a path
constexpr JsonLimits kManifestLimits{std::size_t{4} << 20, 16, 65536, 1u << 20};

/// The number that `digits` is, in the form in which we write it; −1 otherwise.
std::int64_t number_of(std::string_view digits) {
  std::int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() && std::to_string(n) == digits ? n : -1;
}

bool is_plain_name(const std::string& name) {
  fs::path p(name);
  if (name.empty() || name.find('\0') != std::string::npos || p.is_absolute()) return false;
  return std::ranges::none_of(p, [](auto& part) { return part == ".." || part == "." || part.empty(); });
}

/// Why a file differs from its manifest row; "" if it does not.
std::string file_problem(const std::string& directory, const std::string& name, const Json& row, Compare what) {
  const std::string named = shown(name, 120);
  if (!is_plain_name(name))
    return fmt::format("the manifest names '{}', which is not a file inside the directory", named);
  bool good = row.is_object() && row.contains("size") && row["size"].is_number_unsigned() && row.contains("xxh3") &&
              row["xxh3"].is_string() && row["xxh3"].get_ref<const std::string&>().size() == 32;
  if (!good) return fmt::format("manifest: '{}' needs a size and an xxh3 digest of 32 hex digits", named);
  std::string path = path_in(directory, name);
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return fmt::format("'{}' is missing", named);
  auto size = fs::file_size(path, error);
  if (error || size != row["size"].get<std::uint64_t>())
    return fmt::format("'{}' has {} bytes, expected {}", named, error ? 0 : size, row["size"].get<std::uint64_t>());
  if (what == Compare::contents && digest_of_file(path) != row["xxh3"].get_ref<const std::string&>())
    return fmt::format("the contents of '{}' are damaged", named);
  return "";
}

std::string check_manifest(const std::string& directory, const Json& json, Compare what) {
  if (!json.is_object()) return "the manifest is not an object";
  std::int64_t format = json_integer(json, "format", -1, "manifest");
  if (format > kManifestFormat)
    return fmt::format("written in format {} by a newer dml, this one reads up to {}; upgrade dml", format,
                       kManifestFormat);
  if (format != kManifestFormat) return "the manifest has no known 'format'";
  auto files = json.find("files");
  if (files == json.end() || !files->is_object() || files->empty()) return "the manifest lists no files";
  for (auto& [name, row] : files->items())
    if (auto problem = file_problem(directory, name, row, what); !problem.empty()) return problem;
  return "";
}

/// Returns why a checkpoint cannot be removed; "" if it was.
std::string removal_problem(const std::string& path) {
  const std::string unlisted = temporary_name(path);
  std::error_code error;
  fs::rename(path, unlisted, error);
  if (!error) fs::remove_all(unlisted, error);
  return error ? fmt::format("{}: cannot be removed: {}", path, error.message()) : "";
}

}  // namespace

std::string checkpoint_path(const std::string& output_dir, std::int64_t step) {
  return path_in(output_dir, fmt::format("{}{}", kCheckpointPrefix, step));
}

std::string run_folder_of(const std::string& checkpoint) {
  fs::path path(checkpoint);
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

std::string best_checkpoint_of(const TrainState& state, const std::string& output_dir) {
  const std::string own = checkpoint_path(output_dir, state.best_step),
                    elsewhere = json_string(state.extra, kBestCheckpoint, "", "dml_state.json");
  // A later evaluation may have been better.
  return fs::path(elsewhere).filename() == fs::path(own).filename() ? elsewhere : own;
}

void remember_best_checkpoint(TrainState& state, const std::string& checkpoint, const std::string& output_dir) {
  const std::string before = run_folder_of(checkpoint), known = best_checkpoint_of(state, before);
  state.extra.erase(kBestCheckpoint);
  if (state.best_step < 0) return;
  // The folder of an earlier run may have been moved with all its checkpoints.
  const std::string beside = checkpoint_path(before, state.best_step),
                    best = manifest_problem(known, Compare::sizes).empty() ? known : beside;
  if (real_path(run_folder_of(best)) != real_path(output_dir))
    state.extra[kBestCheckpoint] = fs::absolute(best).lexically_normal().string();
}

CheckpointWriter::CheckpointWriter(std::string output_dir, std::int64_t step)
    : output_dir_(std::move(output_dir)), step_(step), folder_(checkpoint_path(output_dir_, step), true) {}

std::string CheckpointWriter::commit(const TrainState& state, const TrainerState& trainer) {
  DML_CHECK(state.step == step_, "state of step {} in the checkpoint of step {}", state.step, step_);
  const std::string text = train_state_text(state);
  // What observers of plug-ins keep has no limit of its own, so the state is read before it is written.
  const std::string source = path_in(checkpoint_path(output_dir_, step_), "dml_state.json");
  read_train_state(parse_json(text, source, kTrainStateLimits), source);
  write_file(path_in(path(), "dml_state.json"), text);
  write_file(path_in(path(), "trainer_state.json"), trainer_state_text(trainer));
  write_manifest(path(), {{"step", state.step},
                          {"recipe", state.recipe},
                          {"data", state.data},
                          {"base", state.base},
                          {"numerics", state.numerics}});
  folder_.commit();
  std::string name = fmt::format("{}{}", kCheckpointPrefix, step_);
  write_file(path_in(output_dir_, "latest"), name + "\n");
  if (state.best_step == state.step) write_file(path_in(output_dir_, "best"), name + "\n");
  return path_in(output_dir_, name);
}

void write_manifest(const std::string& directory, const Json& facts) {
  Json j;
  j["format"] = kManifestFormat;
  for (auto& [key, value] : facts.items()) j[key] = value;
  std::vector<std::string> names;
  for (auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), directory).string());
  std::ranges::sort(names);
  j["files"] = Json::object();
  for (auto& name : names) {
    if (name == "manifest.json") continue;
    std::string path = path_in(directory, name);
    j["files"][name] = {{"size", static_cast<std::uint64_t>(fs::file_size(path))}, {"xxh3", digest_of_file(path)}};
  }
  write_file(path_in(directory, "manifest.json"), j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string manifest_problem(const std::string& directory, Compare what) {
  std::string path = path_in(directory, "manifest.json");
  if (const std::string why = path_problem(path); !why.empty())
    return missing_path(path) ? "manifest.json is missing" : "manifest.json cannot be opened: " + why;
  try {
    return check_manifest(directory, read_json(path, kManifestLimits), what);
  } catch (const UserError& e) {
    return e.what();
  }
}

std::vector<Checkpoint> list_checkpoints(const std::string& output_dir) {
  std::vector<Checkpoint> out;
  std::error_code error;
  for (fs::directory_iterator it(output_dir, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with(kCheckpointPrefix) || it->symlink_status(error).type() != fs::file_type::directory) continue;
    std::int64_t step = number_of(std::string_view(name).substr(kCheckpointPrefix.size()));
    if (step >= 0) out.push_back({it->path().string(), step});
  }
  std::ranges::sort(out, std::greater<>(), &Checkpoint::step);
  return out;
}

std::string checkpoint_problem(const Checkpoint& c, Compare what) {
  if (std::string problem = manifest_problem(c.path, what); !problem.empty()) return problem;
  try {
    return load_train_state(c.path).step == c.step ? "" : "its state is that of another step";
  } catch (const UserError& e) {
    return e.what();
  }
}

FoundCheckpoint find_checkpoint(const std::string& output_dir) {
  FoundCheckpoint found;
  for (auto& c : list_checkpoints(output_dir)) {
    const std::string problem = checkpoint_problem(c);
    if (problem.empty()) {
      found.newest = c;
      return found;
    }
    found.skipped.push_back(fmt::format("{}: {}", c.path, problem));
  }
  return found;
}

TrainState load_train_state(const std::string& checkpoint) {
  if (auto problem = manifest_problem(checkpoint, Compare::sizes); !problem.empty())
    throw UserError("{}: not a complete checkpoint: {}", checkpoint, problem);
  std::string path = path_in(checkpoint, "dml_state.json");
  return read_train_state(read_json(path, kTrainStateLimits), path);
}

void remove_checkpoint(const Checkpoint& checkpoint) {
  if (const std::string problem = removal_problem(checkpoint.path); !problem.empty()) throw IoError(problem);
  std::string output_dir = fs::path(checkpoint.path).parent_path().string(),
              name = fs::path(checkpoint.path).filename().string();
  std::error_code error;
  for (const char* hint : {"latest", "best"}) {
    std::string path = path_in(output_dir, hint);
    if (file_exists(path) && read_file(path, 4096) == name + "\n") fs::remove(path, error);
  }
  if (auto found = find_checkpoint(output_dir); found.newest && !file_exists(path_in(output_dir, "latest")))
    write_file(path_in(output_dir, "latest"), fs::path(found.newest->path).filename().string() + "\n");
}

void rotate_checkpoints(const std::string& output_dir, std::int64_t limit, std::int64_t best_step) {
  remove_left_over(output_dir);
  if (limit <= 0) return;

  std::vector<Checkpoint> valid;
  for (auto& c : list_checkpoints(output_dir))
    if (manifest_problem(c.path, Compare::sizes).empty()) valid.push_back(c);
  bool have_best = std::ranges::find(valid, best_step, &Checkpoint::step) != valid.end();
  std::int64_t places = limit - (have_best ? 1 : 0);  // number of checkpoints to keep besides the best
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i].step == best_step) continue;
    if (i > 0 && places <= 0) {
      if (const std::string problem = removal_problem(valid[i].path); !problem.empty()) log_warning("{}", problem);
    } else {
      --places;
    }
  }
}

}  // namespace dml
