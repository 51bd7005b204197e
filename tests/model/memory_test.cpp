// The planned working memory is an upper bound for every micro-batch of a schedule, whatever its lengths and labels:
// random models, ways to train them and micro-batches. DML_LONG=1: 10,000 micro-batches.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "core/error.h"
#include "golden.h"

namespace dml {
namespace {

const std::vector<std::string> kFamilies = dense_golden_families();

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> some) {
    return *(some.begin() + between(0, std::ssize(some) - 1));
  }

 private:
  std::mt19937_64 engine_;
};

// A family's block with other sizes.
ModelSpec random_spec(Dice& dice, bool small) {
  ModelSpec spec = read_model_spec(
      golden_path(kFamilies[static_cast<std::size_t>(dice.between(0, std::ssize(kFamilies) - 1))]) + "/model");
  spec.layers = dice.between(1, 3);
  spec.kv_heads = dice.one_of<std::int64_t>({1, 2, 4});
  spec.heads = spec.qk_norm.over == QkNormSpec::Over::all_heads || spec.model_type == "gpt2"
                   ? spec.kv_heads
                   : spec.kv_heads * dice.one_of<std::int64_t>({1, 2, 4});
  spec.head_dim = 8 * dice.between(1, small ? 2 : 16);
  spec.hidden = spec.heads * spec.head_dim;
  spec.ffn = 16 * dice.between(1, small ? 16 : 300);
  spec.vocab = dice.between(small ? 70 : 200, small ? 700 : 200000);
  spec.max_positions = 1 << 14;
  spec.rope = {}, spec.rope_local = {}, spec.without_rope = {};
  if (spec.positions != Positions::learned &&
      dice.one_in(4)) {  // angles of its own for every length beyond the 500th token
    spec.rope.scaling = RopeScaling::dynamic, spec.rope.factor = 2;
    spec.max_positions = 500;
  }
  if (spec.positions == Positions::rope && dice.one_in(3)) {  // angles that depend on the documents
    spec.rope.scaling = dice.one_of({RopeScaling::dynamic, RopeScaling::longrope});
    spec.rope.factor = 2;
    spec.rope.original_positions = spec.max_positions = dice.between(16, 600);
    spec.rope.long_factor = spec.rope.short_factor =
        std::vector<double>(static_cast<std::size_t>(spec.head_dim / 2), 1.5);
  }
  spec.windows.assign(static_cast<std::size_t>(spec.layers), 0);
  for (auto& window : spec.windows) window = dice.one_in(3) ? dice.between(16, 600) : 0;
  return spec;
}

struct Zeros {
  Arena memory;  // of which a large model's pages are never touched
  // What every tensor of the base is.
  TensorSource source(const ModelSpec& spec) {
    std::int64_t most = 0;
    auto names = weight_names(spec);
    for (const WeightName& w : names) most = std::max(most, w.tensor_rows * w.cols);
    memory = Arena(static_cast<std::size_t>(most) * sizeof(float));
    const float* values = memory.take<float>(most).data();
    return [values, names](const std::string& name) -> std::optional<StoredTensor> {
      for (const WeightName& w : names)
        if (w.tensor == name) return StoredTensor{DType::f32, w.tensor_shape(), values};
      return std::nullopt;
    };
  }
};

struct Trainee {
  ModelSpec spec;
  Zeros zeros;
  std::unique_ptr<CausalLm> model;
  std::string how;

  Trainee(Dice& dice, bool small) : spec(random_spec(dice, small)) {
    Training training;
    training.full = dice.one_in(3);
    training.values.in_parts = training.full && !small;  // no values are allocated
    if (training.full && dice.one_in(3))
      training.unfrozen = [](const std::string& name, std::int64_t rows) -> std::optional<UnfrozenRows> {
        return name.find("mlp") == name.npos ? std::nullopt : std::optional(UnfrozenRows{0, rows});
      };
    if (!training.full) {
      AdapterConfig adapter{.r = dice.one_of<std::int64_t>({1, 4, 16, 64, 100}), .all_linear = true};
      adapter.dropout = dice.one_in(2) ? 0.1 : 0;
      adapter.use_dora = dice.one_in(3);
      if (dice.one_in(2)) adapter.layers_to_transform = {spec.layers - 1};
      else if (small && !adapter.use_dora && !spec.tied && dice.one_in(3))
        adapter.modules_to_save = {"embed_tokens", "lm_head"};
      if (spec.model_type == "gpt2") adapter.modules_to_save = {};
      training.adapter = adapter;
    }
    model = build_model(spec, zeros.source(spec), training, "zeros");
    model->recompute = dice.one_of({RecomputePolicy::nothing, RecomputePolicy::mlp, RecomputePolicy::layers});
    if (dice.one_in(2)) model->recompute_layers = dice.between(0, spec.layers);
    if (dice.one_in(2)) model->saves.intermediates = DType::bf16;
    if (dice.one_in(2)) model->saves.norm_inputs = DType::bf16;
    if (training.full && !small)
      model->parameters.values_in_parts = dice.one_in(2), model->parameters.gradients_in_parts = dice.one_in(2);
    const bool inputs = model->saves.norm_inputs == DType::bf16, others = model->saves.intermediates == DType::bf16;
    const char* rounded = inputs && others ? " rounded" : inputs ? " rounded inputs" : others ? " rounded others" : "";
    how = fmt::format("{} {} × {}, ffn {}, vocabulary {}, {} heads of {}, {}, keep {}{} of {} layers", spec.model_type,
                      spec.layers, spec.hidden, spec.ffn, spec.vocab, spec.heads, spec.head_dim,
                      training.full                ? "full"
                      : training.adapter->use_dora ? fmt::format("dora {}", training.adapter->r)
                                                   : fmt::format("lora {}", training.adapter->r),
                      static_cast<int>(model->recompute), rounded, model->recompute_layers);
  }
};

