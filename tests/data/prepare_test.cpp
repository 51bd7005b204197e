#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "core/affinity.h"
#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"
#include "data/loader.h"
#include "data/prepare_fixture.h"

namespace dml {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Prepare : public PrepareTest {
 protected:
  static std::string bytes(const Prepared& p) {
    std::string all;
    for (auto& name : Prepared::array_names()) all += read_file(p.folder() + "/" + name + ".safetensors");
    return all + read_file(p.folder() + "/manifest.json");
  }
};

TEST_F(Prepare, CarriesAlpacaRowsToBatches) {
  add(write("a.jsonl", "{\"instruction\": \"Hi\", \"input\": \"\", \"output\": \"Yo\"}\n"), "alpaca");
  data.curriculum_sampling = true;
  Prepared p = run();
  ASSERT_EQ(p.train().size(), 1);
  std::string text = tokenizer.decode(p.train().ids(0));
  EXPECT_EQ(
      text,
      "<s>Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
      "### Instruction:\nHi\n\n### Response:\nYo</s>");
  auto labels = p.train().labels(0);
  std::vector<Token> trained(labels.end() - 4, labels.end());
  EXPECT_THAT(trained, ElementsAre(kIgnore, 16 + 'Y', 16 + 'o', 2));

  Schedule schedule(p.train().lengths(), ScheduleOptions{});
  Loader loader(p.train(), schedule);
  PackedBatch batch = loader.load(0, 0);
  EXPECT_EQ(batch.trained(), 3);
  EXPECT_EQ(batch.labels[batch.labels.size() - 4], 16 + 'Y');
  EXPECT_EQ(batch.labels.back(), kIgnore);
  EXPECT_EQ(p.place(p.train().stored(0)), path("a.jsonl") + ":1");
}

TEST_F(Prepare, RowsWithoutAValueAreReportedAndNotCounted) {
  add(write("a.csv", "instruction,output\nHi,Yo\n,\n\nSay,So\n,,,\n"), "alpaca");
  add(write("b.tsv", "instruction\toutput\nHo\tHu\n\t\n"), "alpaca");
  data.datasets[0].skip = 1;
  const Prepared p = run();
  EXPECT_EQ(p.train().size(), 2);
  const std::vector<DatasetReport>& reports = p.report().datasets;
  EXPECT_EQ(reports[0].rows, 1);
  EXPECT_EQ(reports[0].dropped.at(std::string(dropped::kEmptyRow)), 2);
  EXPECT_EQ(reports[0].first_dropped.front().place, path("a.csv") + ":3");
  EXPECT_EQ(reports[1].dropped.at(std::string(dropped::kEmptyRow)), 1);
  EXPECT_THAT(p.report().lines(), Contains(HasSubstr("dropped 2: a row of CSV or TSV without a value, first")));
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

TEST_F(Prepare, ReportsCacheHitsAndChanges) {
  std::string file = write("a.jsonl", rows(20));
  add(file, "alpaca");
  EXPECT_FALSE(run().was_ready);
  Prepared hit = run();
  EXPECT_TRUE(hit.was_ready);
  EXPECT_THAT(hit.note, HasSubstr("Using the cached dataset"));

  data.sequence_len = 500;
  EXPECT_THAT(
      run().note,
      StartsWith("Rebuilding the dataset: sequence_len changed (400 → 500), eval_sequence_len changed (400 → 500): "));
  write("a.jsonl", rows(21));
  EXPECT_THAT(run().note, StartsWith("Rebuilding the dataset: datasets[0] a.jsonl changed: "));
  data.datasets[0].type.name = "alpaca:chat";
  EXPECT_THAT(run().note, HasSubstr("datasets[0].type changed"));
  tokenizer.digest = "other";
  EXPECT_THAT(run().note, HasSubstr("tokenizer changed (bytes → other)"));
  data.excess_length_strategy = ExcessLength::truncate;
  EXPECT_THAT(run().note, StartsWith("Rebuilding the dataset: excess_length_strategy changed (drop → truncate): "));
}

TEST_F(Prepare, SaysNothingOfTheDataOfAnotherRecipe) {
  add(write("a.jsonl", rows(20)), "alpaca");
  EXPECT_THAT(run().note, StartsWith("No cached dataset; preparing: "));
  data.datasets.clear();
  add(write("b.jsonl", rows(20)), "alpaca");
  EXPECT_THAT(run().note, StartsWith("No cached dataset; preparing: "));
}

TEST_F(Prepare, CountsTheTurnsWithATrainedEnd) {
  tokenizer.adds_bos = false;
  add(write("a.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "
            "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n"),
      "chat_template");
  templates.chat_template = "chatml";
  templates.eot_tokens = {"<|im_end|>"};
  auto counts = [&] {
    const DatasetReport& r = run().report().datasets[0];
    return std::pair{r.turns, r.turns_ended};
  };
  EXPECT_EQ(counts(), (std::pair<std::int64_t, std::int64_t>{2, 2}));
  EXPECT_EQ(run().report().warnings().size(), 0u);
  data.datasets[0].train_on_eos = TrainOnEnd::last;
  EXPECT_EQ(counts(), (std::pair<std::int64_t, std::int64_t>{2, 1}));
  EXPECT_THAT(run().report().warnings(), ElementsAre(HasSubstr("only 1 of 2 trained turns (50.0 %) end in a trained")));
  templates.eot_tokens.reset();  // eos is </s>, which chatml never writes
  data.datasets[0].train_on_eos = TrainOnEnd::turn;
  EXPECT_EQ(counts(), (std::pair<std::int64_t, std::int64_t>{2, 0}));

  data.datasets.clear();
  add(write("t.jsonl", "{\"input_ids\": [1, 70, 2, 71, 72, 73], \"labels\": [-100, 70, 2, -100, 72, 73]}\n"), "");
  EXPECT_EQ(counts(), (std::pair<std::int64_t, std::int64_t>{2, 1}));
}

TEST_F(Prepare, TurnsThatWereCutOffAreNotCounted) {
  add(write("a.jsonl", rows(3) + row("a", std::string(500, 'x'))), "alpaca");
  data.excess_length_strategy = ExcessLength::truncate;
  const Prepared p = run();
  const DatasetReport& d = p.report().datasets[0];
  EXPECT_EQ(d.turns, 4);
  EXPECT_EQ(d.turns_ended, 3);
  EXPECT_THAT(p.report().lines(), Contains(HasSubstr("EOS is trained in 3 of 4 examples (75.0 %) and 3 of 4 trained "
                                                     "turns (75.0 %)")));
  EXPECT_THAT(p.report().warnings(), Not(Contains(HasSubstr("set eot_tokens"))));
}

TEST_F(Prepare, WarnsOfExamplesWithoutBosAndWithTwo) {
  add(write("a.jsonl", R"({"input_ids": [20, 21, 2], "labels": [-100, 21, 2]})"
                       "\n"
                       R"({"input_ids": [1, 1, 21, 2], "labels": [-100, -100, 21, 2]})"
                       "\n"
                       R"({"input_ids": [1, 21, 2], "labels": [-100, 21, 2]})"
                       "\n"),
      "");
  const auto warnings = run().report().warnings();
  EXPECT_THAT(warnings, ::testing::Contains(HasSubstr("1 of 3 examples begins without BOS ('<s>')")));
  EXPECT_THAT(warnings, ::testing::Contains(HasSubstr("1 example with BOS twice at the start:")));
  tokenizer.adds_bos = false;
  tokenizer.digest = "another";
  EXPECT_THAT(run().report().warnings(), ::testing::Not(::testing::Contains(HasSubstr(" without BOS"))));
}

TEST_F(Prepare, PrependsTheDefaultSystemMessage) {
  add(write("a.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
            "\"b\"}]}\n"),
      "chat_template");
  templates.chat_template = "chatml";
  const std::string without = tokenizer.decode(run().train().ids(0));
  templates.default_system_message = "Be kind.";
  EXPECT_EQ(tokenizer.decode(run().train().ids(0)), "<|im_start|>system\nBe kind.<|im_end|>\n" + without);
  write(
      "a.jsonl",
      "{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n");
  EXPECT_TRUE(tokenizer.decode(run().train().ids(0)).starts_with("<|im_start|>system\nx<|im_end|>"));
}

// The pages of a file that is mapped shared and read-only are in memory once for all processes.
TEST_F(Prepare, SharesItsPagesWithOtherProcesses) {
  add(write("a.jsonl", row("Do", "Done") + row("Do it", "Done")), "alpaca");
  const Prepared p = run();
  std::ifstream maps("/proc/self/maps");
  int arrays = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(p.folder()) == std::string::npos) continue;
    ++arrays;
    EXPECT_THAT(line, HasSubstr(" r--s ")) << line;
  }
  EXPECT_GE(arrays, 5);
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

// Besides the arrays, the report and the list of dropped rows come from the cache as well.
TEST_F(Prepare, FindsADamagedListOfDroppedRowsAndADamagedManifest) {
  data.on_bad_row = BadRow::skip;
  add(write("a.jsonl", rows(20) + "x\n"), "alpaca");
  const Prepared p = run();
  ASSERT_EQ(p.dropped(10).size(), 1u);
  const std::string before = bytes(p);
  for (const char* name : {"dropped.jsonl", "manifest.json"}) {
    std::string content = read_file(p.folder() + "/" + name);
    const std::size_t digit = content.find("21");  // the line of the bad row; the number of rows
    ASSERT_NE(digit, std::string::npos) << name;
    content[digit] = '3';
    write_file(p.folder() + "/" + name, content);
    EXPECT_THAT(error_of<UserError>([&] { Prepared::open(p.folder()); }), HasSubstr("damaged")) << name;
    EXPECT_FALSE(run().was_ready) << name;
    EXPECT_EQ(bytes(run()), before) << name;
  }
}

TEST_F(Prepare, KeepsTheOrderOfTheFileWhenAsked) {
  add(write("a.jsonl", rows(50)), "alpaca");
  data.shuffle_merged_datasets = false;
  data.curriculum_sampling = true;
  Prepared p = run();
  for (std::int64_t i = 0; i < 50; ++i)
    EXPECT_EQ(p.place(p.train().stored(i)), path("a.jsonl") + ":" + std::to_string(i + 1));
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

TEST_F(Prepare, CountsWhatItDropsAndNamesTheFirst) {
  std::string text = rows(20) + "{\"instruction\": \"a\", \"output\": \"" + std::string(500, 'x') + "\"}\n" +
                     "{\"instruction\": \"a\", \"output\": \"\"}\n" + "{\"instruction\": \"a\"}\n";
  add(write("a.jsonl", text), "alpaca");
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("a.jsonl:23: the row has no 'output'; it has instruction"));
  data.on_bad_row = BadRow::skip;
  const DataReport report = run().report();
  const DatasetReport& d = report.datasets.at(0);
  EXPECT_EQ(d.rows, 23);
  EXPECT_EQ(d.examples, 20);
  EXPECT_EQ(d.ends_trained, 20);
  EXPECT_EQ(d.dropped, (std::map<std::string, std::int64_t>{
                           {"could not be read", 1}, {"longer than sequence_len", 1}, {"no trained tokens", 1}}));
  EXPECT_EQ(d.first_dropped.at(0).place, path("a.jsonl") + ":21");
  auto lines = report.lines();
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(), [](auto& line) { return line.find("dropped") != std::string::npos; }),
      3);
}

