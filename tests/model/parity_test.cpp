// Every family against tools/make_golden.py: an independent float64 decoder in plain torch.
#include <gtest/gtest.h>

#include "core/error.h"
#include "golden.h"
#include "kernels/processor.h"
#include "nn/hooks.h"

namespace dml {
namespace {

constexpr double kClose = 1e-4;  // of the tensor's largest value

UnitHooks no_call;

void expect_close(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double top = 0, worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    top = std::max(top, std::abs(static_cast<double>(want[i])));
    double off = std::abs(static_cast<double>(got[i]) - want[i]);
    worst = std::isfinite(off) ? std::max(worst, off) : 1e30;
  }
  EXPECT_LE(worst, kClose * top + 1e-9) << what << ": largest value " << top;
}

double golden_loss(const std::string& path, const char* key) { return read_json(path)[key].get<double>(); }

// Gradients of every parameter; goldens are of the mean loss, ours of the sum.
void expect_gradients(GoldenModel& m, const std::string& path, std::int64_t trained) {
  SafetensorsFile file(path);
  std::size_t seen = 0;
  for (Unit& u : m.model->parameters.units())
    for (const Parameter& p : u.parameters) {
      ++seen;
      std::vector<float> want = file.at(p.name).floats(path), got(want.size());
      const auto order = m.model->reordered.find(p.name);
      for (std::int64_t i = 0; i < p.size(); ++i)
        got[static_cast<std::size_t>(order == m.model->reordered.end() ? i : order->second.place(i))] =
            u.grad[p.offset + i] / static_cast<float>(trained);
      expect_close(got, want, p.name);
    }
  EXPECT_EQ(seen, file.tensors().size());
}

class Family : public testing::TestWithParam<std::string> {};

TEST_P(Family, LossAndGradientsOfFullFineTuningAreTheReferences) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  GoldenModel m(GetParam(), false, batch);
  double sum = m.model->train(batch.view(), {}, no_call);
  double want = golden_loss(golden_path(GetParam()) + "/full/loss.json", "sum");
  EXPECT_NEAR(sum, want, 1e-5 * want);
  expect_gradients(m, golden_path(GetParam()) + "/full/gradients.safetensors", batch.view().trained());
}

TEST_P(Family, LossAndGradientsOfAnAdapterAreTheReferences) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  GoldenModel m(GetParam(), true, batch);
  double sum = m.model->train(batch.view(), {}, no_call);
  double want = golden_loss(golden_path(GetParam()) + "/lora/loss.json", "sum");
  EXPECT_NEAR(sum, want, 1e-5 * want);
  expect_gradients(m, golden_path(GetParam()) + "/lora/gradients.safetensors", batch.view().trained());
}

TEST_P(Family, RecomputingGivesTheSameBits) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  GoldenModel m(GetParam(), true, batch);
  double plain = m.model->train(batch.view(), {}, no_call);
  auto gradients = m.gradients;
  const std::int64_t layers = m.model->spec.layers;
  for (RecomputePolicy recompute : {RecomputePolicy::mlp, RecomputePolicy::layers}) {
    m.model->recompute = recompute;
    std::size_t less = 0;  // memory with one layer less that is computed again
    for (std::int64_t some : {layers - 1, layers}) {
      m.zero();
      m.model->recompute_layers = some;
      const std::size_t memory = m.model->measure(GoldenModel::shape(batch), true);
      m.model->reserve(memory);
      EXPECT_EQ(m.model->train(batch.view(), {}, no_call), plain);
      EXPECT_EQ(m.gradients, gradients);
      if (some == layers) {
        EXPECT_LE(memory, less);
      }
      less = memory;
    }
  }
}

TEST_P(Family, GeneratingReadsTheLogitsOfTraining) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  GoldenModel m(GetParam(), false, batch);
  std::string path = golden_path(GetParam()) + "/full/logits.safetensors";
  SafetensorsFile file(path);
  std::vector<float> want = file.at("logits").floats(path);
  const std::int64_t vocab = m.model->spec.vocab;
  // The first document, all at once and token by token.
  const std::int32_t length = batch.starts[1];
  std::span<const float> last(want.data() + (length - 1) * vocab, static_cast<std::size_t>(vocab));
  for (std::int32_t step : {length, 1}) {
    KvCache cache(m.model->spec.layers, m.model->spec.kv_heads, m.model->spec.head_dim, length);
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    for (std::int32_t t = 0; t < length; t += step) {
      SequenceRows rows{&cache, 0, step};
      PackedBatch part{std::span(batch.tokens).subspan(t, step), {}, std::span(batch.positions).subspan(t, step), {}};
      m.model->generate(part, {&rows, 1}, {logits.data(), 1, vocab});
    }
    expect_close(logits, last, step == 1 ? "token by token" : "at once");
  }
}

