// Models of AWQ, GPTQ and mlx-lm against the values that their bits stand for (tools/make_packed_golden.py).
#include "checkpoint/packed_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "model/weight_names.h"

namespace dml {
namespace {

using testing::HasSubstr;
const std::string kPacked = DML_SOURCE_DIR "/tests/golden/packed/";

Json packed_json(const std::string& name) { return read_json(kPacked + name + "/config.json"); }

std::string refusal_of(const Json& config) {
  try {
    packed_config(config, "config.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(PackedGroups, UnpackToTheExpectedValues) {
  const SafetensorsFile expected(kPacked + "expected.safetensors");
  for (const auto& [name, prefix] : {std::pair{"awq", "columns."}, {"gptq", "columns."}, {"mlx", "mlx."}}) {
    SCOPED_TRACE(name);
    const ModelSpec spec = read_model_spec(kPacked + name);
    const PackedConfig config = packed_config(packed_json(name), "config.json");
    EXPECT_EQ(config.group, 32);
    const ModelFiles files = unpack_groups(ModelFiles(kPacked + name), config, spec);
    int matrices = 0;
    for (const WeightName& w : weight_names(spec)) {
      const TensorView* t = files.find(w.tensor);
      ASSERT_NE(t, nullptr) << w.tensor;
      if (!is_linear(w)) continue;
      ASSERT_EQ(t->dtype, DType::q4_1) << w.tensor;
      std::vector<float> values(static_cast<std::size_t>(t->size()));
      t->read(0, t->size(), values.data());
      const std::vector<float> right =
          expected.find(prefix + w.tensor.substr(0, w.tensor.rfind(".weight")))->floats("expected");
      ASSERT_EQ(values.size(), right.size());
      // The offset, at most 0.6, is rounded to half precision; mlx's is in half precision.
      const float most = std::string(name) == "mlx" ? 1e-6f : 0.6f / 2048;
      for (std::size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(values[i], right[i], most) << w.tensor << " " << i;
      ++matrices;
    }
    EXPECT_EQ(matrices, 7);
    for (const TensorView& t : files.tensors())
      EXPECT_EQ(std::string(t.name).find("scales"), std::string::npos) << t.name;
  }
}

TEST(PackedGroups, OtherModelsAreUnchanged) {
  EXPECT_EQ(packed_config(Json::object(), "x").format, PackedFormat::none);
  EXPECT_EQ(packed_config({{"quantization_config", {{"quant_method", "bitsandbytes"}, {"bits", 4}}}}, "x").format,
            PackedFormat::none);
}

TEST(PackedGroups, UnsupportedFormatsAreRejectedByName) {
  Json gptq = packed_json("gptq"), awq = packed_json("awq"), mlx = packed_json("mlx");
  gptq["quantization_config"]["bits"] = 3;
  EXPECT_EQ(refusal_of(gptq), "config.json: quantized by GPTQ to 3 bits; dml reads 4");
  awq["quantization_config"]["version"] = "gemv";
  EXPECT_EQ(refusal_of(awq), "config.json: quantized by AWQ in version 'gemv'; dml reads gemm");
  mlx["quantization"]["mode"] = "mxfp4";
  EXPECT_EQ(refusal_of(mlx), "config.json: quantized by mlx-lm in mode 'mxfp4'; dml reads affine");
}

TEST(PackedGroups, ATensorOfAnotherShapeIsNamed) {
  const ModelSpec spec = read_model_spec(kPacked + "awq");
  PackedConfig config = packed_config(packed_json("gptq"), "config.json");
  auto open = [&] { unpack_groups(ModelFiles(kPacked + "awq"), config, spec); };
  EXPECT_THAT(open, testing::ThrowsMessage<UserError>(
                        HasSubstr("q_proj.qweight' is I32 [32, 4], a 4-bit matrix of GPTQ needs [4, 32]")));
  config.group = 64;
  EXPECT_THAT(open, testing::ThrowsMessage<UserError>(
                        HasSubstr("is 32 × 32 in groups of 64; groups must be a multiple of 32 and divide its rows")));
}

}  // namespace
}  // namespace dml
