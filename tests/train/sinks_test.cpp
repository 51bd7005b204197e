// Logs in other programs' formats: bytes that were computed independently, and what a reader of the format finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/files.h"
#include "core/json.h"
#include "core/protobuf.h"
#include "temporary_folder.h"
#include "train/crc32.h"
#include "train/mlflow.h"
#include "train/tensorboard.h"
#include "train/wandb.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string only_file(const std::string& folder, const std::string& ending) {
  for (auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename().string().find(ending) != std::string::npos && entry.is_regular_file())
      return entry.path().string();
  ADD_FAILURE() << "no " << ending << " below " << folder;
  return "";
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A message of protobuf, taken apart: field → values, numbers as text.
using Message = std::multimap<int, std::string>;
Message parsed(std::string_view bytes) {
  Message out;
  auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(0));
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!bytes.empty()) {
    const std::uint64_t key = varint();
    const int field = static_cast<int>(key >> 3), type = static_cast<int>(key & 7);
    if (type == 0) {
      out.emplace(field, std::to_string(varint()));
      continue;
    }
    const std::size_t size = type == 1 ? 8 : type == 5 ? 4 : varint();
    if (type == 1) out.emplace(field, fmt::format("{}", number_at<double>(bytes, 0)));
    else if (type == 5) out.emplace(field, fmt::format("{}", number_at<float>(bytes, 0)));
    else out.emplace(field, std::string(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return out;
}

std::string field(const Message& message, int number) {
  const auto found = message.find(number);
  return found == message.end() ? "" : found->second;
}

StepMetrics step_metrics(std::int64_t step) {
  return {step, 0.5, 2.5, 0.75, 1e-4, 100, 50, 800, 0.125, 1000, {{"rewards/margins", 0.25}}};
}

EvalMetrics eval_metrics(std::int64_t step) { return {step, 0.5, {{kEvalLoss, 2.25}, {"eval_words_loss", 2.0}}}; }

class Sinks : public testing::Test {
 protected:
  testing_tools::TemporaryFolder folder_;
  RunFacts facts_{
      .steps = 10, .output_dir = folder_ / "run", .settings = {{"lora_r", "8"}, {"base_model", "models/x"}}};
};

TEST(Crc32, GivesTheCheckValuesOfBothPolynomials) {
  EXPECT_EQ(crc32<Crc32::castagnoli>("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32<Crc32::ieee>("123456789"), 0xCBF43926u);
}

TEST(Tensorboard, WritesRecordsByteForByte) {
  namespace tb = tensorboard;
  EXPECT_EQ(hex(tb::record(tb::version_event(1.0))),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  EXPECT_EQ(hex(tb::record(tb::event(2.0, 10, tb::scalar("train/loss", 2.5)))),
            "200000000000000029eda950090000000000000040100a2a130a110a0a747261696e2f6c6f737315000020404c0011c3");
}

// The events of a file: step → tag → value, or the text of a text.
std::map<std::string, std::map<std::string, std::string>> events_of(const std::string& path) {
  std::map<std::string, std::map<std::string, std::string>> out;
  const std::string bytes = read_file(path);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = number_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(tensorboard::record(std::string_view(bytes).substr(at + 12, size)), bytes.substr(at, size + 16));
    const Message event = parsed(std::string_view(bytes).substr(at + 12, size));
    if (event.contains(3)) {
      EXPECT_EQ(field(event, 3), "brain.Event:2");
    }
    const Message summary = parsed(field(event, 5));
    for (auto [it, end] = summary.equal_range(1); it != end; ++it) {
      const Message value = parsed(it->second);
      out[field(event, 2)][field(value, 1)] = value.contains(2) ? field(value, 2) : field(parsed(field(value, 8)), 8);
    }
    at += size + 16;
  }
  return out;
}

TEST_F(Sinks, TensorboardGetsScalarsAndTextsOfEveryStep) {
  {
    TensorboardEvents sink(folder_ / "run/runs");
    sink.on_start(facts_);
    sink.on_step(step_metrics(1));
    sink.on_eval(eval_metrics(1), {{1, "prompt", "expected", "text"}});
    sink.on_end({});
  }
  auto events = events_of(only_file(folder_ / "run/runs", "events.out.tfevents."));
  EXPECT_THAT(events["0"]["recipe"], HasSubstr("lora_r: 8\n"));
  EXPECT_EQ(events["1"]["train/loss"], "2.5");
  EXPECT_EQ(events["1"]["train/grad_norm"], "0.75");
  EXPECT_EQ(events["1"]["train/rewards/margins"], "0.25");
  EXPECT_EQ(events["1"]["eval/loss"], "2.25");
  EXPECT_EQ(events["1"]["eval/words_loss"], "2");
  EXPECT_THAT(events["1"]["samples/1"], HasSubstr("text"));
}

TEST_F(Sinks, MlflowGetsAFileForEachMetricAndParameter) {
  fs::create_directories(facts_.output_dir);
  auto run = [&](std::int64_t first, std::int64_t last, const std::string& resumed_from) {
    MlflowRun sink({folder_ / "mlruns", "pirates: ahoy", ""});
    facts_.first_step = first;
    facts_.resumed_from = resumed_from;
    sink.on_start(facts_);
    for (auto& entry : fs::recursive_directory_iterator(folder_ / "mlruns"))
      if (entry.path().string().find("/metrics/") != std::string::npos && entry.is_regular_file()) {
        EXPECT_NE(fs::file_size(entry.path()), 0u) << entry.path() << ": MLflow refuses the run";
      }
    for (std::int64_t s = first + 1; s <= last; ++s) sink.on_step(step_metrics(s));
    sink.on_eval(eval_metrics(last), {});
    if (!resumed_from.empty()) sink.on_end({});
  };
  run(0, 4, "");
  const std::string loss = only_file(folder_ / "mlruns", "grad_norm");
  const std::string one = fs::path(loss).parent_path().parent_path().string();
  EXPECT_THAT(read_file(one + "/meta.yaml"), HasSubstr("status: 4\n"));  // it did not come to its end
  run(2, 5, "checkpoint-2");
  EXPECT_THAT(read_file(one + "/meta.yaml"), HasSubstr("status: 3\n"));
  EXPECT_THAT(read_file(one + "/meta.yaml"), HasSubstr("run_name: \"run\"\n"));
  EXPECT_EQ(read_file(one + "/params/lora_r"), "8");
  EXPECT_EQ(read_file(one + "/tags/mlflow.runName"), "run");
  std::vector<std::string> steps;
  const std::string text = read_file(loss);
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    EXPECT_EQ(line.substr(14, 4), "0.75") << line;  // 13 digits of milliseconds
    steps.push_back(line.substr(19));
  }
  EXPECT_THAT(steps, ElementsAre("1", "2", "3", "4", "5"));
  EXPECT_THAT(read_file(one + "/metrics/eval_words_loss"), HasSubstr(" 2 5\n"));
  EXPECT_TRUE(fs::exists(one + "/metrics/rewards/margins"));
  const std::string experiment = fs::path(one).parent_path().string();
  EXPECT_THAT(read_file(experiment + "/meta.yaml"), HasSubstr("name: \"pirates: ahoy\"\n"));
}

TEST_F(Sinks, MlflowCutsLongParametersAtAWholeCharacter) {
  fs::create_directories(facts_.output_dir);
  const std::string most(5999, 'x');  // the limit is 6000 bytes
  facts_.settings = {{"cut", most + "ü"}, {"kept", most + "y"}};
  MlflowRun sink({folder_ / "mlruns", "pirates", ""});
  sink.on_start(facts_);
  sink.on_end({});
  EXPECT_EQ(read_file(only_file(folder_ / "mlruns", "cut")), most);
  EXPECT_EQ(read_file(only_file(folder_ / "mlruns", "kept")), most + "y");
}

// The file that MLflow 2 writes: yaml.safe_dump quotes a name only where it must.
TEST_F(Sinks, MlflowUsesTheExperimentThatMlflowMade) {
  fs::create_directories(facts_.output_dir);
  const std::pair<std::string, std::string> names[] = {{"pirates", "pirates"}, {"it's: ahoy", "'it''s: ahoy'"}};
  for (const auto& [name, written] : names) {
    const std::string root = folder_ / ("mlruns of " + name);
    make_directories(root + "/7");
    write_file(root + "/7/meta.yaml", "experiment_id: '7'\nlifecycle_stage: active\nname: " + written + "\n");
    MlflowRun sink({root, name, ""});
    sink.on_start(facts_);
    sink.on_end({});
    EXPECT_EQ(std::distance(fs::directory_iterator(root), fs::directory_iterator()), 1) << name;
    EXPECT_THAT(only_file(root, "lora_r"), HasSubstr("/7/")) << name;
  }
}

TEST(WandbFraming, CutsRecordsAtBlocksAsLevelDbDoes) {
  WandbFraming framing;
  std::string file = WandbFraming::header();
  EXPECT_EQ(hex(file), "3a572642e1be00");
  std::vector<std::string> records;
  for (const std::size_t size : {0u, 5u, 32768u - 7 - 7 - 12 - 7 - 3, 10u, 100000u, 1u})
    records.push_back(std::string(size, static_cast<char>('a' + records.size())));
  for (auto& r : records) file += framing.framed(r);
  // Read as LevelDB's log is: by blocks, pieces put together.
  std::vector<std::string> found;
  std::string open;
  std::size_t at = 7;
  while (at < file.size()) {
    const std::size_t left = 32768 - at % 32768;
    if (left < 7) {
      EXPECT_EQ(file.substr(at, left), std::string(left, '\0'));
      at += left;
      continue;
    }
    const auto crc = number_at<std::uint32_t>(file, at);
    const auto size = number_at<std::uint16_t>(file, at + 4);
    const int type = file[at + 6];
    ASSERT_LE(7 + size, left);
    EXPECT_EQ(crc, crc32<Crc32::ieee>(std::string_view(file).substr(at + 6, 1 + size)));
    if (type == 1 || type == 2) open.clear();
    open += file.substr(at + 7, size);
    if (type == 1 || type == 4) found.push_back(open);
    at += 7 + size;
  }
  EXPECT_EQ(found, records);
}

TEST_F(Sinks, WandbGetsTheRunItsHistoryAndItsEnd) {
  {
    WandbRun sink({.root = folder_ / "run", .project = "pirates", .name = "ahoy", .id = "abc12345"});
    sink.on_start(facts_);
    sink.on_step(step_metrics(1));
    sink.on_eval(eval_metrics(1), {});
    sink.on_step(step_metrics(2));
    sink.on_end({});
  }
  const std::string bytes = read_file(only_file(folder_ / "run/wandb", "run-abc12345.wandb"));
  std::vector<Message> records;
  for (std::size_t at = 7; at < bytes.size();) {
    const auto size = number_at<std::uint16_t>(bytes, at + 4);
    records.push_back(parsed(std::string_view(bytes).substr(at + 7, size)));
    at += 7 + size;
  }
  ASSERT_EQ(records.size(), 6u);  // version, run, two rows of history, summary, exit
  for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(field(records[i], 1), std::to_string(i + 1));
  const Message run = parsed(field(records[1], 17));
  EXPECT_EQ(field(run, 1), "abc12345");
  EXPECT_EQ(field(run, 3), "pirates");
  EXPECT_EQ(field(run, 8), "ahoy");
  auto items = [](const std::string& message) {
    std::map<std::string, std::string> out;
    const Message m = parsed(message);
    for (auto [it, end] = m.equal_range(1); it != end; ++it) {
      const Message item = parsed(it->second);
      out[field(item, 1)] = field(item, 16);
    }
    return out;
  };
  EXPECT_EQ(items(field(run, 4)),
            (std::map<std::string, std::string>{{"base_model", "\"models/x\""}, {"lora_r", "8"}}));
  auto row = items(field(records[2], 2));
  EXPECT_EQ(row["train/loss"], "2.5");
  EXPECT_EQ(row["eval/loss"], "2.25");
  EXPECT_EQ(row["_step"], "1");
  EXPECT_EQ(field(parsed(field(parsed(field(records[3], 2)), 2)), 1), "2");
  EXPECT_EQ(items(field(records[4], 3))["eval/words_loss"], "2");
  EXPECT_EQ(field(parsed(field(records[5], 18)), 1), "0");
}

// `wandb sync --append` makes one run of the folders with the same id.
TEST_F(Sinks, WandbKeepsTheIdOfARunThatIsResumed) {
  for (const char* name : {"offline-run-20260101_000000-other001", "offline-run-20260102_000000-first-id"})
    make_directories(folder_ / "run/wandb" + "/" + name);
  write_file(folder_ / "run/wandb/debug.log", "");
  facts_.resumed_from = folder_ / "run/checkpoint-1";
  WandbRun({.root = folder_ / "run", .project = "pirates"}).on_start(facts_);
  only_file(folder_ / "run/wandb", "run-first-id.wandb");
  facts_.resumed_from = "";
  WandbRun({.root = folder_ / "again", .project = "pirates"}).on_start(facts_);
  EXPECT_EQ(fs::directory_iterator(folder_ / "again/wandb")->path().filename().string().find("first-id"),
            std::string::npos);
}

}  // namespace
}  // namespace dml
