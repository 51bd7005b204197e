// Tasks of lm-evaluation-harness: what rows become, and what is refused by line. The expected prompts were written by
// hand from the rows, as the harness puts them together (context, target_delimiter, choice; fewshot_delimiter between
// examples).
#include "assembly/harness_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kShipped = DML_SOURCE_DIR "/recipes/evals/";

Json row(const EvalTask& task, std::size_t i) { return task.rows.at(i).json; }

TEST(HarnessTask, MultipleChoiceHasContextChoicesAndTheCorrectOne) {
  const EvalTask arc = read_harness_task(kShipped + "arc_easy.yml", "arc");
  EXPECT_EQ(arc.name, "arc");
  EXPECT_TRUE(arc.raw);
  ASSERT_EQ(arc.checks.size(), 1u);
  EXPECT_EQ(arc.checks[0].name, "choice");
  EXPECT_EQ(row(arc, 0), (Json{{"prompt", "Question: Which of these gives light of its own?\nAnswer:"},
                               {"delimiter", " "},
                               {"choices", {"the Moon", "a mirror", "the Sun", "a window"}},
                               {"answer", 2}}));
  EXPECT_THAT(arc.rows[0].place, HasSubstr("arc_easy.jsonl:1"));
  const Json hella = row(read_harness_task(kShipped + "hellaswag.yml", "h"), 1);
  EXPECT_EQ(hella["prompt"], "Washing a car: A man fills a bucket with water. and takes a sponge. He");
  EXPECT_EQ(hella["answer"], 1);
  EXPECT_EQ(row(read_harness_task(kShipped + "boolq.yml", "b"), 1)["choices"], (Json{"no", "yes"}));
  EXPECT_EQ(row(read_harness_task(kShipped + "piqa.yml", "p"), 1)["answer"], 1);
  EXPECT_EQ(row(read_harness_task(kShipped + "sciq.yml", "s"), 0)["answer"], 3);
}

TEST(HarnessTask, ExamplesComeFirst) {
  const EvalTask mmlu = read_harness_task(kShipped + "mmlu.yml", "m");
  EXPECT_EQ(row(mmlu, 0)["prompt"],
            "The following are multiple choice questions (with answers) about elementary mathematics.\n\n"
            "What is 2 plus 3?\nA. 4\nB. 5\nC. 6\nD. 7\nAnswer: B\n\nWhat is 10 minus 4?\nA. 6\nB. 5\nC. 7\nD. "
            "14\nAnswer: A\n\n"
            "What is 3 times 3?\nA. 6\nB. 12\nC. 9\nD. 33\nAnswer: C\n\nWhat is 20 divided by 5?\nA. 5\nB. 15\nC. "
            "25\nD. 4\nAnswer: D\n\n"
            "Which number is even?\nA. 7\nB. 9\nC. 12\nD. 15\nAnswer: C\n\nWhat is 7 times 8?\nA. 54\nB. 56\nC. 64\nD. "
            "48\nAnswer:");
  EXPECT_EQ(row(mmlu, 0)["answer"], 1);
}

TEST(HarnessTask, OtherOutputsHaveTheirOwnChecks) {
  const EvalTask lambada = read_harness_task(kShipped + "lambada_openai.yml", "l");
  EXPECT_EQ(lambada.checks[0].name, "continuation");
  EXPECT_EQ(row(lambada, 2), (Json{{"prompt", "He had promised a letter every week, and every week there was a"},
                                   {"continuation", " letter"}}));
  const EvalTask wiki = read_harness_task(kShipped + "wikitext.yml", "w");
  EXPECT_EQ(wiki.checks[0].name, "perplexity");
  EXPECT_THAT(row(wiki, 0)["text"].get<std::string>(), testing::StartsWith("A river is"));
  const EvalTask gsm = read_harness_task(kShipped + "gsm8k.yml", "g");
  EXPECT_THAT(gsm.until, ElementsAre("Question:", "</s>", "<|im_end|>"));
  ASSERT_EQ(gsm.checks.size(), 2u);
  EXPECT_EQ(gsm.checks[0].options["name"], "exact_match_strict-match");
  EXPECT_THAT(row(gsm, 0)["prompt"].get<std::string>(), HasSubstr("8 - 3 = 5.\n#### 5\n\nQuestion: A book costs"));
  EXPECT_THAT(row(gsm, 0)["expected"].get<std::string>(), testing::EndsWith("#### 10"));
}

class HarnessFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  std::string refused(const std::string& yaml) {
    try {
      read_harness_task(write("task.yml", yaml), "t");
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  }
  const std::string data_ = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n";
  testing_tools::TemporaryFolder folder_;
};