TEST_F(Prepare, RejectsDataWithoutTrainedTokens) {
  add(write("none.jsonl",
            "{\"input_ids\": [5, 6], \"labels\": [-100, -100]}\n{\"input_ids\": [5, 6], \"labels\": [5, -100]}\n"),
      "");
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("all 2 rows were dropped (2 no trained tokens); the first: "));
  data.datasets[0].path =
      write("most.jsonl",
            "{\"input_ids\": [5, 6], \"labels\": [5, 6]}\n{\"input_ids\": [5, 6], \"labels\": [-100, -100]}\n"
            "{\"input_ids\": [5, 6], \"labels\": [-100, -100]}\n");
  EXPECT_THAT(error_of<UserError>([&] { run(); }), HasSubstr("2 of 3 rows have no trained tokens"));
  data.datasets[0].path = write("ids.jsonl", "{\"input_ids\": [5, 9999]}\n");
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("ids.jsonl:1: 'input_ids' holds 9999, the tokenizer has 272 tokens"));
  EXPECT_FALSE(std::filesystem::exists(path("prepared")) && !std::filesystem::is_empty(path("prepared")));
}

TEST_F(Prepare, NamesTheKeyOfAConversationThatChanged) {
  add(write("a.jsonl", R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]})"
                       "\n"),
      "chat_template");
  templates.chat_template = "chatml";
  run();
  templates.chat_template = "llama3";
  EXPECT_THAT(run().note, StartsWith("Rebuilding the dataset: datasets[0].chat_template changed: "));
  data.datasets[0].train_on_turns = 1;
  EXPECT_THAT(run().note, StartsWith("Rebuilding the dataset: datasets[0].train_on_turns changed (0 → 1): "));
}

