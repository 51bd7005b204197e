// Trained tokenizers: tokenizer.model and tokenizer.json give the ids of libsentencepiece, the same on every run, and
// what the library would end the process on is an error of one line.
#include "tokenizer/train.h"

#include <sentencepiece_processor.h>

#include "core/error.h"
#include "core/random.h"
#include "support.h"

namespace dml {
namespace {

// Sentences of our own data; enough for a few hundred subwords.
std::vector<std::string> corpus_of_facts() {
  std::vector<std::string> out;
  for (const Json& row : read_rows(DML_SOURCE_DIR "/datasets/quickstart/plain_text.jsonl"))
    out.push_back(row["text"].get<std::string>());
  out.resize(300);
  out.push_back(
      "Die Bäckerin öffnet um 6 Uhr.\nUn café près du marché: 12,50 €.\n\tdef f(x):\n\t    return x  # aaaa aaaaaaa");
  return out;
}

OpenTexts texts_of(std::vector<std::string> texts) {
  return [texts]() -> NextText {
    return [texts, at = std::size_t{0}](std::string& text) mutable {
      if (at == texts.size()) return false;
      text = texts[at++];
      return true;
    };
  };
}

constexpr std::size_t kAll = std::size_t{1} << 30;

std::string random_sentence(const Random& random, std::uint64_t& at) {
  static const std::vector<std::string> parts = {"A lion",
                                                 "sleeps",
                                                 "the cave",
                                                 " ",
                                                 "  ",
                                                 "   ",
                                                 "\n",
                                                 "\n\n",
                                                 "\t",
                                                 "öffnet",
                                                 "café",
                                                 "é",
                                                 "e\u0301",
                                                 "12",
                                                 "3",
                                                 "€",
                                                 "漢字",
                                                 "🙂",
                                                 "ﬁ",
                                                 "①",
                                                 "Ａ",
                                                 "aaaa",
                                                 "aaaaaaaaa",
                                                 "ababab",
                                                 "...",
                                                 "(x):",
                                                 "▁",
                                                 "<s>",
                                                 "</s>",
                                                 "<unk>",
                                                 "<0x0A>",
                                                 "<|im_start|>",
                                                 "### Instruction:",
                                                 "def f",
                                                 "return",
                                                 "z"};
  std::string out;
  for (std::uint64_t n = random.below(at++, 24); n > 0; --n) {
    out += parts[random.below(at++, parts.size())];
    if (random.below(at++, 3) == 0) out += ' ';
  }
  return out;
}

struct Case {
  const char* name;
  TokenizerTraining options;
};

std::vector<Case> cases() {
  TokenizerTraining bpe;
  bpe.vocab_size = 600;
  TokenizerTraining unigram = bpe;
  unigram.model = SubwordModel::unigram;
  TokenizerTraining chat = bpe;
  chat.special = {"<|im_start|>", "<|im_end|>"};
  chat.tokens = {"### Instruction:", "\n", "\n\n", "aaa"};
  chat.pad = "<pad>";
  TokenizerTraining chat_unigram = chat;
  chat_unigram.model = SubwordModel::unigram;
  chat_unigram.tokens.pop_back();  // where a token overlaps with itself, Unigram does not always take the leftmost
  TokenizerTraining plain = bpe;
  plain.byte_fallback = false;
  plain.split_digits = false;
  plain.character_coverage = 1;
  TokenizerTraining plain_unigram = plain;
  plain_unigram.model = SubwordModel::unigram;
  TokenizerTraining folded = bpe;
  folded.normalization = "nfkc_cf";
  return {{"bpe", bpe},      {"unigram", unigram},
          {"chat", chat},    {"chat_unigram", chat_unigram},
          {"plain", plain},  {"plain_unigram", plain_unigram},
          {"folded", folded}};
}

class TrainedFrom : public testing::TestWithParam<Case> {};

TEST_P(TrainedFrom, TextGivesTheIdsOfTheLibraryFromBothFiles) {
  const TokenizerTraining& options = GetParam().options;
  TrainedTokenizer made = train_tokenizer(options, texts_of(corpus_of_facts()), kAll);
  EXPECT_EQ(made.size, options.vocab_size);
  Folder whole, model_alone;
  write_tokenizer(options, made.model, whole.path());
  for (const char* file : {"tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"})
    model_alone.put(file, read_file(whole.path() + "/" + file));
  auto from_json = load_tokenizer(whole.path()), from_model = load_tokenizer(model_alone.path());
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(made.model).ok());

