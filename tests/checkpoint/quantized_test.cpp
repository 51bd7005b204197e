// A base that is quantized: what lies in its folder, what a model computes with it, and what happens to a folder that
// is not whole.
#include "checkpoint/quantized.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <thread>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/fixture.h"
#include "checkpoint/model_config.h"
#include "core/json.h"
#include "core/parallel.h"
#include "kernels/dynamic_code.h"
#include "kernels/quant_nf4.h"
#include "kernels/weight.h"
#include "model/weight_names.h"

namespace dml {
namespace {

using namespace testing_tools;

std::string golden(const std::string& family) { return DML_SOURCE_DIR "/tests/golden/" + family + "/model"; }

struct QuantizedBaseTest : testing::Test {
  TempDir dir;
  std::string root = dir / "cache";

  QuantizedBase open(const std::string& model, DType scheme = DType::nf4) {
    return QuantizedBase(read_model_spec(model), ModelFiles(model), scheme, root);
  }
  std::string copy_of(const std::string& family) {
    fs::copy(golden(family), dir / family, fs::copy_options::recursive);
    return dir / family;
  }
  // The one folder in the cache.
  std::string folder() const {
    std::string found;
    for (auto& entry : fs::directory_iterator(root))
      if (entry.is_directory()) found = entry.path();
    return found;
  }
};

std::vector<float> floats(const kernels::Weight& w) {
  std::vector<float> out(static_cast<std::size_t>(w.rows * w.cols));
  kernels::unpack(w, 0, w.rows, 0, w.cols, out.data());
  return out;
}

std::vector<float> scales(const StoredTensor& t, std::int64_t rows, std::int64_t cols) {
  std::vector<float> out(static_cast<std::size_t>(rows * cols / kernels::kNf4Block));
  kernels::expand_scales(t.as_matrix(rows, cols), 0, std::ssize(out), out.data());
  return out;
}

TEST_F(QuantizedBaseTest, HoldsTheLinearLayersOfTheDecoderAndNothingElse) {
  QuantizedBase q = open(golden("llama_tiny"));
  EXPECT_FALSE(q.find("model.embed_tokens.weight"));
  EXPECT_FALSE(q.find("lm_head.weight"));
  EXPECT_FALSE(q.find("model.layers.0.input_layernorm.weight"));
  std::int64_t weights = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48);
  EXPECT_EQ(q.weights(), weights);
  EXPECT_EQ(q.bytes(), static_cast<std::size_t>(weights / 2 + weights / 64 + 14 * 2 * 4));
  auto k = q.find("model.layers.1.self_attn.k_proj.weight");
  ASSERT_TRUE(k);
  EXPECT_EQ(k->shape, (std::vector<std::int64_t>{16, 32}));
  EXPECT_EQ(k->dtype, DType::nf4);
}

TEST_F(QuantizedBaseTest, ValuesAreWithinHalfACodeOfTheOriginals) {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  ModelFiles files(golden("llama_tiny"));
  auto x = files.find(name)->floats("");
  QuantizedBase nf4 = open(golden("llama_tiny")), int8 = open(golden("llama_tiny"), DType::int8);
  auto four = nf4.find(name), eight = int8.find(name);
  auto a = floats(four->as_matrix(32, 48)), b = floats(eight->as_matrix(32, 48)), scale = scales(*four, 32, 48);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(a[i], x[i], 0.16f * scale[i / 64]);  // the codes' widest gap is 0.304
    EXPECT_NEAR(b[i], x[i], 0.501f * eight->scales[i / 48]);
  }
}

TEST_F(QuantizedBaseTest, ATransposedTensorIsQuantizedAsItIsUsed) {
  QuantizedBase q = open(golden("gpt2"));
  ModelFiles files(golden("gpt2"));
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  auto t = q.find(name);
  ASSERT_TRUE(t && t->transposed);
  auto x = files.find(name)->floats("");
  std::int64_t rows = t->shape[1], cols = t->shape[0];
  EXPECT_TRUE(std::ranges::equal(t->shape, files.find(name)->shape));
  auto values = floats(t->as_matrix(rows, cols)), scale = scales(*t, rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i)
    EXPECT_NEAR(values[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i % cols * rows + i / cols)],
                0.16f * scale[static_cast<std::size_t>(i / 64)]);
}

