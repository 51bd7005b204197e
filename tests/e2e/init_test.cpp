// From the user's data to a model that answers, without editing a recipe.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Fact {
  const char *question, *answer;
};
const std::vector<Fact> kFacts{{"Where is the key?", "The key is under the mat."},
                               {"Who feeds the cat?", "Anna feeds the cat at noon."},
                               {"When does the shop open?", "It opens at eight."},
                               {"What color is the door?", "The door is blue."},
                               {"How far is the sea?", "The sea is two miles away."},
                               {"Who made the bread?", "Tom made the bread."},
                               {"Where do the boats sleep?", "The boats sleep in the harbour."},
                               {"What does the clock say?", "It says half past ten."}};

class Init : public Workshop {
 protected:
  std::string csv(const std::string& name) const {
    std::string text = "Question;Answer;Checked\n";
    for (int i = 0; i < 3; ++i)
      for (auto& f : kFacts) text += fmt::format("{};\"{}\";yes\n", f.question, f.answer);
    return write(name, text);
  }
  Ended here(Words words) const { return dml(std::move(words), {.folder = folder_}); }
};

TEST_F(Init, FromACsvToAnAnswerInFourCommandsWithoutEditingAFile) {
  csv("faq.csv");
  Ended tokenizer = here({"tokenizer", "train", "faq.csv", "--output", "tokenizer", "--vocab-size", "360"});
  ASSERT_EQ(tokenizer.exit, 0) << tokenizer.err;
  Ended init = here({"init", "tokenizer", "faq.csv"});
  ASSERT_EQ(init.exit, 0) << init.err;
  EXPECT_EQ(init.out, "faq.yml\n");
  EXPECT_THAT(init.err,
              AllOf(HasSubstr("user: Question, assistant: Answer"), HasSubstr("semicolons"), HasSubstr("24 rows"),
                    HasSubstr("chatml"), HasSubstr("dml train faq.yml"), HasSubstr("dml infer faq.yml --chat")));
  Ended train = here({"train", "faq.yml"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_THAT(train.err, Not(HasSubstr("without BOS")));
  int right = 0;
  for (auto& f : kFacts) {
    Ended infer = here({"infer", "faq.yml", "--prompt", f.question, "--greedy", "--max-new-tokens", "40"});
    ASSERT_EQ(infer.exit, 0) << infer.err;
    right += infer.out == f.answer + std::string("\n");
  }
  EXPECT_GE(right, 7) << "of " << kFacts.size();
}

TEST_F(Init, WritesRecipesThatValidateAndPlanAcceptForEveryFormat) {
  csv("faq.csv");
  write("alpaca.jsonl",
        "{\"instruction\":\"Name a color.\",\"input\":\"\",\"output\":\"Blue.\"}\n"
        "{\"instruction\":\"Add.\",\"input\":\"1 and 2\",\"output\":\"3\"}\n");
  write("messages.jsonl", R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]})");
  write("sharegpt.json", R"([{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}])");
  write("dialog.jsonl", R"({"turns":[{"speaker":"customer","text":"Hi"},{"speaker":"agent","text":"Hello"}]})");
  write("pairs.jsonl", R"({"prompt":"1 + 1 =","completion":" 2"})");
  write("segments.jsonl", R"({"segments":[{"text":"a question","label":false},{"text":"an answer","label":true}]})");
  write("texts.jsonl", R"({"text":"A story about a boat that sleeps in a harbour."})");
  write("tokens.jsonl", R"({"input_ids":[5,6,7,8],"labels":[-100,6,7,8]})");
  write("book.txt", "A chapter.\n\nAnother chapter of the book, with more words in it.\n");
  std::filesystem::create_directories(at("notes"));
  write("notes/one.md", "# A note\n\nwith a paragraph.\n");
  write("notes/two.txt", "Another note.\n");
  write("export.json",
        R"([{"current_node":"b","mapping":{"a":{"parent":null,"message":{"author":{"role":"user"},"content":
    {"content_type":"text","parts":["Hi"]}}},"b":{"parent":"a","message":{"author":{"role":"assistant"},"content":
    {"content_type":"text","parts":["Hello"]}}}}}])");
  write("best.jsonl", R"({"prompt":"Hi","chosen":"Hello","rejected":"No"})");
  const std::string base = base_directory(), scratch = DML_SOURCE_DIR "/datasets/quickstart/tokenizer";
  // Every format with two of the four kinds of model, in turn.
  const std::vector<Words> kinds{{base}, {base, "--adapter", "lora"}, {base, "--adapter", "qlora"}, {scratch}};
  std::size_t number = 0;
  for (const char* data :
       {"faq.csv", "alpaca.jsonl", "messages.jsonl", "sharegpt.json", "dialog.jsonl", "pairs.jsonl", "segments.jsonl",
        "texts.jsonl", "tokens.jsonl", "book.txt", "notes", "export.json", "best.jsonl"})
    for (int i = 0; i < 2; ++i) {
      const Words& how = kinds[number % kinds.size()];
      const std::string recipe = fmt::format("r{}.yml", ++number),
                        what = fmt::format("{} with {}", data, fmt::join(how, " "));
      Words words{"init", how[0], data, "-o", recipe};
      words.insert(words.end(), how.begin() + 1, how.end());
      if (data == std::string("best.jsonl")) words.push_back("--chosen-only");
      Ended init = here(words);
      ASSERT_EQ(init.exit, 0) << what << ": " << init.err;
      Ended valid = here({"validate", recipe});
      EXPECT_EQ(valid.exit, 0) << what << ": " << valid.err << read_file(at(recipe));
      EXPECT_THAT(valid.err, testing::Not(HasSubstr("warning"))) << what;
      Ended plan = here({"plan", recipe});
      EXPECT_EQ(plan.exit, 0) << what << ": " << plan.err << read_file(at(recipe));
    }
}

