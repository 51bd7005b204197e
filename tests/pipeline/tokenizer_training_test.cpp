#include "pipeline/tokenizer_training.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// Neither a split nor a kind of file is chosen: a tokenizer learns from all text of the folder.
TEST(TokenizerTraining, ReadsAllFilesOfAFolder) {
  const testing_tools::TemporaryFolder folder;
  const std::string data = folder.path() + "/data";
  make_directories(data);
  for (const char* name : {"train.jsonl", "other.jsonl", "test.jsonl"})
    write_file(data + "/" + name, "{\"text\": \"A lion sleeps in the cave of the hill.\"}\n");
  write_file(data + "/notes.txt", "Bread rises while the oven warms.\n");
  TokenizerRequest request;
  request.inputs = {data};
  request.output = folder.path() + "/tokenizer";
  request.training.vocab_size = 300;
  EXPECT_EQ(make_tokenizer(request).texts, 4);
}

// The rule for normalization in tokenizer.json drops some characters that SentencePiece keeps.
TEST(TokenizerTraining, WarnsThatTheTwoFilesMayDifferWithANormalization) {
  const testing_tools::TemporaryFolder folder;
  write_file(folder.path() + "/text.txt", "A lion sleeps in the cave of the hill.\n");
  TokenizerRequest request;
  request.inputs = {folder.path() + "/text.txt"};
  request.training.vocab_size = 290;
  for (const std::string rule : {"none", "nfkc"}) {
    request.output = folder.path() + "/" + rule;
    request.training.normalization = rule;
    testing::internal::CaptureStderr();
    make_tokenizer(request);
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("can lose combining marks") != std::string::npos,
              rule == "nfkc");
  }
}

}  // namespace
}  // namespace dml