// These models have a few hundred random weights a matrix, so single gradients are off by up to an eighth of the
// tensor's largest value (adapters' more than weights', as their products round, too), and a tensor's direction by
// little.
class DenseFamily : public Family {};

TEST_P(DenseFamily, GradientsWithProductsInBf16PointWhereThoseInFloat32Do) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  for (bool lora : {false, true}) {
    GoldenModel exact(GetParam(), lora, batch);
    const double exact_sum = exact.model->train(batch.view(), {}, no_call);
    kernels::use_precision(DType::bf16);
    GoldenModel rounded(GetParam(), lora, batch);
    const double sum = rounded.model->train(batch.view(), {}, no_call);
    kernels::use_precision(DType::f32);
    EXPECT_NEAR(sum, exact_sum, 5e-3 * exact_sum);
    EXPECT_NE(rounded.gradients, exact.gradients);
    for (std::size_t u = 0; u < exact.gradients.size(); ++u)
      for (const Parameter& p : exact.model->parameters.units()[u].parameters) {
        double dot = 0, a2 = 0, b2 = 0, top = 0, off = 0;
        for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          const double a = exact.gradients[u][at], b = rounded.gradients[u][at];
          dot += a * b, a2 += a * a, b2 += b * b, top = std::max(top, std::abs(a)),
                                                  off = std::max(off, std::abs(a - b));
        }
        EXPECT_LE(off, 0.125 * top + 1e-9) << p.name;
        if (top > 1e-6) {
          EXPECT_GE(dot / std::sqrt(a2 * b2), 0.997) << p.name;
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Family, testing::ValuesIn(golden_families()), [](auto& row) { return row.param; });
INSTANTIATE_TEST_SUITE_P(Goldens, DenseFamily, testing::ValuesIn(dense_golden_families()),
                         [](auto& row) { return row.param; });

TEST(Rope, EveryScalingGivesTheReferencesLogits) {
  for (auto& entry : std::filesystem::directory_iterator(golden_path("llama_rope"))) {
    for (const char* which : {"short", "long"}) {
      std::string folder = entry.path().string() + "/" + which;
      GoldenBatch batch(folder + "/batch.json");
      GoldenModel m("llama_tiny", false, batch, entry.path().string());
      double want = golden_loss(folder + "/loss.json", "sum");
      EXPECT_NEAR(m.model->evaluate(batch.view(), no_call), want, 1e-5 * want) << folder;
    }
  }
}

// Scalings that go by the length of a text: each document of a batch by its own.
class RopeOfDocuments : public testing::TestWithParam<std::string> {
 protected:
  std::string folder = golden_path("llama_rope/" + GetParam());
  GoldenBatch batch{folder + "/mixed/batch.json"};
};

TEST_P(RopeOfDocuments, LossAndGradientsAreTheReferencesWhateverTheLongestDocument) {
  for (std::int64_t length : {batch.longest(), std::int64_t{100}}) {
    GoldenModel m("llama_tiny", false, batch, folder);
    m.model->set_length(length);
    m.model->reserve(m.model->measure(GoldenModel::shape(batch), true));
    const double sum = m.model->train(batch.view(), {}, no_call);
    const double want = golden_loss(folder + "/mixed/loss.json", "sum");
    EXPECT_NEAR(sum, want, 1e-5 * want);
    expect_gradients(m, folder + "/mixed/gradients.safetensors", batch.view().trained());
    EXPECT_EQ(m.model->evaluate(batch.view(), no_call), sum);
  }
}

TEST_P(RopeOfDocuments, LossesAreThoseOfTheDocumentAloneAndTheSameBitsOnAnyThreads) {
  std::vector<float> rows(static_cast<std::size_t>(batch.view().trained())), first_rows;
  for (int threads : {1, 2, 3}) {
    set_threads(threads);
    GoldenModel m("llama_tiny", false, batch, folder);
    m.model->evaluate(batch.view(), no_call, rows);
    if (threads == 1) first_rows = rows;
    EXPECT_EQ(rows, first_rows) << threads;
    std::size_t row = 0;
    for (std::int64_t d = 0; d < batch.view().documents(); ++d) {
      const auto first = static_cast<std::size_t>(batch.starts[static_cast<std::size_t>(d)]),
                 count = static_cast<std::size_t>(batch.starts[static_cast<std::size_t>(d) + 1]) - first;
      const std::vector<std::int32_t> starts{0, static_cast<std::int32_t>(count)};
      PackedBatch alone{std::span(batch.tokens).subspan(first, count), std::span(batch.labels).subspan(first, count),
                        std::span(batch.positions).subspan(first, count), starts};
      std::vector<float> losses(static_cast<std::size_t>(alone.trained()));
      m.model->evaluate(alone, no_call, losses);
      for (float loss : losses) ASSERT_NEAR(loss, rows[row++], 2e-5) << "document " << d;
    }
  }
}

TEST_P(RopeOfDocuments, LengthIsThatOfTheWholeDocumentThoughItsEndFeedsNoLabel) {
  // The third document has 33 tokens: one too many for the first frequencies, whatever of it has labels.
  std::vector<Token> tokens(batch.tokens.begin() + batch.starts[2], batch.tokens.begin() + batch.starts[3]);
  std::vector<std::int32_t> positions(batch.positions.begin() + batch.starts[2],
                                      batch.positions.begin() + batch.starts[3]);
  ASSERT_EQ(tokens.size(), 33u);
  std::vector<Token> all(tokens.begin() + 1, tokens.end()), begin(tokens.size(), kIgnore);
  all.push_back(kIgnore);
  std::copy_n(all.begin(), 10, begin.begin());
  const std::vector<std::int32_t> starts{0, 33}, short_starts{0, 20};
  GoldenModel m("llama_tiny", false, batch, folder);
  std::vector<float> whole(32), part(10), cut(10);
  m.model->evaluate({tokens, all, positions, starts}, no_call, whole);
  m.model->evaluate({tokens, begin, positions, starts}, no_call, part);
  m.model->evaluate(
      {std::span(tokens).first(20), std::span(begin).first(20), std::span(positions).first(20), short_starts}, no_call,
      cut);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(part[i], whole[i], 1e-5) << i;
  EXPECT_NE(part, cut);
}

INSTANTIATE_TEST_SUITE_P(Goldens, RopeOfDocuments, testing::Values("dynamic", "longrope"),
                         [](auto& row) { return row.param; });

TEST(CausalLm, RowLossesAreTheReferences) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel m("llama_tiny", false, batch);
  auto want = read_json(golden_path("llama_tiny") + "/full/loss.json")["tokens"].get<std::vector<double>>();
  std::vector<float> rows(static_cast<std::size_t>(batch.view().trained()));
  m.model->evaluate(batch.view(), no_call, rows);
  for (std::size_t t = 0, i = 0; t < batch.labels.size(); ++t)
    if (batch.labels[t] != kIgnore) {
      EXPECT_NEAR(rows[i++], want[t], 1e-4) << t;
    }
}

