// The whole path over real data and a real tokenizer, where they are there.
#include <gmock/gmock.h>

#include "core/files.h"
#include "data/fixtures.h"
#include "data/inspect.h"
#include "data/loader.h"
#include "data/prepare.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

const std::string kShared = DML_SOURCE_DIR "/../shared/data";

class RealData : public FolderTest {
 protected:
  void SetUp() override {
    if (!file_exists(kShared + "/tokenizers/llama2") || !file_exists(kShared + "/datasets/alpaca"))
      GTEST_SKIP() << "no shared data here";
  }
};

TEST_F(RealData, PacksAlpacaTightly) {
  auto tokenizer = load_tokenizer(kShared + "/tokenizers/llama2");
  DataSection data;
  data.dataset_prepared_path = path("prepared");
  data.sequence_len = 2048;
  DatasetEntry entry;
  entry.path = kShared + "/datasets/alpaca/alpaca_en_demo.json";
  entry.type.name = "alpaca";
  data.datasets = {entry};
  Prepared p = prepare(data, TemplateSection(), 42, *tokenizer);
  EXPECT_EQ(p.train().size(), 999);
  EXPECT_EQ(p.report().datasets[0].ends_trained, p.report().datasets[0].examples);
  ScheduleOptions o;
  o.sequence_len = 2048;
  o.packing = true;
  Schedule schedule(p.train().lengths(), o);
  EXPECT_GE(schedule.fill(), 0.98);
  EXPECT_THAT(describe(p, &schedule), ::testing::Contains(::testing::HasSubstr("999 rows → 999 examples")));

  Loader loader(p.train(), schedule);
  std::int64_t trained = 0;
  for (std::int64_t s = 0; s < schedule.steps(); ++s) trained += loader.load(s, 0).trained();
  EXPECT_EQ(trained, p.report().datasets[0].trained);
  std::string text = render_text(view_row(p.train(), 0, *tokenizer, "row 0"), {.color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("### Response:"));
  EXPECT_THAT(text, ::testing::HasSubstr("⟦"));
  EXPECT_TRUE(text.ends_with("</s>⟧\n")) << text;
}

}  // namespace
}  // namespace dml
