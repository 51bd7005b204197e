// Manual pages: every command has one that says what its help page says, and that man and mandoc read without a
// warning.
#include "cli/man.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <regex>
#include <set>

#include "cli/tool.h"
#include "core/error.h"
#include "core/files.h"
#include "recipe/recipe.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;

TEST(ManPage, OfEveryCommandHasItsSectionsOptionsAndExamples) {
  for (const Command& c : commands()) {
    const ManPage page = man_page(c.name);
    EXPECT_EQ(page.file, "dml-" + c.name + ".1");
    std::size_t at = 0;
    for (const char* section : {".TH \"DML", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n",
                                ".SH EXAMPLES\n", ".SH EXIT STATUS\n", ".SH SEE ALSO\n"}) {
      at = page.roff.find(section, at);
      ASSERT_NE(at, std::string::npos) << c.name << " lacks " << section;
    }
    const CommandPage help = c.page();
    EXPECT_FALSE(help.examples.empty()) << c.name;
    for (const CommandOption& o : help.options) {
      EXPECT_FALSE(o.help.empty()) << c.name << " " << o.name;
      EXPECT_THAT(page.roff, HasSubstr("\n.TP\n\\fB" + std::regex_replace(o.name, std::regex("-"), "\\-") + "\\fR"))
          << c.name;
    }
    for (const char* code : {"0", "2", "4", "5", "6", "7", "75"})
      EXPECT_THAT(page.roff, HasSubstr(fmt::format("\\fB{}\\fR", code))) << c.name;
  }
}

TEST(ManPage, OfDmlNamesEveryCommandAndThatOfTheRecipeEveryKey) {
  const std::string all = man_page("").roff, recipe = man_page("recipe").roff;
  for (const Command& c : commands()) EXPECT_THAT(all, HasSubstr(".TP\n\\fB" + c.name + "\\fR\n"));
  for (const std::string& key : keys()) EXPECT_THAT(recipe, HasSubstr(".TP\n\\fB" + key + "\\fR\n"));
  EXPECT_THROW(man_page("trian"), UserError);
}

TEST(ManPage, TextIsNeverARequestOrAnEscape) {
  const std::set<std::string> request{".TH", ".SH", ".TP", ".PP", ".br", ".nh", ".hy", ".ad"};
  for (const ManPage& page : man_pages()) {
    for (std::size_t at = 0, end; at < page.roff.size(); at = end + 1) {
      end = page.roff.find('\n', at);
      const std::string line = page.roff.substr(at, end - at);
      EXPECT_FALSE(line.empty()) << page.file;
      EXPECT_FALSE(line.starts_with('\'')) << page.file << ": " << line;
      if (line.starts_with('.')) {
        EXPECT_TRUE(request.contains(line.substr(0, line.find(' ')))) << page.file << line;
      }
    }
    EXPECT_TRUE(std::ranges::all_of(page.roff, [](char c) { return (c & 0x80) == 0; })) << page.file;
  }
}

TEST(ManPage, IsParsedWithoutAWarning) {
  const std::string lint = has_tool("groff")    ? "groff -man -Tutf8 -ww -z {} 2>&1"
                           : has_tool("mandoc") ? "mandoc -T lint -W error {}"
                           : has_tool("man") ? "LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z {} 2>&1 >/dev/null"
                                             : "";
  if (lint.empty()) GTEST_SKIP() << "there is no man, mandoc or groff";
  const testing_tools::TemporaryFolder folder;
  std::string files;
  for (const ManPage& page : man_pages()) {
    write_file(folder / page.file, page.roff);
    files += " " + (folder / page.file);
  }
  EXPECT_EQ(output_of(fmt::format(fmt::runtime(lint), files)), "");
}

TEST(HelpPage, FitsAHundredColumns) {
  for (const Command& c : commands()) {
    const std::string text = page_text(c.page());
    const std::size_t options = text.find("\noptions:\n");  // usage and examples are lines to be pasted
    for (std::size_t at = options + 1, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      const auto columns = std::ranges::count_if(text.substr(at, end - at), [](char x) { return (x & 0xc0) != 0x80; });
      EXPECT_LE(columns, 100) << text.substr(at, end - at);
    }
  }
}

TEST(HelpPage, PlaceholdersDetermineCompletions) {
  ValueHint hint = value_hint("auto|DIR|none");
  EXPECT_THAT(hint.words, testing::ElementsAre("auto", "none"));
  EXPECT_TRUE(hint.directories);
  EXPECT_FALSE(hint.files);
  EXPECT_TRUE(value_hint("RECIPE").recipes);
  EXPECT_TRUE(value_hint("FILE").files);
  EXPECT_TRUE(value_hint("TEXT").empty());
  EXPECT_TRUE(value_hint("N").empty());
}

}  // namespace
}  // namespace dml
