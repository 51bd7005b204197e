// Pairs and labeled answers: from rows to groups of documents in a micro-batch.
#include <gmock/gmock.h>

#include <algorithm>

#include "data/example.h"
#include "data/inspect.h"
#include "data/loader.h"
#include "data/page.h"
#include "data/prepare_fixture.h"
#include "prompt/prompt_only.h"

namespace dml {
namespace {

class PreferenceData : public PrepareTest {
 protected:
  explicit PreferenceData(RowKind rows = RowKind::pairs) { data.rows = rows; }
  std::string text(std::span<const Token> ids) const { return tokenizer.decode(ids); }
  // The trained text of a document.
  std::string trained(std::span<const Token> labels) const {
    std::vector<Token> ids;
    for (Token t : labels)
      if (t != kIgnore) ids.push_back(t);
    return tokenizer.decode(ids);
  }
};

std::string pair(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
  return fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"{}\", \"rejected\": \"{}\"}}\n", prompt, chosen, rejected);
}

TEST_F(PreferenceData, APairIsOneExampleOfTwoDocuments) {
  add(write("p.jsonl", pair("Q: hi\\nA:", " yes", " no, never")), "passthrough");
  const Prepared p = run();
  const Examples examples = p.train();
  ASSERT_EQ(examples.size(), 1);
  EXPECT_EQ(examples.kind(0), ExampleKind::pair);
  const auto split = static_cast<std::size_t>(examples.split(0));
  EXPECT_EQ(text(examples.ids(0).first(split)), "<s>Q: hi\nA: yes</s>");
  EXPECT_EQ(text(examples.ids(0).subspan(split)), "<s>Q: hi\nA: no, never</s>");
  EXPECT_EQ(trained(examples.labels(0).first(split)), " yes</s>");
  EXPECT_EQ(trained(examples.labels(0).subspan(split)), " no, never</s>");
}

TEST_F(PreferenceData, AQuestionInTheFormatOfTextsIsItsText) {
  DatasetEntry entry;
  entry.type.name = "passthrough";
  const auto strategy = make_prompt_strategy(prompt_context(data, TemplateSection(), entry, tokenizer));
  const Rendered asked = strategy->prompt(row_of_prompt("Q: hi", entry));
  EXPECT_EQ(text(assemble(asked, tokenizer).ids), "<s>Q: hi");
  try {
    strategy->prompt({{"chosen", Json::array({{{"role", "user"}, {"content", "hi"}}})}});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()).find("the row holds messages: the tokenizer has no chat template"), 0u) << e.what();
  }
}

TEST_F(PreferenceData, RowsHaveWeightsAndMargins) {
  add(write("p.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c", "w": 2, "margin": 0.5})"
                       "\n"
                       R"({"prompt": "d", "chosen": "e", "rejected": "f"})"
                       "\n"
                       R"({"prompt": "g", "chosen": "h", "rejected": "i", "w": 0})"
                       "\n"),
      "passthrough");
  data.datasets[0].field_weight = "w";
  data.curriculum_sampling = true;
  const Prepared p = run();
  const Examples examples = p.train();
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(examples.weight(0), 2);
  EXPECT_EQ(examples.margin(0), 0.5f);
  EXPECT_EQ(examples.weight(1), 1);
  EXPECT_EQ(examples.margin(1), 0);
  EXPECT_TRUE(examples.weights(0).empty());
  EXPECT_EQ(p.report().datasets[0].dropped.at(std::string(dropped::kWeightZero)), 1);
}

