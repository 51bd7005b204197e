#include "tokenizer/same_tokens.h"

#include <gtest/gtest.h>

#include "support.h"

namespace dml {
namespace {

// A small byte-level BPE out of the goldens, with members of its file replaced.
std::unique_ptr<Tokenizer> byte_level_with(const Json& members, const TokenizerOverrides& overrides = {}) {
  Json spec = read_json(kGolden + "/rust.json")["tokenizers"][0]["spec"];
  spec.update(members);
  const Folder folder({{"tokenizer.json", spec.dump(3)},
                       {"tokenizer_config.json", R"({"bos_token": "<|end|>", "eos_token": "<|end|>"})"}});
  return load_tokenizer(folder.path(), overrides);
}

TEST(SameTokens, AreToldFromWhatTokenizersDo) {
  const auto one = byte_level_with(Json::object()), other = byte_level_with({{"a comment", "other bytes"}});
  EXPECT_NE(one->digest, other->digest);
  EXPECT_TRUE(has_same_tokens(*one, *other));
  EXPECT_TRUE(has_same_tokens(*other, *one));
  EXPECT_FALSE(has_same_tokens(*one, *byte_level_with({{"normalizer", {{"type", "Lowercase"}}}})));
  const Folder sentencepiece({{"tokenizer.model", read_file(kGolden + "/spm_bpe.model")}});
  EXPECT_FALSE(has_same_tokens(*one, *load_tokenizer(sentencepiece.path())));
}

TEST(SameTokens, MayHaveMoreBesideThem) {
  const auto plain = byte_level_with(Json::object()), padded = byte_level_with(Json::object(), {.pad_token = "<fill>"}),
             named = byte_level_with(Json::object(), {.tokens = {"<note>"}});
  ASSERT_EQ(padded->size(), plain->size() + 1);
  EXPECT_TRUE(has_same_tokens(*plain, *padded));
  EXPECT_TRUE(has_same_tokens(*padded, *plain)) << "no text contains padding";
  EXPECT_TRUE(has_same_tokens(*plain, *named));
  EXPECT_FALSE(has_same_tokens(*named, *plain));
  EXPECT_FALSE(has_same_tokens(*plain, *byte_level_with(Json::object(), {.eos_token = "<fill>"})));
}

}  // namespace
}  // namespace dml
