#include "train/mlflow.h"

#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/lines.h"
#include "core/text.h"
#include "core/utf8.h"
#include "core/version.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestParameter = 6000;      // bytes; MLflow accepts as many characters
constexpr const char* kMarker = "/mlflow_run.json";  // names the run of this directory

std::int64_t milliseconds() {
  using namespace std::chrono;
  return duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
}

// Quotes the user's values in MLflow's meta.yaml.
std::string quoted(const std::string& text) { return dump(Json(text)); }

// Replaces characters that MLflow does not allow in a name (other than letters, digits, "_ - . space /") with "_".
std::string allowed_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("_-. /").find(c) == std::string_view::npos)
      c = '_';
  return name;
}

// As much of a parameter's value as MLflow accepts.
std::string parameter_text(const std::string& value) {
  std::string out = value.substr(0, kLongestParameter);
  if (out.size() < value.size()) out.resize(out.size() - incomplete_utf8_tail(out));
  return out;
}

std::string user_name() {
  const char* user = std::getenv("USER");
  return user ? user : "dml";
}

// The name in an experiment's meta.yaml. MLflow writes it plain or in single quotes, dml in double ones.
std::optional<std::string> name_in(const std::string& meta) {
  constexpr std::string_view kKey = "name: ";
  for (const Line line : Lines(meta)) {
    if (!line.text.starts_with(kKey)) continue;
    const std::string_view value = trim(line.text.substr(kKey.size()));
    if (value.size() > 1 && value.front() == '\'' && value.back() == '\'')
      return with_replaced(value.substr(1, value.size() - 2), "''", "'");
    if (!value.starts_with('"')) return std::string(value);
    try {
      return parse_json(value, "name").get<std::string>();
    } catch (const UserError&) {  // an escape that only YAML has
      return {};
    }
  }
  return {};
}

// The id of the experiment of this name, which is created where it does not exist.
std::string experiment_id(const std::string& root, const std::string& name) {
  if (fs::is_directory(root))
    for (auto& entry : fs::directory_iterator(root)) {
      const std::string meta = entry.path().string() + "/meta.yaml";
      if (entry.is_directory() && file_exists(meta) && name_in(read_file(meta)) == name)
        return entry.path().filename().string();
    }
  const std::string id = std::to_string(std::stoull(digest_of(name).substr(0, 15), nullptr, 16) % 1000000000000000000);
  make_directories(root + "/" + id);
  write_file(root + "/" + id + "/meta.yaml",
             fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
                         "lifecycle_stage: active\nname: {}\n",
                         quoted("file://" + fs::absolute(root + "/" + id).lexically_normal().string()), milliseconds(),
                         id, milliseconds(), quoted(name)));
  return id;
}

// Writes a file of one value, without fsync: there are hundreds.
void put(const std::string& path, const std::string& text) {
  AppendedFile file(path);
  file.truncate(0);
  file.append(text);
}

// The lines of a metric up to a step.
std::string lines_until(const std::string& text, std::int64_t step) {
  std::string out;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at + 1);
    if (std::atoll(line.c_str() + line.rfind(' ') + 1) <= step) out += line;
  }
  return out;
}

// MLflow refuses a run that has a metric without any value.
void shorten(const std::string& metric, std::int64_t last_step) {
  if (const std::string kept = lines_until(read_file(metric), last_step); !kept.empty()) write_file(metric, kept);
  else fs::remove(metric);
}

}  // namespace

MlflowRun::~MlflowRun() {
  if (ended_ || folder_.empty()) return;
  try {
    write_meta(Status::failed);
  } catch (...) {  // a destructor must not throw, and a disk error may be the reason for the end
  }
}

Action MlflowRun::on_start(const RunFacts& facts) {
  if (settings_.run_name.empty()) settings_.run_name = folder_name(facts.output_dir);
  experiment_id_ = experiment_id(settings_.root, settings_.experiment);
  started_ = milliseconds();
  const std::string marker = facts.output_dir + kMarker;
  if (!facts.resumed_from.empty() && file_exists(marker)) {
    const Json found = read_json(marker);
    run_id_ = json_string(found, "run_id", "", marker);
    started_ = json_integer(found, "start_time", started_, marker);
  }
  if (!is_hex(run_id_, 32))
    run_id_ =
        digest_of(fmt::format("{} {} {}", fs::absolute(facts.output_dir).string(), started_, getpid())).substr(0, 32);
  write_file(marker, dump(Json{{"run_id", run_id_}, {"start_time", started_}}) + "\n");
  folder_ = fmt::format("{}/{}/{}", settings_.root, experiment_id_, run_id_);
  for (const char* part : {"/metrics", "/params", "/tags", "/artifacts"}) make_directories(folder_ + part);
  std::vector<std::string> metrics;
  for (auto& entry : fs::recursive_directory_iterator(folder_ + "/metrics"))
    if (entry.is_regular_file()) metrics.push_back(entry.path().string());
  for (const std::string& metric : metrics) shorten(metric, facts.first_step);
  for (auto& [key, value] : facts.settings) put(folder_ + "/params/" + allowed_name(key), parameter_text(value));
  put(folder_ + "/tags/mlflow.runName", settings_.run_name);
  put(folder_ + "/tags/mlflow.user", user_name());
  put(folder_ + "/tags/mlflow.source.name", fmt::format("dml {}", version()));
  put(folder_ + "/tags/mlflow.source.type", "LOCAL");
  write_meta(Status::running);
  return {};
}

void MlflowRun::write_meta(Status status) const {
  const bool running = status == Status::running;
  write_file(folder_ + "/meta.yaml",
             fmt::format(
                 "artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: active\n"
                 "run_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\nsource_type: 4\nsource_version: ''\n"
                 "start_time: {}\nstatus: {}\ntags: []\nuser_id: {}\n",
                 quoted("file://" + fs::absolute(folder_ + "/artifacts").lexically_normal().string()),
                 running ? "null" : std::to_string(milliseconds()), experiment_id_, quoted(run_id_),
                 quoted(settings_.run_name), quoted(run_id_), started_, static_cast<int>(status), quoted(user_name())));
}

void MlflowRun::metric(const std::string& name, double value, std::int64_t step) {
  auto& file = files_[name];
  if (!file) {
    const std::string path = folder_ + "/metrics/" + allowed_name(name);
    make_directories(fs::path(path).parent_path().string());
    file = std::make_unique<AppendedFile>(path);
  }
  const std::string number = std::isnan(value)   ? "nan"
                             : std::isinf(value) ? (value > 0 ? "inf" : "-inf")
                                                 : fmt::format("{}", value);
  file->append(fmt::format("{} {} {}\n", milliseconds(), number, step));
}

Action MlflowRun::on_step(const StepMetrics& m) {
  for (const NamedValue& v : m.tracked()) metric(v.name, v.value, m.step);
  return {};
}

Action MlflowRun::on_eval(const EvalMetrics& m, const std::vector<SampleMetrics>& /*samples*/) {
  for (const NamedValue& v : m.values) metric(v.name, v.value, m.step);
  return {};
}

void MlflowRun::on_end(const RunEnd& end) {
  write_meta(end.reason == RunEnd::Reason::stopped ? Status::killed : Status::finished);
  ended_ = true;
}

}  // namespace dml