TEST_F(PreferenceData, AStepIsLaidOutByTokensWhateverTheMicroBatchSize) {
  std::string rows;
  for (int i = 0; i < 11; ++i) rows += pair(fmt::format("q{}", i), "good", "bad");
  add(write("p.jsonl", rows), "passthrough");
  data.sequence_len = 16;
  const Prepared p = run();
  auto laid_out = [&](std::int64_t micro, bool packing) {
    data.sample_packing = packing;
    TrainSection train;
    train.micro_batch_size = micro;
    train.batch_size = 4;
    const Schedule schedule(p.train().lengths(), train_schedule(data, train, 1, nullptr));
    std::vector<std::vector<std::vector<std::int32_t>>> steps;
    for (std::int64_t s = 0; s < schedule.steps(); ++s) {
      auto& step = steps.emplace_back();
      for (std::int64_t m = 0; m < schedule.step(s).micro_batches; ++m) {
        const auto some = schedule.examples(s, m);
        step.emplace_back(some.begin(), some.end());
      }
    }
    EXPECT_LE(schedule.longest(), 32);
    return steps;
  };
  const auto steps = laid_out(1, false);
  ASSERT_EQ(steps.size(), 3u);  // 4, 4 and 3 pairs
  std::vector<std::size_t> pairs;
  for (auto& step : steps) {
    EXPECT_GT(step.size(), 1u);  // of micro-batches, each with as many pairs as 32 tokens hold
    std::size_t count = 0;
    for (auto& micro_batch : step) count += micro_batch.size();
    pairs.push_back(count);
  }
  EXPECT_EQ(pairs, (std::vector<std::size_t>{4, 4, 3}));
  EXPECT_EQ(laid_out(2, false), steps);
  EXPECT_EQ(laid_out(4, true), steps);
}

TEST_F(PreferenceData, TheDocumentsOfAPairShareAMicroBatch) {
  std::string rows;
  for (int i = 0; i < 5; ++i) rows += pair(fmt::format("q{}", i), fmt::format("good{}", i), fmt::format("bad{}", i));
  add(write("p.jsonl", rows), "passthrough");
  data.curriculum_sampling = true;
  data.sequence_len = 20;  // two pairs a micro-batch
  const Prepared p = run();
  TrainSection train;
  train.micro_batch_size = 2;
  train.gradient_accumulation_steps = 2;
  const Schedule schedule(p.train().lengths(), train_schedule(data, train, 1, nullptr));
  EXPECT_EQ(schedule.most_documents(), 4);
  ReferenceScores references;
  for (int i = 0; i < 10; ++i) references.answers.push_back(-i);
  Loader loader(p.train(), schedule, {.references = &references});
  const PackedBatch batch = loader.load(0, 1);
  ASSERT_EQ(batch.documents(), 4);
  ASSERT_EQ(batch.groups.size(), 4u);
  EXPECT_EQ(batch.first_group, 2);
  for (std::size_t d = 0; d < 4; ++d) {
    const DocumentGroup& g = batch.groups[d];
    EXPECT_EQ(g.role, d % 2 == 0 ? DocumentRole::chosen : DocumentRole::rejected);
    EXPECT_EQ(g.group, static_cast<std::int32_t>(d / 2));
    EXPECT_EQ(g.reference, -static_cast<double>(4 + d));
    // <s>q2good2</s>: the label before the answer is at position 2.
    EXPECT_EQ(g.completion, 2);
    EXPECT_EQ(batch.positions[static_cast<std::size_t>(batch.starts[d])], 0);
  }
}

TEST_F(PreferenceData, PromptsOfChosenDocumentsMayHaveLabels) {
  add(write("p.jsonl", pair("ab", "cd", "ef")), "passthrough");
  const Prepared plain = run();
  Prepared p = plain;
  p.trains_chosen_prompts = true;
  const Schedule schedule(p.train().lengths(), train_schedule(data, {}, 1, nullptr));
  Loader loader(p.train(), schedule);
  const PackedBatch batch = loader.load(0, 0);
  EXPECT_EQ(text(batch.labels.first(5)), "abcd</s>");  // shifted: the begin token predicts the a
  EXPECT_EQ(batch.groups[0].completion, 2);
  EXPECT_EQ(batch.labels[6], kIgnore);

  // What is shown is what the loader labels.
  auto shown = [&](const Prepared& prepared) {
    std::string out;
    for (const RowView& row : view_documents(prepared.train(), 0, tokenizer, "row 0"))
      out += render_text(row, {.color = false});
    return out;
  };
  const std::string rejected = "row 0, rejected: 6 tokens, 3 trained\n<s>ab⟦ef</s>⟧\n";
  EXPECT_EQ(shown(plain), "row 0, chosen: 6 tokens, 3 trained\n<s>ab⟦cd</s>⟧\n" + rejected);
  EXPECT_EQ(shown(p), "row 0, chosen: 6 tokens, 5 trained\n<s>⟦abcd</s>⟧\n" + rejected);
  const std::string line = "the prompts of chosen answers are trained, too: 2 tokens more";
  EXPECT_EQ(std::ranges::count(describe(p), line), 1);
  EXPECT_EQ(std::ranges::count(describe(plain), line), 0);
  const Json page = page_data(p, tokenizer, nullptr, {});
  EXPECT_EQ(page["rows"][0]["runs"], Json::parse("[1, 5, 3, 3]"));
}