TEST_F(Init, WritesRecipesForPreferences) {
  write("texts.jsonl", R"({"question":"Hi","chosen":"Hello","rejected":"No"})");
  write("messages.jsonl",
        R"({"chosen":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],"rejected":)"
        R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"No"}]})");
  write("turns.jsonl",
        R"({"conversations":[{"from":"human","value":"Hi"}],"chosen":{"from":"gpt","value":"Hello"},"rejected":)"
        R"({"from":"gpt","value":"No"}})");
  write("thumbs.jsonl",
        "{\"prompt\":\"Hi\",\"completion\":\"Hello\",\"label\":true}\n"
        "{\"prompt\":\"Hi\",\"completion\":\"No\",\"label\":false}\n");
  for (auto [data, rl] : {std::pair{"texts.jsonl", "rl: dpo"},
                          {"messages.jsonl", "rl: dpo"},
                          {"turns.jsonl", "rl: dpo"},
                          {"thumbs.jsonl", "rl: kto"}})
    for (const char* adapter : {"none", "lora"}) {
      Ended e = here({"init", base_directory(), data, "-o", "r.yml", "--force", "--adapter", adapter});
      ASSERT_EQ(e.exit, 0) << data << ": " << e.err;
      EXPECT_THAT(read_file(at("r.yml")), HasSubstr(rl)) << data;
      e = here({"validate", "r.yml"});
      EXPECT_EQ(e.exit, 0) << data << ": " << e.err << read_file(at("r.yml"));
      EXPECT_THAT(e.err, testing::Not(HasSubstr("warning"))) << data;
    }
  const Ended e = here({"train", "r.yml", "--max_steps", "1"});
  EXPECT_EQ(e.exit, 0) << e.err << read_file(at("r.yml"));
}