TEST_F(HarnessFiles, AreRefusedByLine) {
  write("rows.jsonl", "{\"q\": \"a\", \"c\": [\"x\", \"y\"], \"a\": 5}\n");
  EXPECT_THAT(
      refused("task: t\ndoc_to_text: !function utils.f\ndataset_path: json\ndoc_to_target: !function utils.g\n"),
      testing::AllOf(HasSubstr("task.yml:2:14: 'doc_to_text' is a Python function"), HasSubstr("utils.f"),
                     HasSubstr("task.yml:4:")));
  EXPECT_THAT(refused("task: t\ndataset_path: allenai/ai2_arc\noutput_type: multiple_choise\ndoc_to_txt: q\n"),
              testing::AllOf(HasSubstr("task.yml:2"), HasSubstr("is not local"),
                             HasSubstr("did you mean 'multiple_choice'"), HasSubstr("unknown key 'doc_to_txt'"),
                             HasSubstr("did you mean 'doc_to_text'"), HasSubstr("'doc_to_target' is missing")));
  EXPECT_THAT(refused("task: t\n" + data_ +
                      "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_target: a\ndoc_to_choice: c\n"),
              HasSubstr("rows.jsonl:1: doc_to_target gives 5, which is none of the 2 choices"));
  EXPECT_THAT(
      refused(
          "task: t\n" + data_ +
          "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: bleu}]\ngeneration_kwargs: {temperature: 0.7}\n"),
      testing::AllOf(HasSubstr("no metric 'bleu'"), HasSubstr("'temperature: 0.7' is not supported")));
  EXPECT_THAT(refused("task: t\n" + data_ + "doc_to_text: '{{ q'\ndoc_to_target: a\n"), HasSubstr("doc_to_text"));
  EXPECT_THAT(refused("task: [a, b]\n" + data_ + "doc_to_text: q\ndoc_to_target: a\n"),
              HasSubstr("a group of tasks is not supported"));
}

TEST_F(HarnessFiles, AreRefusedByLineWhereAValueHasAnotherType) {
  write("rows.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
  const std::pair<const char*, const char*> cases[] = {
      {"filter_list: [strict]",
       "'filter_list' must be a list of tables with a name and a list of filters, has \"strict\""},
      {"filter_list: [{name: 3}]", "has {\"name\":3}"},
      {"filter_list: [{filter: lowercase}]", "has {\"filter\":\"lowercase\"}"},
      {"filter_list: strict", "'filter_list' must be a list"},
      {"metric_list: [{metric: 5}]",
       "'metric_list' must be a list of tables with the name of a metric, has {\"metric\":5}"},
      {"metric_list: [exact_match]", "has \"exact_match\""},
      {"fewshot_config: {sampler: 3}", "'fewshot_config' is supported only with sampler: first_n"}};
  for (const auto& [line, says] : cases)
    EXPECT_THAT(refused("task: t\n" + data_ + "doc_to_text: q\ndoc_to_target: a\n" + line + "\n"),
                testing::AllOf(HasSubstr("task.yml:7:"), HasSubstr(says)))
        << line;
}

TEST_F(HarnessFiles, IncludeOthersAndTakeRowsFromElsewhere) {
  write("rows.jsonl", "{\"q\": \"a\", \"t\": \"x\"}\n{\"q\": \"b\", \"t\": \"y\"}\n");
  write("base.yml", data_ + "output_type: generate_until\ndoc_to_text: '{{q}}?'\ndoc_to_target: t\nnum_fewshot: 1\n");
  const std::string path = write("task.yml", "task: t\ninclude: base.yml\ndoc_to_text: '{{q}}!'\n");
  const EvalTask task = read_harness_task(path, "t");
  EXPECT_EQ(row(task, 0)["prompt"], "b! y\n\na!");  // never its own example
  EXPECT_EQ(row(task, 1)["prompt"], "a! x\n\nb!");
  EXPECT_THAT(task.until, ElementsAre("\n\n"));
  const EvalTask other = read_harness_task(path, "t", write("other.jsonl", "{\"q\": \"z\", \"t\": [\"1\", \"2\"]}\n"));
  ASSERT_EQ(other.rows.size(), 1u);
  EXPECT_EQ(row(other, 0)["expected"], (Json{"1", "2"}));
  EXPECT_TRUE(is_harness_task(read_file(path)));
  EXPECT_FALSE(is_harness_task("evals:\n  - {name: a, task: b.yml}\n"));
}

}  // namespace
}  // namespace dml