TEST_F(PreferenceData, EqualAnswersAndPromptsThatDoNotFitAreCounted) {
  add(write("p.jsonl", pair("a", "same", "same") + pair("b", "longer than it", "longer than that") +
                           pair("a very long prompt", "x", "y") + pair("c", "one", "two") + pair("d", "", "z") +
                           pair("g", "z", "") + pair("e", "1", "2") + pair("f", "3", "4")),
      "passthrough");
  data.sequence_len = 12;
  data.excess_length_strategy = ExcessLength::truncate;
  const Prepared p = run();
  EXPECT_EQ(p.train().size(), 3);
  const auto& dropped = p.report().datasets[0].dropped;
  EXPECT_EQ(dropped.at(std::string(dropped::kEqualAnswers)), 1);
  EXPECT_EQ(dropped.at(std::string(dropped::kEmptyAnswer)), 2);
  EXPECT_EQ(dropped.at(std::string(dropped::kEqualOnceCut)), 1);
  EXPECT_EQ(dropped.at(std::string(dropped::kPromptTooLong)), 1);
  EXPECT_EQ(p.report().datasets[0].pairs, 3);
  EXPECT_EQ(p.report().datasets[0].truncated, 0) << "those that were are dropped";
}

TEST_F(PreferenceData, ATruncatedPairCountsOnce) {
  add(write("p.jsonl", pair("a", "longer than it", "another long one") + pair("b", "longer than it", "2") +
                           pair("c", "1", "2") + pair("longer than all there is", "x", "y")),
      "passthrough");
  data.sequence_len = 12;
  data.excess_length_strategy = ExcessLength::truncate;
  const Prepared p = run();
  EXPECT_EQ(p.report().datasets[0].pairs, 3);
  EXPECT_EQ(p.report().datasets[0].truncated, 2);
  EXPECT_THAT(p.report().lines(), testing::Contains("  2 examples (66.7 %) truncated"));
}

TEST_F(PreferenceData, MissingAnswersNameTheirRow) {
  add(write("p.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\"}\n"), "passthrough");
  try {
    run();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("p.jsonl:1"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("rejected"), std::string::npos) << e.what();
  }
}

TEST_F(PreferenceData, FramesAndColumnsAreAxolotls) {
  add(write("p.jsonl", R"({"system": "S", "question": "Q", "chosen": "C", "rejected": "R"})"
                       "\n"),
      "chatml.intel");
  const Prepared p = run();
  const Examples examples = p.train();
  const auto split = static_cast<std::size_t>(examples.split(0));
  EXPECT_EQ(text(examples.ids(0).first(split)),
            "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nC<|im_end|>");
  EXPECT_EQ(trained(examples.labels(0).subspan(split)), "R<|im_end|>");
}

// What the template writes after an answer belongs to it, although <|im_end|> is no end token here.
TEST_F(PreferenceData, MessagesShareTheirPrompt) {
  templates.chat_template = "chatml";
  add(write("p.jsonl", R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "C"}], )"
                       R"("rejected": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "R"}]})"
                       "\n"),
      "chat_template.argilla");
  const Prepared p = run();
  const Examples examples = p.train();
  const auto split = static_cast<std::size_t>(examples.split(0));
  EXPECT_EQ(trained(examples.labels(0).first(split)), "C<|im_end|>");
  EXPECT_EQ(trained(examples.labels(0).subspan(split)), "R<|im_end|>");
  EXPECT_NE(text(examples.ids(0).first(split)).find("user\nQ"), std::string::npos);
}

