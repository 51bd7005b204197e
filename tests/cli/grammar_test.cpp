// dml grammar --check: the lines of a file, whichever way they end.
#include <gtest/gtest.h>

#include "cli/stages.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

TEST(GrammarCommand, ReadsLinesThatEndInEveryWay) {
  const testing_tools::TemporaryFolder folder;
  const std::string file = folder / "lines.txt";
  for (const char* text : {"12\nx\n34", "12\r\nx\r\n34\r\n",
                           "\xef\xbb\xbf"
                           "12\nx\n34\n"}) {
    write_file(file, text);
    testing::internal::CaptureStdout();
    EXPECT_EQ(grammar_command().run({"--regex", "[0-9]+", "--check", file}), 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "accept\nreject\naccept\n") << text;
  }
}

}  // namespace
}  // namespace dml
