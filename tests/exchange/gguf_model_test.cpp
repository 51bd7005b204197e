// GGUF files as models: what was written comes back – config, every value, tokenizer – and llama.cpp's order of rows
// with it.
#include "exchange/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "core/error.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_models.h"
#include "exchange/gguf_phi3.h"
#include "kernels/quant_ggml.h"
#include "temporary_folder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kModels = DML_SOURCE_DIR "/tests/golden/";
const std::string kData = DML_SOURCE_DIR "/../shared/data/";

class GgufModels : public testing::Test {
 protected:
  std::string write(const std::string& directory, const std::string& type) const {
    const std::string path = folder_ / ("model-" + type + ".gguf");
    write_published(directory, type, path);
    return path;
  }
  const testing_tools::TemporaryFolder folder_;
};

TEST_F(GgufModels, ComeBackWithTheirConfigAndValues) {
  for (const char* family : {"llama_tiny", "llama_bias", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3",
                             "phi3", "olmo2", "gpt2", "stablelm", "stablelm_heads", "stablelm_parallel", "falcon"}) {
    SCOPED_TRACE(family);
    const std::string directory = kModels + family + "/model";
    const ModelSpec spec = as_published(read_model_spec(directory));
    const ModelFiles before(directory);
    const auto file = std::make_shared<GgufFile>(write(directory, "f32"));
    const ModelSpec again = read_model_config(gguf_config(*file), "gguf");
    EXPECT_EQ(comparable(again), comparable(spec)) << dump(config_json(again, "")) << "\n"
                                                   << dump(config_json(spec, ""));
    EXPECT_NEAR(again.attention_scale(0), spec.attention_scale(0), 1e-6);
    const ModelFiles after = gguf_weights(file, again);
    require_weights(after, again);
    for (const TensorView& t : after.tensors()) release_pages(t.bytes);  // as after they were read once
    for (const WeightName& w : weight_names(spec)) {
      const std::vector<float> old = before.find(w.tensor)->floats(""), now = after.find(w.tensor)->floats("");
      ASSERT_EQ(old.size(), now.size());
      for (std::size_t i = 0; i < old.size(); ++i)
        ASSERT_NEAR(old[i], now[i], spec.norm.offset != 0 ? 2e-7 : 0) << w.tensor << " " << i;
    }
  }
}

TEST_F(GgufModels, QuantizedRowsComeBackInOrder) {
  // Wide enough for the large blocks; the tensors' values tell their place.
  ModelSpec spec;
  spec.vocab = 64, spec.hidden = 256, spec.ffn = 512, spec.layers = 2, spec.heads = 4, spec.kv_heads = 2,
  spec.head_dim = 64;
  auto rows = [](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count * w.cols; ++i)
      out[i] = std::sin(static_cast<float>(first * w.cols + i) * 0.37f + static_cast<float>(w.layer)) +
               static_cast<float>(w.role == WeightRole::k);
  };
  for (const char* type : {"q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "q5_1"}) {
    const std::string path = folder_ / (std::string(type) + ".gguf");
    write_gguf({"name", folder_.path(), spec, gguf_file_type(type), rows}, path);
    const auto file = std::make_shared<GgufFile>(path);
    const ModelFiles files = gguf_weights(file, spec);
    require_weights(files, spec);
    for (const TensorView& t : files.tensors()) release_pages(t.bytes);
    for (const WeightName& w : weight_names(spec)) {
      const TensorView& t = *files.find(w.tensor);
      if (w.vector) continue;
      ASSERT_TRUE(t.quantized()) << w.tensor;
      std::vector<float> got = t.floats(""), want(got.size()), expected(got.size());
      rows(w, 0, w.rows, want.data());
      std::vector<std::uint8_t> bytes(t.bytes.size());
      const kernels::BlockFormat& blocks = *kernels::block_format(t.dtype);
      blocks.quantize(want.data(), t.size() / blocks.values(), bytes.data());
      EXPECT_TRUE(std::memcmp(bytes.data(), t.bytes.data(), bytes.size()) == 0) << w.tensor << " " << type;
    }
  }
}

