// Every stage and model against tests/golden/tokenizer/rust.json, made by Hugging Face's Rust library
// (tools/make_tokenizer_golden.js).
#include <fmt/format.h>

#include <set>

#include "support.h"
#include "tokenizer/tokenizer_json.h"

namespace dml {
namespace {

const Json& golden() {
  static const Json data = read_json(kGolden + "/rust.json");
  return data;
}

Json whole(const char* stage, const Json& spec, const Json& model) {
  Json out = {{"added_tokens", Json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer", nullptr},
              {"decoder", nullptr},
              {"model", model}};
  out[stage] = spec;
  return out;
}

// Knows nothing but bytes, and ends every word with "</w>" (see the tool).
Json visible_model() {
  Json vocabulary = Json::object();
  for (int b = 0; b < 256; ++b) vocabulary[fmt::format("<0x{:02X}>", b)] = b;
  vocabulary["<unk>"] = 256;
  return {{"type", "BPE"},         {"vocab", vocabulary},  {"merges", Json::array()},
          {"byte_fallback", true}, {"unk_token", "<unk>"}, {"end_of_word_suffix", "</w>"}};
}

std::unique_ptr<Pipeline> load(const Json& spec) {
  auto out = make_pipeline(parse_tokenizer_json(dump(spec), "golden"), "golden");
  out->prepare();
  return out;
}

TEST(Golden, NormalizersAndPreTokenizersRewriteAndCutAlike) {
  Json model = visible_model();
  for (const Json& c : golden()["stages"]) {
    auto tokenizer = load(whole(c["kind"].get<std::string>().c_str(), c["spec"], model));
    for (std::size_t i = 0; i < golden()["texts"].size(); ++i) {
      auto text = golden()["texts"][i].get<std::string>();
      std::string got;
      for (Token id : plain_ids(*tokenizer, text)) got += static_cast<char>(id);
      EXPECT_EQ(got, c["rows"][i].get<std::string>()) << dump(c["spec"]) << " on " << text;
    }
  }
}

TEST(Golden, RegularExpressionsMatchAlike) {
  const Json model = visible_model();
  auto words = [&](const char* kind, const Json& spec, const Json& text) {
    std::string got;
    for (Token id : plain_ids(*load(whole(kind, spec, model)), text.get<std::string>())) got += static_cast<char>(id);
    return got;
  };
  // The goldens are by Oniguruma 6.9.9 or later, to which $ is in [[:punct:]] and ² in \p{Word}; not to Debian 12's.
  const std::set<std::string> newer{"\\p{Word}", "\\p{word}+", "\\P{word}+", "[[:punct:]]+", "[[:^punct:]]+"};
  for (const Json& c : golden()["patterns"]) {
    if (newer.contains(c["pattern"])) continue;
    const Json spec = {{"type", "Split"},
                       {"pattern", {{"Regex", c["pattern"]}}},
                       {"behavior", c["behavior"]},
                       {"invert", c["invert"]}};
    EXPECT_EQ(words("pre_tokenizer", spec, c["text"]), c["words"].get<std::string>()) << dump(spec);
  }
  for (const Json& c : golden()["replaced"]) {
    const Json spec = {{"type", "Replace"}, {"pattern", {{"Regex", c["pattern"]}}}, {"content", "#"}};
    EXPECT_EQ(words("normalizer", spec, c["text"]), c["words"].get<std::string>()) << dump(spec);
  }
}

TEST(Golden, DecodersJoinAlike) {
  Json vocabulary = Json::object();
  for (auto& w : golden()["words"]) vocabulary[w.get<std::string>()] = vocabulary.size();
  for (const Json& c : golden()["decoders"]) {
    auto tokenizer =
        load(whole("decoder", c["spec"], {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "!"}}));
    for (std::size_t i = 0; i < golden()["lists"].size(); ++i) {
      auto ids = golden()["lists"][i].get<std::vector<Token>>();
      EXPECT_EQ(tokenizer->decode(ids, false), c["rows"][i].get<std::string>())
          << dump(c["spec"]) << " on " << dump(golden()["lists"][i]);
    }
  }
}

class SmallTokenizer : public testing::TestWithParam<int> {};

TEST_P(SmallTokenizer, GivesTheSameIdsAndText) {
  const Json& c = golden()["tokenizers"][static_cast<std::size_t>(GetParam())];
  SCOPED_TRACE(c["name"].get<std::string>());
  auto tokenizer = load(c["spec"]);
  for (int round = 0; round < 2; ++round)  // the second one comes out of the word cache
    for (std::size_t i = 0; i < c["rows"].size(); ++i) {
      auto text = golden()["sentences"][i].get<std::string>();
      const Json& row = c["rows"][i];
      auto ids = row["ids"].get<std::vector<Token>>();
      EXPECT_EQ(plain_ids(*tokenizer, text), ids) << text;
      EXPECT_EQ(tokenizer->encode(text, {.add_special = true}).ids, row["special"].get<std::vector<Token>>()) << text;
      EXPECT_EQ(tokenizer->decode(ids, false), row["decoded"].get<std::string>()) << text;
      EXPECT_EQ(tokenizer->decode(ids, true), row["skipped"].get<std::string>()) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(Golden, SmallTokenizer, testing::Range(0, 10));

}  // namespace
}  // namespace dml
