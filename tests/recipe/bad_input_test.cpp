// Every way a recipe's text can be broken: one UserError, a line for each problem, with its place, in no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace dml {
namespace {

using testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string alias_bomb() {
  std::string out = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    std::string before = "*l" + std::to_string(i - 1);
    out += "b" + std::to_string(i) + ": &l" + std::to_string(i) + " [" + repeated(before + ", ", 9) + before + "]\n";
  }
  return out;
}

std::string many_keys() {
  std::string out;
  for (int i = 0; i < 100'000; ++i) out += "k" + std::to_string(i) + ": 1\n";
  return out;
}

struct Case {
  const char* name;
  std::string text, expected;
};

class BadText : public testing::TestWithParam<Case> {};

TEST_P(BadText, IsOneClearErrorWithItsPlace) {
  auto said = problems_of(GetParam().text);
  EXPECT_THAT(said, HasSubstr(GetParam().expected));
  EXPECT_LT(said.size(), 30'000u);
}

const std::string kZero(1, '\0');

INSTANTIATE_TEST_SUITE_P(
    Recipe, BadText,
    testing::Values(
        Case{"Empty", "", "r.yml:1:1: the recipe is empty"},
        Case{"OnlyComment", "# nothing\n", "r.yml:1:1: the recipe is empty"},
        Case{"ListRoot", "- a\n- b\n", "r.yml:1:1: a recipe is a table of 'key: value' lines; this is a list"},
        Case{"ScalarRoot", "hello\n", "r.yml:1:1: a recipe is a table of 'key: value' lines; this is text"},
        Case{"TabIndent", "datasets:\n\t- path: x\n", "r.yml:2:1: the line is indented with a tab"},
        Case{"DuplicateKey", kSample + "seed: 1\nlora_r: 2\nseed: 3\n",
             "r.yml:8:1: 'seed' is set twice; the first is in line 6"},
        Case{"DuplicateByAlias", kSample + "neftune_noise_alpha: 1\nnoisy_embedding_alpha: 3\n",
             "r.yml:7:1: 'noisy_embedding_alpha' is the same setting as 'neftune_noise_alpha', which line 6 sets"},
        Case{"UnknownKey", kSample + "lora_aplha: 16\n",
             "r.yml:6:1: unknown key 'lora_aplha'; did you mean 'lora_alpha'?"},
        Case{"UnknownDatasetKey", "base_model: m\nlearning_rate: 1\ndatasets:\n  - pth: x\n",
             "r.yml:4:5: unknown key 'datasets.0.pth'; did you mean 'path'?"},
        Case{"KeyInTheWrongPlace", kSample + "split: train\n",
             "r.yml:6:1: unknown key 'split'; it is a key of an entry of 'datasets'"},
        Case{"NameOfTransformers", kSample + "num_train_epochs: 3\n",
             "r.yml:6:1: unknown key 'num_train_epochs'; did you mean 'num_epochs'?"},
        Case{"KeyOfANestedTable", kSample + "num_iterations: 2\n",
             "r.yml:6:1: unknown key 'num_iterations'; did you mean 'trl.num_iterations'?"},
        Case{"UndefinedAlias", kSample + "seed: *nobody\n", "r.yml:6:7: invalid YAML"},
        Case{"SelfAlias", "a: &a [*a]\n", "r.yml:1:8: the alias refers to the node that contains it"},
        Case{"AliasBomb", alias_bomb(), "more than 100000 entries"},
        Case{"AliasBombOfText", "a: &a \"" + repeated("x", 500'000) + "\"\nb: [" + repeated("*a,", 100) + "*a]\n",
             "8 MB of text"},
        Case{"TooDeepFlow", "a: " + repeated("[", 600) + repeated("]", 600), "nested deeper than 64 levels"},
        Case{"TooDeepBlock",
             "a:\n" +
                 [] {
                   std::string s;
                   for (int i = 1; i < 600; ++i) s += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
                   return s;
                 }(),
             "nested deeper than 64 levels"},
        Case{"OpenBrackets", repeated("[", 1'000'000), "r.yml:1:100001: more than 100000 brackets"},
        Case{"OpenBraces", repeated("{a: ", 90'000), "r.yml:1:1: a key must be a string"},
        Case{"Dashes", repeated("- ", 500'000), "nested deeper than 64 levels"},
        Case{"Questions", repeated("? ", 500'000), "r.yml:1:"},
        Case{"SecondDocument", kSample + "---\nseed: 1\n", "a second YAML document begins here"},
        Case{"UnterminatedDouble", kSample + "output_dir: \"out\n",
             "r.yml:6:13: the quote that opens here is not closed"},
        Case{"UnterminatedSingle", kSample + "output_dir: 'out''\n",
             "r.yml:6:13: the quote that opens here is not closed"},
        Case{"UnterminatedAnchored", kSample + "output_dir: &o \"out\\\"\n", "the quote that opens here is not closed"},
        Case{"UnterminatedFlow", kSample + "tokens: [a, b\n", "r.yml:"},
        Case{"InvalidUtf8", kSample + "output_dir: \xc3\x28\n", "r.yml:6:13: byte 0xc3 is not valid UTF-8"},
        Case{"StrayBracket", kSample + "]\n", "r.yml:6:"}, Case{"StrayComma", "a: [1]\n, b\n", "r.yml:"},
        Case{"StrayBraceFirst", "} a\n", "r.yml:1:"}, Case{"StrayValues", "a: b\n...\n: }\n", "r.yml:"},
        Case{"Utf16",
             "\xff\xfe"
             "b\0a\0",
             "is UTF-16; save it as UTF-8"},
        Case{"Nul", "seed: 1" + kZero + "\n", "r.yml:1:8: control character 0x00"},
        Case{"TooLong", std::string(10 << 20, 'a'), "the limit for a recipe is 1048576"},
        Case{"ManyKeys", many_keys(), "more than 100000 entries"},
        Case{"ComplexKey", "? [a]\n: 1\n", "a key must be a string, not a list or a table"},
        Case{"NullKey", "~: 1\n", "the key is missing"},
        Case{"BlankKey", kSample + "\"  \": 1\n", "r.yml:6:1: unknown key '  '"},
        Case{"PythonTag", kSample + "seed: !!python/object:os.system 1\n", "r.yml:6:7: the tag"},
        Case{"BinaryTag", kSample + "tokens: !!binary aGFsbG8=\n", "the tag"},
        Case{"LocalTag", kSample + "seed: !env SEED\n", "r.yml:6:7: the tag '!env' is not supported"},
        Case{"MergeOfText", kSample + "<<: seed\n", "'<<' needs a table"},
        Case{"LongLine", kSample + std::string(500'000, 'k') + ": 1\n", "r.yml:6:"},
        Case{"LongKey", kSample + std::string(900, 'k') + ": 1\n", "r.yml:6:1: unknown key 'kkk"},
        Case{"TextWithNul", kSample + "output_dir: \"a\\0b\"\n",
             "r.yml:6:13: 'output_dir' must not contain a NUL character"},
        Case{"EmptyOutputDir", kSample + "output_dir: ''\n", "r.yml:6:13: 'output_dir' must not be empty"},
        Case{"PathWithNewline", kSample + "output_dir: \"a\\nb\"\n",
             "r.yml:6:13: 'output_dir' is a path and must be one line"},
        Case{"MissingValueOfEntry", kSample + "test_datasets:\n  -\n", "'test_datasets.0' has no value"},
        Case{"MissingPath", "base_model: m\nlearning_rate: 1e-3\ndatasets:\n  - type: alpaca\n",
             "r.yml:4:5: 'datasets.0.path' is missing"},
        Case{"BadIndent", kSample + "  seed: 1\n", "r.yml:6:"}),
    [](const auto& test) { return std::string(test.param.name); });

struct BadValue {
  const char *lines, *expected;
};

TEST(BadValues, NameTheExpectedAndTheActualValue) {
  const BadValue cases[] = {
      {"lora_r: abc",
       "6:9: 'lora_r' must be an integer of at least 1 and at most 16384, is 'abc'; for example lora_r: 16"},
      {"lora_r: 0", "'lora_r' must be an integer of at least 1"},
      {"lora_r: 2.5", "is '2.5'"},
      {"lora_r: 99999999999999999999", "is '99999999999999999999'"},
      {"lora_r: [8]", "is a list"},
      {"lora_r: {a: 8}", "is a table"},
      {"lora_r: 010", "leading zero"},
      {"lora_r: 1__0", "is '1__0'"},
      {"num_epochs: -1", "'num_epochs' must be a number above 0 and at most 1000000, is '-1'"},
      {"num_epochs: .inf", "is '.inf'"},
      {"num_epochs: .nan", "is '.nan'"},
      {"num_epochs: inf", "is 'inf'"},
      {"num_epochs: 1e999", "is '1e999'"},
      {"weight_decay: nan", "is 'nan'"},
      {"sample_packing: maybe", "'sample_packing' must be true or false, is 'maybe'"},
      {"sample_packing: 1", "must be true or false, is '1'"},
      {"adapter: lroa", "'adapter' must be one of none, lora, qlora, is 'lroa'; did you mean 'lora'?"},
      {"optimizer: adamm", "did you mean 'adamw'?"},
      {"lr_scheduler: cosin", "did you mean 'cosine'?"},
      {"excess_length_strategy: cut", "must be one of drop, truncate, raise, split_turns"},
      {"eval_strategy: best", "must be one of auto, no, steps, epoch"},
      {"special_tokens: [a]", "'special_tokens' must be a table, is a list"},
      {"special_tokens: {pda_token: a}", "unknown key 'special_tokens.pda_token'; did you mean 'pad_token'?"},
      {"added_tokens_overrides: {x: a}", "keys are token ids"},
      {"lora_rank_pattern: {q: 0}", "'lora_rank_pattern.q' must be"},
      {"test_datasets: rows.jsonl", "'test_datasets' must be a list"},
      {"optim_args: a", "'optim_args' must be a table, or text like 'k=v,k=v'"},
      {"output_dir: [a]", "'output_dir' must be a path, is a list"},
  };
  for (const auto& c : cases) EXPECT_THAT(problems(c.lines), HasSubstr(c.expected)) << c.lines;
}

TEST(Problems, AreAllReportedSortedByLine) {
  auto said = problems("lora_r: 0\nbogus_key_here: 1\nsample_packing: 7\nnum_epochs: 0\n");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;
  EXPECT_THAT(said, testing::ContainsRegex("r.yml:6:9.*\nr.yml:7:1.*\nr.yml:8:17.*\nr.yml:9:13"));
}

TEST(Problems, OfAHugeRecipeAreCounted) {
  std::string text = kSample;
  for (int i = 0; i < 40'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(problems_of(text), HasSubstr("r.yml: and 39900 more problems"));
}

TEST(Text, MayHaveCrlfBomTrailingDotsAndEmptyDocuments) {
  for (std::string lines : {"seed: 7\r\n", "seed: 7\n...\n", "seed: 7\n---\n", "seed: 7", "seed: 7 # why\n"})
    EXPECT_EQ(parsed(lines).train.seed, 7) << lines;
  std::string crlf;
  for (char c : kSample) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(read_recipe("\xef\xbb\xbf" + crlf + "output_dir: \"a b\"\r\n", "r.yml").recipe.train.output_dir, "a b");
  EXPECT_THAT(problems_of(crlf + "output_dir: \"a\r\n"), HasSubstr("r.yml:6:13: the quote"));
}

TEST(Text, AnchorsAndMergeKeysWork) {
  auto data = read_recipe(
                  "base_model: &m models/tiny\n"
                  "tokenizer_config: *m\n"
                  "learning_rate: 1e-3\n"
                  "datasets:\n"
                  "  - &first {path: a.jsonl, type: alpaca, split: dev, max_rows: 5}\n"
                  "  - <<: *first\n"
                  "    split: test\n"
                  "  - <<: [{split: one, name: n}, *first]\n"
                  "    path: b.jsonl\n",
                  "r.yml")
                  .recipe.data.datasets;
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[1].path, "a.jsonl");
  EXPECT_EQ(data[1].split, "test");
  EXPECT_EQ(data[1].max_rows, 5);
  EXPECT_EQ(data[2].path, "b.jsonl");
  EXPECT_EQ(data[2].split, "one");
  EXPECT_EQ(data[2].name, "n");
  EXPECT_EQ(data[2].type.name, "alpaca");
}

}  // namespace
}  // namespace dml
