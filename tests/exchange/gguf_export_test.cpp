// Models as GGUF files: names, order of rows, types of every tensor, keys, tokenizers; what does not fit is refused by
// name.
#include "exchange/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/files.h"
#include "exchange/gguf_families.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_models.h"
#include "exchange/gguf_vocabulary.h"
#include "kernels/quant_ggml.h"
#include "temporary_folder.h"
#include "tokenizer/tokenizer.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kGolden = DML_SOURCE_DIR "/tests/golden/";
const std::string kShared = DML_SOURCE_DIR "/../shared/data/";

class GgufExports : public testing::Test {
 protected:
  std::string write(const std::string& directory, const std::string& type) const {
    const std::string path = folder_ / (fs::path(directory).parent_path().filename().string() + "-" + type + ".gguf");
    write_published(directory, type, path);
    return path;
  }
  static std::vector<float> values(const GgufTensorView& t) {
    std::vector<float> out(static_cast<std::size_t>(t.elements()));
    kernels::unpack({*t.type->dtype, t.elements() / t.shape.back(), t.shape.back(), t.data.data()}, 0,
                    t.elements() / t.shape.back(), 0, t.shape.back(), out.data());
    return out;
  }
  const testing_tools::TemporaryFolder folder_;
};

TEST_F(GgufExports, HoldEveryValueOfTheModel) {
  for (const char* family :
       {"llama_bias", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "olmo2", "gpt2", "stablelm"}) {
    SCOPED_TRACE(family);
    const std::string directory = kGolden + family + "/model";
    const ModelSpec spec = as_published(read_model_spec(directory));
    const ModelFiles files(directory);
    std::string path;
    try {
      path = write(directory, "f32");
    } catch (const UserError& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    GgufFile file(path);
    const GgufFamily& row = gguf_family(spec.model_type, "");
    EXPECT_EQ(file.text("general.architecture"), row.architecture);
    EXPECT_EQ(file.integer(fmt::format("{}.block_count", row.architecture)), spec.layers);
    // From the safetensors file by hand, not by the writer's plan.
    for (const WeightName& w : weight_names(spec)) {
      if (w.role != WeightRole::q && w.role != WeightRole::k && w.role != WeightRole::down &&
          w.role != WeightRole::input_norm)
        continue;
      const std::vector<float> whole = files.find(w.tensor)->floats(directory);
      const std::string role = w.role == WeightRole::down         ? "ffn_down"
                               : w.role == WeightRole::input_norm ? "attn_norm"
                               : w.fused()                        ? "attn_qkv"
                               : w.role == WeightRole::q          ? "attn_q"
                                                                  : "attn_k";
      const GgufTensorView* t = file.find(fmt::format("blk.{}.{}.{}", w.layer, role, w.bias ? "bias" : "weight"));
      ASSERT_TRUE(t) << w.tensor;
      const std::vector<float> got = values(*t);
      ASSERT_EQ(got.size(), whole.size());
      const bool paired = row.paired_rope && (w.role == WeightRole::q || w.role == WeightRole::k);
      for (std::int64_t r = 0; r < w.rows; ++r)
        for (std::int64_t c = 0; c < w.cols; ++c) {
          const std::int64_t d = spec.head_dim, half = d / 2, in_head = r % d;
          const std::int64_t to = w.first_row + (paired ? r - in_head + in_head % half * 2 + in_head / half : r);
          const std::int64_t from = w.first_row + r;
          const float expected =
              whole[static_cast<std::size_t>(w.transposed ? c * w.tensor_rows + from : from * w.cols + c)];
          const bool shifted = w.role == WeightRole::input_norm && !w.bias;
          ASSERT_EQ(got[static_cast<std::size_t>(to * w.cols + c)], shifted ? expected + spec.norm.offset : expected)
              << w.tensor << " " << r << " " << c;
        }
    }
  }
}

TEST_F(GgufExports, OfOneElementTypeKeepVectorsInFloat32) {
  GgufFile file(write(kGolden + "qwen2/model", "bf16"));
  EXPECT_EQ(file.integer("general.file_type"), 32);
  EXPECT_EQ(file.find("token_embd.weight")->type->name, "bf16");
  EXPECT_EQ(file.find("blk.0.attn_q.bias")->type->name, "f32");
  EXPECT_EQ(file.find("output_norm.weight")->type->name, "f32");
  EXPECT_EQ(file.metadata().find("general.quantization_version"), nullptr);
}

// The scales of blocks are f16. A file that was there stays.
TEST_F(GgufExports, OfValuesThatBlocksCannotHoldAreRefused) {
  ModelSpec spec;
  spec.vocab = 64, spec.hidden = 256, spec.ffn = 256, spec.layers = 1, spec.heads = spec.kv_heads = 4,
  spec.head_dim = 64;
  const std::string path = folder_ / "large.gguf";
  for (const char* type : {"q8_0", "q6_k", "q5_k_m", "q5_1", "q5_0", "q4_k_m", "q4_1", "q4_0"})
    for (const float large : {2e8f, 1e9f, -1e9f, 1e37f}) {
      if (large == 2e8f && type == std::string("q6_k")) continue;  // holds it
      SCOPED_TRACE(fmt::format("{} {:g}", type, large));
      auto rows = [&](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
        std::fill_n(out, count * w.cols, 0.5f);
        if (w.role == WeightRole::gate && first == 0) out[3] = large;
      };
      write_file(path, "old");
      EXPECT_THAT(
          [&] {
            write_gguf({"name", folder_.path(), spec, gguf_file_type(type), rows}, path);
          },
          testing::ThrowsMessage<UserError>(HasSubstr(
              fmt::format("tensor 'model.layers.0.mlp.gate_proj.weight' has values like {:g}, which ", large))));
      EXPECT_EQ(read_file(path), "old");
    }
}

// Names and shapes alone: a model of 32 layers that exists on paper.
TEST_F(GgufExports, MixTypesAsLlamaQuantizeDoes) {
  ModelSpec spec;
  spec.vocab = 1000, spec.hidden = 512, spec.ffn = 1024, spec.layers = 32, spec.heads = 8, spec.kv_heads = 4,
  spec.head_dim = 64;
  const auto tensors = gguf_tensors(spec, gguf_family("llama", ""));
  auto types_of = [&](const char* name, const ModelSpec& s) {
    std::map<std::string, std::string> out;
    const auto list = gguf_tensors(s, gguf_family("llama", ""));
    const auto types = mixed_types(gguf_file_type(name), list, s);
    for (std::size_t i = 0; i < list.size(); ++i) out[list[i].name] = types[i]->name;
    return out;
  };
  auto medium = types_of("q4_k_m", spec);
  EXPECT_EQ(medium["output.weight"], "q6_k");
  EXPECT_EQ(medium["token_embd.weight"], "q4_k");
  EXPECT_EQ(medium["blk.5.attn_q.weight"], "q4_k");
  EXPECT_EQ(medium["blk.5.attn_norm.weight"], "f32");
  for (int i = 0; i < 32; ++i) {
    const bool more = i < 4 || i >= 28 || (i - 4) % 3 == 2;
    EXPECT_EQ(medium[fmt::format("blk.{}.attn_v.weight", i)], more ? "q6_k" : "q4_k") << i;
    EXPECT_EQ(medium[fmt::format("blk.{}.ffn_down.weight", i)], more ? "q6_k" : "q4_k") << i;
  }
  auto small = types_of("Q4_K_S", spec);
  EXPECT_EQ(small["blk.3.attn_v.weight"], "q5_k");
  EXPECT_EQ(small["blk.4.attn_v.weight"], "q4_k");
  EXPECT_EQ(small["blk.3.ffn_down.weight"], "q5_k");
  EXPECT_EQ(small["blk.4.ffn_down.weight"], "q4_k");
  EXPECT_EQ(types_of("q8_0", spec)["output.weight"], "q8_0");
  EXPECT_EQ(types_of("q4_0", spec)["output.weight"], "q6_k");
  spec.tied = true;
  EXPECT_EQ(types_of("q4_k_m", spec)["token_embd.weight"], "q6_k");
  spec.hidden = 576, spec.ffn = 1000;  // rows that are no multiple of 256, and of 32
  auto odd = types_of("q4_k_m", spec);
  EXPECT_EQ(odd["blk.5.attn_q.weight"], "q5_0");
  EXPECT_EQ(odd["blk.0.attn_v.weight"], "q8_0");
  EXPECT_EQ(odd["token_embd.weight"], "q8_0");
  EXPECT_EQ(odd["blk.5.ffn_down.weight"], "f16");
}

TEST_F(GgufExports, RejectSettingsWithoutAKeyInLlamaCpp) {
  ModelSpec spec = read_model_spec(kGolden + "qwen3/model");
  spec.bias.qkv = true;
  spec.rope.scaling = RopeScaling::dynamic;
  spec.scores.scale = 0.5;
  GgufMetadata m;
  try {
    write_model_keys(spec, gguf_family("qwen3", "model"), "model", m);
    FAIL();
  } catch (const UserError& e) {
    for (const char* part : {"no biases of q, k and v", "no rope scaling 'dynamic'", "this model has 0.5"})
      EXPECT_THAT(e.what(), HasSubstr(part));
  }
  EXPECT_THAT([] { gguf_family("bert", "model"); }, testing::ThrowsMessage<UserError>(HasSubstr("known are llama")));
  EXPECT_THAT([] { gguf_file_type("q4_km"); }, testing::ThrowsMessage<UserError>(HasSubstr("q4_k_m")));
}

// llama.cpp takes them from its options, not from the file.
TEST_F(GgufExports, RejectYarnWithOtherBetas) {
  ModelSpec spec = read_model_spec(kGolden + "qwen2/model");
  spec.rope.scaling = RopeScaling::yarn;
  spec.rope.factor = 4, spec.rope.original_positions = 64;
  GgufMetadata m;
  write_model_keys(spec, gguf_family("qwen2", "model"), "model", m);
  for (auto [fast, slow] : {std::pair{16, 1}, {32, 2}}) {
    spec.rope.beta_fast = fast, spec.rope.beta_slow = slow;
    EXPECT_THAT([&] { write_model_keys(spec, gguf_family("qwen2", "model"), "model", m); },
                testing::ThrowsMessage<UserError>(HasSubstr(
                    fmt::format("YaRN with beta_fast 32 and beta_slow 1; this model's are {} and {}", fast, slow))));
  }
}

TEST_F(GgufExports, LlamaThreeFactorsFollowItsFormula) {
  ModelSpec spec;
  spec.head_dim = 64, spec.heads = spec.kv_heads = 1, spec.layers = 0;
  spec.rope.scaling = RopeScaling::llama3;
  spec.rope.theta = 500000, spec.rope.factor = 8, spec.rope.original_positions = 8192;
  const auto tensors = gguf_tensors(spec, gguf_family("llama", ""));
  const GgufTensor& t = tensors.back();
  ASSERT_EQ(t.name, "rope_freqs.weight");
  ASSERT_EQ(t.values.size(), 32u);
  EXPECT_EQ(t.values[0], 1);
  EXPECT_EQ(t.values[31], 8);
  EXPECT_GT(t.values[16], 1);
  EXPECT_LT(t.values[16], 8);
}

TEST(GgufVocabularies, SentencePieceKeepsItsScores) {
  const std::string directory = kShared + "models/stories260K";
  if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
  const ModelSpec spec = as_published(read_model_spec(directory));
  const GgufVocabulary v = read_vocabulary(directory, spec, directory);
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.tokens.size(), 512u);
  EXPECT_EQ(v.types[0], GgufVocabulary::unknown);
  EXPECT_EQ(v.types[1], GgufVocabulary::control);
  EXPECT_EQ(v.types[3], GgufVocabulary::byte);
  EXPECT_EQ(v.types[300], GgufVocabulary::normal);
  EXPECT_TRUE(*v.add_bos && *v.add_space_prefix && !*v.add_eos);
  EXPECT_EQ(v.bos, 1);
  EXPECT_EQ(v.eos, 2);
}

