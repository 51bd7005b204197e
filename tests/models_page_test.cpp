// recipes/MODELS.md names the test after every cell: each family of the program has a row, each instance is a golden,
// and each test that the page names exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
const fs::path kSources = DML_SOURCE_DIR;

std::string contents(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

Names matches(const std::string& text, const std::string& pattern, int group = 1) {
  const std::regex regex(pattern);
  Names found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) found.insert((*i)[group].str());
  return found;
}

// What stands between backticks.
Names in_backticks(const std::string& text) { return matches(text, "`([^`\n]+)`"); }

std::string models_page() { return contents(kSources / "recipes/MODELS.md"); }

struct Row {
  std::string family, instances;
  std::vector<std::string> letters;
};
// Of the page's first table.
std::vector<Row> rows() {
  std::vector<Row> out;
  std::istringstream page(models_page());
  for (std::string line; std::getline(page, line) && !line.starts_with("Each letter");) {
    if (!line.starts_with("| `") || line.starts_with("| `model_type`")) continue;
    std::vector<std::string> cells;
    std::istringstream split(line.substr(1));
    for (std::string cell; std::getline(split, cell, '|');) cells.push_back(cell);
    Row row{*in_backticks(cells.at(0)).begin(), std::regex_replace(cells.at(1), std::regex("\\([^)]*\\)"), ""), {}};
    for (std::size_t i = 2; i < cells.size(); ++i)
      row.letters.push_back(std::regex_replace(cells[i], std::regex(" "), ""));
    out.push_back(row);
  }
  return out;
}

TEST(ModelsPage, HasARowForEveryFamily) {
  std::string tables;
  for (auto& file : fs::directory_iterator(kSources / "framework/checkpoint/families")) tables += contents(file.path());
  const Names families =
      matches(tables, "\\{\"([a-z0-9_]+)\", \"\\w+For(CausalLM|ConditionalGeneration)\"|\\{\"(gpt2)\", ");
  ASSERT_GT(families.size(), 30u);
  Names listed;
  for (const Row& row : rows()) EXPECT_TRUE(listed.insert(row.family).second) << row.family << " has two rows";
  for (const std::string& family : families) EXPECT_TRUE(family.empty() || listed.contains(family)) << family;
}

TEST(ModelsPage, NamesEveryGoldenAndNoOther) {
  Names goldens, listed;
  for (auto& folder : fs::directory_iterator(kSources / "tests/golden"))
    if (fs::exists(folder.path() / "full/gradients.safetensors")) goldens.insert(folder.path().filename());
  const Names with_lora = [&] {
    Names out;
    for (const std::string& name : goldens)
      if (fs::exists(kSources / "tests/golden" / name / "lora")) out.insert(name);
    return out;
  }();
  for (const Row& row : rows()) {
    ASSERT_EQ(row.letters.size(), 6u) << row.family;
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(row.letters[static_cast<std::size_t>(i)], std::string(1, "FLQDS"[i])) << row.family;
    if (row.instances.starts_with(" `"))
      for (const std::string& name : in_backticks(row.instances)) listed.insert(name);
  }
  for (const std::string& name : goldens) EXPECT_TRUE(listed.contains(name)) << name << " stands in no row";
  for (const std::string& name : listed)
    EXPECT_TRUE(with_lora.contains(name) || name == "llama_rope")
        << name << " is no golden of a family with an adapter";
}

TEST(ModelsPage, TheTestsThatItNamesExist) {
  Names tests;
  for (auto& file : fs::recursive_directory_iterator(kSources / "tests")) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = contents(file.path());
    tests.merge(matches(source, "\\b(TEST|TEST_F|TEST_P)\\((\\w+), \\w+\\)", 2));
    tests.merge(matches(source, "\\b(TEST|TEST_F|TEST_P)\\(\\w+, (\\w+)\\)", 2));
    tests.merge(matches(source, "INSTANTIATE_TEST_SUITE_P\\(\\s*(\\w+),"));
  }
  auto exists = [&](const std::string& part) {  // a filter may name the beginning of a suite
    for (const std::string& test : tests)
      if (test.find(part) != test.npos) return true;
    return false;
  };
  const std::string page = models_page();
  Names named;
  for (const std::string& text : in_backticks(page))  // words like TextPart
    named.merge(matches(text, "\\b([A-Z][a-z0-9]+[A-Z]\\w*)\\b"));
  for (const std::string& filter : matches(page, "--gtest_filter='([^']+)'"))
    named.merge(matches(filter, "\\b([A-Z][a-z]\\w+)\\b"));
  EXPECT_GT(named.size(), 12u);
  for (const std::string& name : named) EXPECT_TRUE(exists(name)) << "no test is called " << name;
}

}  // namespace