struct RandomBatch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};

  RandomBatch(Dice& dice, std::int64_t longest, std::int64_t vocab) {
    const std::int64_t room = dice.one_in(3) ? longest : dice.between(2, longest);
    const std::int64_t mean = std::max<std::int64_t>(2, room / dice.between(1, 12));
    const auto pattern = dice.between(0, 5);
    while (std::ssize(tokens) < room) {
      const std::int64_t left = room - std::ssize(tokens);
      const std::int64_t length = std::min(left, dice.one_in(4) ? mean : dice.between(1, 2 * mean));
      const std::int64_t prompt = dice.between(0, length - 1);
      for (std::int64_t i = 0; i < length; ++i) {
        tokens.push_back(static_cast<Token>(dice.between(0, vocab - 1)));
        positions.push_back(static_cast<std::int32_t>(i));
        bool trained = i + 1 < length;  // all of it: what a prompt leaves, scattered ones, one, none
        if (pattern == 1) trained = trained && i >= prompt;
        if (pattern == 2) trained = trained && dice.one_in(3);
        if (pattern == 3) trained = trained && i == prompt;
        if (pattern == 4) trained = trained && starts.size() % 3 == 0;
        if (pattern == 5) trained = true;
        labels.push_back(trained ? tokens.back() : kIgnore);
      }
      starts.push_back(static_cast<std::int32_t>(tokens.size()));
    }
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
};

TEST(MemoryPlan, BoundsEveryMicroBatchOfAScheduleByWhateverItsLengthsAndLabelsAre) {
  const bool all = std::getenv("DML_LONG") != nullptr;
  const std::int64_t models = all ? 500 : 30, batches = all ? 20 : 10;
  UnitHooks no_hooks;
  double tightest = 10;
  for (std::int64_t m = 0; m < models; ++m) {
    Dice dice(static_cast<std::uint64_t>(m));
    const bool small = m % 2 == 0;  // small enough for steps that are really taken
    Trainee trainee(dice, small);
    CausalLm& model = *trainee.model;
    SCOPED_TRACE(fmt::format("model {}: {}", m, trainee.how));
    const std::int64_t longest = dice.between(2, small ? 1500 : 5000);
    model.set_length(longest);
    std::vector<RandomBatch> schedule;
    CausalLm::Shape shape{0, 0, 0};
    for (std::int64_t b = 0; b < batches; ++b) {
      PackedBatch view = schedule.emplace_back(dice, longest, trainee.spec.vocab).view();
      shape.tokens = std::max(shape.tokens, view.size());
      shape.documents = std::max(shape.documents, view.documents());
    }
    shape.trained = shape.tokens;
    const std::size_t plan = model.measure(shape, true), evaluation = model.measure(shape, false);
    std::size_t largest = 0;
    for (const RandomBatch& b : schedule) {
      const std::size_t exact = model.measure(b.view(), true);
      largest = std::max(largest, exact);
      ASSERT_LE(exact, plan) << b.view().size() << " tokens, " << b.view().trained() << " trained, "
                             << b.view().documents() << " documents";
      ASSERT_LE(model.measure(b.view(), false), evaluation) << b.view().size() << " tokens";
    }
    ASSERT_LE(model.measure(PackedBatch{}, true), plan);
    tightest = std::min(tightest, static_cast<double>(plan) / static_cast<double>(largest));
    if (!small) continue;
    // What a dry run finds for a micro-batch is enough for the step itself.
    std::vector<std::vector<float>> gradients;
    for (Unit& u : model.parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
    const PackedBatch taken = std::ranges::min_element(schedule, {}, [](auto& b) { return b.tokens.size(); })->view();
    model.reserve(std::max(model.measure(taken, true), model.measure(taken, false)));
    ASSERT_NO_THROW(model.train(taken, {1, 2}, no_hooks));
    ASSERT_NO_THROW(model.evaluate(taken, no_hooks));
  }
  EXPECT_LE(tightest, 1.01) << "no plan comes near the largest micro-batch";
}

TEST(MemoryPlan, OfFewerTokensThatMakeOneLargeChunkIsBoundedByThatOfMore) {
  // 600 trained tokens make two chunks of logits, 500 make one larger chunk with any register block.
  ModelSpec spec = read_model_spec(golden_path("llama_tiny") + "/model");
  spec.vocab = 8000, spec.layers = 1;
  Training full;
  full.full = true;
  auto model = build_model(spec, {}, full, "random");
  model->set_length(600);
  const std::vector<Token> tokens(600, 1);
  std::vector<std::int32_t> positions(600);
  std::iota(positions.begin(), positions.end(), 0);
  auto memory_of = [&](std::int32_t count) {
    const auto n = static_cast<std::size_t>(count);
    const std::int32_t starts[] = {0, count};
    const auto some = std::span(tokens).first(n);
    return model->measure(PackedBatch{some, some, std::span(positions).first(n), starts}, true);
  };
  EXPECT_LT(memory_of(600), memory_of(500)) << "else this test is about nothing";
  EXPECT_LE(memory_of(500), model->measure({600, 600, 1}, true));
}

}  // namespace
}  // namespace dml
