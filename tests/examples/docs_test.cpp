// The commands of docs/ as their reader runs them. Of every page, fenced blocks are taken in order, in an empty folder
// of its own with a small model in models/base and dml on the PATH:
//   ```sh run             is run by bash, and must succeed
//   ```csv file=faq.csv   is written to that file (any language, any name)
// Other blocks are for reading.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

namespace fs = std::filesystem;

const std::string kDocs = std::string(DML_SOURCE_DIR) + "/docs/";

std::vector<std::string> pages() {
  std::vector<std::string> out;
  for (auto& entry : fs::directory_iterator(kDocs))
    if (entry.path().extension() == ".md") out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

struct Block {
  std::string info, text;  // "sh run", and what stands between the fences
  int line = 0;
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> out;
  const std::string text = read_file(kDocs + page + ".md");
  bool inside = false;
  int line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string now = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (!now.starts_with("```")) {
      if (inside) out.back().text += now + "\n";
      continue;
    }
    if (!inside) out.push_back({now.substr(3), "", line});
    inside = !inside;
  }
  EXPECT_FALSE(inside) << page << ": a block without an end";
  return out;
}

class Docs : public Workshop, public testing::WithParamInterface<std::string> {};

TEST_P(Docs, CommandsSucceedInTheirOrder) {
  const std::vector<Block> blocks = blocks_of(GetParam());
  const std::regex file(R"( file=(\S+))");
  auto runs = [](const Block& b) { return (b.info + " ").find(" run ") != std::string::npos; };
  if (std::ranges::none_of(blocks, runs)) return;
  fs::remove(at("rows.jsonl"));
  fs::create_directories(at("models"));
  fs::create_directory_symlink(base_directory(), at("models/base"));
  const std::string path = fs::path(dml_path()).parent_path().string() + ":" + std::getenv("PATH");
  for (const Block& block : blocks) {
    if (std::smatch name; std::regex_search(block.info, name, file)) {
      fs::create_directories(fs::path(at(name[1])).parent_path());
      write(name[1], block.text);
    } else if (runs(block)) {
      const Ended e = run({"bash", "-euo", "pipefail", "-c", block.text},
                          {.environment = {"PATH=" + path, "DML_SOURCE=" DML_SOURCE_DIR}, .folder = folder_});
      ASSERT_EQ(e.exit, 0) << "docs/" << GetParam() << ".md:" << block.line << "\n" << block.text << e.out << e.err;
    }
  }
}

TEST_P(Docs, LinksLeadToFiles) {
  const std::string text = read_file(kDocs + GetParam() + ".md");
  const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it)
    EXPECT_TRUE(fs::exists(kDocs + (*it)[1].str())) << GetParam() << ".md: " << (*it)[1].str();
}

INSTANTIATE_TEST_SUITE_P(Pages, Docs, testing::ValuesIn(pages()), [](auto& page) {
  std::string name = page.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(DocsIndex, NamesEveryPage) {
  const std::string index = read_file(kDocs + "README.md");
  for (const std::string& page : pages()) {
    if (page == "README" || page == "GLOSSARY") continue;
    EXPECT_THAT(index, testing::HasSubstr("](" + page + ".md"));
  }
}

}  // namespace
}  // namespace dml::e2e