TEST_F(QuantizedBaseTest, AFusedTensorIsLeftOutWhenItsPartsBeginWithinABlock) {
  ModelSpec spec = read_model_spec(golden("phi3"));
  EXPECT_TRUE(quantized_layout(spec, DType::nf4).left_out.empty());
  spec.hidden = 33;
  auto layout = quantized_layout(spec, DType::nf4);
  EXPECT_THAT(layout.left_out, testing::Contains("model.layers.0.self_attn.qkv_proj.weight"));
  EXPECT_TRUE(quantized_layout(spec, DType::int8).left_out.empty());
}

// The tensors of a golden model, with their values in bf16.
void write_in_bf16(const std::string& family, const std::string& to) {
  fs::create_directories(to);
  fs::copy(golden(family) + "/config.json", to);
  ModelFiles files(golden(family));
  std::vector<TensorInfo> infos;
  for (const TensorView& t : files.tensors())
    infos.push_back({std::string(t.name), DType::bf16, {t.shape.begin(), t.shape.end()}});
  SafetensorsWriter writer(to + "/model.safetensors", infos);
  for (const TensorInfo& t : writer.tensors()) {
    auto x = files.find(t.name)->floats("");
    std::vector<bf16> halves(x.size());
    std::ranges::transform(x, halves.begin(), [](float value) { return to_bf16(value); });
    writer.append(halves.data(), t.bytes());
  }
  writer.commit();
}

// A golden model as transformers saves it after bitsandbytes has quantized it from what it was before.
void write_as_bitsandbytes(const std::string& family, const std::string& to, const std::string& before) {
  fs::create_directories(to);
  Json config = read_json(golden(family) + "/config.json");
  config["quantization_config"] = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  put(to + "/config.json", config.dump());
  ModelFiles files(golden(family));
  std::map<std::string, std::pair<TensorInfo, std::string>> out;
  auto add = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape, const void* data) {
    TensorInfo info{name, dtype, std::move(shape)};
    out[name] = {info, std::string(static_cast<const char*>(data), info.bytes())};
  };
  for (const TensorView& t : files.tensors())
    add(std::string(t.name), t.dtype, {t.shape.begin(), t.shape.end()}, t.bytes.data());
  for (const QuantizedMatrix& m : quantized_layout(read_model_spec(golden(family)), DType::nf4).matrices) {
    auto x = files.find(m.name)->floats("");
    auto blocks = static_cast<std::int64_t>((x.size() + 63) / 64), groups = (blocks + 255) / 256;
    std::vector<std::uint8_t> codes((x.size() + 1) / 2), scale_codes(static_cast<std::size_t>(blocks));
    std::vector<float> absmax(scale_codes.size()), most(static_cast<std::size_t>(groups));
    kernels::quantize_nf4(x, codes, absmax);
    float mean = kernels::quantize_scales(absmax, scale_codes, most);
    std::string state = Json{{"quant_type", "nf4"},       {"blocksize", 64},         {"dtype", before},
                             {"shape", {m.rows, m.cols}}, {"nested_blocksize", 256}, {"nested_offset", mean}}
                            .dump();
    add(m.name, DType::u8, {static_cast<std::int64_t>(codes.size()), 1}, codes.data());
    add(m.name + ".absmax", DType::u8, {blocks}, scale_codes.data());
    add(m.name + ".nested_absmax", DType::f32, {groups}, most.data());
    add(m.name + ".nested_quant_map", DType::f32, {256}, kernels::dynamic_codes(true).data());
    add(m.name + ".quant_map", DType::f32, {16}, kernels::kNf4Codes.data());
    add(m.name + ".quant_state.bitsandbytes__nf4", DType::u8, {static_cast<std::int64_t>(state.size())}, state.data());
  }
  std::vector<TensorInfo> infos;
  for (auto& [name, tensor] : out) infos.push_back(tensor.first);
  SafetensorsWriter writer(to + "/model.safetensors", infos);
  for (const TensorInfo& t : writer.tensors()) writer.append(out.at(t.name).second.data(), t.bytes());
  writer.commit();
}

