#include <gtest/gtest.h>

#include "pipeline/infer.h"

namespace dml {
namespace {

std::string fed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
                std::vector<std::string>* seen = nullptr) {
  StopText stop(stops);
  std::string text;
  for (auto& piece : pieces) {
    std::string certain = stop.next(piece);
    if (seen) seen->push_back(certain);
    text += certain;
  }
  return text + stop.finish();
}

TEST(StopText, EndsBeforeTheFirstStopAcrossPieces) {
  EXPECT_EQ(fed({"END", "\n\n"}, {"one E", "N", "D two"}), "one ");
  EXPECT_EQ(fed({"END", "\n\n"}, {"one\n", "\ntwo END"}), "one");
  EXPECT_EQ(fed({"aab"}, {"a", "a", "a", "b", "c"}), "a");
}

TEST(StopText, HoldsBackOnlyWhatMayBecomeAStop) {
  std::vector<std::string> seen;
  EXPECT_EQ(fed({"END"}, {"an E", "N", "gine E"}, &seen), "an ENgine E");
  EXPECT_EQ(seen, (std::vector<std::string>{"an ", "", "ENgine "}));
  EXPECT_EQ(fed({}, {"a", "b"}), "ab");
}

}  // namespace
}  // namespace dml