TEST_F(Prepare, NamesTheRolesOfAConversationWithoutTrainedTurns) {
  add(write("a.jsonl", R"({"messages": [{"role": "narrator", "content": "U"}, {"role": "bot", "content": "A"}]})"
                       "\n"),
      "chat_template");
  templates.chat_template = "chatml";
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("a.jsonl:1 (no message is trained; the roles are narrator, bot; check roles, roles_to_train"));
}

TEST_F(Prepare, DataThatMovedIsReusedWithThePlacesOfTheRecipe) {
  data.on_bad_row = BadRow::skip;
  data.dataset_exact_deduplication = true;
  data.shuffle_merged_datasets = false;
  add(write("old/a.jsonl", rows(6) + rows(1) + "{\"a\": }\n"), "alpaca");
  const std::string prepared = run().folder();
  std::filesystem::rename(path("old"), path("new folder"));
  const std::string file = path("new folder/a.jsonl");
  data.datasets[0].path = file;
  const Prepared p = run();
  ASSERT_TRUE(p.was_ready);
  EXPECT_EQ(p.folder(), prepared);
  EXPECT_EQ(p.place(p.train().stored(0)), file + ":1");
  const std::int32_t second = 1;
  EXPECT_EQ(p.records({&second, 1}).at(0).at("instruction"), "Say 1");
  const DatasetReport& d = p.report().datasets.at(0);
  EXPECT_EQ(d.name, file);
  EXPECT_THAT(d.files, ElementsAre(file + ": read as JSON lines (extension .jsonl)"));
  EXPECT_EQ(d.first_dropped.at(0).place, file + ":7");
  EXPECT_EQ(d.first_dropped.at(0).detail, "of " + file + ":1");
  EXPECT_THAT(d.first_dropped.at(1).detail, StartsWith(file + ":8: not valid JSON"));
  EXPECT_EQ(p.dropped(9).at(0).detail, "of " + file + ":1");
  EXPECT_EQ(p.dropped(9).at(1).place, file + ":8");

  const std::string place = p.place(p.train().stored(2));
  data.scores = {write("scores.jsonl", fmt::format("{{\"place\": \"{}\", \"loss\": 9}}\n", place)), 4.5, {}, {}};
  EXPECT_EQ(run().train().size(), 5);
}