TEST_F(QuantizedBaseTest, ABaseThatBitsandbytesHasQuantizedGivesTheSameValues) {
  QuantizedBase from_values = open(golden("llama_tiny"));
  write_as_bitsandbytes("llama_tiny", dir / "bnb", "float32");
  QuantizedBase as_is = open(dir / "bnb");
  EXPECT_NE(as_is.folder(), from_values.folder());
  for (const QuantizedMatrix& m : quantized_layout(read_model_spec(golden("llama_tiny")), DType::nf4).matrices)
    EXPECT_EQ(floats(as_is.find(m.name)->as_matrix(m.rows, m.cols)),
              floats(from_values.find(m.name)->as_matrix(m.rows, m.cols)))
        << m.name;
  EXPECT_THAT(refusal([&] { open(dir / "bnb", DType::int8); }), testing::HasSubstr("quantized to nf4 already"));
}

// As bitsandbytes does in a model that computes in bf16.
TEST_F(QuantizedBaseTest, ValuesOfABaseIn16BitsAreRoundedToBf16) {
  write_in_bf16("llama_tiny", dir / "half");
  write_as_bitsandbytes("llama_tiny", dir / "bnb", "bfloat16");
  for (const std::string& model : {dir / "half", dir / "bnb"}) {
    QuantizedBase q = open(model);
    bool rounded = false;
    for (const QuantizedMatrix& m : quantized_layout(read_model_spec(model), DType::nf4).matrices) {
      kernels::Weight w = q.find(m.name)->as_matrix(m.rows, m.cols);
      auto values = floats(w);
      w.bf16_values = false;
      auto plain = floats(w);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(values[i], to_float(to_bf16(plain[i]))) << model << " " << m.name;
        rounded = rounded || values[i] != plain[i];
      }
    }
    EXPECT_TRUE(rounded);
  }
  const char* name = "model.layers.0.mlp.down_proj.weight";
  EXPECT_FALSE(open(dir / "half", DType::int8).find(name)->bf16_values);
  EXPECT_FALSE(open(golden("llama_tiny")).find(name)->bf16_values);
}

TEST_F(QuantizedBaseTest, IsTheSameForAnyNumberOfThreads) {
  open(golden("llama_tiny"));
  std::string one = get(folder() + "/layer-0001.safetensors");
  fs::remove_all(root);
  int before = threads();
  set_threads(3);
  open(golden("llama_tiny"));
  set_threads(before);
  EXPECT_EQ(get(folder() + "/layer-0001.safetensors"), one);
}

TEST_F(QuantizedBaseTest, IsReused) {
  EXPECT_THAT(open(golden("llama_tiny")).note(), testing::StartsWith("built"));
  std::string found = folder();
  EXPECT_EQ(open(golden("llama_tiny")).note(), "found in " + found);
}

TEST_F(QuantizedBaseTest, AChangedBaseGetsItsOwnFolder) {
  std::string model = copy_of("llama_tiny"), weights = model + "/model.safetensors";
  std::string before = open(model).folder();
  EXPECT_EQ(open(golden("llama_tiny")).folder(), before) << "the same contents elsewhere are the same base";
  std::string bytes = get(weights);
  bytes[bytes.size() - 2] ^= 1;
  put(weights, bytes);
  EXPECT_NE(open(model).folder(), before);
}

TEST_F(QuantizedBaseTest, DamageIsFoundAndRepaired) {
  open(golden("llama_tiny"));
  std::string file = folder() + "/layer-0000.safetensors", whole = get(file);
  auto damaged = [&](const std::string& bytes) {
    put(file, bytes);
    EXPECT_THAT(open(golden("llama_tiny")).note(), testing::StartsWith("built"));
    EXPECT_EQ(get(file), whole);
  };
  damaged(whole.substr(0, whole.size() - 10));
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 4;
  damaged(flipped);
  fs::remove(file);
  open(golden("llama_tiny"));
  EXPECT_EQ(get(file), whole);
  fs::remove(folder() + "/manifest.json");
  open(golden("llama_tiny"));
  EXPECT_TRUE(fs::exists(folder() + "/manifest.json"));
}