TEST_F(Init, TakesGgufFilesAsABase) {
  csv("faq.csv");
  const Surroundings around{.environment = {"XDG_CACHE_HOME=" + at("cache")}, .folder = folder_};
  for (auto [dtype, adapter] : {std::pair{"f16", "none"}, {"q8_0", "qlora"}}) {
    const std::string file = fmt::format("{}.gguf", dtype), recipe = fmt::format("{}.yml", dtype);
    ASSERT_EQ(here({"convert", base_directory(), "--format", "gguf", "--dtype", dtype, "--output", file}).exit, 0);
    const Ended init = dml({"init", file, "faq.csv", "-o", recipe}, around);
    ASSERT_EQ(init.exit, 0) << init.err;
    EXPECT_THAT(read_file(at(recipe)), HasSubstr("\nbase_model: " + file + " "));
    EXPECT_EQ(read_file(at(recipe)).find("\nadapter: qlora") != std::string::npos, adapter == std::string("qlora"));
    for (Words words : {Words{"validate", recipe}, Words{"train", recipe, "--max_steps", "1"}}) {
      const Ended e = dml(words, around);
      EXPECT_EQ(e.exit, 0) << dtype << ": " << e.err;
    }
  }
  expect_refused(dml({"init", "q8_0.gguf", "faq.csv", "-o", "b.yml", "--adapter", "none"}, around), 2,
                 {"stored as q8_0", "--adapter qlora"});
}

TEST_F(Init, TrainsOnAChatExport) {
  write("export.json",
        R"([{"current_node":"b","mapping":{"a":{"parent":null,"message":{"author":{"role":"user"},"content":
    {"content_type":"text","parts":["Where is the key?"]}}},"b":{"parent":"a","message":{"author":{"role":"assistant"},
    "content":{"content_type":"text","parts":["Under the mat."]}}}}}])");
  ASSERT_EQ(here({"init", base_directory(), "export.json"}).exit, 0);
  ASSERT_EQ(here({"train", "export.yml", "--max_steps", "2"}).exit, 0);
  Ended row = here({"inspect", "export.yml", "--row", "0"});
  EXPECT_THAT(row.out, AllOf(HasSubstr("Where is the key?"), HasSubstr("Under the mat.")));
}

TEST_F(Init, NeverOverwritesAndReportsErrorsInOneLine) {
  csv("faq.csv");
  write("faq.yml", "mine");
  expect_refused(here({"init", base_directory(), "faq.csv"}), 2, {"faq.yml: exists already", "--force"});
  EXPECT_EQ(read_file(at("faq.yml")), "mine");
  EXPECT_EQ(here({"init", base_directory(), "faq.csv", "--force"}).exit, 0);
  EXPECT_NE(read_file(at("faq.yml")), "mine");
  expect_refused(here({"init"}), 2, {"dml init MODEL DATA", "terminal"});
  expect_refused(here({"init", base_directory()}), 2, {"dml init MODEL DATA"});
  expect_refused(here({"init", "models/none", "faq.csv", "-o", "a.yml"}), 2, {"models/none: no such directory"});
  expect_refused(here({"init", base_directory(), "fak.csv", "-o", "a.yml"}), 2, {"did you mean 'faq.csv'"});
  expect_refused(here({"init", "faq.csv", base_directory(), "-o", "a.yml"}), 2, {"the model comes first"});
  write("pairs.jsonl", R"({"prompt":"Hi","chosen":"Hello","rejected":"No"})");
  expect_refused(here({"init", DML_SOURCE_DIR "/datasets/quickstart/tokenizer", "pairs.jsonl"}), 2,
                 {"preferences are trained on top of a model"});
  expect_refused(here({"init", base_directory(), "faq.csv", "-o", "a.yml", "--adapter", "dora"}), 2,
                 {"--adapter: there is no 'dora'; did you mean 'lora'?"});
  expect_refused(here({"tokenizer", "train", "faq.csv", "-o", "t", "--vocab-size", "90000"}), 2,
                 {"is too large", "use --vocab-size"});
  expect_refused(here({"tokenizer", "train", "gone.txt", "-o", "t"}), 2, {"gone.txt: no such file"});
  expect_refused(here({"tokenizer", "train", "faq.csv", "--field", "Anser", "-o", "t"}), 2, {"did you mean 'Answer'"});
  EXPECT_FALSE(file_exists(at("t")));
  std::filesystem::create_directories(at("t"));
  write("t/notes.txt", "mine");
  expect_refused(here({"tokenizer", "train", "faq.csv", "-o", "t", "--force"}), 2, {"holds more than a tokenizer"});
}

}  // namespace
}  // namespace dml::e2e
