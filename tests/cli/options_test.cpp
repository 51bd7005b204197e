// The words of a command become its flags, options and arguments.
#include "cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

using testing::ElementsAre;

struct Tool {
  std::string action;
  std::vector<std::string> files;
  bool force = false;
  std::optional<std::string> output;
  std::optional<std::int64_t> ranks;
  Options options{"tool", "tool do FILE…", {}};
  Tool() {
    options.positional("do", action, "what to do");
    options.positionals("FILE", files, "the files", false);
    options.flag("force", force, "a flag");
    options.text("output", output, "a text");
    options.integer("ranks", ranks, "a number");
    options.alias("-o", "output");
    options.alias("-n", "ranks");
  }
};

TEST(OptionWords, MayStandBetweenArguments) {
  Tool w;
  w.options.parse({"do", "--quiet", "a.txt", "--force", "b.txt", "-o", "out", "c.txt", "-n", "-3"});
  set_log_level(LogLevel::info);
  EXPECT_EQ(w.action, "do");
  EXPECT_THAT(w.files, ElementsAre("a.txt", "b.txt", "c.txt"));
  EXPECT_TRUE(w.force);
  EXPECT_EQ(w.output, "out");
  EXPECT_EQ(w.ranks, -3);
  Tool none;
  none.options.parse({"do"});
  EXPECT_THAT(none.files, ElementsAre());
}

// --adapter of merge, evaluate and infer names a directory; the recipe's key of that name has other values.
TEST(OptionWords, ThatHaveTheNameOfAKeyDoNotTakeItsValues) {
  std::vector<std::string> adapters;
  std::vector<Override> overrides;
  Options options("tool", "tool", {});
  options.texts("adapter", adapters, "an adapter directory; none: the base alone", "DIR");
  std::optional<std::string> bf16;
  options.text("bf16", bf16, "round factors", "true|false|auto");
  options.take_overrides(overrides);
  options.parse({"--adapter", "none", "--adapter", "outputs/lora", "--rl", "dpo", "--bf16", "true"});
  EXPECT_EQ(bf16, "true");
  EXPECT_THAT(adapters, ElementsAre("none", "outputs/lora"));
  try {
    options.parse({"--adapter=qlora"});
    FAIL() << "qlora was taken for a directory";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("reads --adapter as DIR (an adapter directory"),
                                         testing::HasSubstr("'qlora' is a value of the recipe's key 'adapter'; set "
                                                            "that key in the recipe")));
  }
}

std::string refusal_of(const std::vector<std::string>& words) {
  Tool tool;
  std::optional<double> rate;
  std::optional<std::string> note;
  std::optional<int> level;
  tool.options.number("rate", rate, "a number");
  tool.options.text("note", note, "a text");
  tool.options.text("file", note, "a file", "FILE");
  tool.options.choice("level", level, {{"low", 1}, {"high", 2}}, "a choice");
  try {
    tool.options.parse(words);
  } catch (const UserError& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  }
  return "";
}

TEST(OptionValues, AreDecimalNumbers) {
  Tool w;
  w.options.parse({"do", "--ranks", "010"});
  EXPECT_EQ(w.ranks, 10);
  EXPECT_EQ(refusal_of({"do", "--rate", "08.5e-1", "-n", "09"}), "");
  EXPECT_EQ(refusal_of({"do", "-n", "0x10"}), "--ranks must be a whole number, is '0x10'");
  EXPECT_EQ(refusal_of({"do", "--ranks=1.5"}), "--ranks must be a whole number, is '1.5'");
  EXPECT_EQ(refusal_of({"do", "-n", "99999999999999999999"}), "--ranks: 99999999999999999999 is out of range");
  EXPECT_EQ(refusal_of({"do", "--rate", "0,5"}), "--rate must be a number, is '0,5'");
  EXPECT_EQ(refusal_of({"do", "--rate", "nan"}), "--rate must be a number, is 'nan'");
  EXPECT_EQ(refusal_of({"do", "--rate", "1e999"}), "--rate: 1e999 is out of range");
  EXPECT_EQ(refusal_of({"do", "-n", "1", "--ranks", "2"}), "--ranks is given twice");
  EXPECT_EQ(refusal_of({"do", "--rate"}), "--rate needs a value");
}

TEST(OptionValues, OfAChoiceAreItsWords) {
  std::optional<int> level;
  Options options("tool", "tool", {});
  options.choice("level", level, {{"low", 1}, {"high", 2}}, "a choice");
  options.parse({"--level", "high"});
  EXPECT_EQ(level, 2);
  EXPECT_EQ(options.page().options.at(0).placeholder, "low|high");
  EXPECT_EQ(refusal_of({"do", "--level", "hihg"}), "--level: there is no 'hihg'; did you mean 'high'?");
  EXPECT_EQ(refusal_of({"do", "--level", "x"}), "--level: there is no 'x'; choose from low, high");
}

TEST(OptionValues, AreWithinTheirLimits) {
  EXPECT_EQ(within("n", 8, 1, 8), 8);
  EXPECT_THROW(within("n", (std::int64_t{1} << 32) + 1, 1, 8), UserError);
  EXPECT_THAT(number_list("n", "2,8,64", 64), ElementsAre(2, 8, 64));
  for (const char* list : {"", "2,", ",2", "2,,8", "0", "-1", "65", "4294967297", "2 ,8", "2x", "+2"})
    EXPECT_THROW(number_list("n", list, 64), UserError) << list;
}

// As from a shell variable that is not set.
TEST(OptionValues, MayBeEmptyOnlyInTexts) {
  EXPECT_EQ(refusal_of({"do", "--note", ""}), "");
  EXPECT_EQ(refusal_of({"do", "--file", ""}), "--file: is empty");
  EXPECT_EQ(refusal_of({"do", "--level="}), "--level: is empty");
  EXPECT_EQ(refusal_of({"do", "-n", ""}), "--ranks: is empty");
  EXPECT_EQ(refusal_of({""}), "an argument is empty");
}

TEST(OptionWords, BeforeACommandAreThoseOfTheLauncher) {
  const Tool w;
  EXPECT_EQ(w.options.leading({"--force", "-n", "2", "--output=x", "--progress", "plain", "--quiet", "train", "-n"}),
            7u);
  EXPECT_EQ(w.options.leading({"--output", "-x", "train"}), 2u);
  EXPECT_EQ(w.options.leading({"--unknown", "train"}), 1u);
  EXPECT_EQ(w.options.leading({"-n"}), 1u);
  EXPECT_EQ(w.options.leading({}), 0u);
}

}  // namespace
}  // namespace dml
