#include "diagnose/bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "assembly/base_model.h"
#include "core/error.h"
#include "core/files.h"
#include "diagnose/operation_count.h"
#include "diagnose/work_span.h"
#include "dist/thread_ranks.h"
#include "temporary_folder.h"

namespace dml {
namespace {

constexpr const char* kModel =
    "model_config: {model_type: llama, vocab_size: 100, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2,\n"
    "  num_attention_heads: 4, num_key_value_heads: 2, rms_norm_eps: 1.0e-5, tie_word_embeddings: false}\n"
    "sequence_len: 16\nmicro_batch_size: 2\nthreads: 1\nlearning_rate: 1e-3\n";
constexpr const char* kLora = "adapter: lora\nlora_r: 4\nlora_target_linear: true\n";

Recipe recipe_of(const std::string& text) { return read_recipe(text, "recipe.yml", {}, RecipeUse::measure).recipe; }

std::unique_ptr<CausalLm> model_of(const Recipe& recipe) {
  return build_model(open_base_model(recipe.model).spec, {}, training_of(recipe.adapter, "", 1), "model_config");
}

// Weights of one layer's linear layers: q and o 64², k and v 64·32, gate, up and down 64·96.
constexpr double kLinear = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96, kHead = 64 * 100;

// The last of the 16 tokens feeds nothing; in the last layer 12 rows go on, k and v still serve all 15.
constexpr SyntheticDocument kDocument[] = {{16, 12}};
constexpr double kKeysOfOthers = 3;
constexpr double kLast = kLinear * 12 + kKeysOfOthers * 2 * 64 * 32;
constexpr double kPairs = 15 * 16 / 2 + (15 * 16 / 2 - 3 * 4 / 2);

TEST(OperationCount, OfFullFineTuningIsSixTimesWeightsAndTokens) {
  SyntheticBatch batch(kDocument, 100, 1);
  OperationCount n = count_operations(*model_of(recipe_of(kModel)), batch.batch());
  EXPECT_EQ(n.forward, 2 * (kLinear * 15 + kLast + kHead * 12) + 4 * 64 * kPairs);
  EXPECT_EQ(n.backward, 2 * n.forward);
}

TEST(OperationCount, OfAnAdapterOmitsWeightGradientsAndLowerLayers) {
  SyntheticBatch batch(kDocument, 100, 1);
  OperationCount n = count_operations(*model_of(recipe_of(std::string(kModel) + kLora)), batch.batch());
  const double attention = 4 * 64 * kPairs, base = 2 * (kLinear * 15 + kLast + kHead * 12);
  // in + out, rank 4: q, o, k, v, gate, up, down.
  const double adapters = 2 * 4 * ((128.0 + 128 + 2 * 96 + 3 * 160) * (15 + 12) + 2 * 96 * kKeysOfOthers);
  EXPECT_EQ(n.forward, base + attention + adapters);
  // Nothing before the lowest layer's q, k and v wants a gradient: neither through W nor through A.
  const double spared = 2 * 15 * (64 * 64 + 2 * 64 * 32) + 2 * 15 * 3 * 64 * 4;
  EXPECT_EQ(n.backward, base + 2 * attention + 2 * adapters - spared);
}

TEST(OperationCount, CountsDocumentsSeparately) {
  SyntheticDocument one[] = {{16, 2}}, two[] = {{8, 1}, {9, 1}};
  auto model = model_of(recipe_of(kModel));
  SyntheticBatch a(one, 100, 1), b(two, 100, 1);
  ASSERT_EQ(b.batch().documents(), 2);
  ASSERT_EQ(b.batch().trained(), a.batch().trained());
  // Only attention differs: of 15 and of 7 + 8 queries in the first layer, of labeled ones (at 13 and 14; at 6 and 7)
  // in the last.
  double pairs = (15 * 16 / 2 - 7 * 8 / 2 - 8 * 9 / 2) + (14 + 15 - 7 - 8);
  EXPECT_EQ(count_operations(*model, a.batch()).total() - count_operations(*model, b.batch()).total(), 12 * 64 * pairs);
}

TEST(Bench, NeedsNeitherDataNorTokenizerAndGivesTheSameLossOnAnyNumberOfRanks) {
  for (const char* how : {"", kLora, "adapter: qlora\nlora_r: 4\nlora_target_linear: true\n"}) {
    Recipe recipe = recipe_of(std::string(kModel) + "batch_size: 8\n" + how);
    const bool measures_rates = *how == '\0';  // this takes seconds
    BenchOptions options{.masked = 0.5, .documents = {}, .warmup = 1, .steps = 2, .yardstick = measures_rates};
    auto self = make_self_comm();
    BenchResult alone = bench(recipe, *self, options);
    EXPECT_EQ(alone.tokens, 128);
    EXPECT_EQ(alone.trained_tokens, 64);
    EXPECT_NEAR(alone.first_loss, std::log(100), 0.5);
    EXPECT_LT(alone.last_loss, alone.first_loss);
    if (measures_rates) {
      EXPECT_GT(alone.fraction, 0);
    }
    for (double seconds : {alone.median.forward, alone.median.head, alone.median.backward, alone.median.optimizer})
      EXPECT_GT(seconds, 0);
    run_thread_ranks(2, [&](Comm& comm) {
      BenchResult both = bench(recipe, comm, options);
      EXPECT_EQ(both.tokens, alone.tokens);
      EXPECT_EQ(both.last_loss, alone.last_loss);
    });
  }
}

TEST(SyntheticDocuments, AreReadFromLinesAndCheckedOneByOne) {
  testing_tools::TemporaryFolder folder;
  std::string path = folder / "documents.txt";
  write_file(path, "# tokens learned\n16 8\n2 1\n");
  auto documents = read_documents(path);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].trained, 8);
  for (const char* bad : {"16 16\n", "1 0\n", "x\n", "5\n", ""}) {
    write_file(path, bad);
    EXPECT_THROW(read_documents(path), UserError) << bad;
  }
}

TEST(WorkSpanReport, AddsUpAndFewTilesScalePoorly) {
  Recipe recipe = recipe_of(std::string(kModel) + kLora);
  auto self = make_self_comm();
  WorkSpan report = work_span(recipe, *self, {.masked = 0, .documents = {}}, {2, 1000});
  double work = 0, seconds = 0;
  for (auto& row : report.rows) {
    work += row.work;
    seconds += row.seconds[1];
    EXPECT_GE(row.seconds[1], -1e-9) << row.name;
  }
  EXPECT_NEAR(work, report.total.work, 1e-12);
  EXPECT_NEAR(seconds, report.total.seconds[1], 1e-9);
  EXPECT_LT(report.efficiency(report.total, 1), 0.2);  // 32 tokens are not work for a thousand threads
  EXPECT_EQ(report.table().size(), report.rows.size() + 2);
}

}  // namespace
}  // namespace dml