TEST_F(QuantizedBaseTest, ANewerVersionOrAnotherBasesFolderIsBuiltAnew) {
  open(golden("llama_tiny"));
  std::string manifest = folder() + "/manifest.json", whole = get(manifest);
  for (auto [key, value] :
       {std::pair{"version", Json(QuantizedBase::kVersion + 1)}, {"digest", Json("0123")}, {"format", Json(9)}}) {
    Json j = read_json(manifest);
    j[key] = value;
    put(manifest, j.dump());
    EXPECT_THAT(open(golden("llama_tiny")).note(), testing::StartsWith("built")) << key;
    EXPECT_EQ(get(manifest), whole);
  }
  // Whole in itself, but with tensors of other shapes.
  std::string own = folder();
  open(golden("gemma"));
  for (auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() && entry.path() != own)
      fs::copy(entry.path() / "layer-0000.safetensors", own + "/layer-0000.safetensors",
               fs::copy_options::overwrite_existing);
  write_manifest(own, {{"version", 1}, {"digest", fs::path(own).filename().string()}});
  EXPECT_THAT(open(golden("llama_tiny")).note(), testing::StartsWith("built"));
}

TEST_F(QuantizedBaseTest, ADamagedMemoIsIgnored) {
  open(golden("llama_tiny"));
  std::string found = folder();
  for (const char* memo : {"", "{", "[]", R"({"a": 1})", "{\"x\": {\"file\": 1, \"xxh3\": 2}}"}) {
    put(root + "/sources.json", memo);
    EXPECT_EQ(open(golden("llama_tiny")).folder(), found);
  }
}

TEST_F(QuantizedBaseTest, NanAndInfinityAreNamed) {
  std::string model = copy_of("llama_tiny"), path = model + "/model.safetensors", bytes = get(path);
  std::ptrdiff_t data, size;
  auto spoil = [&](const char* name, std::ptrdiff_t element, float value) {
    {
      SafetensorsFile file(golden("llama_tiny") + "/model.safetensors");
      const TensorView& t = file.at(name);
      size = static_cast<std::ptrdiff_t>(bytes.size());
      data = size - (file.tensors().back().bytes.data() + file.tensors().back().bytes.size() - t.bytes.data());
    }
    std::string bad = bytes;
    std::memcpy(bad.data() + data + 4 * element, &value, 4);
    put(path, bad);
    return refusal([&] { open(model); });
  };
  EXPECT_THAT(spoil("model.layers.1.mlp.up_proj.weight", 2 * 32 + 5, std::numeric_limits<float>::quiet_NaN()),
              testing::HasSubstr("'model.layers.1.mlp.up_proj.weight' is NaN or infinite at [2, 5]"));
  EXPECT_THAT(spoil("lm_head.weight", 7, -std::numeric_limits<float>::infinity()),
              testing::HasSubstr("'lm_head.weight' is NaN or infinite at [0, 7]"));
  EXPECT_TRUE(folder().empty()) << "nothing is left of it";
}

TEST_F(QuantizedBaseTest, MissingAndMisshapenTensorsAreListed) {
  ModelSpec spec = read_model_spec(golden("llama_tiny"));
  spec.ffn = 64;
  spec.layers = 3;
  std::string said = refusal([&] { QuantizedBase(spec, ModelFiles(golden("llama_tiny")), DType::nf4, root); });
  EXPECT_THAT(said, testing::HasSubstr(
                        "'model.layers.0.mlp.up_proj.weight' has shape [48, 32], config.json asks for [64, 32]"));
  EXPECT_THAT(said, testing::HasSubstr("'model.layers.2.self_attn.q_proj.weight' is missing"));
}

TEST_F(QuantizedBaseTest, IsBuiltOnceForConcurrentUsers) {
  std::atomic<int> built = 0, same = 0;
  std::vector<std::thread> askers;  // a lock excludes threads as it does processes
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&] {
      QuantizedBase q = open(golden("llama_tiny"));
      built += q.note().starts_with("built in");
      same += q.folder() == folder();
    });
  for (auto& t : askers) t.join();
  EXPECT_EQ(built, 1);
  EXPECT_EQ(same, 4);
}

}  // namespace
}  // namespace dml