// As TRL has them: the messages of the prompt are in a column of that name.
TEST_F(PreferenceData, MessagesWithoutACommonPromptHaveItInAColumn) {
  templates.chat_template = "chatml";
  const std::string path = write("p.jsonl", R"({"prompt": [{"role": "user", "content": "Q"}], )"
                                            R"("chosen": [{"role": "assistant", "content": "C"}], )"
                                            R"("rejected": [{"role": "assistant", "content": "R"}]})"
                                            "\n");
  add(path, "chat_template");
  EXPECT_THAT(
      error_of<UserError>([&] { run(); }),
      testing::HasSubstr("no prompt in common; for the messages of the column 'prompt': type: chat_template with "
                         "field_messages: prompt"));
  data.datasets[0].field_messages = "prompt";
  EXPECT_EQ(run().train().size(), 1);
}

// As in UltraFeedback, whose `messages` is the chosen conversation.
TEST_F(PreferenceData, WholeConversationsAreNoPrompt) {
  templates.chat_template = "chatml";
  const std::string answered = R"([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "C"}])";
  add(write("p.jsonl", fmt::format(R"({{"messages": {0}, "chosen": {0}, "rejected": )"
                                   R"([{{"role": "user", "content": "Q"}}, {{"role": "assistant", "content": "R"}}]}})"
                                   "\n",
                                   answered)),
      "chat_template");
  try {
    run();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("chat_template.argilla"), std::string::npos) << e.what();
  }
}

TEST_F(PreferenceData, ToolsAreWrittenIntoPromptsToo) {
  templates.chat_template = "jinja";
  templates.chat_template_jinja =
      "{%- if tools %}[{{ tools[0].function.name }}]{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
      "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string path =
      write("p.jsonl", R"({"messages": [{"role": "user", "content": "Q"}], "chosen": "C", "rejected": "R", )"
                       R"("functions": [{"type": "function", "function": {"name": "f"}}]})"
                       "\n");
  add(path, "chat_template");
  data.datasets[0].field_tools = "functions";
  const Prepared p = run();
  const Examples examples = p.train();
  const auto split = static_cast<std::size_t>(examples.split(0));
  EXPECT_EQ(text(examples.ids(0).first(split)), "[f]<user>Q</s><assistant>C</s>");
  const auto strategy = make_prompt_strategy(prompt_context(data, templates, data.datasets[0], tokenizer));
  const Json row = parse_json(read_file(path), "p.jsonl");
  EXPECT_EQ(text(assemble(strategy->prompt(row), tokenizer).ids), "[f]<user>Q</s><assistant>");
}

class StepwiseData : public PreferenceData {
 protected:
  StepwiseData() : PreferenceData(RowKind::steps) {}
};

// The label stands on the separator's last token; steps beyond max_completion_length are cut.
TEST_F(StepwiseData, StepsAreLabeledAtTheirSeparators) {
  const std::string path =
      write("s.jsonl", R"({"prompt": "Q", "completions": ["one", "two", "three"], "labels": [true, false, true]})"
                       "\n");
  add(path, "stepwise_supervised");
  const Prepared whole = run();
  const Examples all = whole.train();
  ASSERT_EQ(all.size(), 1);
  std::vector<Token> judged, places;
  for (std::size_t t = 0; t < all.labels(0).size(); ++t)
    if (all.labels(0)[t] != kIgnore) judged.push_back(all.labels(0)[t]), places.push_back(static_cast<Token>(t));
  EXPECT_EQ(judged, (std::vector<Token>{1, 0, 1}));
  EXPECT_EQ(text(all.ids(0)), "<s>Qone\ntwo\nthree\n");
  // So many tokens that the second separator is the last.
  const auto prompt = static_cast<Token>(tokenizer.encode("Q").ids.size() + 1);
  data.datasets[0].max_completion_length = places[1] + 1 - prompt;
  const Prepared cut = run();
  EXPECT_EQ(text(cut.train().ids(0)), "<s>Qone\ntwo\n");
  EXPECT_EQ(cut.train().labels(0).back(), 0);
  data.datasets[0].train_on_last_step_only = true;
  data.datasets[0].max_completion_length.reset();
  const Prepared last = run();
  EXPECT_EQ(std::ranges::count(last.train().labels(0), kIgnore), std::ssize(last.train().labels(0)) - 1);
}

class LabeledData : public PreferenceData {
 protected:
  LabeledData() : PreferenceData(RowKind::labeled) {}
};