// The file has rotary factors instead of the length that they were computed from.
TEST_F(GgufModels, OriginalLengthsOfLlama3RopeComeBack) {
  ModelSpec spec;
  spec.model_type = "llama";
  spec.vocab = 64, spec.hidden = 64, spec.ffn = 64, spec.layers = 1, spec.heads = spec.kv_heads = 1, spec.head_dim = 64;
  spec.rope.scaling = RopeScaling::llama3;
  spec.rope.theta = 500000, spec.rope.factor = 8, spec.rope.low_freq_factor = 1, spec.rope.high_freq_factor = 4;
  spec.max_positions = 1 << 18;
  auto zeros = [](const WeightName& w, std::int64_t, std::int64_t count, float* out) {
    std::fill_n(out, count * w.cols, 0.f);
  };
  for (const std::int64_t length : {32, 100, 2048, 8192, 12345, 131072}) {
    spec.rope.original_positions = length;
    const std::string path = folder_ / "rope.gguf";
    write_gguf({"name", folder_.path(), spec, gguf_file_type("f32"), zeros}, path);
    const ModelSpec again = read_model_config(gguf_config(GgufFile(path)), "gguf");
    EXPECT_EQ(again.rope.original_positions, length);
    EXPECT_EQ(again.rope.factor, 8);
  }
}

TEST_F(GgufModels, OfKindsThatDmlLacksAreRefused) {
  const std::string path = folder_ / "odd.gguf";
  GgufMetadata m;
  m.set("general.architecture", GgufValue::text("mamba"));
  GgufWriter(path, m, {}).commit();
  EXPECT_THAT([&] { gguf_config(GgufFile(path)); },
              testing::ThrowsMessage<UserError>(HasSubstr("architecture 'mamba' is not supported")));
  ModelSpec spec;
  spec.vocab = 4, spec.hidden = 256, spec.layers = 0, spec.tied = true;
  m.set("general.architecture", GgufValue::text("llama"));
  GgufWriter out(path, m, {{"token_embd.weight", {4, 256}, ggml_type("q2_k")}});
  const std::string zeros(4 * 84, '\0');
  out.append(zeros.data(), zeros.size());
  out.commit();
  EXPECT_THAT([&] { gguf_weights(std::make_shared<GgufFile>(path), spec); },
              testing::ThrowsMessage<UserError>(HasSubstr("'token_embd.weight' is q2_k; dml reads f32")));
}

// A tokenizer that went through a file gives the same ids.
class GgufTokenizers : public GgufModels, public testing::WithParamInterface<const char*> {
 protected:
  // `kind`: of tokenizer.ggml.model.
  void expect_back(const std::string& directory, const char* kind = nullptr) const {
    const auto tokenizer = load_tokenizer(directory);
    ModelSpec spec;
    spec.vocab = tokenizer->size() + 2, spec.hidden = 32, spec.ffn = 32, spec.heads = spec.kv_heads = 1,
    spec.head_dim = 32;
    spec.layers = 0, spec.tied = true;
    const testing_tools::TemporaryFolder folder;
    const std::string path = folder / "model.gguf";
    auto zeros = [](const WeightName& w, std::int64_t, std::int64_t count, float* out) {
      std::fill_n(out, count * w.cols, 0.f);
    };
    write_gguf({"name", directory, spec, gguf_file_type("f16"), zeros}, path);
    if (kind) {
      EXPECT_EQ(GgufFile(path).text("tokenizer.ggml.model"), kind);
    }
    write_gguf_companions(GgufFile(path), folder.path());
    const auto again = load_tokenizer(folder.path());
    EXPECT_EQ(again->bos, tokenizer->bos);
    EXPECT_EQ(again->eos, tokenizer->eos);
    EXPECT_EQ(again->chat_template, tokenizer->chat_template);
    for (std::string_view text :
         {pre_tokenizer_probe(), std::string_view("Once upon a time, there  was\na little girl."),
          std::string_view(" leading"), std::string_view("<s>markup</s> <|im_end|>x <|eot_id|>")}) {
      EXPECT_EQ(again->encode(text, {.add_special = true}).ids, tokenizer->encode(text, {.add_special = true}).ids)
          << text;
      EXPECT_EQ(again->encode(text, {.parse_special = false}).ids,
                tokenizer->encode(text, {.parse_special = false}).ids)
          << text;
      const auto ids = tokenizer->encode(text).ids;
      EXPECT_EQ(again->decode(ids), tokenizer->decode(ids));
    }
  }
};

