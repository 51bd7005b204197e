// The families with mixtures of experts against Hugging Face transformers: models and numbers of shared/data/families,
// where that folder lies beside the project.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "golden.h"
#include "nn/hooks.h"

namespace dml {
namespace {

std::string families_path() { return std::string(DML_SOURCE_DIR) + "/../shared/data/families"; }

UnitHooks quiet;

/// A model of the folder in full training, on the documents of its golden.json.
struct Reference {
  Json golden;
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};
  std::shared_ptr<ModelFiles> files;
  std::unique_ptr<CausalLm> model;
  std::vector<std::vector<float>> gradients;

  Reference(const std::string& family, const std::function<void(ModelSpec&)>& change = {}, TensorSource source = {}) {
    const std::string folder = families_path() + "/" + family;
    golden = read_json(folder + "/golden.json", {.bytes = std::size_t{64} << 20});
    for (std::size_t d = 0; d < golden["ids"].size(); ++d) {
      const Json &ids = golden["ids"][d], &marks = golden["labels"][d];
      for (std::size_t t = 0; t < ids.size(); ++t) {
        tokens.push_back(ids[t].get<Token>());
        labels.push_back(t + 1 < ids.size() ? marks[t + 1].get<Token>() : kIgnore);
        positions.push_back(static_cast<std::int32_t>(t));
      }
      starts.push_back(static_cast<std::int32_t>(tokens.size()));
    }
    ModelSpec spec = read_model_spec(folder);
    if (change) change(spec);
    files = std::make_shared<ModelFiles>(folder);
    Training training;
    training.full = true;
    model = build_model(spec, source ? source : golden_source(files), training, folder);
    model->backing = files;
    model->set_length(64);
    for (Unit& u : model->parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
  }
  PackedBatch batch() const { return {tokens, labels, positions, starts}; }
  double train() {
    for (auto& g : gradients) std::ranges::fill(g, 0.f);
    const PackedBatch b = batch();
    model->reserve(model->measure({b.size(), b.trained(), b.documents()}, true));
    return model->train(b, {}, quiet);
  }
  double mean_loss() { return train() / static_cast<double>(batch().trained()); }
};

// transformers 5 holds the matrices of a layer's experts in two parameters.
std::string name_in_memory(std::string name) {
  if (auto at = name.find("block_sparse_moe.gate."); at != std::string::npos) name.replace(at, 16, "mlp");
  if (name.ends_with("router.layer.weight")) return name.replace(name.find("layer.weight"), 12, "weight");
  if (auto at = name.find("input_linear.weight"); at != std::string::npos)
    return name.replace(at, 19, "experts.gate_up_proj");
  if (auto at = name.find("output_linear.weight"); at != std::string::npos)
    return name.replace(at, 20, "experts.down_proj");
  const auto at = name.find(".experts.");
  const std::string layer = name.substr(0, name.find('.', std::string("model.layers.").size()));
  if (at == std::string::npos || !std::isdigit(static_cast<unsigned char>(name[at + 9]))) return name;
  const bool down = name.ends_with("w2.weight") || name.ends_with("down_proj.weight");
  return layer + (down ? ".mlp.experts.down_proj" : ".mlp.experts.gate_up_proj");
}

class ExpertFamily : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(families_path())) GTEST_SKIP() << "shared/data/families is not beside the project";
  }
};

TEST_P(ExpertFamily, HasTheLossAndTheGradientsOfTransformers) {
  Reference r(GetParam());
  const double want = r.golden["loss"].get<double>();
  EXPECT_NEAR(r.mean_loss(), want, 1e-5 * want);
  std::map<std::string, double> squares;
  const auto trained = static_cast<double>(r.batch().trained());
  for (Unit& u : r.model->parameters.units())
    for (const Parameter& p : u.parameters) {
      double& sum = squares[name_in_memory(p.name)];
      for (std::int64_t i = 0; i < p.size(); ++i) {
        const double g = static_cast<double>(u.grad[p.offset + i]) / trained;
        sum += g * g;
      }
    }
  const Json& all = r.golden["gradients"];
  EXPECT_EQ(squares.size(), all.size());
  for (auto& [name, numbers] : all.items()) {
    ASSERT_TRUE(squares.contains(name)) << name;
    const double norm = numbers[0].get<double>();
    EXPECT_NEAR(std::sqrt(squares[name]), norm, 1e-4 * norm + 1e-7) << name;
  }
}