TEST(GgufVocabularies, ByteLevelOnesAreNamedByTheirDigest) {
  for (auto [folder, name] : {std::pair{"gpt2", "gpt-2"}, {"llama3", "llama-bpe"}, {"qwen2.5", "qwen2"}}) {
    const std::string directory = kShared + "tokenizers/" + folder;
    if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
    ModelSpec spec;
    spec.vocab = load_tokenizer(directory)->size() + 3;
    const GgufVocabulary v = read_vocabulary(directory, spec, directory);
    EXPECT_EQ(v.model, "gpt2");
    EXPECT_EQ(v.pre, name);
    EXPECT_EQ(v.tokens.size(), static_cast<std::size_t>(spec.vocab));
    EXPECT_EQ(v.tokens.back(), fmt::format("[PAD{}]", spec.vocab - 1));
    EXPECT_EQ(v.types.back(), GgufVocabulary::unused);
  }
}

// Null is the same as absent, as it is where the tokenizer is loaded.
TEST(GgufVocabularies, KeysOfTheTokenizerMayBeNull) {
  const std::string bpe = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})",
                    unigram = R"({"type": "Unigram", "unk_id": 0, "byte_fallback": null,
                                  "vocab": [["<unk>", 0.0], ["\u2581", -1.0], ["a", -2.0]]})",
                    bytes = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": null})",
                    digits = R"({"type": "Digits", "individual_digits": null})",
                    marks = R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"})";
  struct Case {
    const char* kind;
    std::string pre_tokenizer, model;
  };
  for (const Case& each :
       {Case{"gpt2", bytes, bpe},
        Case{"gpt2", fmt::format(R"({{"type": "Sequence", "pretokenizers": [{}, {}]}})", digits, bytes), bpe},
        Case{"t5", marks, unigram}}) {
    const testing_tools::TemporaryFolder folder;
    write_file(folder / "tokenizer.json",
               fmt::format(R"({{"pre_tokenizer": {}, "model": {}}})", each.pre_tokenizer, each.model));
    write_file(folder / "tokenizer_config.json", each.kind == std::string("t5") ? R"({"unk_token": "<unk>"})" : "{}");
    ModelSpec spec;
    spec.vocab = 3;
    EXPECT_EQ(read_vocabulary(folder.path(), spec, "model").model, each.kind) << each.pre_tokenizer;
  }
}

