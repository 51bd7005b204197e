// Tiny models that transformers made, with what it computes of them (../shared/data/families): losses, logits at some
// positions, and the norm and sum of every parameter's gradient. Families that dml does not have are left out.
#include <gtest/gtest.h>

#include "golden.h"

namespace dml {
namespace {
namespace fs = std::filesystem;

const std::string kFolder = DML_SOURCE_DIR "/../shared/data/families/";
constexpr double kWithin = 1e-4;

std::vector<std::string> shared_families() {
  std::vector<std::string> out;
  std::error_code absent;
  for (auto& entry : fs::directory_iterator(kFolder, absent))
    if (const Json config = read_json(entry.path() / "config.json");
        find_family(config["model_type"].get<std::string>()) &&
        !config.contains("num_experts_per_tok"))  // expert_families_test.cpp
      out.push_back(entry.path().filename());
  std::ranges::sort(out);
  return out;
}

class SharedFamily : public testing::TestWithParam<std::string> {
 protected:
  std::string directory = kFolder + GetParam();
  Json golden = read_json(directory + "/golden.json");
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};
  std::vector<std::vector<float>> gradients;

  void SetUp() override {
    for (std::size_t d = 0; d < golden["ids"].size(); ++d) {
      auto ids = golden["ids"][d].get<std::vector<Token>>(), of = golden["labels"][d].get<std::vector<Token>>();
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      labels.insert(labels.end(), of.begin() + 1, of.end());
      labels.push_back(kIgnore);
      for (std::size_t i = 0; i < ids.size(); ++i) positions.push_back(static_cast<std::int32_t>(i));
      starts.push_back(static_cast<std::int32_t>(tokens.size()));
    }
  }
  PackedBatch batch() const { return {tokens, labels, positions, starts}; }

  std::unique_ptr<CausalLm> build(bool full) {
    auto files = std::make_shared<ModelFiles>(directory);
    Training training;
    training.full = full;
    auto model = build_model(read_model_spec(directory), golden_source(files), training, directory);
    model->backing = files;
    model->set_length(64);
    for (Unit& u : model->parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
    model->reserve(model->measure({batch().size(), batch().trained(), batch().documents()}, full));
    return model;
  }
};

TEST_P(SharedFamily, LossAndEveryGradientAreThoseOfTransformers) {
  auto model = build(true);
  UnitHooks no_hooks;
  const auto trained = static_cast<double>(batch().trained());
  const double loss = model->train(batch(), {}, no_hooks) / trained;
  EXPECT_NEAR(loss / golden["loss"].get<double>(), 1, 1e-5);
  std::size_t seen = 0;
  for (const Unit& u : model->parameters.units())
    for (const Parameter& p : u.parameters) {
      // transformers 5.17 calls GPT-NeoX's head lm_head, but embed_out in its files.
      const std::string name = p.name == "embed_out.weight" ? "lm_head.weight" : p.name;
      ASSERT_TRUE(golden["gradients"].contains(name)) << name;
      ++seen;
      double squares = 0, sum = 0;
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        const double g = static_cast<double>(u.grad[i]) / trained;
        squares += g * g, sum += g;
      }
      const double norm = golden["gradients"][name][0].get<double>();
      EXPECT_NEAR(std::sqrt(squares), norm, kWithin * norm + 1e-8) << p.name;
      const double many = std::sqrt(static_cast<double>(p.size()));
      EXPECT_NEAR(sum, golden["gradients"][name][1].get<double>(), kWithin * norm * many + 1e-8) << p.name;
    }
  EXPECT_EQ(seen, golden["gradients"].size());
}

TEST_P(SharedFamily, LogitsAreThoseOfTransformersAtOnceAndTokenByToken) {
  auto model = build(false);
  const ModelSpec& spec = model->spec;
  for (auto& [place, expected] : golden["logits"].items()) {
    const auto document = static_cast<std::size_t>(std::stoi(place)),
               length = static_cast<std::size_t>(std::stoi(place.substr(place.find(',') + 1))) + 1;
    const auto want = expected.get<std::vector<float>>();
    for (std::size_t step : {length, std::size_t{1}}) {
      KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, static_cast<std::int64_t>(length));
      std::vector<float> logits(static_cast<std::size_t>(spec.vocab));
      for (std::size_t t = 0; t < length; t += step) {
        const std::size_t at = static_cast<std::size_t>(starts[document]) + t;
        SequenceRows rows{&cache, 0, static_cast<std::int64_t>(step)};
        PackedBatch part{std::span(tokens).subspan(at, step), {}, std::span(positions).subspan(at, step), {}};
        auto call = [&] { model->generate(part, {&rows, 1}, {logits.data(), 1, spec.vocab}); };
        model->reserve(model->measure_calls(call));
        call();
      }
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(logits[i], want[i], 1e-4) << place << " token " << i << (step == 1 ? ", by token" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, SharedFamily, testing::ValuesIn(shared_families()),
                         [](auto& row) { return row.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedFamily);

}  // namespace
}  // namespace dml