TEST_P(ExpertFamily, DecodesStepByStepWhatTransformersComputesAtOnce) {
  Reference r(GetParam());
  CausalLm& model = *r.model;
  const ModelSpec& spec = model.spec;
  for (auto& [place, want] : r.golden["logits"].items()) {
    const std::size_t document = std::stoul(place), last = std::stoul(place.substr(place.find(',') + 1));
    const auto ids = r.golden["ids"][document].get<std::vector<Token>>();
    KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, 64);
    std::vector<float> logits(static_cast<std::size_t>(spec.vocab));
    auto feed = [&](std::size_t first, std::size_t count) {
      std::vector<Token> some(ids.begin() + static_cast<std::ptrdiff_t>(first),
                              ids.begin() + static_cast<std::ptrdiff_t>(first + count));
      std::vector<Token> none(count, kIgnore);
      std::vector<std::int32_t> positions, starts{0, static_cast<std::int32_t>(count)};
      for (std::size_t i = 0; i < count; ++i) positions.push_back(static_cast<std::int32_t>(first + i));
      const SequenceRows rows[] = {{&cache, 0, static_cast<std::int64_t>(count)}};
      const PackedBatch batch{some, none, positions, starts};
      Mat out{logits.data(), 1, spec.vocab};
      model.reserve(model.measure_calls([&] { model.generate(batch, rows, out); }));
      model.generate(batch, rows, out);
    };
    const std::size_t at_once = std::min<std::size_t>(last + 1, 12);
    feed(0, at_once);
    for (std::size_t t = at_once; t <= last; ++t) feed(t, 1);
    double top = 0, worst = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double reference = want[i].get<double>();
      top = std::max(top, std::abs(reference));
      worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - reference));
    }
    EXPECT_LE(worst, 1e-4 * top) << place;
  }
}

TEST_P(ExpertFamily, HasTheSameBitsRecomputedAndOnOtherThreads) {
  Reference r(GetParam());
  const double want = r.train();
  const auto gradients = r.gradients;
  for (RecomputePolicy recompute : {RecomputePolicy::mlp, RecomputePolicy::layers}) {
    r.model->recompute = recompute;
    EXPECT_EQ(r.train(), want);
    EXPECT_EQ(r.gradients, gradients);
  }
  r.model->recompute = RecomputePolicy::nothing;
  const int before = threads();
  for (int count : {1, 3}) {
    set_threads(count);
    EXPECT_EQ(r.train(), want) << count;
    EXPECT_EQ(r.gradients, gradients) << count;
  }
  set_threads(before);
}

// The same values as transformers 5 has them in memory: gate_up (E, 2 · F, D) and down (E, D, F).
TEST_P(ExpertFamily, ReadsStackedExpertsAsItReadsSingleOnes) {
  Reference single(GetParam());
  if (single.model->spec.moe.layout != ExpertLayout::each) GTEST_SKIP() << "stacked in its files already";
  const double want = single.train();
  const ModelSpec& spec = single.model->spec;
  std::map<std::string, std::vector<float>> stacked;
  ModelSpec other = spec;
  other.moe.layout = ExpertLayout::stacked;
  other.moe.naming = &kQwenExperts;
  if (GetParam() == "deepseek_v3") other.moe.naming = spec.moe.naming;
  std::map<std::tuple<WeightRole, std::int64_t, std::int64_t, bool>, std::string> from;
  for (const WeightName& w : weight_names(spec)) from[{w.role, w.layer, w.expert, w.bias}] = w.tensor;
  const TensorSource files = golden_source(single.files);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::string> renamed;
  for (const WeightName& w : weight_names(other)) {
    const std::string& old = from.at({w.role, w.layer, w.expert, w.bias});
    if (w.experts == 0) {
      renamed[w.tensor] = old;
      continue;
    }
    auto& values = stacked[w.tensor];
    values.resize(static_cast<std::size_t>(w.tensor_rows * w.cols));
    shapes[w.tensor] = w.tensor_shape();
    const std::vector<float> own = single.files->find(old)->floats(old);
    std::ranges::copy(own, values.begin() + w.first_row * w.cols);
  }
  Reference r(
      GetParam(), [&](ModelSpec& s) { s = other; },
      [&](const std::string& name) -> std::optional<StoredTensor> {
        auto found = stacked.find(name);
        if (found != stacked.end()) return StoredTensor{DType::f32, shapes.at(name), found->second.data()};
        return files(renamed.at(name));
      });
  EXPECT_EQ(r.train(), want);
}

