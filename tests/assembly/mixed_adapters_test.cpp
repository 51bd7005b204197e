// Requests for several adapters in one batch over one base: each answer equals that of its adapter alone, byte for
// byte.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "assembly/base_model.h"
#include "generate/engine.h"
#include "model/golden.h"

namespace dml {
namespace {

struct MixedAnswer {
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  bool operator==(const MixedAnswer&) const = default;
};

EngineOptions mixed_options(std::size_t slots) {
  EngineOptions o;
  o.slots = slots;
  o.context = 64;
  o.cache_tokens = static_cast<std::int64_t>(slots) * o.context;
  o.reading = slots == 1 ? 64 : 24;
  o.fair = slots > 1;
  return o;
}

// Prompts of many lengths, a third of which begin alike; greedy and seeded.
EngineRequest mixed_request(unsigned i, std::int64_t vocab, std::size_t models) {
  std::mt19937 draw(i), common(5);
  EngineRequest r;
  const std::size_t size = 1 + i * 7 % 40;
  for (std::size_t t = 0; t < size; ++t)
    r.prompt.push_back(static_cast<Token>((i % 3 == 0 && t < 33 ? common : draw)() % static_cast<unsigned>(vocab)));
  r.max_new_tokens = 2 + i % 6;
  r.model = i % models;
  r.sampling.greedy = i % 2 == 0;
  r.sampling.temperature = 1.5;
  r.sampling.seed = i;
  return r;
}

// Answers in the order of the requests; `cached`: number of prompt tokens found in the cache.
std::vector<MixedAnswer> run_mixed(Engine& engine, const std::vector<EngineRequest>& requests, std::int64_t& cached) {
  std::map<RequestId, std::size_t> number;
  std::vector<MixedAnswer> out(requests.size());
  auto step = [&] {
    for (const EngineEvent& e : engine.step()) {
      MixedAnswer& a = out[number.at(e.id)];
      if (e.failure) std::rethrow_exception(e.failure);
      cached += e.kind == EngineEvent::Kind::read ? e.cached : 0;
      if (e.kind != EngineEvent::Kind::token) continue;
      a.tokens.push_back(e.choice.token);
      a.logprobs.push_back(e.choice.logprob);
    }
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    number[engine.submit(requests[i])] = i;
    if (i % 3 == 0) step();
  }
  while (engine.busy()) step();
  return out;
}

struct MixedCase {
  const char* name;
  const char* base;
  std::vector<std::string> adapters;
  int together;  // how many of them can be computed with the base
  std::optional<DType> storage = {};
};

class MixedAdapters : public testing::TestWithParam<MixedCase> {};

TEST_P(MixedAdapters, AnswerLikeEachAdapterAlone) {
  ModelSection section;
  section.base_model = golden_path(GetParam().base) + "/model";
  const BaseModel base = open_base_model(section);
  auto host = make_inference_model(base, GetParam().storage);
  std::vector<std::unique_ptr<CausalLm>> own, adopted;
  std::vector<EngineModel> models{host.get()};
  own.push_back(make_inference_model(base, GetParam().storage));
  int together = 0;
  for (const std::string& name : GetParam().adapters) {
    const std::string folder = golden_path("adapters/" + name);
    own.push_back(make_inference_model(base, GetParam().storage, {folder}));
    std::optional<std::int32_t> number;
    adopted.push_back(make_inference_model(base, GetParam().storage, {folder}, *host, number));
    models.push_back(number ? EngineModel(host.get(), *number) : EngineModel(adopted.back().get()));
    together += number.has_value();
  }
  EXPECT_EQ(together, GetParam().together);

  std::vector<EngineRequest> requests;
  for (unsigned i = 0; i < 200; ++i) requests.push_back(mixed_request(i, base.spec.vocab, models.size()));
  std::vector<MixedAnswer> want;
  std::int64_t none = 0;
  std::vector<std::unique_ptr<Engine>> engines;
  for (auto& model : own)
    engines.push_back(std::make_unique<Engine>(std::vector<EngineModel>{model.get()}, mixed_options(1)));
  for (EngineRequest r : requests) {
    Engine& alone = *engines[std::exchange(r.model, 0)];
    want.push_back(run_mixed(alone, {r}, none)[0]);
  }
  Engine engine(models, mixed_options(9));
  for (int round = 0; round < 2; ++round) {  // the second one finds prompts in the cache
    std::int64_t cached = 0;
    const auto got = run_mixed(engine, requests, cached);
    for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
    EXPECT_GT(cached, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MixedAdapters,
                         testing::Values(MixedCase{"plain", "llama_tiny", {"lora", "rslora", "patterns"}, 3},
                                         MixedCase{"scaled", "llama_tiny", {"dora", "lora_bias", "layers"}, 3},
                                         MixedCase{"converted", "llama_tiny", {"lora", "rslora"}, 2, DType::bf16},
                                         MixedCase{"ends", "llama_tiny", {"embedding", "head", "modules_to_save"}, 3},
                                         MixedCase{"biases", "qwen2", {"bias_all"}, 0}),
                         [](auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace dml
