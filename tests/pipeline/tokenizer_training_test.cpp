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

}  // namespace
}  // namespace dml