  EXPECT_EQ(from_json->size(), options.vocab_size);
  EXPECT_EQ(from_model->size(), options.vocab_size);
  EXPECT_EQ(from_json->bos, 1);
  EXPECT_EQ(from_json->eos, 2);
  EXPECT_EQ(from_json->pad.has_value(), options.pad.has_value());
  for (auto& token : options.special) EXPECT_TRUE(from_json->is_special(from_json->find(token).value())) << token;
  EXPECT_EQ(from_json->encode("A lion", {.add_special = true}).ids.front(), 1);
  EXPECT_EQ(from_model->encode("A lion", {.add_special = true}).ids.front(), 1);

  Random random(11, Purpose::sample);
  std::uint64_t at = 0;
  std::size_t tokens = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = random_sentence(random, at);
    if (i == 0) text = corpus_of_facts()[0];
    // Hugging Face's Unigram finds the spelling of a byte in a text whose own characters it does not know.
    if (options.model == SubwordModel::unigram && text.find("<0x") != text.npos) continue;
    if (options.normalization != "none" && text.find_first_of("<\n\t") != text.npos) continue;
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    // Unigram may cut a text in several ways of the same score: then the tokens are the same, in another order.
    const auto settled = [&](std::vector<int> ids) {
      if (options.model == SubwordModel::unigram) std::ranges::sort(ids);
      return ids;
    };
    ASSERT_EQ(settled(from_json->encode(text, {.parse_special = false}).ids), settled(expected)) << text;
    ASSERT_EQ(settled(from_model->encode(text, {.parse_special = false}).ids), settled(expected)) << text;
    EXPECT_EQ(settled(from_json->encode(text).ids), settled(from_model->encode(text).ids)) << text;
    tokens += expected.size();
    if (options.byte_fallback && options.normalization == "none" && text.find("\u2581") == text.npos) {
      EXPECT_EQ(from_json->decode(from_json->encode(text, {.parse_special = false}).ids), text);
    }
  }
  EXPECT_GT(tokens, 4000u);
  if (!options.special.empty()) {
    EXPECT_EQ(from_json->encode("<|im_start|>").ids.size(), 1u);
  }
  {
    for (auto& token : options.tokens) EXPECT_EQ(from_json->encode(token).ids.size(), 1u) << token;
  }
}
INSTANTIATE_TEST_SUITE_P(Options, TrainedFrom, testing::ValuesIn(cases()),
                         [](auto& param) { return std::string(param.param.name); });

TEST(TokenizerTraining, HuggingFacesLibraryReadsTheSameIdsAndText) {
  const Json golden = read_json(kGolden + "/trained.json");
  for (const char* kind : {"bpe", "unigram"}) {
    Folder folder;
    write_tokenizer({}, read_file(fmt::format("{}/trained_{}.model", kGolden, kind)), folder.path());
    auto tokenizer = load_tokenizer(folder.path());
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      const std::string text = golden["texts"][i].get<std::string>();
      const Json& row = golden[kind][i];
      const auto ids = row["ids"].get<std::vector<Token>>();
      EXPECT_EQ(tokenizer->encode(text).ids, ids) << kind << ": " << text;
      EXPECT_EQ(tokenizer->encode(text, {.add_special = true}).ids, row["special"].get<std::vector<Token>>()) << text;
      EXPECT_EQ(tokenizer->decode(ids), row["decoded"].get<std::string>()) << kind << ": " << text;
    }
  }
}

TEST(TokenizerTraining, GivesTheSameModelAgain) {
  for (SubwordModel kind : {SubwordModel::bpe, SubwordModel::unigram}) {
    TokenizerTraining options;
    options.model = kind;
    options.vocab_size = 500;
    auto train = [&] { return train_tokenizer(options, texts_of(corpus_of_facts()), kAll).model; };
    EXPECT_EQ(train(), train());
  }
}

TEST(TokenizerTraining, MakesOneTokenOfAWordThatTheTextRepeats) {
  TokenizerTraining options;
  options.vocab_size = 290;
  TrainedTokenizer made =
      train_tokenizer(options, texts_of(std::vector<std::string>(50, "wonderful weather, wonderful water")), kAll);
  Folder folder;
  write_tokenizer(options, made.model, folder.path());
  EXPECT_EQ(load_tokenizer(folder.path())->encode(" wonderful").ids.size(), 1u);
}

