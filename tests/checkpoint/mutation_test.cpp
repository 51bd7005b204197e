// Valid files with random bytes changed, removed or repeated: readers either succeed or throw a UserError. Also run
// under the sanitizers; the seed is fixed, so that failures are reproducible.
#include <functional>

#include "checkpoint/adapter_io.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_files.h"
#include "core/json.h"
#include "core/random.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;

std::string mutated(std::string bytes, std::uint64_t round, std::size_t reach) {
  static constexpr std::string_view kWords[] = {
      "-1", "18446744073709551616", "null", "[", "{", "\"", "1e999", "\\u0000", "0.5", "true", ","};
  Random random(7, Purpose::noise, round);
  std::uint64_t next = 0;
  auto pick = [&](std::uint64_t bound) { return random.below(next++, bound); };
  for (std::uint64_t changes = 1 + pick(4); changes > 0; --changes) {
    std::size_t limit = std::min(reach, bytes.size());
    if (limit == 0) break;
    std::size_t at = pick(limit);
    switch (pick(5)) {
      case 0:
        bytes[at] = static_cast<char>(pick(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8)));
        break;
      case 2:
        bytes.erase(at, 1 + pick(8));
        break;
      case 3:
        bytes.insert(at, kWords[pick(std::size(kWords))]);
        break;
      case 4:
        bytes.insert(at, bytes.substr(pick(limit), 1 + pick(24)));
        break;
    }
  }
  return bytes;
}

void survive(const std::string& good, std::size_t reach, int rounds,
             const std::function<void(const std::string&)>& read) {
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    std::string bytes = mutated(good, static_cast<std::uint64_t>(i), reach);
    try {
      read(bytes);
    } catch (const UserError& e) {
      EXPECT_STRNE(e.what(), "");
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

const std::string kGolden = DML_SOURCE_DIR "/tests/golden/";

TEST(Mutation, OfSafetensors) {
  TempDir dir;
  std::string good = get(kGolden + "llama_tiny/lora/adapter_model.safetensors");
  survive(good, 1500, 3000, [&](const std::string& bytes) {
    put(dir / "x", bytes);
    SafetensorsFile file(dir / "x");
    for (auto& t : file.tensors())
      if (is_readable_float(t.dtype)) t.floats("x");
  });
}

TEST(Mutation, OfShardIndexes) {
  TempDir dir;
  ModelWriter out(dir.path(), {{"a", DType::f32, {2}}, {"b", DType::f32, {2}}}, 8);
  std::vector<float> values(2);
  for (std::size_t i = 0; i < out.tensors().size(); ++i) out.append_floats(values);
  out.commit();
  std::string path = dir / "model.safetensors.index.json", good = get(path);
  survive(good, good.size(), 1000, [&](const std::string& bytes) {
    put(path, bytes);
    ModelFiles files(dir.path());
  });
}

TEST(Mutation, OfConfigs) {
  TempDir dir;
  for (const char* family : {"llama_bias", "gemma3", "phi3", "gpt2", "qwen2", "stablelm"}) {
    std::string good = get(kGolden + family + "/model/config.json");
    survive(good, good.size(), 500, [&](const std::string& bytes) {
      put(dir / "config.json", bytes);
      ModelSpec spec = read_model_spec(dir.path());
      EXPECT_GT(spec.parameters(), 0);
    });
  }
}

TEST(Mutation, OfAdapterConfigs) {
  ModelSpec spec = read_model_spec(kGolden + "llama_tiny/model");
  std::string good = adapter_config_text(
      {.target_pattern = ".*(q|v)_proj", .rank_pattern = {{"layers.0.*", 4}}, .alpha_pattern = {{"q_proj", 2}}});
  survive(good, good.size(), 2000, [&](const std::string& bytes) {
    plan_adapter(read_adapter_config(parse_json(bytes, "config"), "config"), spec, "config");
  });
}

TEST(Mutation, OfCheckpointManifestsAndStates) {
  TempDir dir;
  TrainState state;
  state.step = 3;
  CheckpointWriter out(dir.path(), 3);
  std::string path = out.commit(state, {});
  std::string good = get(path + "/manifest.json");
  int damaged = 0;
  for (int i = 0; i < 500; ++i) {
    put(path + "/manifest.json", mutated(good, static_cast<std::uint64_t>(i), good.size()));
    damaged += !find_checkpoint(dir.path()).newest;
  }
  EXPECT_GT(damaged, 300);
  good = train_state_text(state);
  survive(good, good.size(), 1000,
          [&](const std::string& bytes) { read_train_state(parse_json(bytes, "state"), "state"); });
}

}  // namespace
}  // namespace dml
