// The bytes of weights that a new token of one prompt reads, as the kernels count them while they read: of a mixture
// those of the token's experts and of what every token goes through, not those of the other experts.
#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/model_config.h"
#include "core/profile.h"
#include "diagnose/synthetic.h"
#include "nn/kv_cache.h"

namespace dml {
namespace {

struct Profiled {
  Profiled() { profiling = true, reset_profile(); }
  ~Profiled() { profiling = false, reset_profile(); }
  static std::int64_t weight_bytes() {
    std::int64_t sum = 0;
    for (const ProfileRow& row : profile_rows()) sum += row.weight_bytes;
    return sum;
  }
};

void feed(CausalLm& model, KvCache& cache, std::vector<Token> tokens, std::int32_t first) {
  const auto count = std::ssize(tokens);
  std::vector<Token> none(tokens.size(), kIgnore);
  std::vector<std::int32_t> positions, starts{0, static_cast<std::int32_t>(count)};
  for (std::int32_t i = 0; i < count; ++i) positions.push_back(first + i);
  std::vector<float> logits(static_cast<std::size_t>(model.spec.vocab));
  const SequenceRows rows[] = {{&cache, 0, count}};
  const PackedBatch batch{tokens, none, positions, starts};
  const Mat out{logits.data(), 1, model.spec.vocab};
  model.reserve(model.measure_calls([&] { model.generate(batch, rows, out); }));
  model.generate(batch, rows, out);
}

class DecodingBytes : public testing::TestWithParam<std::string> {};

TEST_P(DecodingBytes, OfATokenAreThoseOfItsExperts) {
  const std::string& storage = GetParam();
  ModelSection section;
  section.model_config = Json{{"model_type", "mixtral"},     {"vocab_size", 96},
                              {"hidden_size", 128},          {"intermediate_size", 192},
                              {"num_hidden_layers", 2},      {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},    {"num_local_experts", 8},
                              {"num_experts_per_tok", 2},    {"max_position_embeddings", 64},
                              {"tie_word_embeddings", false}};
  section.frozen_storage = storage == "f32" ? DType::f32 : DType::bf16;
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;  // frozen weights
  adapter.load_in_4bit = storage == "nf4", adapter.load_in_8bit = storage == "int8";
  const ModelSpec spec = read_model_config(section.model_config, "mixtral");
  SyntheticWeights weights(spec, section, adapter);
  auto model = build_model(spec, weights.source(), {}, "mixtral");
  model->set_length(64);

  KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, 64);
  feed(*model, cache, {1, 5, 9, 13, 17}, 0);
  const Profiled profiled;
  feed(*model, cache, {21}, 5);
  const auto read = static_cast<double>(Profiled::weight_bytes());

  auto bytes = [](const Linear& l) {
    const kernels::Weight w = l.value();
    return static_cast<double>(kernels::bytes_of_rows(w, w.rows));
  };
  const kernels::Weight head = model->head.value();
  double others = static_cast<double>(kernels::bytes_of_rows(head, head.rows)), active = 0, all = 0;
  for (const DecoderLayer& l : model->layers) {
    for (const Linear* w : {&l.attention.q, &l.attention.k, &l.attention.v, &l.attention.o, &l.mlp.moe.router.gate})
      others += bytes(*w);
    const Mlp& expert = l.mlp.moe.experts[0];  // all have the same shape
    const double one = bytes(expert.gate) + bytes(expert.up) + bytes(expert.down);
    active += 2 * one, all += 8 * one;
  }
  EXPECT_GE(read, others + active);
  EXPECT_LE(read, others + 1.1 * active);
  EXPECT_LT(read, others + all);
}

INSTANTIATE_TEST_SUITE_P(Storages, DecodingBytes, testing::Values("f32", "bf16", "int8", "nf4"),
                         [](auto& storage) { return storage.param; });

}  // namespace
}  // namespace dml
