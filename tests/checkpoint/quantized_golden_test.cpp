// Bits of the 4- and 8-bit schemes against those of PyTorch (tools/make_nf4_golden.py, which shares nothing with the
// kernels).
#include <cmath>
#include <cstring>

#include "checkpoint/bitsandbytes.h"
#include "checkpoint/fixture.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"

namespace dml {
namespace {

using namespace testing_tools;

const std::string kGolden = DML_SOURCE_DIR "/tests/golden/nf4/";

// The generator of the script's values().
std::vector<float> values(std::size_t n) {
  std::vector<float> out(n);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto block = static_cast<int>(i / 64);
    auto number = static_cast<std::int32_t>(state >> 40) - (1 << 23);
    out[i] = block == 3 ? 0 : std::ldexp(static_cast<float>(number), -(24 + block * 7 % 5));
  }
  return out;
}

template <class T>
std::vector<T> read(const SafetensorsFile& file, const char* name) {
  const TensorView& t = file.at(name);
  std::vector<T> out(t.bytes.size() / sizeof(T));
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

struct Nf4Golden : testing::Test {
  SafetensorsFile file{kGolden + "expected.safetensors"};
  std::vector<float> x = values(64 * 520 + 38);
};

TEST_F(Nf4Golden, CodesAndScalesAreThoseOfPyTorchBitForBit) {
  std::vector<std::uint8_t> codes((x.size() + 1) / 2);
  std::vector<float> absmax((x.size() + 63) / 64);
  kernels::quantize_nf4(x, codes, absmax);
  EXPECT_EQ(codes, read<std::uint8_t>(file, "codes"));
  EXPECT_EQ(absmax, read<float>(file, "absmax"));
}

TEST_F(Nf4Golden, DoubleQuantizationIsThatOfPyTorchBitForBit) {
  std::vector<float> absmax = read<float>(file, "absmax"), block_max(3), back(absmax.size());
  std::vector<std::uint8_t> codes(absmax.size());
  float mean = kernels::quantize_scales(absmax, codes, block_max);
  EXPECT_EQ(mean, read<float>(file, "scale_mean")[0]);
  EXPECT_EQ(codes, read<std::uint8_t>(file, "scale_codes"));
  EXPECT_EQ(block_max, read<float>(file, "scale_max"));
  kernels::dequantize_scales(codes, block_max, mean, back);
  EXPECT_EQ(back, read<float>(file, "scales"));
}

TEST_F(Nf4Golden, Int8IsThatOfPyTorchBitForBit) {
  std::vector<std::int8_t> q(40 * 48);
  std::vector<float> scales(40);
  kernels::quantize_int8({x.data(), 40, 48}, q, scales);
  EXPECT_EQ(q, read<std::int8_t>(file, "int8"));
  EXPECT_EQ(scales, read<float>(file, "int8_scales"));
}

// A model folder that holds nothing but the script's quantized layer.
struct BitsandbytesFile : testing::Test {
  TempDir dir;
  QuantizedMatrix matrix{"model.layers.0.mlp.up_proj.weight", 0, 32, 80, false};

  std::string bytes() const { return get(kGolden + "bnb.safetensors"); }
  Quantized open(const std::string& file, DType scheme = DType::nf4) {
    put(dir / "model.safetensors", file);
    return read_bitsandbytes(ModelFiles(dir.path()), matrix, scheme);
  }
  std::string changed(const std::string& from, const std::string& to) const {
    std::string file = bytes();
    auto at = file.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return file.replace(at, from.size(), to);
  }
};

TEST_F(BitsandbytesFile, KeepsItsCodesAndExpandsItsScales) {
  Quantized q = open(bytes());
  auto x = values(2560);
  std::vector<std::uint8_t> codes(1280), scale_codes(40);
  std::vector<float> absmax(40), block_max(1);
  kernels::quantize_nf4(x, codes, absmax);
  float mean = kernels::quantize_scales(absmax, scale_codes, block_max);
  kernels::dequantize_scales(scale_codes, block_max, mean, absmax);
  EXPECT_EQ(q.codes, codes);
  EXPECT_EQ(q.scales, absmax);
}

TEST_F(BitsandbytesFile, IsRejectedWhenAnythingIsInconsistent) {
  auto says = [&](const std::string& file, const char* what) {
    EXPECT_THAT(refusal([&] { open(file); }), testing::HasSubstr(what));
  };
  says(changed("\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\""), "quant_type 'fp4'");
  says(changed("\"blocksize\": 64", "\"blocksize\": 32"), "blocks of 32 weights");
  says(changed("[32, 80]", "[80, 32]"), "shape [80,32], config.json asks for [32, 80]");
  says(changed("\"nested_blocksize\": 256", "\"nested_blocksize\": 0  "), "nested_blocksize 0");
  says(changed("\"nested_blocksize\": 256", "\"nested_blocksize\": 8  "), "nested_absmax': is F32 [1], expected 5");
  says(changed("\"nested_offset\": ", "\"nested_offset\"! "), "quant_state");
  says(changed(".nested_absmax", ".nested_absmaX"), "nested_absmax': is missing");
  EXPECT_THAT(refusal([&] { open(bytes(), DType::int8); }), testing::HasSubstr("nf4 already"));
}

}  // namespace
}  // namespace dml
