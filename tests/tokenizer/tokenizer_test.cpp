// Properties that users rely on: literal text, special tokens, overrides, templates, saving, streams, linear time.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include <thread>

#include "core/error.h"
#include "support.h"

namespace dml {
namespace {

// A small byte-level BPE out of the goldens: <|end|> is special, "<|e", "cat!" … are not.
std::string byte_level() { return dump(read_json(kGolden + "/rust.json")["tokenizers"][0]["spec"]); }
const std::string kConfig = R"({"bos_token": "<|end|>", "eos_token": {"content": "<|end|>"}, "pad_token": null})";

std::unique_ptr<Tokenizer> load(const Folder& folder, const TokenizerOverrides& overrides = {}) {
  return load_tokenizer(folder.path(), overrides);
}

std::string spell(const Tokenizer& t, const std::vector<Token>& ids) {
  std::string out;
  for (Token id : ids) out += (out.empty() ? "" : "|") + t.piece(id);
  return out;
}

TEST(Tokenizer, SpecialTokensInLiteralTextStayText) {
  Folder folder({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", kConfig}});
  auto t = load(folder);
  std::string text = "<|end|>the<|end|>";
  Token end = *t->eos;
  EXPECT_THAT(t->encode(text).ids, testing::Contains(end).Times(2));
  ByteRange inside[] = {{7, 17}};
  EXPECT_THAT(t->encode(text, {.literal = inside}).ids, testing::Contains(end).Times(1));
  EXPECT_EQ(t->encode(text, {.literal = inside}).ids[0], end);
  ByteRange touching[] = {{6, 7}};  // one byte of the first
  EXPECT_EQ(t->encode(text, {.literal = touching}).ids.back(), end);
  EXPECT_NE(t->encode(text, {.literal = touching}).ids[0], end);
  EXPECT_THAT(t->encode(text, {.parse_special = false}).ids, testing::Not(testing::Contains(end)));
  EXPECT_EQ(t->decode(t->encode(text, {.parse_special = false}).ids), text);
  ByteRange before[] = {{0, 3}, {10, 17}};
  EXPECT_THAT(t->encode(text, {.literal = before}).ids, testing::Not(testing::Contains(end)));
  ByteRange with_empty[] = {{2, 2}, {3, 4}, {9, 9}, {12, 13}};
  EXPECT_THAT(t->encode(text, {.literal = with_empty}).ids, testing::Not(testing::Contains(end)));
}

TEST(Tokenizer, OffsetsAreTheBytesAnIdCameFrom) {
  Folder folder({{"tokenizer.json", byte_level()}});
  auto t = load(folder);
  std::string text = "the cat<|end|> naïve 漢 \xff cat!";
  Encoding e = t->encode(text);
  ASSERT_EQ(e.ids.size(), e.offsets.size());
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    EXPECT_EQ(e.offsets[i].begin, at);
    at = e.offsets[i].end;
  }
  EXPECT_EQ(at, text.size());
}

TEST(Tokenizer, AddSpecialPutsEmptyRangesAround) {
  Folder folder({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", kConfig}});
  auto t = load(folder);
  EXPECT_TRUE(t->adds_bos);
  EXPECT_TRUE(t->adds_eos);
  Encoding e = t->encode("the", {.add_special = true});
  EXPECT_EQ(e.ids.front(), *t->bos);
  EXPECT_EQ(e.offsets.front(), (ByteRange{0, 0}));
  EXPECT_EQ(e.offsets.back(), (ByteRange{3, 3}));
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  Folder folder({{"tokenizer.json", byte_level()}});
  auto t = load(folder);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back("the cat sat " + std::to_string(i * 7919) + " naïve <|end|> mats");
  std::vector<std::vector<Token>> expected;
  for (auto& s : texts) expected.push_back(t->encode(s).ids);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < texts.size(); ++i) wrong += t->encode(texts[i]).ids != expected[i];
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Overrides, NameAddAndRenameTokens) {
  Folder folder({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", kConfig}});
  auto plain = load(folder);
  TokenizerOverrides o;
  o.pad_token = "<pad>";
  o.eos_token = "<|im_end|>";
  o.additional_special_tokens = {"<|im_start|>"};
  o.tokens = {"<think>"};
  o.added_tokens = {{*plain->find("<l>"), "<reserved>"}};
  auto t = load(folder, o);
  EXPECT_EQ(t->size(), plain->size() + 4);
  const Token n = plain->size();
  EXPECT_EQ(t->untrained, (std::vector<Token>{*plain->find("<l>"), n, n + 1, n + 2, n + 3}));
  EXPECT_TRUE(plain->untrained.empty());
  EXPECT_EQ(t->piece(*t->pad), "<pad>");
  EXPECT_TRUE(t->is_special(*t->find("<|im_start|>")));
  EXPECT_FALSE(t->is_special(*t->find("<think>")));
  EXPECT_EQ(t->find("<reserved>"), plain->find("<l>"));
  EXPECT_EQ(t->find("<l>"), std::nullopt);
  EXPECT_EQ(spell(*t, t->encode("<|im_start|>a<think>b<|im_end|>").ids), "<|im_start|>|a|<think>|b|<|im_end|>");
  EXPECT_EQ(t->encode("a", {.add_special = true}).ids.back(), *t->eos);
  EXPECT_NE(t->digest, plain->digest);
  o.added_tokens = {{5, "x"}};  // an ordinary token
  EXPECT_THROW(load(folder, o), UserError);
}

void expect_same(const Tokenizer& a, const Tokenizer& b) {
  ASSERT_EQ(a.size(), b.size());
  for (Token id = 0; id < a.size(); ++id) {
    ASSERT_EQ(a.piece(id), b.piece(id)) << id;
    ASSERT_EQ(a.is_special(id), b.is_special(id)) << a.piece(id);
  }
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_EQ(a.eos, b.eos);
  EXPECT_EQ(a.pad, b.pad);
  EXPECT_EQ(a.unk, b.unk);
  EXPECT_EQ(a.chat_template, b.chat_template);
  for (std::string text : {"the cat<|im_end|><reserved> x <think> bread", "<l> <|end|>cat! <s> <ctl>"}) {
    EXPECT_EQ(a.encode(text, {.add_special = true}).ids, b.encode(text, {.add_special = true}).ids) << text;
  }
}

TEST(Saving, WithoutOverridesCopiesBytes) {
  Folder folder({{"tokenizer.json", byte_level()},
                 {"tokenizer_config.json", kConfig},
                 {"chat_template.jinja", "{{ x }}"},
                 {"additional_chat_templates/rag.jinja", "rag"},
                 {"model.safetensors", "no"}});
  Folder target;
  save_tokenizer_files(folder.path(), {}, target.path());
  for (const char* file :
       {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "additional_chat_templates/rag.jinja"})
    EXPECT_EQ(read_file(target.path() + "/" + file), read_file(folder.path() + "/" + file));
  EXPECT_FALSE(file_exists(target.path() + "/model.safetensors"));
}

TEST(Saving, WithOverridesGivesTheTokenizerThatWasUsed) {
  TokenizerOverrides o;
  o.pad_token = "<pad>";
  o.eos_token = "<|im_end|>";
  o.bos_token = "<bos\"\\>";
  o.additional_special_tokens = {"<|im_start|>"};
  o.tokens = {"<think>"};
  Folder json(
      {{"tokenizer.json", byte_level()}, {"tokenizer_config.json", kConfig}, {"special_tokens_map.json", kConfig}});
  Folder model({{"tokenizer.model", read_file(kGolden + "/spm_bpe.model")},
                {"tokenizer_config.json", R"({"add_bos_token": true})"}});
  for (const Folder* source : {&json, &model}) {
    auto plain = load(*source);
    TokenizerOverrides with = o;
    with.added_tokens = {{*plain->find(source == &json ? "<l>" : "<ctl>"), "<reserved>"}};
    Folder target;
    save_tokenizer_files(source->path(), with, target.path());
    expect_same(*load(*source, with), *load(target));
  }
}

TEST(Saving, RenamesAReservedTokenInsideTheVocabulary) {
  Json spec = read_json(kGolden + "/rust.json")["tokenizers"][2]["spec"];  // <s> is in the model's vocabulary
  Folder source({{"tokenizer.json", dump(spec)}}), target;
  TokenizerOverrides o;
  o.added_tokens = {{1, "<new>"}};
  save_tokenizer_files(source.path(), o, target.path());
  expect_same(*load(source, o), *load(target));
  EXPECT_EQ(load(target)->find("<new>"), 1);
}

TEST(Saving, PutsAChatTemplateWhereItIsLookedFor) {
  const std::string config =
      R"({ "model_max_length": 1000000000000000019884624838656, "eos_token": "<|end|>", "chat_template": [
    {"name": "default", "template": "old"}, {"name": "tools", "template": "{{ t }}"}] })";
  Folder folder({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", config}});
  save_chat_template(*load(folder), "{{ \"ü\" }}\n", "<|im_end|>", folder.path());
  EXPECT_EQ(read_file(folder.path() + "/chat_template.jinja"), "{{ \"ü\" }}\n");
  const std::string text = read_file(folder.path() + "/tokenizer_config.json");
  EXPECT_NE(text.find("\"model_max_length\": 1000000000000000019884624838656,"), text.npos)
      << "the rest stays as it is";
  const Json now = parse_json(text, "config");
  EXPECT_EQ(now["chat_template"][0]["template"], "{{ \"ü\" }}\n");
  EXPECT_EQ(now["chat_template"][1]["name"], "tools");
  EXPECT_EQ(now["eot_token"], "<|im_end|>");
  auto again = load(folder);
  EXPECT_EQ(again->chat_template, "{{ \"ü\" }}\n");
  EXPECT_EQ(again->named_templates.size(), 1u);

  Folder bare({{"tokenizer.json", byte_level()}}),
      empty({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", "{}"}});
  for (const Folder* f : {&bare, &empty}) {
    save_chat_template(*load(*f), "x", "", f->path());
    EXPECT_EQ(load(*f)->chat_template, "x");
  }
  EXPECT_EQ(read_json(bare.path() + "/tokenizer_config.json")["tokenizer_class"], "PreTrainedTokenizerFast");
}

// transformers 5.17, LlamaTokenizer.from_pretrained on the tokenizer.json of Llama 2: " kill him" is '▁kill', '▁him'.
TEST(Metaspace, ReadsSpacesAsTransformersFiveDoes) {
  const Json spec = {{"normalizer",
                      {{"type", "Sequence"},
                       {"normalizers",
                        {{{"type", "Prepend"}, {"prepend", "▁"}},
                         {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
                     {"pre_tokenizer", nullptr},
                     {"decoder", nullptr},
                     {"added_tokens", {{{"id", 0}, {"content", "<s>"}, {"special", true}}}},
                     {"model",
                      {{"type", "BPE"},
                       {"vocab", {{"<s>", 0}, {"▁", 1}, {"a", 2}, {"b", 3}, {"▁a", 4}, {"▁b", 5}}},
                       {"merges", {"▁ a", "▁ b"}}}}};
  Folder folder({{"tokenizer.json", dump(spec)}, {"tokenizer_config.json", R"({"bos_token": "<s>"})"}});
  TokenizerOverrides o;
  o.metaspace = true;
  auto file = load(folder), five = load(folder, o);
  EXPECT_EQ(spell(*file, file->encode(" a b").ids), "▁|▁a|▁b");
  EXPECT_EQ(spell(*five, five->encode(" a b").ids), "▁a|▁b");
  EXPECT_EQ(spell(*file, file->encode("a b").ids), spell(*five, five->encode("a b").ids));
  EXPECT_EQ(spell(*file, file->encode("<s>a").ids), "<s>|▁a");
  EXPECT_EQ(spell(*five, five->encode("<s>a").ids), "<s>|a");
  EXPECT_NE(file->digest, five->digest);
  Folder target;
  save_tokenizer_files(folder.path(), o, target.path());
  EXPECT_EQ(spell(*load(target), load(target)->encode(" a b").ids), "▁a|▁b");

  Folder bytes({{"tokenizer.json", byte_level()}}), model({{"tokenizer.model", read_file(kGolden + "/spm_bpe.model")}});
  EXPECT_THROW(load(bytes, o), UserError);
  EXPECT_THROW(load(model, o), UserError);
}

TEST(Templates, AreFoundWhereverTheyLie) {
  auto with = [](const std::string& config) {
    return Folder({{"tokenizer.json", byte_level()}, {"tokenizer_config.json", config}});
  };
  EXPECT_EQ(load(with(R"({"chat_template": "one"})"))->chat_template, "one");
  auto several =
      load(with(R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})"));
  EXPECT_EQ(several->chat_template, "d");
  EXPECT_THAT(several->named_templates, testing::ElementsAre(testing::Pair("tool_use", "t")));
  Folder file({{"tokenizer.json", byte_level()},
               {"tokenizer_config.json", R"({"chat_template": "old"})"},
               {"chat_template.jinja", "wins"},
               {"additional_chat_templates/rag.jinja", "r"}});
  EXPECT_EQ(load(file)->chat_template, "wins");
  EXPECT_THAT(load(file)->named_templates, testing::ElementsAre(testing::Pair("rag", "r")));
}

TEST(Directory, TokenizerJsonWinsOverTokenizerModel) {
  Folder both({{"tokenizer.json", byte_level()}, {"tokenizer.model", read_file(kGolden + "/spm_bpe.model")}});
  EXPECT_TRUE(load(both)->find("<|end|>"));
}

TEST(Directory, TokenizerModelNamesTheEndsThatNoConfigNames) {
  const std::string json = R"({"model": {"type": "BPE", "vocab": {"a": 0, "<s>": 1, "</s>": 2}, "merges": []}})";
  Folder alone({{"tokenizer.json", json}}), both({{"tokenizer.json", json}});
  EXPECT_FALSE(load(alone)->eos);
  both.put("tokenizer.model", read_file(kGolden + "/spm_bpe.model"));
  EXPECT_EQ(load(both)->bos, 1);
  EXPECT_EQ(load(both)->eos, 2);
  EXPECT_TRUE(load(both)->is_special(2));
  both.put("tokenizer_config.json", R"({"bos_token": null, "eos_token": "a"})");
  EXPECT_FALSE(load(both)->bos);
  EXPECT_EQ(load(both)->eos, 0);
  both.put("tokenizer.model", "of another kind");
  EXPECT_EQ(load(both)->eos, 0);
}

TEST(Directory, VocabularyAndMergesMakeAGpt2Tokenizer) {
  Json spec = parse_json(byte_level(), "golden");
  std::string merges = "#version: 0.2\n";
  for (auto& m : spec["model"]["merges"]) merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\r\n";
  Folder old({{"vocab.json", dump(spec["model"]["vocab"])},
              {"merges.txt", merges},
              {"added_tokens.json", R"({"<new>": 400})"}});
  Folder whole({{"tokenizer.json", byte_level()}});
  auto a = load(old), b = load(whole);
  EXPECT_EQ(a->encode("the cat sat, naïve 123").ids, b->encode("the cat sat, naïve 123").ids);
  EXPECT_EQ(a->find("<new>"), 400);
  EXPECT_EQ(a->encode("x<new>").ids.back(), 400);
}

TEST(Streams, GiveOutWholeCharactersOnly) {
  Folder folder({{"tokenizer.json", byte_level()}});
  auto t = load(folder);
  std::string text = "a漢🙂é";
  auto stream = t->stream();
  std::string got;
  for (Token id : t->encode(text).ids) {
    std::string piece = stream->next(id);
    EXPECT_EQ(find_invalid_utf8(piece), std::string::npos);
    got += piece;
  }
  EXPECT_EQ(got, text);
  auto cut = t->stream();
  cut->next(t->encode("漢").ids[0]);
  EXPECT_EQ(cut->finish(), "\xef\xbf\xbd");
}

// Twice the text may cost a little more than twice the steps, never four times.
TEST(Work, IsLinearInTheText) {
  std::vector<Folder> folders(2);
  folders[0].put("tokenizer.json", byte_level());
  folders[1].put("tokenizer.model", read_file(kGolden + "/spm_bpe.model"));
  for (const Folder& folder : folders) {
    auto t = load_pipeline(folder.path());
    for (std::string unit : {"a", "^", "\u200d", " ", "\n", "the", "\u0301\u0323", "<|e"}) {
      std::string once, twice;
      while (once.size() < 100000) once += unit;
      twice = once + once;
      std::size_t first = 0, second = 0;
      Encoding e;
      first = t->encode_counting(e, once, {});
      second = t->encode_counting(e, twice, {});
      EXPECT_LE(second, 2.5 * static_cast<double>(first) + 1000) << unit;
      EXPECT_GT(e.ids.size(), 0u);
    }
  }
}

// Blocks that no token joins: a long text has the ids of its blocks, wherever it is cut, and one that has no place for
// a cut is refused.
void expect_cut(const Pipeline& t, const std::string& end) {
  std::string text, block;
  std::vector<Token> expected;
  std::uint64_t state = 1;
  while (text.size() < 500000) {
    block.clear();
    state = state * 6364136223846793005u + 1442695040888963407u;
    for (std::uint64_t n = 1 + (state >> 33) % 9000, bits = state; block.size() < n;
         bits = bits * 2862933555777941757u + 1)
      block += "abc"[bits >> 62 == 3 ? 0 : bits >> 62];
    block += end;
    for (Token id : plain_ids(t, block)) expected.push_back(id);
    text += block;
  }
  Encoding whole = t.encode(text, {});
  EXPECT_EQ(whole.ids, expected);
  std::uint32_t at = 0;
  for (const ByteRange& range : whole.offsets) {
    ASSERT_EQ(range.begin, at);
    at = range.end;
  }
  EXPECT_EQ(at, text.size());
  EXPECT_GT(plain_ids(t, std::string(1 << 20, 'a')).size(), 0u);
  try {
    t.encode(std::string((1 << 20) + 1, 'a'), {});
    ADD_FAILURE() << "a word that cannot be cut was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "more than 1 MiB of text without a place to split it (a single word without spaces) cannot be tokenized");
  }
}

TEST(LongTexts, AreCutWhereNoMergeCrosses) {
  Folder folder;
  folder.put("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "z": 3, "aa": 4,
    "ab": 5, "cb": 6, "aac": 7, "zz": 8, "bca": 9, "ca": 10, "é": 11, "éé": 12},
    "merges": ["c a", "a a", "a b", "c b", "aa c", "z z", "b ca", "é é"]}})");
  expect_cut(*load_pipeline(folder.path()), "z");
  expect_cut(*load_pipeline(folder.path()), "é");
}

TEST(LongTexts, AreCutWhereNoPieceCrosses) {
  Folder folder;
  folder.put("tokenizer.json", R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -3.1],
    ["b", -2.7], ["c", -2.9], ["z", -4], ["ab", -4.1], ["abc", -6.2], ["caa", -5.9], ["bc", -4.4], ["aa", -7]]}})");
  expect_cut(*load_pipeline(folder.path()), "z");
}

}  // namespace
}  // namespace dml
