// Published tokenizers against ids that Hugging Face's Rust library, libsentencepiece and llama.cpp gave.
#include <gmock/gmock.h>

#include "support.h"
#include "tokenizer/sentencepiece_model.h"

namespace dml {
namespace {

std::string home(const std::string& name) {
  std::string tokenizers = kShared + "/tokenizers/" + name;
  return std::filesystem::exists(tokenizers) ? tokenizers : kShared + "/models/" + name;
}

class Vectors : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kShared + "/tokenizers/vectors")) GTEST_SKIP() << "no ../shared/data";
  }
};

TEST_P(Vectors, AreEncodedAndDecodedAsTheReferenceDoes) {
  auto tokenizer = load_tokenizer(home(GetParam()));
  for (const Json& row : read_rows(kShared + "/tokenizers/vectors/" + GetParam() + ".jsonl")) {
    auto text = row["text"].get<std::string>();
    auto ids = row["ids"].get<std::vector<Token>>();
    Encoding got = tokenizer->encode(text);
    EXPECT_EQ(got.ids, ids) << text;
    EXPECT_EQ(tokenizer->encode(text, {.add_special = true}).ids, row["ids_special"].get<std::vector<Token>>()) << text;
    EXPECT_EQ(tokenizer->decode(ids), row["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, true), row["decoded_skip"].get<std::string>());
    std::uint32_t last = 0;
    for (ByteRange r : got.offsets) {
      EXPECT_LE(last, r.begin) << text;
      EXPECT_LE(r.begin, r.end) << text;
      EXPECT_LE(r.end, text.size()) << text;
      last = r.begin;
    }
  }
}

TEST_P(Vectors, StreamedTextIsTheDecodedText) {
  auto tokenizer = load_tokenizer(home(GetParam()));
  for (const Json& row : read_rows(kShared + "/tokenizers/vectors/" + GetParam() + ".jsonl")) {
    auto ids = row["ids"].get<std::vector<Token>>();
    auto stream = tokenizer->stream(false);
    std::string text;
    for (Token id : ids) {
      std::string piece = stream->next(id);
      EXPECT_EQ(find_invalid_utf8(piece), std::string::npos);
      text += piece;
    }
    EXPECT_EQ(text + stream->finish(), tokenizer->decode(ids));
  }
}

TEST_P(Vectors, SentencePieceFilesGiveTheIdsOfTheLibrary) {
  std::string file = home(GetParam()) + "/tokenizer.model";
  if (!file_exists(file)) GTEST_SKIP() << "no tokenizer.model";
  auto tokenizer = make_sentencepiece(parse_sentencepiece_model(read_file(file), file), true, file);
  tokenizer->prepare();
  for (const Json& row : read_rows(kShared + "/tokenizers/vectors/" + GetParam() + ".jsonl")) {
    auto text = row["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}).ids, row["spm_ids"].get<std::vector<Token>>()) << text;
    EXPECT_EQ(tokenizer->encode(text, {}).ids, row["ids"].get<std::vector<Token>>()) << text;
    EXPECT_EQ(tokenizer->decode(row["ids"].get<std::vector<Token>>(), false), row["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Published, Vectors,
                         testing::Values("gpt2", "llama2", "llama3", "mistral-v1", "phi-3", "qwen2.5", "stories260K"),
                         [](auto& param) {
                           std::string name = param.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
                           return name;
                         });

TEST(LlamaCppVectors, AreEncodedAlike) {
  std::string folder = kShared + "/tokenizers/llama.cpp-vectors/ggml-vocab-";
  if (!std::filesystem::exists(kShared + "/tokenizers/llama.cpp-vectors")) GTEST_SKIP() << "no ../shared/data";
  for (auto [file, name] : {std::pair{"gpt-2", "gpt2"},
                            {"llama-bpe", "llama3"},
                            {"qwen2", "qwen2.5"},
                            {"llama-spm", "llama2"},
                            {"phi-3", "phi-3"}}) {
    auto tokenizer = load_tokenizer(home(name));
    std::string texts = read_file(folder + file + ".gguf.inp"), lines = read_file(folder + file + ".gguf.out");
    const std::string separator = "\n__ggml_vocab_test__\n";
    int checked = 0;
    for (std::size_t at = 0, line = 0; line < lines.size(); ++checked) {
      std::size_t end = std::min(texts.find(separator, at), texts.size()),
                  line_end = std::min(lines.find('\n', line), lines.size());
      std::vector<Token> expected;
      for (const char* p = lines.data() + line; p < lines.data() + line_end;) {
        char* after = nullptr;
        long id = std::strtol(p, &after, 10);
        if (after == p || after > lines.data() + line_end) break;
        expected.push_back(static_cast<Token>(id));
        p = after;
      }
      EXPECT_EQ(plain_ids(*tokenizer, texts.substr(at, end - at)), expected)
          << name << ": " << texts.substr(at, end - at);
      at = std::min(end + separator.size(), texts.size());
      line = line_end + 1;
    }
    EXPECT_EQ(checked, 46) << name;
  }
}

}  // namespace
}  // namespace dml