// llama.cpp takes added tokens out of a text first, and puts a space in front of each part.
TEST(GgufVocabularies, TokensThatAreMatchedOtherwiseAreNamed) {
  Json vocabulary = {{"<unk>", 0}, {"</s>", 1}, {"\u2581", 2}, {"x", 3}, {"\u2581x", 4}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 5 + byte;
  auto warnings_of = [&](const Json& normalizer, const Json& pre_tokenizer, const Json& tool) {
    Json added = Json::array({Json{{"id", 1}, {"content", "</s>"}, {"special", true}, {"normalized", false}}});
    if (!tool.is_null()) added.push_back(tool);
    const testing_tools::TemporaryFolder folder;
    write_file(folder / "tokenizer.json", dump(Json{{"added_tokens", added},
                                                    {"normalizer", normalizer},
                                                    {"pre_tokenizer", pre_tokenizer},
                                                    {"model",
                                                     {{"type", "BPE"},
                                                      {"unk_token", "<unk>"},
                                                      {"byte_fallback", true},
                                                      {"vocab", vocabulary},
                                                      {"merges", Json::array({"\u2581 x"})}}}}));
    ModelSpec spec;
    spec.vocab = 300;
    testing::internal::CaptureStderr();
    read_vocabulary(folder.path(), spec, "here");
    return testing::internal::GetCapturedStderr();
  };
  auto metaspace = [](const char* scheme) {
    return Json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", false}};
  };
  EXPECT_THAT(warnings_of(nullptr, metaspace("first"), nullptr), HasSubstr("texts with '</s>' differently"));
  EXPECT_THAT(warnings_of(nullptr, metaspace("always"), nullptr), Not(HasSubstr("texts with")));
  const Json prepend = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  for (const bool normalized : {false, true}) {
    const Json tool = {{"id", 261}, {"content", "<tool>"}, {"special", false}, {"normalized", normalized}};
    const auto named = HasSubstr("texts with '<tool>' differently");
    const std::string warnings = warnings_of(prepend, nullptr, tool);
    if (normalized) EXPECT_THAT(warnings, named);
    else EXPECT_THAT(warnings, Not(named));
  }
}

TEST(GgufVocabularies, UnknownVocabulariesAreNamedByTheirPattern) {
  EXPECT_EQ(pre_tokenizer_probe().size(), 431u);
  EXPECT_EQ(pre_tokenizer_of_digest("00"), "");
  EXPECT_EQ(pre_tokenizer_of_pattern("nonsense", false), "");
}

}  // namespace
}  // namespace dml
