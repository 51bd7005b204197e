// Files of gpt-oss with experts in mxfp4: answers, and the damage that such files can have.
#include <gmock/gmock.h>

#include <numeric>

#include "assembly/base_model.h"
#include "checkpoint/fixture.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "core/files.h"
#include "core/random.h"
#include "dist/comm.h"
#include "model/build.h"
#include "model/weight_names.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing_tools::put;
using testing_tools::refusal;
using testing_tools::TempDir;

const std::string kScales = "model.layers.1.mlp.experts.down_proj_scales";

class Mxfp4Files : public testing::Test {
 protected:
  // `odd`: a byte of kScales that is 255, if any.
  BaseModel write(std::optional<std::size_t> odd = {}) {
    const Json config{{"model_type", "gpt_oss"},
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
                      {"quantization_config", {{"quant_method", "mxfp4"}}}};
    put(dir_ / "config.json", dump(config));
    ModelSpec spec = read_model_config(config, "config.json");
    spec.moe.layout = ExpertLayout::mxfp4;
    std::vector<TensorInfo> infos;
    for (const WeightName& w : weight_names(spec)) {
      if (w.first_row > 0) continue;
      std::vector<std::int64_t> shape = w.tensor_shape();
      infos.push_back({w.tensor, w.coded ? DType::u8 : DType::f32, shape});
      shape.pop_back();
      if (w.coded) infos.push_back({w.mxfp4_scales(), DType::u8, shape});
    }
    SafetensorsWriter out(dir_ / "model.safetensors", infos);
    const Random random(11, Purpose::init);
    std::uint64_t next = 0;
    for (const TensorInfo& t : out.tensors()) {
      const auto size = static_cast<std::size_t>(t.size());
      if (t.dtype == DType::u8) {
        std::vector<std::uint8_t> bytes(size);
        for (auto& b : bytes)
          b = static_cast<std::uint8_t>(t.name.ends_with("_scales") ? 122 + random.below(next++, 3)
                                                                    : random.below(next++, 256));
        if (odd && t.name == kScales) bytes[*odd] = 255;
        out.append(bytes.data(), size);
      } else {
        std::vector<float> values(size);
        for (float& v : values) v = 0.3f * random.normal(next++);
        out.append_floats(t.dtype, values);
      }
    }
    out.commit();
    ModelSection section;
    section.base_model = dir_.path();
    return open_base_model(section);
  }

  // Of some tokens, one row each.
  static std::vector<float> logits(CausalLm& model) {
    const std::vector<Token> tokens{5, 17, 3, 40, 31, 8, 22, 60, 1};
    const auto length = std::ssize(tokens);
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> out(static_cast<std::size_t>(length * model.spec.vocab));
    KvCache cache(model.spec.layers, model.spec.kv_heads, model.spec.head_dim, length);
    SequenceRows rows{&cache, 0, length};
    rows.outputs = length;
    model.set_length(length);
    auto call = [&] {
      model.generate({tokens, {}, positions, {}}, {&rows, 1}, {out.data(), length, model.spec.vocab});
    };
    model.reserve(model.measure_calls(call));
    call();
    return out;
  }

  TempDir dir_;
};

// build_model() of codes has the numbers of their values: Mxfp4.ComputesWhatItsNumbersDo.
TEST_F(Mxfp4Files, AnswerWithTheirNumbers) {
  const BaseModel base = write();
  ASSERT_EQ(base.spec.moe.layout, ExpertLayout::mxfp4);
  const auto as_built = build_model(base.spec, base.source({}, {}), {}, dir_.path());
  const std::vector<float> wanted = logits(*as_built);
  EXPECT_TRUE(std::ranges::all_of(wanted, [](float x) { return std::isfinite(x); }));
  EXPECT_EQ(logits(*make_inference_model(base, std::nullopt)), wanted);
}

TEST_F(Mxfp4Files, WithAScaleThatIsNoNumberAreRefused) {
  EXPECT_NO_THROW(write().examine(*make_self_comm()));
  // Of shape (3, 64, 1).
  EXPECT_THAT(refusal([&] { write(64 * 2 + 5).examine(*make_self_comm()); }),
              HasSubstr("tensor '" + kScales + "': the scale at [2, 5, 0] is NaN (255)"));
}

}  // namespace
}  // namespace dml