TEST_F(LabeledData, EachPromptIsPairedWithThePrecedingAnswerOfTheStep) {
  std::string rows;
  for (int i = 0; i < 4; ++i)
    rows += fmt::format("{{\"prompt\": \"p{0}\", \"completion\": \"c{0}\", \"label\": {1}}}\n", i, i % 2 == 0);
  add(write("k.jsonl", rows), "passthrough");
  data.curriculum_sampling = true;
  data.sequence_len = 12;  // two answers a micro-batch
  const Prepared p = run();
  TrainSection train;
  train.micro_batch_size = 2;
  train.gradient_accumulation_steps = 2;
  const Schedule schedule(p.train().lengths(), train_schedule(data, train, 1, nullptr));
  const std::vector<double> known{-1, -2, -3, -4};
  ReferenceScores references;
  references.answers.assign(8, -9);
  Loader loader(p.train(), schedule, {.mismatched = true, .references = &references, .mismatched_references = &known});
  std::vector<std::string> texts;
  std::vector<double> scores;
  for (std::int64_t m = 0; m < 2; ++m) {
    const PackedBatch batch = loader.load(0, m);
    EXPECT_EQ(batch.groups[0].role, DocumentRole::desirable);
    EXPECT_EQ(batch.groups[1].role, DocumentRole::undesirable);
    const PackedBatch& other = *batch.mismatched;
    for (std::size_t d = 0; d < 2; ++d) {
      const auto first = static_cast<std::size_t>(other.starts[d]),
                 last = static_cast<std::size_t>(other.starts[d + 1]);
      texts.push_back(text(other.tokens.subspan(first, last - first)));
      scores.push_back(other.groups[d].reference);
    }
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"<s>p0c3</s>", "<s>p1c0</s>", "<s>p2c1</s>", "<s>p3c2</s>"}));
  EXPECT_EQ(scores, known);
  EXPECT_EQ(loader.examples(), 4);
}

// Every cell of a CSV file is a text.
TEST_F(LabeledData, LabelsAndWeightsOfACsvAreReadFromTexts) {
  add(write("k.csv", "prompt,completion,label,w\np0,c0,True,0.5\np1,c1,false,\np2,c2,1,0\n"), "passthrough");
  data.datasets[0].field_weight = "w";
  data.curriculum_sampling = true;
  const Prepared p = run();
  ASSERT_EQ(p.train().size(), 2);  // one has weight 0
  EXPECT_EQ(p.train().weight(0), 0.5f);
  EXPECT_EQ(p.train().weight(1), 1);
}

TEST_F(LabeledData, LabelsAreBooleans) {
  add(write("k.jsonl", R"({"prompt": "p", "completion": "c", "label": "good"})"
                       "\n"),
      "passthrough");
  try {
    run();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("'label' must be true or false"), std::string::npos) << e.what();
  }
}

TEST_F(LabeledData, EqualAnswersOfBothKindsAreNoDuplicates) {
  add(write("k.jsonl",
            "{\"prompt\": \"p\", \"completion\": \"c\", \"label\": true}\n"
            "{\"prompt\": \"p\", \"completion\": \"c\", \"label\": false}\n"
            "{\"prompt\": \"p\", \"completion\": \"c\", \"label\": true}\n"),
      "passthrough");
  data.dataset_exact_deduplication = true;
  EXPECT_EQ(run().train().size(), 2);
}

// One dataset of each kind is fine; the validation data may hold one kind.
TEST_F(LabeledData, AnswersOfOneKindAreRefused) {
  auto answers = [&](const char* name, bool good) {
    std::string rows;
    for (int i = 0; i < 3; ++i)
      rows += fmt::format("{{\"prompt\": \"{0}{1}\", \"completion\": \"c\", \"label\": {2}}}\n", name, i, good);
    return write(std::string(name) + ".jsonl", rows);
  };
  for (const bool good : {true, false}) {
    data.datasets.clear();
    add(answers("k", good), "passthrough");
    try {
      run();
      FAIL();
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("k.jsonl: none of the answers is " +
                                           std::string(good ? "bad (label: false)" : "good (label: true)") +
                                           "; kto needs both kinds"),
                std::string::npos)
          << e.what();
    }
  }
  data.datasets.clear();
  add(answers("good", true), "passthrough");
  add(answers("bad", false), "passthrough");
  EXPECT_EQ(run().train().size(), 6);
}

}  // namespace
}  // namespace dml
