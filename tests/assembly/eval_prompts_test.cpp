// Prompts and answers of evaluations as tokens and text.
#include "assembly/eval_prompts.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "data/fixtures.h"

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

// As in lm-evaluation-harness, which decodes the ids after the prompt alone: SentencePiece drops a space in front of a
// text, tokenizers of bytes keep it.
TEST(EvalAnswers, AreDecodedWithoutTheirPrompt) {
  const testing_tools::TemporaryFolder folder;
  write_file(folder / "tokenizer.model", read_file(DML_SOURCE_DIR "/tests/golden/tokenizer/spm_bpe.model"));
  EXPECT_EQ(decoded_answer(*load_tokenizer(folder.path())), "reads");
  EXPECT_EQ(decoded_answer(ByteTokenizer()), " reads");
}

}  // namespace
}  // namespace dml