TEST_P(GgufTokenizers, ComeBack) {
  const std::string directory = kData + GetParam();
  if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
  expect_back(directory);
}

INSTANTIATE_TEST_SUITE_P(Real, GgufTokenizers,
                         testing::Values("models/stories260K", "tokenizers/llama2", "tokenizers/llama3",
                                         "tokenizers/qwen2.5", "tokenizers/gpt2", "tokenizers/mistral-v1"));

// Files of 2024 have no add_bos_token; llama.cpp knows then which pre-tokenizers begin with BOS.
TEST_F(GgufModels, TokenizersOfLlama3BeginWithBosUnlessTheFileSaysOtherwise) {
  struct Case {
    const char* pre;
    std::optional<bool> add_bos;
    std::vector<Token> ids;
  };
  const Case cases[] = {
      {"llama-bpe", {}, {3, 2}}, {"llama-bpe", false, {2}}, {"qwen2", {}, {2}}, {"qwen2", true, {3, 2}}};
  for (const Case& each : cases) {
    GgufVocabulary v;
    v.model = "gpt2", v.pre = each.pre, v.add_bos = each.add_bos, v.bos = 3;
    v.tokens = {"a", "b", "ab", "<s>"}, v.merges = {"a b"};
    v.types = {GgufVocabulary::normal, GgufVocabulary::normal, GgufVocabulary::normal, GgufVocabulary::control};
    GgufMetadata m;
    m.set("general.architecture", GgufValue::text("llama"));
    v.write(m);
    const testing_tools::TemporaryFolder folder;
    GgufWriter(folder / "v.gguf", m, {}).commit();
    write_tokenizer(vocabulary_of(GgufFile(folder / "v.gguf")), folder.path());
    EXPECT_EQ(load_tokenizer(folder.path())->encode("ab", {.add_special = true}).ids, each.ids) << each.pre;
  }
}

// As in llama.cpp, where a space is put in front of every text between added tokens.
TEST_F(GgufModels, UserDefinedTokensAreMatchedBeforeSpacesAreAdded) {
  using V = GgufVocabulary;
  V v;
  v.model = "llama", v.pre = "default", v.unk = 0, v.add_bos = false, v.add_space_prefix = true;
  v.tokens = {"<unk>", "\u2581", "a", "b", "\u2581a", "\u2581b", "<tool>", "<end>"};
  v.types = {V::unknown, V::normal, V::normal, V::normal, V::normal, V::normal, V::user_defined, V::control};
  v.scores = {0, -1, -2, -3, -4, -5, 0, 0};
  const testing_tools::TemporaryFolder folder;
  write_tokenizer(v, folder.path());
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("a<tool>b").ids, (std::vector<Token>{4, 6, 5}));
  EXPECT_EQ(tokenizer->encode("<tool>a<end>b<tool>").ids, (std::vector<Token>{6, 4, 7, 5, 6}));
}

