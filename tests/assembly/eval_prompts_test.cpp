// Prompts and answers of evaluations as tokens and text.
#include "assembly/eval_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assembly/answer_text.h"
#include "assembly/prompt_format.h"
#include "core/error.h"
#include "core/files.h"
#include "data/example.h"
#include "data/fixtures.h"
#include "data/prepare.h"

namespace dml {
namespace {

// "The baker reads" as a prompt of two words and its answer.
std::string decoded_answer(const Tokenizer& tokenizer) {
  ModelSpec spec;
  spec.vocab = tokenizer.size();
  const AnsweringPrompts prompts(nullptr, tokenizer, spec);
  const std::vector<Token> prompt = prompts.prompt({{"prompt", "The baker"}}, true),
                           whole = prompts.prompt({{"prompt", "The baker reads"}}, true);
  return prompts.answer(prompt, {whole.begin() + std::ssize(prompt), whole.end()}, true);
}

std::vector<Token> trained_tokens(const Example& example) {
  std::vector<Token> out;
  for (Token label : example.labels)
    if (label != kIgnore) out.push_back(label);
  return out;
}

MATCHER_P(BeginsWith, front, "") {
  return arg.size() >= front.size() && std::equal(front.begin(), front.end(), arg.begin());
}

// As in lm-evaluation-harness, which decodes the ids after the prompt alone: SentencePiece drops a space in front of a
// text, tokenizers of bytes keep it.
TEST(EvalAnswers, AreDecodedWithoutTheirPrompt) {
  const testing_tools::TemporaryFolder folder;
  write_file(folder / "tokenizer.model", read_file(DML_SOURCE_DIR "/tests/golden/tokenizer/spm_bpe.model"));
  EXPECT_EQ(decoded_answer(*load_tokenizer(folder.path())), "reads");
  EXPECT_EQ(decoded_answer(ByteTokenizer()), " reads");
}

// The space that a template writes before answers belongs to it; only one is dropped, and none of a continued text.
TEST(AnswerText, DropsTheSpaceOfTheTemplate) {
  const ByteTokenizer tokenizer;
  const auto text = [&](const std::string& answer, const AnswerText::Options& options) {
    AnswerText decoder(tokenizer, tokenizer.encode("ASSISTANT:").ids, options);
    std::string out;
    for (Token id : tokenizer.encode(answer).ids) out += decoder.next(id);
    return out + decoder.finish();
  };
  EXPECT_EQ(text("  Hello you", {.space = true}), " Hello you");
  EXPECT_EQ(text("Hello you", {.space = true}), "Hello you");
  EXPECT_EQ(text(" Hello", {}), " Hello");
  EXPECT_EQ(text(" Hello", {.continued = true, .space = true}), " Hello");
}

// With a tokenizer that begins each text with a space.
class EvalContinuations : public testing::Test {
 protected:
  EvalContinuations() {
    write_file(folder_ / "tokenizer.model", read_file(DML_SOURCE_DIR "/tests/golden/tokenizer/spm_bpe.model"));
    tokenizer = load_tokenizer(folder_.path());
    spec.vocab = tokenizer->size();
  }
  static Recipe recipe_of(const std::string& type, RowKind rows = RowKind::text) {
    Recipe recipe;
    recipe.data.rows = rows;
    recipe.data.datasets.resize(1);
    recipe.data.datasets[0].type.name = type;
    return recipe;
  }
  // The row as training tokenizes it.
  Example trained(const Recipe& recipe, const Json& row) const {
    const auto strategy =
        make_prompt_strategy(prompt_context(recipe.data, recipe.templates, recipe.data.datasets[0], *tokenizer));
    return assemble(strategy->render(row).at(0), *tokenizer);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  ModelSpec spec;

 private:
  const testing_tools::TemporaryFolder folder_;
};

// A tokenizer that begins each text with a space must not put one between a prompt and its answer.
TEST_F(EvalContinuations, AreTokenizedWithTheirPromptWhereNothingIsBetween) {
  const Json row{{"prompt", "The bak"}};
  const AnsweringPrompts without(nullptr, *tokenizer, spec);
  const auto plain = without.continued(row, "er reads", false), raw = without.continued(row, "er reads", true);
  EXPECT_EQ(plain.context, raw.context);
  EXPECT_EQ(plain.continuation, raw.continuation);
  EXPECT_NE(plain.continuation, without.plain("er reads"));
  EXPECT_THROW(without.continued(Json::object(), "x", false), UserError);

  for (const std::string chat_template : {"chatml", "llama2"}) {
    Recipe recipe = recipe_of("chat_template");
    recipe.templates.chat_template = chat_template;
    const AnsweringPrompts prompts(&recipe, *tokenizer, spec);
    const auto both = prompts.continued(row, "The baker reads", false);
    EXPECT_EQ(both.context, prompts.prompt(row, false));
    const Json said{
        {"messages",
         {{{"role", "user"}, {"content", "The bak"}}, {{"role", "assistant"}, {"content", "The baker reads"}}}}};
    EXPECT_THAT(trained_tokens(trained(recipe, said)), BeginsWith(both.continuation)) << chat_template;
  }
}

// As in training: formats of pairs and prompt_completion are one text, those of instructions are not.
TEST_F(EvalContinuations, AreTokenizedAsInTraining) {
  const std::string said = "The baker reads";
  const Json row{{"prompt", "The bak"}, {"question", "The bak"}, {"instruction", "The bak"},
                 {"chosen", said},      {"rejected", "No one"},  {"completion", said},
                 {"output", said}};
  bool together = true;
  for (const std::string type : {"chatml.intel", "prompt_completion", "alpaca"}) {
    const Recipe recipe = recipe_of(type, type == "chatml.intel" ? RowKind::pairs : RowKind::text);
    const AnsweringPrompts prompts(&recipe, *tokenizer, spec);
    const auto both = prompts.continued(row, said, false);
    EXPECT_THAT(trained_tokens(trained(recipe, row)), BeginsWith(both.continuation)) << type;
    EXPECT_EQ(both.context, prompts.prompt({{"prompt", "The bak"}}, false)) << type;
    together = together && both.continuation != prompts.plain(said);
    EXPECT_EQ(together, type != "alpaca") << type;
  }
}

// Segments and texts that have their own special tokens, which are parsed as in training.
TEST_F(EvalContinuations, OfTextsWithTheirOwnMarkupAreTokenizedAsInTraining) {
  const std::string asked = "<s>The bak", said = "The baker reads</s>";
  const Json row{{"prompt", asked},
                 {"chosen", said},
                 {"rejected", "No"},
                 {"segments", {{{"label", false}, {"text", asked}}, {{"label", true}, {"text", said}}}}};
  for (const std::string type : {"input_output", "passthrough"}) {
    const Recipe recipe = recipe_of(type, type == "passthrough" ? RowKind::pairs : RowKind::text);
    const AnsweringPrompts prompts(&recipe, *tokenizer, spec);
    const auto both = prompts.continued({{"prompt", asked}}, said, false);
    std::vector<Token> whole = both.context;
    whole.insert(whole.end(), both.continuation.begin(), both.continuation.end());
    EXPECT_EQ(whole, trained(recipe, row).ids) << type;
    EXPECT_EQ(both.continuation.back(), *tokenizer->eos) << type;
  }
}

// Without --raw, text of a prompt spells no special tokens, as in training.
TEST_F(EvalContinuations, SpellSpecialTokensOnlyIfRaw) {
  const AnsweringPrompts prompts(nullptr, *tokenizer, spec);
  const Json row{{"prompt", "a" + tokenizer->piece(*tokenizer->eos)}};
  EXPECT_EQ(prompts.prompt(row, true).back(), *tokenizer->eos);
  EXPECT_NE(prompts.prompt(row, false).back(), *tokenizer->eos);
}

}  // namespace
}  // namespace dml
