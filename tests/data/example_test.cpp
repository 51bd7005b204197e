#include "data/example.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/files.h"
#include "data/fixtures.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

using ::testing::ElementsAre;

constexpr Token byte(char c) { return 16 + static_cast<unsigned char>(c); }

Segment segment(const std::vector<Piece>& pieces, bool add_special, bool end) {
  Segment s;
  for (const Piece& piece : pieces) s.add(piece.text, piece.trained, piece.markup);
  s.add_special = add_special;
  s.end_of_text = s.end_trained = end;
  return s;
}

TEST(Assemble, LabelsTheAnswerAndItsEnd) {
  Rendered r;
  r.segments = {segment({{"P", false, true}}, true, false), segment({{"A", true, false}}, false, true)};
  Example e = assemble(r, ByteTokenizer());
  EXPECT_THAT(e.ids, ElementsAre(1, byte('P'), byte('A'), 2));
  EXPECT_THAT(e.labels, ElementsAre(kIgnore, kIgnore, byte('A'), 2));
  EXPECT_EQ(e.trained(), 2);
}

TEST(Assemble, ParsesSpecialTokensInMarkupOnly) {
  Rendered r;
  r.segments = {
      segment({{"<|im_start|>", false, true}, {"<|im_end|>", false, false}, {"<|im_end|>", true, true}}, false, false)};
  Example e = assemble(r, ByteTokenizer());
  ASSERT_EQ(e.ids.size(), 12u);  // one, ten bytes of what a user wrote, one
  EXPECT_EQ(e.ids.front(), 3);
  EXPECT_EQ(e.ids.back(), 4);
  EXPECT_EQ(e.labels.back(), 4);
  EXPECT_EQ(e.labels[10], kIgnore);
}

TEST(Assemble, AddsNoSecondEosAndNoneAfterAnEmptySegment) {
  Rendered r;
  r.segments = {segment({{"P", false, true}}, true, false), segment({{"A</s>", true, true}}, false, true)};
  EXPECT_THAT(assemble(r, ByteTokenizer()).ids, ElementsAre(1, byte('P'), byte('A'), 2));
  r.segments[1] = segment({{"", true, false}}, false, true);
  EXPECT_THAT(assemble(r, ByteTokenizer()).ids, ElementsAre(1, byte('P')));
  r.segments[1] = segment({{"A", true, false}}, false, true);
  r.segments[1].ends = 3;
  EXPECT_THAT(assemble(r, ByteTokenizer()).ids, ElementsAre(1, byte('P'), byte('A'), 2, 2, 2));
}

TEST(Assemble, RemovesTheEosThatATokenizerAppendsToAPrompt) {
  ByteTokenizer tokenizer;
  tokenizer.adds_eos = true;
  Rendered r;
  r.segments = {segment({{"P", false, true}}, true, false), segment({{"A", true, false}}, false, true)};
  EXPECT_THAT(assemble(r, tokenizer).ids, ElementsAre(1, byte('P'), byte('A'), 2));
}

// SentencePiece puts a space in front of every text, so a completion that was a text of its own would begin with two.
TEST(Assemble, EncodesPromptAndCompletionAsOneText) {
  const testing_tools::TemporaryFolder folder;
  write_file(folder / "tokenizer.model", read_file(DML_SOURCE_DIR "/tests/golden/tokenizer/spm_bpe.model"));
  const auto tokenizer = load_tokenizer(folder.path());
  DatasetEntry entry;
  entry.type.name = "prompt_completion";
  PromptContext context;
  context.dataset = &entry;
  const auto strategy = make_prompt_strategy(context);
  const std::pair<const char*, const char*> rows[] = {{"The baker", " reads"}, {"The ba", "ker reads"}};
  for (const auto& [prompt, completion] : rows) {
    const Example e = assemble(strategy->render({{"prompt", prompt}, {"completion", completion}})[0], *tokenizer);
    std::vector<Token> whole = tokenizer->encode("The baker reads", {.add_special = true}).ids;
    whole.push_back(*tokenizer->eos);
    EXPECT_EQ(e.ids, whole) << prompt;
  }
  const Example e = assemble(strategy->render({{"prompt", "The baker"}, {"completion", " reads"}})[0], *tokenizer);
  EXPECT_EQ(e.trained(), 3) << "▁re, ads, </s>";
}

// A tokenizer with tokens of two bytes: "PA" and " A" are P and a space, both bytes wide.
class FusingTokenizer : public ByteTokenizer {
 public:
  void encode_into(Encoding& out, std::string_view text, const EncodeOptions& options) const override {
    ByteTokenizer::encode_into(out, text, options);
    for (std::size_t i = 0; i + 1 < out.ids.size(); ++i)
      if ((out.ids[i] == byte('P') || out.ids[i] == byte(' ')) && out.ids[i + 1] == byte('A')) {
        out.offsets[i].end = out.offsets[i + 1].end;
        out.ids.erase(out.ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        out.offsets.erase(out.offsets.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
  }
};

TEST(Assemble, DetectsATokenAcrossTheBoundary) {
  Rendered r;
  r.segments = {segment({{"xP", false, true}, {"Ay", true, false}}, false, true)};
  Example e = assemble(r, FusingTokenizer());
  EXPECT_TRUE(e.fused);
  EXPECT_THAT(e.labels, ElementsAre(kIgnore, kIgnore, byte('y'), 2));
  EXPECT_FALSE(assemble(r, ByteTokenizer()).fused);
  r.segments = {segment({{"xP", true, true}, {"Ay", false, false}}, false, false)};
  EXPECT_FALSE(assemble(r, FusingTokenizer()).fused);
}

TEST(Assemble, GivesAWordWithItsSpaceToThePieceOfTheWord) {
  Rendered r;
  r.segments = {
      segment({{"x ", false, true}, {"Ay", true, false}, {" ", true, false}, {"A", false, true}}, false, false)};
  Example e = assemble(r, FusingTokenizer());
  EXPECT_THAT(e.ids, ElementsAre(byte('x'), byte(' '), byte('y'), byte(' ')));
  EXPECT_THAT(e.labels, ElementsAre(kIgnore, byte(' '), byte('y'), kIgnore));
  EXPECT_FALSE(e.fused);
  EXPECT_THAT(assemble(r, ByteTokenizer()).labels,
              ElementsAre(kIgnore, kIgnore, byte('A'), byte('y'), byte(' '), kIgnore));
}

TEST(Assemble, RefusesIdsTheTokenizerDoesNotHave) {
  Rendered r;
  r.ids = {5, 272};
  r.labels = {5, kIgnore};
  EXPECT_EQ(error_of<UserError>([&] { assemble(r, ByteTokenizer()); }),
            "'input_ids' holds 272, the tokenizer has 272 tokens");
}

TEST(Cut, KeepsEveryTokenOnce) {
  for (int size : {9, 10, 11, 12, 20, 21, 29, 30, 31}) {
    Example document;
    for (int i = 0; i < size; ++i) document.ids.push_back(i), document.labels.push_back(i);
    auto parts = cut(document, 10, 3);
    std::vector<Token> joined;
    for (auto& part : parts) {
      EXPECT_LE(part.size(), 10);
      EXPECT_GE(part.size(), 3);
      EXPECT_EQ(part.continues, &part != &parts.back());
      joined.insert(joined.end(), part.ids.begin(), part.ids.end());
    }
    EXPECT_EQ(joined, document.ids);
    EXPECT_EQ(parts.size(), static_cast<std::size_t>((size + 9) / 10));
  }
}

}  // namespace
}  // namespace dml
