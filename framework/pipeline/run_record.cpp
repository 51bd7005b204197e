#include "pipeline/run_record.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/version.h"
#include "diagnose/launch.h"
#include "dist/started_rank.h"
#include "pipeline/own_ranks.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kRecordFormat = 1;
constexpr std::size_t kMaxWords = 10'000;
// The user's directory, where dml resume has left it.
constexpr const char* kUserVariable = "DML_CALLED_IN";

bool user_is_elsewhere() {
  const char* directory = std::getenv(kUserVariable);
  std::error_code error;
  return directory && !fs::equivalent(directory, fs::current_path(error), error);
}

std::vector<std::string> command_line(const std::string& process) {
  std::ifstream file("/proc/" + process + "/cmdline");  // /proc files have no size
  std::vector<std::string> words;
  for (std::string word; words.size() < kMaxWords && std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// The words before this program in the command line of the parent mpirun; empty where the parent is not mpirun, or
// other programs stand between (a shell, several programs).
std::vector<std::string> mpirun_options() {
  std::vector<std::string> theirs = command_line(std::to_string(getppid())), ours = command_line("self");
  if (theirs.empty() || theirs.size() <= ours.size()) return {};
  const std::string name = fs::path(theirs[0]).filename().string();
  if (!name.starts_with("mpirun") && !name.starts_with("mpiexec") && name != "orterun" && name != "prterun") return {};
  if (!std::equal(ours.rbegin(), ours.rend(), theirs.rbegin())) return {};
  theirs.resize(theirs.size() - ours.size());
  if (std::ranges::find(theirs, ":") != theirs.end()) return {};
  return theirs;
}

std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::vector<std::string> words_of(const Json& json, const char* key, const std::string& source) {
  std::vector<std::string> words;
  auto it = json.find(key);
  if (it == json.end()) return words;
  if (!it->is_array() || it->size() > kMaxWords) throw UserError("{}: '{}' must be a list of strings", source, key);
  for (const Json& word : *it) {
    if (!word.is_string()) throw UserError("{}: '{}' must be a list of strings", source, key);
    words.push_back(word.get<std::string>());
  }
  return words;
}

}  // namespace

RunRecord current_run(const RecipeFile& recipe, const std::vector<Override>& overrides, const Comm& comm) {
  RunRecord r;
  r.version = version();
  r.started = now_in_utc();
  r.host = comm.host();
  std::error_code error;
  r.directory = fs::current_path(error).string();
  r.recipe = recipe.path;
  r.output_dir = recipe.recipe.train.output_dir;
  r.ranks = comm.size();
  r.own_ranks = layout_from_parent().has_value();
  if (is_started_rank() && !r.own_ranks) {
    if (const char* text = std::getenv(kLaunchVariable)) {
      Json words = parse_json(text, kLaunchVariable);
      r.launch = words_of(Json{{"launch", words}}, "launch", kLaunchVariable);
      if (r.launch.empty()) r.launch = {"-n", std::to_string(r.ranks)};
    } else {
      r.mpirun = mpirun_options();
    }
  }
  const bool threads_by_launch = std::ranges::find(r.launch, "--threads") != r.launch.end();
  for (const Override& o : overrides) {
    if (o.key == "threads" && threads_by_launch) continue;
    const std::string word = "--" + o.key + "=";
    std::erase_if(r.overrides, [&](const std::string& earlier) { return earlier.starts_with(word); });
    r.overrides.push_back(word + o.value);
  }
  return r;
}

void write_run_record(const std::string& output_dir, const RunRecord& r) {
  Json j{{"format", kRecordFormat},  {"version", r.version}, {"started", r.started},       {"host", r.host},
         {"directory", r.directory}, {"recipe", r.recipe},   {"output_dir", r.output_dir}, {"overrides", r.overrides},
         {"ranks", r.ranks},         {"launch", r.launch},   {"mpirun", r.mpirun},         {"own_ranks", r.own_ranks},
         {"steps", r.steps}};
  write_file(output_dir + "/run.json", j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

RunRecord read_run_record(const std::string& output_dir) {
  require_directory(output_dir);
  const std::string path = output_dir + "/run.json";
  if (!file_exists(path)) {
    const std::string resolved = output_dir + "/recipe.resolved.yml";
    if (file_exists(resolved))
      throw UserError("{}: the run was made by an earlier version (no run.json); resume it with: {}", output_dir,
                      shell_text({program_name(), "train", resolved, "--resume", "auto"}));
    throw UserError("{}: holds no run (no run.json); expected the output_dir of a training run", output_dir);
  }
  const Json j = read_json(path, {.bytes = 1 << 20});
  if (!j.is_object()) throw UserError("{}: expected an object", path);
  if (const std::int64_t format = json_integer(j, "format", 0, path); format != kRecordFormat)
    throw UserError("{}: format {}, expected {}; was it written by a newer dml?", path, format, kRecordFormat);
  RunRecord r;
  r.version = json_string(j, "version", "", path);
  r.started = json_string(j, "started", "", path);
  r.host = json_string(j, "host", "", path);
  r.directory = json_string(j, "directory", "", path);
  r.recipe = json_string(j, "recipe", "", path);
  r.output_dir = json_string(j, "output_dir", "", path);
  r.overrides = words_of(j, "overrides", path);
  r.ranks = static_cast<int>(std::clamp<std::int64_t>(json_integer(j, "ranks", 1, path), 1, 1 << 20));
  r.launch = words_of(j, "launch", path);
  r.mpirun = words_of(j, "mpirun", path);
  r.own_ranks = json_bool(j, "own_ranks", false, path);
  r.steps = std::max<std::int64_t>(0, json_integer(j, "steps", 0, path));
  if (r.recipe.empty()) throw UserError("{}: no 'recipe'", path);
  return r;
}

std::vector<std::string> train_arguments(const RunRecord& r, const std::string& resume) {
  std::vector<std::string> words{"train", r.recipe};
  for (const std::string& o : r.overrides) {
    const std::size_t equals = o.find('=');
    const bool apart = equals != o.npos && equals + 1 < o.size() && o[equals + 1] != '-';  // "--key value" reads better
    words.push_back(apart ? o.substr(0, equals) : o);
    if (apart) words.push_back(o.substr(equals + 1));
  }
  if (!resume.empty()) words.insert(words.end(), {"--resume", resume});
  return words;
}

std::string train_command(const RunRecord& r, const std::string& resume, const std::string& program) {
  std::vector<std::string> words = r.mpirun;
  words.push_back(program);
  if (!r.launch.empty()) {
    words.push_back("launch");
    words.insert(words.end(), r.launch.begin(), r.launch.end());
  }
  std::vector<std::string> train = train_arguments(r, resume);
  words.insert(words.end(), train.begin(), train.end());
  return shell_text(words);
}

void enter_directory_of(const RunRecord& record) {
  std::error_code error;
  const fs::path before = fs::current_path(error);
  fs::current_path(record.directory, error);
  if (error)
    log_warning("{}: the directory in which the run was started is gone: relative paths now start in {}",
                record.directory, before.string());
  else if (before != fs::current_path(error)) setenv(kUserVariable, before.c_str(), 1);  // also for ranks
}

std::string path_for_user(const std::string& path) {
  std::error_code error;
  return user_is_elsewhere() ? fs::absolute(path, error).lexically_normal().string() : path;
}

std::string command_for_user(const RunRecord& r, const std::string& resume, const std::string& program) {
  const std::string command = train_command(r, resume, program);
  return user_is_elsewhere() ? fmt::format("cd {} && {}", shell_text({r.directory}), command) : command;
}

std::string program_name() {
  const std::vector<std::string> words = command_line("self");
  if (words.empty() || words[0].empty()) return "dml";
  // The program by its name where the shell finds the same one; dml launch gives the whole path.
  const fs::path given(words[0]);
  std::error_code error;
  if (const char* path = std::getenv("PATH"); path && given.has_parent_path())
    for (std::string_view rest = path; !rest.empty();) {
      const std::string folder(rest.substr(0, rest.find(':')));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      if (!folder.empty() && fs::equivalent(fs::path(folder) / given.filename(), given, error) && !error)
        return given.filename().string();
    }
  return words[0];
}

void export_launch_options(const std::vector<std::string>& options) {
  setenv(kLaunchVariable, Json(options).dump(-1, ' ', true, Json::error_handler_t::replace).c_str(), 1);
}

}  // namespace dml