// GGUF has no flag for it: llama.cpp takes white space behind special tokens as theirs where general.name says Phi-3.
TEST_F(GgufModels, SpecialTokensOfPhi3TakeTheWhiteSpaceBehindThem) {
  ModelSpec spec;
  spec.vocab = 8, spec.hidden = 32, spec.ffn = 32, spec.heads = spec.kv_heads = 1, spec.head_dim = 32;
  spec.layers = 0, spec.tied = true;
  auto zeros = [](const WeightName& w, std::int64_t, std::int64_t count, float* out) {
    std::fill_n(out, count * w.cols, 0.f);
  };
  const std::string text = "a<|user|>\n a</s> a<|endoftext|> a";
  auto round_trip = [&](const char* name, const std::set<std::string>& strips) {
    const testing_tools::TemporaryFolder from, to;
    Json added = Json::array();
    const std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "<|endoftext|>", "<|user|>"};
    for (std::size_t i = 0; i < tokens.size(); ++i)
      added.push_back({{"id", i + 3},
                       {"content", tokens[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", strips.contains(tokens[i])},
                       {"normalized", false},
                       {"special", true}});
    const Json json = {
        {"added_tokens", added},
        {"normalizer", nullptr},
        {"pre_tokenizer",
         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"\u0120", 1}, {"\u010a", 2}}}, {"merges", Json::array()}}}};
    write_file(from / "tokenizer.json", dump(json));
    write_gguf({name, from.path(), spec, gguf_file_type("f16"), zeros}, to / "m.gguf");
    write_gguf_companions(GgufFile(to / "m.gguf"), to.path());
    return std::pair(GgufFile(to / "m.gguf").text("general.name"), load_tokenizer(to.path())->encode(text).ids);
  };
  const std::vector<Token> stripped = {0, 7, 0, 5, 0, 6, 1, 0}, kept = {0, 7, 2, 1, 0, 5, 1, 0, 6, 1, 0};
  const std::set<std::string> phi3 = {"</s>", "<|user|>"};
  EXPECT_EQ(round_trip("mine", phi3), std::pair(std::string("Phi-3 mine"), stripped));
  EXPECT_EQ(round_trip("my-phi3", phi3), std::pair(std::string("my-phi3"), stripped));
  EXPECT_EQ(round_trip("mine", {}), std::pair(std::string("mine"), kept));
  EXPECT_EQ(round_trip("my-phi3", {}), std::pair(std::string("my-phi 3"), kept));
  testing::internal::CaptureStderr();
  EXPECT_EQ(round_trip("mine", {"<|user|>"}), std::pair(std::string("mine"), kept));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("special tokens strip the white space next to them"));
}

TEST_F(GgufModels, OnlyModelsWithTheTokensOfPhi3HaveItsName) {
  GgufVocabulary v;
  v.tokens = {"a", "<|user|>"};
  v.types = {GgufVocabulary::normal, GgufVocabulary::control};
  EXPECT_EQ(name_for_stripping(v, "Phi-3.5 of my-phi3", "here"), "Phi 3.5 of my-phi 3");
  v.strips_right = {1};
  testing::internal::CaptureStderr();
  EXPECT_EQ(name_for_stripping(v, "my-phi3", "here"), "my-phi 3");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("special tokens strip the white space next to them"));
}

using GgufUnigram = GgufTokenizers;

// SentencePiece's unigram model, as tokenizer.model and as tokenizer.json.
TEST_P(GgufUnigram, ComesBack) {
  const testing_tools::TemporaryFolder folder;
  TokenizerTraining options;
  options.model = SubwordModel::unigram;
  write_tokenizer(options, read_file(DML_SOURCE_DIR "/tests/golden/tokenizer/trained_unigram.model"), folder.path());
  fs::remove(folder / GetParam());
  expect_back(folder.path(), "t5");
}

INSTANTIATE_TEST_SUITE_P(Without, GgufUnigram, testing::Values("tokenizer.model", "tokenizer.json"),
                         [](auto& row) { return row.param == std::string("tokenizer.json") ? "Json" : "Model"; });

TEST_F(GgufModels, CharactersOfAUnigramModelAreNormalizedAsBefore) {
  const testing_tools::TemporaryFolder folder;
  fs::copy_file(DML_SOURCE_DIR "/tests/golden/tokenizer/spm_unigram.model", folder / "tokenizer.model");
  write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  const auto tokenizer = load_tokenizer(folder.path());
  ModelSpec spec;
  spec.vocab = tokenizer->size();
  const GgufVocabulary vocabulary = read_vocabulary(folder.path(), spec, folder.path());
  EXPECT_FALSE(vocabulary.charsmap.empty());
  GgufMetadata m;
  vocabulary.write(m);
  GgufWriter(folder_ / "a.gguf", m, {}).commit();
  write_tokenizer(vocabulary_of(GgufFile(folder_ / "a.gguf")), folder_.path());
  const auto again = load_tokenizer(folder_.path());
  for (std::string_view text : {"\uff26\uff55\uff4c\uff4c width, \ufb01ne  spaces ", "x\u00b2"})
    EXPECT_EQ(again->encode(text).ids, tokenizer->encode(text).ids) << text;
}

}  // namespace
}  // namespace dml
