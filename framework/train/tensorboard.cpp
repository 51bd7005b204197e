#include "train/tensorboard.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "core/clock.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/protobuf.h"
#include "train/crc32.h"

namespace dml {
namespace tensorboard {
namespace {

using namespace protobuf;

// CRC-32C masked as TensorFlow stores it.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32<Crc32::castagnoli>(data);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace

std::string record(std::string_view data) {
  std::string length, out;
  add_raw(length, static_cast<std::uint64_t>(data.size()));
  out = length;
  add_raw(out, masked_crc(length));
  out += data;
  add_raw(out, masked_crc(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out;
  add_double(out, 1, wall_time);
  add_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string event(double wall_time, std::int64_t step, const std::string& summary) {
  std::string out;
  add_double(out, 1, wall_time);
  add_integer(out, 2, step);
  add_bytes(out, 5, summary);
  return out;
}

std::string scalar(std::string_view tag, double value) {
  std::string inner, out;
  add_bytes(inner, 1, tag);
  add_float(inner, 2, static_cast<float>(value));
  add_bytes(out, 1, inner);
  return out;
}

std::string text(std::string_view tag, std::string_view text) {
  constexpr int kString = 7;  // DT_STRING
  std::string tensor, plugin, metadata, inner, out;
  add_integer(tensor, 1, kString);
  add_bytes(tensor, 2, "");  // a shape without dimensions: one text
  add_bytes(tensor, 8, text);
  add_bytes(plugin, 1, "text");
  add_bytes(metadata, 1, plugin);
  add_bytes(inner, 1, tag);
  add_bytes(inner, 9, metadata);
  add_bytes(inner, 8, tensor);
  add_bytes(out, 1, inner);
  return out;
}

std::string tag_of(std::string_view name) {
  if (name.starts_with("eval_")) return "eval/" + std::string(name.substr(5));
  return "train/" + std::string(name);
}

}  // namespace tensorboard

namespace {

std::string file_name() {
  return fmt::format("events.out.tfevents.{}.{}.{}.0", static_cast<std::int64_t>(unix_time()), host_name(), getpid());
}

std::string folder_made(std::string folder) {
  make_directories(folder);
  return folder;
}

}  // namespace

TensorboardEvents::TensorboardEvents(std::string folder) : file_(folder_made(std::move(folder)) + "/" + file_name()) {
  file_.append(tensorboard::record(tensorboard::version_event(unix_time())));
}

void TensorboardEvents::write(double time, std::int64_t step, const std::string& summary) {
  if (!summary.empty()) file_.append(tensorboard::record(tensorboard::event(time, step, summary)));
}

Action TensorboardEvents::on_start(const RunFacts& facts) {
  std::string recipe;
  for (auto& [key, value] : facts.settings) recipe += fmt::format("    {}: {}\n", key, value);  // Markdown: as it is
  write(unix_time(), facts.first_step, tensorboard::text("recipe", recipe));
  return {};
}

Action TensorboardEvents::on_step(const StepMetrics& m) {
  std::string summary;
  for (const NamedValue& v : m.tracked()) summary += tensorboard::scalar(tensorboard::tag_of(v.name), v.value);
  write(unix_time(), m.step, summary);
  return {};
}

Action TensorboardEvents::on_eval(const EvalMetrics& m, const std::vector<SampleMetrics>& samples) {
  std::string summary;
  for (const NamedValue& v : m.values) summary += tensorboard::scalar(tensorboard::tag_of(v.name), v.value);
  for (std::size_t i = 0; i < samples.size(); ++i)
    summary += tensorboard::text(fmt::format("samples/{}", i + 1),
                                 fmt::format("**{}**\n\n{}\n", samples[i].prompt, samples[i].text));
  write(unix_time(), m.step, summary);
  return {};
}

}  // namespace dml
