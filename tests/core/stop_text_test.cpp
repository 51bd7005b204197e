#include "core/stop_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

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

static_assert(!std::is_constructible_v<StopText, std::vector<std::string>>, "it would refer to a temporary");

// Evaluations ask it after every token instead of searching the whole text.
TEST(StopText, StopsAtTheCharacterThatCompletesAStop) {
  const std::vector<std::string> stops{"abb", "bab", "bbbb"};
  for (unsigned bits = 0; bits < 1u << 10; ++bits) {
    StopText stop(stops);
    std::string text;
    for (int i = 0; i < 10 && !stop.stopped(); ++i) {
      const std::string piece = bits >> i & 1 ? "a" : "b";
      stop.next(piece);
      text += piece;
      EXPECT_EQ(stop.stopped(),
                std::ranges::any_of(stops, [&](const std::string& s) { return text.find(s) != text.npos; }))
          << text;
    }
  }
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