// A gpt-oss whose experts are codes, beside the same with the numbers that they stand for, as (in, out), gate and up in
// turn.
class CodedExperts {
 public:
  CodedExperts() {
    Json config{{"model_type", "gpt_oss"},
                {"vocab_size", 61},
                {"hidden_size", 64},
                {"intermediate_size", 32},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 2},
                {"head_dim", 16},
                {"num_local_experts", 3},
                {"num_experts_per_tok", 2},
                {"sliding_window", 4},
                {"max_position_embeddings", 64},
                {"rope_scaling", {{"rope_type", "default"}}}};
    plain = read_model_config(config, "gpt_oss");
    coded = plain;
    coded.moe.layout = ExpertLayout::mxfp4;
    const Random random(7, Purpose::init);
    std::uint64_t next = 0;
    for (const WeightName& w : weight_names(plain)) {
      auto& values = numbers_[w.tensor];
      shapes_[w.tensor] = w.tensor_shape();
      if (!values.empty()) continue;
      values.resize(static_cast<std::size_t>(w.tensor_rows * w.cols));
      for (float& v : values) v = 0.3f * random.normal(next++);
      if (w.vector && !w.bias && w.role != WeightRole::sinks) std::ranges::fill(values, 1.f);
    }
    for (const WeightName& w : weight_names(coded))
      if (w.coded && !codes_.contains(w.tensor)) code(w, random, next);
  }
  TensorSource source(bool as_codes) const {
    return [this, as_codes](const std::string& name) -> std::optional<StoredTensor> {
      if (auto found = codes_.find(name); as_codes && found != codes_.end()) {
        StoredTensor t{DType::mxfp4, shapes_.at(name), found->second.data()};
        t.scale_codes = scales_.at(name).data();
        return t;
      }
      return StoredTensor{DType::f32, shapes_.at(name), numbers_.at(name).data()};
    };
  }
  ModelSpec plain, coded;

 private:
  // Codes of E2M1, the even one of two in the low half of a byte, and a power of two for 32.
  void code(const WeightName& w, const Random& random, std::uint64_t& next) {
    constexpr double kSteps[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    auto &bytes = codes_[w.tensor], &powers = scales_[w.tensor];
    const std::int64_t size = w.tensor_rows * w.cols, out = w.tensor_rows / w.experts;
    bytes.resize(static_cast<std::size_t>(size / 2));
    powers.resize(static_cast<std::size_t>(size / 32));
    shapes_[w.tensor] = w.tensor_shape();
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(next++, 256));
    for (auto& p : powers) p = static_cast<std::uint8_t>(122 + random.below(next++, 3));
    std::vector<float>& numbers = numbers_.at(w.tensor.substr(0, w.tensor.find("_blocks")));
    for (std::int64_t i = 0; i < size; ++i) {
      const int c = bytes[static_cast<std::size_t>(i / 2)] >> (i % 2 * 4) & 15;
      const double value =
          (c & 8 ? -1 : 1) * kSteps[c & 7] * std::pow(2.0, powers[static_cast<std::size_t>(i / 32)] - 127);
      const std::int64_t expert = i / (out * w.cols), row = i / w.cols % out, col = i % w.cols;
      numbers[static_cast<std::size_t>((expert * w.cols + col) * out + row)] = static_cast<float>(value);
    }
  }
  std::map<std::string, std::vector<float>> numbers_;
  std::map<std::string, std::vector<std::uint8_t>> codes_, scales_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

TEST(Mxfp4, ComputesWhatItsNumbersDo) {
  CodedExperts experts;
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0, 24};
  for (std::int32_t t = 0; t < 24; ++t) {
    tokens.push_back(t * 7 % 61), labels.push_back(t * 5 % 61), positions.push_back(t);
  }
  std::optional<double> loss;
  std::vector<std::vector<float>> wanted;
  for (bool as_codes : {false, true}) {
    AdapterConfig adapter;
    adapter.target_modules = {"q_proj"};
    adapter.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
    adapter.init = "false";  // B is not zero
    Training training;
    training.adapter = adapter;
    auto model = build_model(as_codes ? experts.coded : experts.plain, experts.source(as_codes), training, "gpt_oss");
    model->set_length(64);
    std::vector<std::vector<float>> gradients;
    for (Unit& u : model->parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
    const PackedBatch batch{tokens, labels, positions, starts};
    model->reserve(model->measure({24, 24, 1}, true));
    const double got = model->train(batch, {}, quiet);
    EXPECT_TRUE(std::isfinite(got));
    if (!as_codes) {
      loss = got, wanted = std::move(gradients);
      continue;
    }
    EXPECT_EQ(got, *loss);
    EXPECT_EQ(gradients, wanted);
  }
}

TEST(Mxfp4, IsNotTrained) {
  CodedExperts experts;
  Training training;
  training.full = true;
  try {
    build_model(experts.coded, experts.source(true), training, "gpt_oss");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("is stored as mxfp4, which cannot be trained: use an adapter"),
              std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpertFamily,
                         testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss",
                                         "deepseek_v3"),
                         [](auto& kind) { return kind.param; });

}  // namespace
}  // namespace dml