TEST_F(Prepare, TakesShardsSlicesAndWeights) {
  add(write("a.jsonl", rows(100)), "alpaca");
  data.shuffle_merged_datasets = false;
  auto lines = [&] {
    Prepared p = run();
    std::vector<int> out;
    for (std::int64_t i = 0; i < p.train().size(); ++i) {
      std::string place = p.place(p.train().stored(i));
      out.push_back(std::stoi(place.substr(place.rfind(':') + 1)));
    }
    return out;
  };
  DatasetEntry& e = data.datasets[0];
  e.max_rows = 3, e.skip = 10;
  EXPECT_THAT(lines(), ElementsAre(11, 12, 13));
  e.shards = 40, e.shards_idx = 1;
  EXPECT_THAT(lines(), ElementsAre(12, 52, 92));
  e.max_rows.reset(), e.shards.reset(), e.skip = 0, e.shards_idx = 0;
  e.split = "train[10%:13%]";
  EXPECT_THAT(lines(), ElementsAre(11, 12, 13));
  e.split = "train[-3:]";
  EXPECT_THAT(lines(), ElementsAre(98, 99, 100));
  e.split = "train[-3%:-1]";
  EXPECT_THAT(lines(), ElementsAre(98, 99));
  e.skip = 85, e.split = "train[50%:70%]";  // of 15 rows: 7.5 and 10.5, rounded to even numbers as Python does
  EXPECT_THAT(lines(), ElementsAre(94, 95));
  e.skip = 0, e.split = "train[:2]", e.weight = 2;
  EXPECT_THAT(lines(), ElementsAre(1, 2, 1, 2));
  e.split = "train", e.weight = 0.25;
  EXPECT_EQ(lines().size(), 25u);
  e.split = "train[x]";
  EXPECT_THAT(error_of<UserError>([&] { run(); }), HasSubstr("split 'train[x]' must look like"));
}

