#include "train/wandb.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "core/clock.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/host_name.h"
#include "core/json.h"
#include "core/protobuf.h"
#include "core/version.h"
#include "train/crc32.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using namespace protobuf;

constexpr std::size_t kBlock = 32768, kHeader = 7;
// Fields of wandb_internal.Record.
constexpr int kNumber = 1, kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kVersion = 21;

std::string local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts)};
}

constexpr std::string_view kFolder = "offline-run-";  // then the date and time, "-" and the id

// The id of the last run in the folder `wandb`; "" if there is none.
std::string last_id(const std::string& wandb) {
  const std::size_t date = local_time().size();
  std::string last;
  if (fs::is_directory(wandb))
    for (auto& entry : fs::directory_iterator(wandb)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kFolder) && name.size() > kFolder.size() + date + 1) last = std::max(last, name);
    }
  return last.empty() ? "" : last.substr(kFolder.size() + date + 1);
}

// An item of a history row, a summary or a configuration: a key and its value as JSON.
std::string item(const std::string& key, const std::string& json) {
  constexpr int kKey = 1, kJson = 16;
  std::string out;
  add_bytes(out, kKey, key);
  add_bytes(out, kJson, json);
  return out;
}

// JSON has no number for what is not finite; wandb writes these as texts.
std::string json_number(double value) {
  if (value != value) return "\"NaN\"";
  if (value - value != 0) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

// A value of the recipe: numbers and booleans as they are, all else as text.
std::string json_setting(const std::string& value) {
  const Json parsed = Json::parse(value, nullptr, false);
  return parsed.is_discarded() || parsed.is_structured() ? dump(Json(value)) : dump(parsed);
}

void set(std::vector<std::pair<std::string, double>>& values, const std::string& name, double value) {
  const auto known = std::ranges::find(values, name, &std::pair<std::string, double>::first);
  if (known == values.end()) values.push_back({name, value});
  else known->second = value;
}

}  // namespace

std::string WandbFraming::header() {
  std::string out = ":W&B";
  add_raw(out, std::uint16_t{0xBEE1});
  out += '\0';
  return out;
}

std::string WandbFraming::framed(std::string_view record) {
  enum Piece : char { whole = 1, first, middle, last };
  std::string out;
  bool begun = false;
  do {
    std::size_t room = kBlock - in_block_;
    if (room < kHeader) {  // a block's tail without room for a header is zero
      out.append(room, '\0');
      in_block_ = 0;
      room = kBlock;
    }
    const std::size_t size = std::min(record.size(), room - kHeader);
    const bool ends = size == record.size();
    std::string piece(1, begun ? (ends ? last : middle) : (ends ? whole : first));
    piece += record.substr(0, size);
    add_raw(out, crc32<Crc32::ieee>(piece));
    add_raw(out, static_cast<std::uint16_t>(size));
    out += piece;
    in_block_ += kHeader + size;
    record.remove_prefix(size);
    begun = true;
  } while (!record.empty());
  return out;
}

void WandbRun::write(int field, const std::string& message) {
  std::string record;
  add_integer(record, kNumber, ++records_);
  add_bytes(record, field, message);
  file_->append(framing_.framed(record));
}

Action WandbRun::on_start(const RunFacts& facts) {
  started_ = unix_time();
  if (settings_.name.empty()) settings_.name = folder_name(facts.output_dir);
  const std::string wandb = settings_.root + "/wandb";
  if (settings_.id.empty() && !facts.resumed_from.empty()) settings_.id = last_id(wandb);
  if (settings_.id.empty())
    settings_.id = digest_of(fmt::format("{} {} {}", facts.output_dir, started_, getpid())).substr(0, 8);
  const std::string folder = fmt::format("{}/{}{}-{}", wandb, kFolder, local_time(), settings_.id);
  make_directories(folder + "/files");
  file_ = std::make_unique<AppendedFile>(fmt::format("{}/run-{}.wandb", folder, settings_.id));
  file_->append(WandbFraming::header());

  std::string inner, version;
  add_bytes(inner, 1, fmt::format("dml {}", dml::version()));
  add_bytes(inner, 2, "");
  add_bytes(version, 1, inner);
  write(kVersion, version);

  std::string config;
  for (auto& [key, value] : facts.settings) add_bytes(config, 1, item(key, json_setting(value)));
  std::string run, time;
  add_bytes(run, 1, settings_.id);
  if (!settings_.entity.empty()) add_bytes(run, 2, settings_.entity);
  add_bytes(run, 3, settings_.project);
  add_bytes(run, 4, config);
  if (!settings_.group.empty()) add_bytes(run, 6, settings_.group);
  add_bytes(run, 8, settings_.name);
  add_bytes(run, 13, host_name());
  add_integer(time, 1, static_cast<std::int64_t>(started_));
  add_bytes(run, 17, time);
  write(kRun, run);
  return {};
}

void WandbRun::flush() {
  if (pending_.empty()) return;
  std::string row, step;
  for (auto& [name, value] : pending_) {
    add_bytes(row, 1, item(name, json_number(value)));
    set(latest_, name, value);
  }
  add_bytes(row, 1, item("_step", std::to_string(pending_step_)));
  add_bytes(row, 1, item("_timestamp", json_number(unix_time())));
  add_bytes(row, 1, item("_runtime", json_number(unix_time() - started_)));
  add_integer(step, 1, pending_step_);
  add_bytes(row, 2, step);
  write(kHistory, row);
  pending_.clear();
}

void WandbRun::history(std::int64_t step, const Values& values) {
  if (step != pending_step_) flush();
  pending_step_ = step;
  for (auto& [name, value] : values) set(pending_, name, value);
}

Action WandbRun::on_step(const StepMetrics& m) {
  Values values{{"train/global_step", static_cast<double>(m.step)}};
  for (const NamedValue& v : m.tracked()) values.push_back({"train/" + v.name, v.value});
  history(m.step, values);
  return {};
}

Action WandbRun::on_eval(const EvalMetrics& m, const std::vector<SampleMetrics>& /*samples*/) {
  Values values;
  for (const NamedValue& v : m.values)
    values.push_back({v.name.starts_with("eval_") ? "eval/" + v.name.substr(5) : v.name, v.value});
  if (!values.empty()) history(m.step, values);
  return {};
}

void WandbRun::on_end(const RunEnd& end) {
  flush();
  std::string summary, exit;
  for (auto& [name, value] : latest_) add_bytes(summary, 1, item(name, json_number(value)));
  write(kSummary, summary);
  add_integer(exit, 1, end.reason == RunEnd::Reason::stopped ? 1 : 0);
  add_integer(exit, 2, static_cast<std::int64_t>(unix_time() - started_));
  write(kExit, exit);
  file_->sync();
}

}  // namespace dml