TEST(CausalLm, TenStepsOfAdamWGiveTheReferencesLosses) {
  Json golden = read_json(golden_path("llama_tiny") + "/adamw.json");
  for (bool lora : {false, true}) {
    GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
    GoldenModel m("llama_tiny", lora, batch);
    auto want = golden[lora ? "lora_losses" : "full_losses"].get<std::vector<double>>();
    auto got = ten_adamw_steps(*m.model, batch, golden["lr"]);
    for (std::size_t step = 0; step < want.size(); ++step)
      EXPECT_NEAR(got[step], want[step], 1e-5 * want[step]) << (lora ? "lora" : "full") << " step " << step;
  }
}

TEST(CausalLm, BitsDoNotDependOnThreads) {
  GoldenBatch batch(golden_path("gemma2") + "/batch.json");
  std::vector<std::vector<float>> want;
  for (int n : {1, 2, 3, 4}) {
    set_threads(n);
    GoldenModel m("gemma2", true, batch, "", 0.1);
    m.model->train(batch.view(), {7, 3}, no_call);
    if (n == 1) want = m.gradients;
    else EXPECT_EQ(m.gradients, want) << n << " threads";
  }
}

TEST(CausalLm, MeasuredMemoryIsWhatAStepTakes) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  // Measured is what a batch takes whose documents are needed to their ends.
  for (std::size_t d = 1; d < batch.starts.size(); ++d)
    batch.labels[static_cast<std::size_t>(batch.starts[d]) - 1] = batch.tokens[0];
  GoldenModel m("llama_tiny", true, batch);
  std::size_t plan = m.model->measure(GoldenModel::shape(batch), true);
  m.model->reserve(plan);
  EXPECT_NO_THROW(m.model->train(batch.view(), {}, no_call));
  m.model->reserve(plan - 4096);
  EXPECT_THROW(m.model->train(batch.view(), {}, no_call), Error);
}

}  // namespace
}  // namespace dml