TEST_F(Prepare, WarnsOfAWeightThatLeavesNothing) {
  add(write("a.jsonl", rows(20)), "alpaca");
  add(write("b.jsonl", row("b", "c") + row("d", "e")), "alpaca");
  data.datasets[1].weight = 0.01;
  for (int i = 0; i < 2; ++i) {  // built, and reused
    const Prepared p = run();
    EXPECT_EQ(p.report().datasets[0].used, 20);
    EXPECT_THAT(p.report().lines(), Contains("  weight 0.01: 0 examples in an epoch"));
    EXPECT_THAT(p.report().warnings(),
                Contains(HasSubstr("b.jsonl: with weight 0.01, an epoch uses none of its 2 examples")));
  }
  data.datasets[1].weight = 1.5;
  EXPECT_EQ(run().report().datasets[1].used, 3);
  data.datasets.erase(data.datasets.begin());
  data.datasets[0].weight = 0.01;
  EXPECT_THAT(error_of<UserError>([&] { run(); }), HasSubstr("2 of " + path("b.jsonl") + " times weight 0.01 is none"));
}

TEST_F(Prepare, HoldsOutExamplesWhateverTheirWeight) {
  add(write("a.jsonl", rows(20)), "alpaca");
  data.val_set_size = 0.2;
  for (const double weight : {1.0, 2.0, 10.0, 20.5}) {
    data.datasets[0].weight = weight;
    const Prepared p = run();
    std::set<std::int64_t> train, validation;
    for (std::int64_t i = 0; i < p.train().size(); ++i) train.insert(p.train().stored(i));
    for (std::int64_t i = 0; i < p.validation().size(); ++i) validation.insert(p.validation().stored(i));
    EXPECT_EQ(validation.size(), 4u) << weight;
    EXPECT_EQ(p.validation().size(), 4) << weight;
    EXPECT_EQ(train.size(), 16u) << weight;
    std::vector<std::int64_t> both;
    std::ranges::set_intersection(train, validation, std::back_inserter(both));
    EXPECT_TRUE(both.empty()) << weight;
  }
}

TEST_F(Prepare, WarnsOfFieldsAndMessagesThatAreNotUsed) {
  add(write("a.jsonl",
            R"({"messages": [{"role": "customer", "content": "why?"}, {"role": "assistant", "content": "so"}]})"
            "\n"),
      "chat_template");
  templates.chat_template_jinja =
      "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}{{ m.content }}{% endif %}{% endfor %}";
  templates.chat_template = "jinja";
  data.datasets[0].message_field_training = "train";
  data.datasets[0].field_weight = "w";
  const auto warnings = run().report().warnings();
  EXPECT_THAT(warnings, Contains(HasSubstr("does not write the messages of role 'customer' (1 row)")));
  EXPECT_THAT(warnings, Contains(HasSubstr("no row has the field that 'message_field_training: train' names")));
  EXPECT_THAT(warnings, Contains(HasSubstr("no row has the field that 'field_weight: w' names")));
}

TEST_F(Prepare, AMessageWithoutContentIsAnError) {
  add(write("a.jsonl", R"({"messages": [{"role": "user", "contnt": "a"}, {"role": "assistant", "content": "b"}]})"
                       "\n"),
      "chat_template");
  templates.chat_template = "chatml";
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("messages[0]: the message has no 'content'; it has 'role', 'contnt'; did you mean 'contnt'?"));
}

}  // namespace
}  // namespace dml
