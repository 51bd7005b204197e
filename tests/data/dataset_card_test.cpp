// The files of a dataset listed by its card: configurations, splits, patterns, and errors when they match nothing.
#include "data/dataset_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "data/sources.h"
#include "recipe/recipe.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class DatasetCard : public testing::Test {
 protected:
  DatasetCard() {
    for (const char* name : {"en/train-0.jsonl", "en/train-1.jsonl", "en/test.jsonl", "de/deep/rows.jsonl",
                             "fr/train.jsonl", "extra.jsonl"})
      add(name, "{\"text\": \"x\"}\n");
  }
  void add(const std::string& name, const std::string& text) const {
    make_directories(std::filesystem::path(folder_ / name).parent_path());
    write_file(folder_ / name, text);
  }
  void card(const std::string& configs) const { add("README.md", "---\nlicense: mit\n" + configs + "---\n# Rows\n"); }
  // Names below the folder.
  std::vector<std::string> sources(std::optional<std::string> name = {}, const std::string& split = "train") const {
    DatasetEntry entry;
    entry.path = folder_.path();
    entry.name = std::move(name);
    entry.split = split;
    std::vector<std::string> out;
    for (const SourceFile& file : find_sources(entry))
      out.push_back(std::filesystem::path(file.path).lexically_relative(folder_.path()));
    return out;
  }

  const testing_tools::TemporaryFolder folder_;
};

constexpr const char* kConfigs = R"(configs:
- config_name: english
  default: true
  data_files:
  - split: train
    path: en/train-*
  - split: test
    path: [en/test.jsonl, extra.jsonl]
- config_name: german
  data_files: "de/**/*.jsonl"
- config_name: french
  data_dir: fr
)";

TEST_F(DatasetCard, ListsTheFilesOfConfigurationsAndSplits) {
  card(kConfigs);
  EXPECT_THAT(sources(), ElementsAre("en/train-0.jsonl", "en/train-1.jsonl"));
  EXPECT_THAT(sources("english", "test[:50%]"), ElementsAre("en/test.jsonl", "extra.jsonl"));
  EXPECT_THAT(sources("german"), ElementsAre("de/deep/rows.jsonl"));
  EXPECT_THAT(sources("french"), ElementsAre("fr/train.jsonl"));
  EXPECT_THAT(sources("de"), ElementsAre("de/deep/rows.jsonl"));  // no configuration: a subdirectory
}

TEST_F(DatasetCard, OneConfigurationNeedsNoName) {
  card("configs:\n- config_name: only\n  data_files:\n    train: en/train-1.jsonl\n");
  EXPECT_THAT(sources(), ElementsAre("en/train-1.jsonl"));
  card(
      "configs:\n- data_files: fr/\n- config_name: other\n  data_files: extra.jsonl\n");  // the first is called default
  EXPECT_THAT(sources(), ElementsAre("fr/train.jsonl"));
}

TEST_F(DatasetCard, WithoutConfigurationsAllFilesAreRead) {
  EXPECT_EQ(sources().size(), 3u);  // those named after the split
  card("");
  EXPECT_EQ(sources().size(), 3u);
  add("README.md", "# No front matter\nconfigs:\n");
  EXPECT_EQ(sources().size(), 3u);
  card("configs: [\n");
  EXPECT_EQ(sources().size(), 3u);
}

TEST_F(DatasetCard, AFolderOutsideTheDatasetIsIgnored) {
  add("inner/rows.jsonl", "{\"text\": \"x\"}\n");
  for (const std::string& outside : {std::string("../en"), std::string("x/../../en"), std::string("'{.,x}./en'"),
                                     std::filesystem::absolute(folder_ / "en").string()}) {
    add("inner/README.md",
        "---\nconfigs:\n- config_name: default\n  data_dir: " + outside + "\n- config_name: en\n  data_dir: .\n---\n");
    EXPECT_EQ(files_of_card(folder_ / "inner", {}, "train"), std::vector<std::string>{"."}) << outside;
  }
}

TEST_F(DatasetCard, MissingNamesAreReportedWithTheChoices) {
  card(kConfigs);
  EXPECT_THAT([&] { sources("germn"); },
              ThrowsMessage<UserError>(HasSubstr("no configuration 'germn' (name: germn), and there is no "
                                                 "subdirectory of that name; did you mean 'german'?")));
  EXPECT_THAT([&] { sources({}, "validation"); },
              ThrowsMessage<UserError>(HasSubstr(
                  "configuration 'english' of its card has no split 'validation'; set split to train, test")));
  card("configs:\n- config_name: a\n  data_files: a*\n- config_name: b\n  data_files: b*\n");
  EXPECT_THAT([&] { sources(); },
              ThrowsMessage<UserError>(HasSubstr("several configurations; choose one with name: a, b")));
  EXPECT_THAT([&] { sources("a"); },
              ThrowsMessage<UserError>(HasSubstr("there is no file 'a*', which its card lists for split 'train'")));
}

}  // namespace
}  // namespace dml
