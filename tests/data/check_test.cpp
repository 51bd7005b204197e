// `dml validate` and `dml preprocess --check` against `dml preprocess`: they refuse the same data, for every built-in
// format and many kinds of damage.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/error.h"
#include "data/prepare_fixture.h"
#include "prompt/dataset_page.h"

namespace dml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Check : public PrepareTest {
 protected:
  Check() {
    templates.chat_template = "chatml";
    templates.eot_tokens = {"<|im_end|>"};
    data.sequence_len = 4000;
  }
  DataCheck check(CheckLimits limits = {}) {
    problems.clear();
    keys.clear();
    return check_data(data, templates, 42, tokenizer, limits, [&](const Problem& p) {
      problems.push_back(p.text);
      keys.push_back(p.key);
    });
  }
  /// The error of preparing; "" if it succeeds.
  std::string refusal() const {
    try {
      run({.rebuild = true});
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }
  std::vector<std::string> problems, keys;
};

// What can be wrong with a file of three rows.
std::vector<std::pair<std::string, std::string>> damaged(const std::string& good) {
  const Json row = parse_json(good, "row");
  const std::string key = row.begin().key(), line = good + "\n";
  auto with = [&](const Json& value) {
    Json changed = row;
    changed[key] = value;
    return changed.dump() + "\n";
  };
  std::string last_key = row.begin().key();
  for (auto& [name, value] : row.items()) last_key = name;
  Json without = row;
  without.erase(last_key);
  return {{"good", line + line + line},
          {"a column less", line + without.dump() + "\n" + line},
          {"null", line + with(nullptr) + line},
          {"a number", line + with(7) + line},
          {"an empty text", line + with("") + line},
          {"an empty list", line + with(Json::array()) + line},
          {"a list of numbers", line + with({1, 2}) + line},
          {"no object", line + "[1]\n" + line},
          {"cut off", line + good.substr(0, good.size() / 2)},
          {"not UTF-8", line + "{\"" + key + "\": \"\xff\"}\n"},
          {"an empty object", "{}\n{}\n{}\n"},
          {"a key twice", "{\"a\": 1, \"a\": 2}\n"},
          {"only space", " \n\n"},
          {"an array that ends early", "[" + good + ","},
          {"an array with a text", "[" + good + ", \"x\"]"},
          {"an empty array", "[]"},
          {"rows that are almost all bad", "{}\n{}\n{}\n{}\n" + line}};
}

TEST_F(Check, RejectsExactlyWhatPreparingRejects) {
  int cases = 0, refused = 0;
  std::vector<std::string> types{""};
  for (auto& type : prompt_strategies().rows()) types.push_back(type.name);
  for (auto& type : types) {
    const std::string good =
        type.empty() ? R"({"input_ids": [1, 30, 40, 2], "labels": [-100, -100, 40, 2]})" : sample_row(type);
    for (auto& [what, text] : damaged(good))
      for (BadRow bad : {BadRow::error, BadRow::skip}) {
        data.datasets.clear();
        add(write("rows.json", text), type);
        data.on_bad_row = bad;
        check();
        const std::string said = refusal();
        std::filesystem::remove_all(
            data.dataset_prepared_path);  // prepare() reads the descriptions of all prepared data there
        EXPECT_EQ(problems.empty(), said.empty()) << type << ", " << what << ": prepare says '" << said << "', check "
                                                  << (problems.empty() ? "nothing" : "'" + problems.front() + "'");
        if (!problems.empty() && !said.empty()) {
          EXPECT_EQ(problems.front(), said.substr(0, said.find('\n')));
        }
        ++cases;
        refused += !said.empty();
      }
  }
  EXPECT_GT(cases, 1000);
  EXPECT_GT(refused, cases / 3);
  EXPECT_LT(refused, cases);
}

TEST_F(Check, ReportsTheFirstRowsOfAReasonAndHowManyMoreHaveIt) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("{{\"instruction\": {}, \"output\": \"a\"}}\n", i);
  add(write("a.jsonl", text + "[1]\n"), "alpaca");
  add(write("b.jsonl", text), "alpaca");
  std::size_t dropped = 0;
  const DroppedSink count = [&](const DroppedRow&) { ++dropped; };
  const DataCheck found = check({.dropped = &count, .same_problem = 20});
  ASSERT_EQ(problems.size(), 43u);
  EXPECT_THAT(problems[20], HasSubstr("a.jsonl:51: "));
  EXPECT_THAT(problems[21], testing::StartsWith(path("a.jsonl") + ":1: 30 more rows have the same problem"));
  EXPECT_THAT(problems[42], testing::StartsWith(path("b.jsonl") + ":1: 30 more rows have the same problem"));
  EXPECT_EQ(found.problems, 101);
  EXPECT_EQ(dropped, 101u);
  check();
  EXPECT_EQ(problems.size(), 101u);
}

