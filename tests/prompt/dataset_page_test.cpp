#include "prompt/dataset_page.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "core/files.h"

namespace dml {
namespace {

TEST(DatasetPage, IsCurrent) {
  const std::string path = DML_SOURCE_DIR "/recipes/DATASETS.md";
  if (std::getenv("DML_UPDATE")) write_file(path, dataset_page());
  ASSERT_TRUE(file_exists(path));
  EXPECT_TRUE(read_file(path) == dataset_page()) << "run test_prompt with DML_UPDATE=1 and commit recipes/DATASETS.md";
}

TEST(DatasetPage, ShowsEveryFormatWithTrainedText) {
  const std::string page = dataset_page();
  for (auto& type : prompt_strategies().rows()) {
    const auto at = page.find("### `type: " + type.name + "`\n");
    ASSERT_NE(at, std::string::npos) << type.name;
    const std::string section = page.substr(at, page.find("\n### `type: ", at + 1) - at);
    EXPECT_THAT(section, ::testing::HasSubstr("⟦")) << type.name;
    EXPECT_THAT(section, ::testing::HasSubstr("```json\n{")) << type.name;
  }
}

TEST(DatasetPage, MarksTrainedText) {
  Rendered r;
  Segment& segment = r.segments.emplace_back();
  segment.add_markup("Q: ");
  segment.add_read("a");
  segment.add_trained("b");
  segment.add_special = segment.end_of_text = segment.end_trained = true;
  segment.ends = 2;
  EXPECT_EQ(show_mask(r), "‹bos›Q: a⟦b‹eos›‹eos›⟧");
  Rendered tokens;
  tokens.ids = {1, 5, 6, 2};
  tokens.labels = {kIgnore, 5, 6, kIgnore};
  EXPECT_EQ(show_mask(tokens), "1 ⟦5 6 ⟧2");
}

}  // namespace
}  // namespace dml
