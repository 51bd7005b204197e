#include "data/prepare.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"
#include "data/fixtures.h"
#include "data/loader.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Prepare : public FolderTest {
 protected:
  Prepare() {
    data.dataset_prepared_path = path("prepared");
    data.sequence_len = 400;
  }
  // Rows of an alpaca dataset, of different lengths.
  static std::string rows(int count) {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += fmt::format("{{\"instruction\": \"Say {}\", \"output\": \"{}\"}}\n", i, std::string(static_cast<std::size_t>(i % 17 + 1), 'x') + std::to_string(i));
    return out;
  }
  void add(const std::string& file, const std::string& type) {
    DatasetEntry entry;
    entry.path = file;
    entry.type.name = type;
    data.datasets.push_back(entry);
  }
  Prepared run(PrepareOptions options = {}) { return prepare(data, templates, 42, tokenizer, options); }
  std::string bytes(const Prepared& p) {
    std::string all;
    for (auto& name : Prepared::array_names()) all += read_file(p.folder() + "/" + name + ".safetensors");
    return all + read_file(p.folder() + "/manifest.json");
  }

  DataSection data;
  TemplateSection templates;
  ByteTokenizer tokenizer;
};

TEST_F(Prepare, CarriesAlpacaRowsToBatches) {
  add(write("a.jsonl", "{\"instruction\": \"Hi\", \"input\": \"\", \"output\": \"Yo\"}\n"), "alpaca");
  data.curriculum_sampling = true;
  Prepared p = run();
  ASSERT_EQ(p.train().size(), 1);
  std::string text = tokenizer.decode(p.train().ids(0));
  EXPECT_EQ(text,
            "<s>Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\nHi\n\n### Response:\nYo</s>");
  auto labels = p.train().labels(0);
  std::vector<Token> learned(labels.end() - 4, labels.end());
  EXPECT_THAT(learned, ElementsAre(kIgnore, 16 + 'Y', 16 + 'o', 2));

  Schedule schedule(p.train().lengths(), ScheduleOptions{});
  Loader loader(p.train(), schedule);
  PackedBatch batch = loader.load(0, 0);
  EXPECT_EQ(batch.learned(), 3);
  EXPECT_EQ(batch.labels[batch.labels.size() - 4], 16 + 'Y');
  EXPECT_EQ(batch.labels.back(), kIgnore);
  EXPECT_EQ(p.place(p.train().stored(0)), path("a.jsonl") + ":1");
}

TEST_F(Prepare, GivesTheSameBytesForAnyNumberOfThreads) {
  add(write("a.jsonl", rows(700)), "alpaca");
  data.val_set_size = 0.1;
  std::string first;
  for (int count : {1, 2, 3, 4}) {
    set_threads(count);
    data.dataset_prepared_path = path("prepared" + std::to_string(count));
    std::string now = bytes(run());
    if (first.empty()) first = now;
    EXPECT_EQ(now, first) << count << " threads";
  }
  set_threads(available_cores());
}

TEST_F(Prepare, SaysWhetherItHitsAndWhatChanged) {
  std::string file = write("a.jsonl", rows(20));
  add(file, "alpaca");
  EXPECT_FALSE(run().was_ready);
  Prepared hit = run();
  EXPECT_TRUE(hit.was_ready);
  EXPECT_THAT(hit.note, HasSubstr("cache hit"));

  data.sequence_len = 500;
  EXPECT_EQ(run().note, "rebuilding because sequence_len changed (400 → 500), eval_sequence_len changed (400 → 500)");
  write("a.jsonl", rows(21));
  EXPECT_EQ(run().note, "rebuilding because datasets[0] a.jsonl changed");
  data.datasets[0].type.name = "alpaca:chat";
  EXPECT_THAT(run().note, HasSubstr("datasets[0].type changed"));
  tokenizer.digest = "other";
  EXPECT_THAT(run().note, HasSubstr("tokenizer changed (bytes → other)"));
}

TEST_F(Prepare, FindsADamagedFolderAndBuildsItAgain) {
  add(write("a.jsonl", rows(20)), "alpaca");
  Prepared p = run();
  std::string before = bytes(p), ids = p.folder() + "/ids.safetensors";
  std::string content = read_file(ids);
  content[200] = static_cast<char>(content[200] ^ 1);
  write_file(ids, content);
  EXPECT_THAT(error_of<UserError>([&] { Prepared::open(p.folder()); }), HasSubstr("ids.safetensors: damaged"));
  Prepared again = run();
  EXPECT_FALSE(again.was_ready);
  EXPECT_EQ(bytes(again), before);

  std::filesystem::resize_file(p.folder() + "/labels.safetensors", 150);
  EXPECT_FALSE(run().was_ready);
  std::filesystem::remove(p.folder() + "/manifest.json");
  EXPECT_EQ(bytes(run()), before);
}

TEST_F(Prepare, KeepsTheOrderOfTheFileWhenAsked) {
  add(write("a.jsonl", rows(50)), "alpaca");
  data.shuffle_merged_datasets = false;
  data.curriculum_sampling = true;
  Prepared p = run();
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(p.place(p.train().stored(i)), path("a.jsonl") + ":" + std::to_string(i + 1));
}

TEST_F(Prepare, StoresAValidationSplitThatSharesNothingWithTraining) {
  add(write("a.jsonl", rows(100)), "alpaca");
  data.val_set_size = 0.05;
  Prepared p = run();
  EXPECT_EQ(p.train().size(), 95);
  EXPECT_EQ(p.validation().size(), 5);
  std::set<std::int32_t> all;
  for (std::int64_t i = 0; i < 95; ++i) all.insert(p.train().stored(i));
  for (std::int64_t i = 0; i < 5; ++i) all.insert(p.validation().stored(i));
  EXPECT_EQ(all.size(), 100u);
}

}  // namespace
}  // namespace dml