TEST_F(Check, AgreesOnFilesTypesSplitsAndTemplates) {
  const std::string good = write("a.jsonl", row("Hi", "Yo") + row("Bye", "Now"));
  auto expect_agreement = [&](const char* what) {
    check();
    const std::string said = refusal();
    EXPECT_EQ(problems.empty(), said.empty()) << what << ": " << said;
    EXPECT_FALSE(said.empty()) << what;
    data.datasets.clear();
    data.test_datasets.clear();
    data.val_set_size = 0;
    templates.chat_template = "chatml";
  };
  add(path("nothing.jsonl"), "alpaca");
  expect_agreement("a missing file");
  add(good, "alpacca");
  expect_agreement("an unknown type");
  add(good, "alpaca");
  templates.chat_template = "chatmll";
  expect_agreement("an unknown template that no dataset uses");
  add(good, "alpaca");
  data.datasets[0].split = "train[x:]";
  expect_agreement("a slice that is none");
  add(good, "alpaca");
  data.datasets[0].split = "test[:0]";
  expect_agreement("no rows");
  add(good, "alpaca");
  data.val_set_size = 2;
  expect_agreement("nothing left to train on");
  add(good, "completion");
  expect_agreement("a field that is not there");
}

TEST_F(Check, ListsEveryProblemOfEveryDatasetAtOnce) {
  add(write("a.jsonl", row("Hi", "Yo") + "{\"instruction\": 1}\n" + row("Bye", "Now") + "x\n"), "alpaca");
  add(path("nothing.jsonl"), "alpaca");
  add(write("b.json", "[{\"instruction\": \"Hi\", \"output\": \"Yo\"}, {\"a\": 1}, {\"b\": 2}]"), "alpaca");
  add(path("a.jsonl"), "alpacca");
  const DataCheck found = check();
  ASSERT_EQ(problems.size(), 6u) << fmt::format("{}", fmt::join(problems, "\n"));
  EXPECT_THAT(problems[0], HasSubstr("nothing.jsonl: no such file"));
  EXPECT_THAT(problems[1], HasSubstr("did you mean 'alpaca'?"));
  EXPECT_THAT(problems[2], HasSubstr("a.jsonl:2: "));
  EXPECT_THAT(problems[3], HasSubstr("a.jsonl:4: "));
  EXPECT_THAT(problems[4], HasSubstr("b.json, row 2: "));
  EXPECT_THAT(problems[5], HasSubstr("b.json, row 3: "));
  EXPECT_EQ(found.report.total(&DatasetReport::rows), 7);
  EXPECT_THAT(keys, ElementsAre("datasets.1.path", "datasets.3.type", "", "", "", ""));
  // Preparing names both datasets that cannot even be begun.
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("nothing.jsonl"), HasSubstr("alpacca")));
}

TEST_F(Check, AFileThatCannotBeReadIsOneProblem) {
  add(write("a.csv", "instruction,output\nHi,\"open\n"), "alpaca");
  check();
  EXPECT_THAT(problems, testing::ElementsAre(HasSubstr("a.csv:2: a quoted field is not closed")));
}

TEST_F(Check, ReadsNoMoreThanTheLimit) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += row("Say", "so");
  add(write("a.jsonl", text + "x\n"), "alpaca");
  DataCheck found = check({.rows = 100});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(found.partial, ElementsAre(HasSubstr("a.jsonl: 100 rows")));
  found = check({.bytes = 1000});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_LT(found.report.total(&DatasetReport::rows), 100);
  EXPECT_THAT(found.train_lengths, IsEmpty());
  EXPECT_THAT(check().partial, IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("a.jsonl:501: ")));
  // A problem that unread rows may resolve is only a possible problem.
  data.datasets.clear();
  add(write("b.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n{\"text\": \"long enough\"}\n"), "completion");
  data.min_sample_len = 5;
  found = check({.rows = 2});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(found.possible_problems, ElementsAre(HasSubstr("all 2 rows were dropped")));
}

// What the memory of a run is planned from, before there are prepared data.
TEST_F(Check, ReturnsTheLengthsOfTheExamplesInOrder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += row("Say" + std::string(static_cast<std::size_t>(i), '!'), "so");
  add(write("a.jsonl", text), "alpaca");
  data.val_set_size = 7;
  const DataCheck found = check();
  const Prepared prepared = run();
  EXPECT_EQ(found.train_lengths, prepared.train().lengths());
  EXPECT_EQ(found.validation_lengths, prepared.validation().lengths());
  EXPECT_EQ(found.validation_lengths.size(), 7u);
}

TEST_F(Check, WritesNothing) {
  add(write("a.jsonl", row("Hi", "Yo")), "alpaca");
  check();
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path("prepared")));
}

}  // namespace
}  // namespace dml
