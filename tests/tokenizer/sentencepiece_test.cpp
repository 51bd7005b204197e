// SentencePiece models: the same ids as libsentencepiece on random text, and every way a file can be wrong.
#include <sentencepiece_processor.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/random.h"
#include "support.h"
#include "tokenizer/sentencepiece_model.h"

namespace dml {
namespace {

std::unique_ptr<Pipeline> load_model(const std::string& bytes, bool legacy = true) {
  auto out = make_sentencepiece(parse_sentencepiece_model(bytes, "tokenizer.model"), legacy, "tokenizer.model");
  out->prepare();
  return out;
}

// Words of the training text, spaces of all kinds, characters the model never saw, and broken UTF-8.
std::string random_text(const Random& random, std::uint64_t& at) {
  static const std::vector<std::string> parts = {
      "The baker", "bread",    "reading", "writing",
      "rewrite",   "prices",   "price",   "prpri",
      "<tool>",    "</tool>",  "<tool",   "<ctl>",
      "<s>",       "bakes",    "bake",    "river",
      "driver",    " ",        "  ",      "\n",
      "\t",        "\u3000",   "▁",       "▁▁",
      "ä",         "ö",        "é",       "漢字",
      "🙂",      "ﬁ",        "①",       "A",
      "B",         "AB",       "<0x41>",  "1",
      "200",       "3000",     ".",       "(50% off!)",
      "a",         "e",        "s",       "t",
      "th",        "in",       "er",      "\u0301",
      "\xff",      "\xe6\xbc", "zzz",     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  std::string out;
  for (std::uint64_t n = random.below(at++, 30); n > 0; --n) {
    out += parts[random.below(at++, parts.size())];
    if (random.below(at++, 3) == 0) out += ' ';
  }
  return out;
}

class Trained : public testing::TestWithParam<const char*> {};

TEST_P(Trained, GivesTheIdsOfTheLibraryOnRandomText) {
  std::string bytes = read_file(kGolden + "/spm_" + GetParam() + ".model");
  auto ours = load_model(bytes);
  sentencepiece::SentencePieceProcessor theirs;
  ASSERT_TRUE(theirs.LoadFromSerializedProto(bytes).ok());
  Random random(7, Purpose::sample);
  std::uint64_t at = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_text(random, at);
    std::vector<int> expected;
    ASSERT_TRUE(theirs.Encode(text, &expected).ok());
    ASSERT_EQ(ours->encode(text, {.parse_special = false}).ids, expected) << GetParam() << ": " << text;
  }
  EXPECT_EQ(ours->size(), theirs.GetPieceSize());
}
INSTANTIATE_TEST_SUITE_P(Golden, Trained, testing::Values("bpe", "bpe_plain", "unigram", "unigram_bytes"),
                         [](auto& param) { return std::string(param.param); });

TEST(SentencePiece, RealModelsGiveTheIdsOfTheLibraryOnRealText) {
  if (!std::filesystem::exists(kShared + "/tokenizers/llama2")) GTEST_SKIP() << "no ../shared/data";
  std::string text = read_file(kShared + "/datasets/text/tinyshakespeare.txt").substr(0, 200000);
  std::string rows = read_file(kShared + "/datasets/alpaca/alpaca_en_demo.json").substr(0, 200000);
  for (const char* name : {"tokenizers/llama2", "tokenizers/mistral-v1", "models/stories260K"}) {
    std::string bytes = read_file(kShared + "/" + name + "/tokenizer.model");
    auto ours = load_model(bytes);
    sentencepiece::SentencePieceProcessor theirs;
    ASSERT_TRUE(theirs.LoadFromSerializedProto(bytes).ok());
    for (const std::string& whole : {text, rows})
      for (std::size_t i = 0; i < whole.size(); i += 5000) {
        std::string part = whole.substr(i, 5000);
        std::vector<int> expected;
        theirs.Encode(part, &expected).IgnoreError();
        ASSERT_EQ(ours->encode(part, {.parse_special = false}).ids, expected) << name;
      }
  }
}

TEST(SentencePiece, LegacyFalsePutsTheSpaceOnlyInFrontOfTheText) {
  std::string bytes = read_file(kGolden + "/spm_bpe.model");
  auto legacy = load_model(bytes), modern = load_model(bytes, false);
  EXPECT_EQ(plain_ids(*legacy, "bread"), plain_ids(*modern, "bread"));
  auto spell = [](const Pipeline& t, const std::string& text) {
    std::string out;
    for (Token id : plain_ids(t, text)) out += t.piece(id);
    return out;
  };
  EXPECT_EQ(spell(*legacy, "<s>bread"), "<s>▁bread");
  EXPECT_EQ(spell(*modern, "<s>bread"), "<s>bread");
}

TEST(SentencePiece, OffsetsPointIntoTheInput) {
  auto tokenizer = load_model(read_file(kGolden + "/spm_bpe_plain.model"));
  std::string text = "  The ﬁ  bread ";
  Encoding e = tokenizer->encode(text, {});
  std::string joined;
  std::uint32_t last = 0;
  for (ByteRange r : e.offsets) {
    EXPECT_GE(r.begin, last);
    EXPECT_LE(r.end, text.size());
    last = r.end;
  }
  EXPECT_EQ(tokenizer->decode(e.ids, false), "The fi bread");
}

// ---- a writer for wrong files
std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}
std::string piece(const std::string& text, float score = 0, std::uint64_t type = 1) {
  std::string real(4, '\0');
  std::memcpy(real.data(), &score, 4);
  return field(1, field(1, text) + varint(2 << 3 | 5) + real + field(3, type));
}
const std::string kUnk = piece("<unk>", 0, 2),
                  kGood = kUnk + piece("<s>", 0, 3) + piece("a") + field(2, field(3, std::uint64_t{2}));
std::string charsmap(std::uint32_t size, const std::string& rest) {
  std::string blob(4, '\0');
  std::memcpy(blob.data(), &size, 4);
  return kGood + field(3, field(2, blob + rest));
}

TEST(SentencePiece, AGoodFileWithUnknownFieldsLoads) {
  auto t = load_model(kGood + field(99, std::string("later")) + field(98, std::uint64_t{5}));
  EXPECT_EQ(t->size(), 3);
  EXPECT_EQ(t->bos, 1);
}

struct BadModel {
  const char* what;
  std::string bytes, says;
};
class BadSentencePiece : public testing::TestWithParam<BadModel> {};
TEST_P(BadSentencePiece, IsAnErrorOfOneLine) {
  try {
    load_model(GetParam().bytes)->encode("a b", {});
    FAIL() << GetParam().what;
  } catch (const UserError& e) {
    std::string text = e.what();
    EXPECT_NE(text.find(GetParam().says), std::string::npos) << GetParam().what << ": " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_TRUE(text.starts_with("tokenizer.model: ")) << text;
    EXPECT_LT(text.size(), 300u);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadSentencePiece,
    testing::ValuesIn(std::vector<BadModel>{
        {"empty", "", "no pieces"},
        {"a number without end", std::string(12, '\xff'), "more than 10 bytes"},
        {"a length past the end", std::string("\x0a\xff\x7f", 3), "are left"},
        {"field number zero", std::string("\x00\x00", 2), "field number"},
        {"a wire type of groups", "\x0b", "wire type"},
        {"a piece that is a number", varint(1 << 3) + "\x05", "wire type"},
        {"a score that is a text", field(1, field(1, "x") + field(2, std::string("y"))), "wire type"},
        {"a piece of 100 kB", kGood + piece(std::string(100000, 'x')), "the limit is 4096"},
        {"a piece of 10 MB", kGood + piece(std::string(10000000, 'x')), "the limit is 4096"},
        {"a score that is not a number", kGood + piece("x", NAN), "finite"},
        {"an infinite score", kGood + piece("x", INFINITY), "finite"},
        {"piece type 99", kGood + piece("x", 0, 99), "type 99"},
        {"piece type 0", kGood + piece("x", 0, 0), "type 0"},
        {"model type 99", kUnk + piece("a") + field(2, field(3, std::uint64_t{99})), "model type 99"},
        {"a piece twice", kGood + piece("a"), "occurs twice"},
        {"an empty piece", kGood + piece(""), "is empty"},
        {"no unknown piece", piece("a") + piece("b"), "no unknown piece"},
        {"two unknown pieces", kGood + piece("<u2>", 0, 2), "both the unknown"},
        {"bos out of range", kGood + field(2, field(41, std::uint64_t{5})), "bos_id is 5"},
        {"eos far out of range", kGood + field(2, field(42, std::uint64_t{2147483647})), "eos_id"},
        {"an unk_id that is another piece", kGood + field(2, field(40, std::uint64_t{2})), "unk_id is 2"},
        {"a piece that is not UTF-8", kGood + piece("\xff\xfe"), "UTF-8"},
        {"byte fallback without bytes", kGood + field(2, field(35, std::uint64_t{1})), "256 bytes"},
        {"a byte piece that spells none", kGood + piece("<0xZZ>", 0, 6), "spell a byte"},
        {"a map shorter than its header", kGood + field(3, field(2, std::string("ab"))), "header"},
        {"a map larger than its field", charsmap(1 << 20, "abcd"), "size of its trie"},
        {"a map of odd size", charsmap(3, "abcdefgh"), "size of its trie"},
        {"a map without texts", charsmap(4, std::string(4, '\0')), "strings are not terminated"},
        {"a map that leads outside",
         charsmap(8, std::string("\x00\x00\x00\x00", 4) + std::string("\x01\x01\x00\x00", 4) + std::string(1, '\0')),
         "damaged"},
    }));

TEST(SentencePiece, AFileCutAnywhereNeverCrashes) {
  std::string bytes = read_file(kGolden + "/spm_unigram.model");
  for (std::size_t n = 0; n < bytes.size(); n += n < 400 ? 1 : 37) {
    try {
      load_model(bytes.substr(0, n))->encode("The baker bakes <tool> \u3000 x", {});
    } catch (const UserError&) {
    }
  }
}

TEST(SentencePiece, AFileWithAnyByteChangedNeverCrashes) {
  std::string bytes = read_file(kGolden + "/spm_unigram.model");
  Random random(3, Purpose::sample);
  for (std::uint64_t i = 0; i < 1500; ++i) {
    std::string changed = bytes;
    for (std::uint64_t k = 0; k < 3; ++k)
      changed[random.below(i * 8 + k, bytes.size())] = static_cast<char>(random.word(i * 8 + 4 + k));
    try {
      load_model(changed)->encode("The baker bakes <tool> \u3000 AB ﬁ x", {});
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace dml