TEST(TokenizerTraining, ASampleIsSpreadOverTheWholeText) {
  // One half says one thing, the other half another; a tenth of all still holds both.
  std::vector<std::string> texts(1000, "mountain mountain river");
  texts.resize(2000, "keyboard keyboard window");
  TokenizerTraining options;
  options.vocab_size = 285;
  TrainedTokenizer made = train_tokenizer(options, texts_of(texts), 5000);
  EXPECT_LE(made.trained, 5000u);
  EXPECT_EQ(made.texts, 2000);
  Folder folder;
  write_tokenizer(options, made.model, folder.path());
  auto tokenizer = load_tokenizer(folder.path());
  for (const char* word : {"mountain", "keyboard"}) EXPECT_LT(tokenizer->encode(word).ids.size(), 8u) << word;
}

struct Refused {
  const char* what;
  TokenizerTraining options;
  std::vector<std::string> texts;
  std::string says;
};

std::vector<Refused> refused_cases() {
  TokenizerTraining usual, small, large, twice, coverage, rule, spaced, unigram, tokens;
  usual.vocab_size = 300;
  small.vocab_size = 100;
  large.vocab_size = 5000;
  twice.special = {"<x>", "<x>"};
  coverage.character_coverage = 0.5;
  rule.normalization = "nfkcc";
  spaced.special = {"<a b>"};
  unigram.model = SubwordModel::unigram;
  unigram.vocab_size = 300;
  tokens = unigram;
  tokens.tokens = {"abc"};
  return {{"no text", usual, {}, "there is no text"},
          {"only empty texts", usual, {"", ""}, "there is no text"},
          {"only white space", unigram, {" \n\t ", "\u3000"}, "nothing but white space"},
          {"only tokens", tokens, {"abc abcabc"}, "nothing but white space and the given tokens"},
          {"no UTF-8", usual, {"good", "bad \xff"}, "text 2: byte 5 is not UTF-8"},
          {"fewer tokens than bytes", small, {"abc"}, "--vocab-size must be between 260"},
          {"a vocabulary the text cannot fill", large, {"abc abd"}, "is too large: this text yields"},
          {"a token twice", twice, {"abc"}, "'<x>' is given twice"},
          {"coverage", coverage, {"abc"}, "between 0.98 and 1, is 0.5"},
          {"a rule that is none", rule, {"abc"}, "did you mean 'nfkc'"},
          {"a special token with a space", spaced, {"abc"}, "'<a b>' holds a character"}};
}

TEST(TokenizerTraining, WhatCannotWorkIsAnErrorOfOneLine) {
  for (const Refused& c : refused_cases()) {
    try {
      train_tokenizer(c.options, texts_of(c.texts), kAll);
      ADD_FAILURE() << c.what;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(c.says), std::string::npos) << c.what << ": " << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << c.what;
    }
  }
}

TEST(TokenizerTraining, TheSizeThatAnErrorNamesWorks) {
  TokenizerTraining options;
  options.vocab_size = 5000;
  std::string said;
  try {
    train_tokenizer(options, texts_of({"the cat sat on the mat, the cat"}), kAll);
  } catch (const UserError& e) {
    said = e.what();
  }
  ASSERT_NE(said.find("use --vocab-size "), std::string::npos) << said;
  options.vocab_size = std::stoll(said.substr(said.find("use --vocab-size ") + 17));
  EXPECT_EQ(train_tokenizer(options, texts_of({"the cat sat on the mat, the cat"}), kAll).size, options.vocab_size);
  // An alphabet that does not fit is told apart, with the least size that does.
  std::string alphabet;
  for (char32_t c = 0x4e00; c < 0x4e00 + 400; ++c) append_utf8(alphabet, c);
  options.vocab_size = 300;
  options.character_coverage = 1;
  try {
    train_tokenizer(options, texts_of({alphabet}), kAll);
    FAIL();
  } catch (const UserError& e) {
    said = e.what();
  }
  ASSERT_NE(said.find("use at least 660"), std::string::npos) << said;
  options.vocab_size = 660;
  EXPECT_EQ(train_tokenizer(options, texts_of({alphabet}), kAll).size, 660);
}

TEST(TokenizerTraining, TextThatWouldCrashTheLibraryIsTrainedOn) {
  TokenizerTraining options;
  options.vocab_size = 280;
  std::string word;  // longer than the library can index
  for (int i = 0; i < 100'000; ++i) word += static_cast<char>('a' + i * 7919 % 5);
  std::string blocks = "\u2585\u2585 blocks and blocks \u2585";  // sentences with U+2585 are skipped by the library
  for (SubwordModel kind : {SubwordModel::bpe, SubwordModel::unigram}) {
    options.model = kind;
    EXPECT_EQ(train_tokenizer(options, texts_of({word, std::string("nul \0 nul", 9), blocks}), kAll).size, 280);
  }
}

}  // namespace
}  // namespace dml
