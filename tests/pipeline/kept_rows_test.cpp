#include "pipeline/kept_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Kept : public testing::Test {
 protected:
  // Computes rows with these texts, as a command does.
  void compute(const std::vector<std::string>& texts, bool resume) const {
    KeptRows rows(path_, resume);
    rows.require_at_most(texts.size());
    rows.fill(texts.size(), [&] {
      for (std::size_t i = rows.first_to_compute(); i < texts.size(); ++i) rows.put(i, texts[i]);
    });
  }
  // What is warned when computing rows fails.
  std::string warning_of(const std::function<void(KeptRows& rows)>& fails) const {
    testing::internal::CaptureStderr();
    KeptRows rows(path_, true);
    EXPECT_THROW(rows.fill(3, [&] { fails(rows); }), Error);
    const std::string all = testing::internal::GetCapturedStderr();
    return all.substr(std::min(all.find("warning: "), all.size()));
  }
  std::string refusal(const std::vector<std::string>& texts) const {
    try {
      compute(texts, true);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }

  const testing_tools::TemporaryFolder folder_;
  const std::string path_ = folder_ / "out.jsonl", partial_ = path_ + ".partial";
};

TEST_F(Kept, RowsOfAnInterruptedRunAreContinued) {
  write_file(partial_, "a\nb\nhalf a r");
  write_file(path_, "of an earlier run\n");
  EXPECT_THROW(compute({"a", "b", "c"}, false), UserError);
  compute({"a", "b", "c"}, true);
  EXPECT_EQ(read_file(path_), "a\nb\nc\n");
  EXPECT_FALSE(file_exists(partial_));
}

TEST_F(Kept, RowsOfACompleteFileAreContinued) {
  compute({"a", "b"}, true);
  {
    const KeptRows rows(path_, true);
    EXPECT_THAT(rows.earlier(), ElementsAre("a", "b"));
    EXPECT_EQ(rows.place(1), path_ + ":2");
  }
  EXPECT_FALSE(file_exists(partial_)) << "nothing was added";
  compute({"a", "b"}, true);
  compute({"a", "b", "c"}, true);
  EXPECT_EQ(read_file(path_), "a\nb\nc\n");
}

TEST_F(Kept, RowsOfAnotherRunAreRefusedAndKept) {
  compute({"a", "b"}, false);
  EXPECT_THAT(refusal({"a", "x", "c"}), HasSubstr(path_ + ":2 is not the result of row 2 of --input"));
  EXPECT_THAT(refusal({"a"}), HasSubstr("out.jsonl has 2 rows, --input has 1"));
  EXPECT_EQ(read_file(path_), "a\nb\n");
  compute({"x"}, false);
  EXPECT_EQ(read_file(path_), "x\n");
}

TEST_F(Kept, RowsAreSaidToBeContinuedOnlyWhereTheyAre) {
  const auto add = [](KeptRows& rows) {
    rows.append("c");
    throw UserError("no answer");
  };
  const auto differ = [](KeptRows& rows) { rows.put(rows.first_to_compute(), "x"); };
  compute({"a", "b"}, false);
  EXPECT_EQ(warning_of(differ), "") << "the copy is removed";
  EXPECT_FALSE(file_exists(partial_));
  EXPECT_THAT(warning_of(add), HasSubstr("3 of 3 rows are in " + partial_));
  EXPECT_EQ(warning_of(differ), "") << "the same options would be refused again";
  EXPECT_EQ(read_file(partial_), "a\nb\nc\n");
}

}  // namespace
}  // namespace dml
