// dml init on unknown data.
#include "pipeline/init.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "pipeline/init_choice.h"
#include "pipeline/init_memory.h"
#include "pipeline/init_text.h"
#include "prompt/chat_formats.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class InitData : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    make_directories(std::filesystem::path(path).parent_path().string());
    write_file(path, text);
    return path;
  }
  DataFacts look(const std::string& name, const std::string& text, const ColumnHints& hints = {}) const {
    return examine_data(write(name, text), hints);
  }
  std::string refused(const std::string& name, const std::string& text, const ColumnHints& hints = {}) const {
    try {
      look(name, text, hints);
    } catch (const UserError& e) {
      return e.what();
    }
    return "nothing was refused";
  }
  testing_tools::TemporaryFolder folder_;
};

using Columns = std::map<std::string, std::vector<std::string>>;

TEST_F(InitData, FindsQuestionsAndAnswersUnderManyNames) {
  struct Case {
    std::string name, text;
    Columns columns;
  };
  for (const Case& c :
       std::vector<Case>{{"a.csv", "Question,Answer\nq,a\n", {{"user", {"Question"}}, {"assistant", {"Answer"}}}},
                         {"b.csv", "QUESTION;ANSWER;Id\nq;a;1\n", {{"user", {"QUESTION"}}, {"assistant", {"ANSWER"}}}},
                         {"c.csv", "Frage\tAntwort\nq\ta\n", {{"user", {"Frage"}}, {"assistant", {"Antwort"}}}},
                         {"d.tsv", "prompt\tresponse\nq\ta\n", {{"user", {"prompt"}}, {"assistant", {"response"}}}},
                         {"e.jsonl",
                          "{\"instruction\":\"i\",\"input\":\"x\",\"output\":\"o\"}\n",
                          {{"user", {"instruction", "input"}}, {"assistant", {"output"}}}},
                         {"f.jsonl",
                          "{\"instruction\":\"i\",\"input\":\"\",\"output\":\"o\"}\n",
                          {{"user", {"instruction"}}, {"assistant", {"output"}}}},
                         {"g.json",
                          "[{\"input\":\"i\",\"output\":\"o\",\"system_prompt\":\"s\"}]",
                          {{"user", {"input"}}, {"assistant", {"output"}}, {"system", {"system_prompt"}}}},
                         {"h.jsonl",
                          "{\"prompt\":\"p\",\"completion\":\"c\"}\n",
                          {{"user", {"prompt"}}, {"assistant", {"completion"}}}},
                         {"i.csv", "Left,Right\nq,a\n", {{"user", {"Left"}}, {"assistant", {"Right"}}}}}) {
    DataFacts facts = look(c.name, c.text);
    EXPECT_EQ(facts.entry.message_columns, c.columns) << c.name;
    EXPECT_EQ(facts.entry.type.name, "chat_template") << c.name;
    EXPECT_EQ(facts.rows, 1) << c.name;
  }
  EXPECT_THAT(look("i.csv", "Left,Right\nq,a\n").notes, ElementsAre(HasSubstr("if this guess is wrong")));
  EXPECT_THAT(look("j.csv", "Question,Answer\nq,a\nq2,\n").notes, ElementsAre(HasSubstr("1 of the 2 rows")));
}

TEST_F(InitData, FindsConversationsAndTheirRoles) {
  DataFacts openai =
      look("a.jsonl", R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})");
  EXPECT_EQ(openai.entry.field_messages, "messages");
  EXPECT_FALSE(openai.entry.roles);
  DataFacts sharegpt =
      look("b.json", R"([{"id":"1","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}])");
  EXPECT_EQ(sharegpt.entry.field_messages, "conversations");
  EXPECT_EQ(sharegpt.entry.message_property_mappings,
            (std::map<std::string, std::string>{{"role", "from"}, {"content", "value"}}));
  EXPECT_FALSE(sharegpt.entry.roles);
  DataFacts claude =
      look("c.json", R"([{"chat_messages":[{"sender":"human","text":"q"},{"sender":"assistant","text":"a"}]}])");
  EXPECT_EQ(claude.entry.message_property_mappings["role"], "sender");
  EXPECT_EQ(claude.entry.message_property_mappings["content"], "text");
  DataFacts bots = look("d.jsonl", R"({"dialog":[{"speaker":"Customer","text":"q"},{"speaker":"Agent","text":"a"}]})");
  ASSERT_TRUE(bots.entry.roles);
  EXPECT_EQ((*bots.entry.roles)["user"], std::vector<std::string>{"Customer"});
  EXPECT_EQ((*bots.entry.roles)["assistant"], std::vector<std::string>{"Agent"});
  EXPECT_EQ(look("e.json", R"([{"title":"t","mapping":{"r":{"parent":null,"message":null}},"current_node":"r"}])")
                .entry.type.name,
            "chat_template.chatgpt");
  EXPECT_THAT(refused("f.jsonl", R"({"messages":[{"role":"alice","content":"q"},{"role":"bob","content":"a"}]})"),
              HasSubstr("the roles are alice, bob"));
}

TEST_F(InitData, FindsConversationsThatAreStoredAsText) {
  const std::string messages = R"([{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}])";
  for (const DataFacts& facts :
       {look("a.jsonl", "{\"messages\":\"" + messages + "\"}\n"),
        look("b.csv", "id,messages\n1,\"[{\"\"role\"\":\"\"assistant\"\",\"\"content\"\":\"\"a\"\"}]\"\n")}) {
    EXPECT_EQ(facts.entry.type.name, "chat_template");
    EXPECT_EQ(facts.entry.field_messages, "messages");
    EXPECT_EQ(facts.entry.message_property_mappings.at("content"), "content");
    EXPECT_THAT(facts.entry.message_columns, testing::IsEmpty());
  }
  EXPECT_EQ(look("c.jsonl", R"({"text":"[{\"a\":1}]"})").kind, DataKind::documents);
  EXPECT_EQ(look("d.jsonl", R"({"text":"[sic] a story"})").kind, DataKind::documents);
}

// As TRL has them, for supervised training and with labels for KTO.
TEST_F(InitData, FindsPromptsAndCompletionsThatAreMessages) {
  const std::string row = R"("prompt":[{"from":"human","value":"q"}],"completion":[{"from":"gpt","value":"a"}])";
  const DataFacts sft = look("a.jsonl", "{" + row + "}"), kto = look("b.jsonl", "{" + row + R"(,"label":true})");
  EXPECT_EQ(sft.rl, Rl::none);
  EXPECT_EQ(sft.entry.type.name, "chat_template.prompt_completion");
  EXPECT_EQ(kto.rl, Rl::kto);
  EXPECT_EQ(kto.entry.type.name, "chat_template");
  EXPECT_EQ(kto.entry.field_messages, "prompt");
  for (const DataFacts* facts : {&sft, &kto}) {
    EXPECT_EQ(facts->entry.message_property_mappings.at("role"), "from");
    EXPECT_EQ(facts->entry.message_property_mappings.at("content"), "value");
  }
  EXPECT_EQ(look("c.jsonl", R"({"prompt":"q","completion":[{"role":"assistant","content":"a"}]})").entry.type.name,
            "chat_template.prompt_completion");
  const DataFacts mixed = look("d.jsonl", R"({"prompt":[{"role":"user","content":"q"}],"completion":"a","label":0})");
  EXPECT_EQ(mixed.rl, Rl::kto);
  EXPECT_EQ(mixed.entry.field_messages, "prompt");
}

TEST_F(InitData, AnswersMayBeNumbers) {
  const Columns columns{{"user", {"question"}}, {"assistant", {"answer"}}};
  EXPECT_EQ(look("a.jsonl", R"({"question":"2+2?","answer":4})").entry.message_columns, columns);
  EXPECT_EQ(look("b.jsonl", R"({"question":"Is it?","answer":true})").entry.message_columns, columns);
  EXPECT_THAT(refused("c.jsonl", R"({"question":"Which?","choices":["a","b"],"answer":1})"),
              HasSubstr("cannot tell what its columns mean: question, choices, answer"));
}

TEST_F(InitData, FindsDocuments) {
  DataFacts book = look("a.txt", "One paragraph of a book.\n\nAnother one.\n\nA third.\n");
  EXPECT_EQ(book.kind, DataKind::documents);
  EXPECT_EQ(book.entry.ds_type, "document");
  EXPECT_EQ(book.rows, 1);
  DataFacts lines = look("b.txt", std::string(300, 'x') + "\n" + std::string(400, 'y') + "\n");
  EXPECT_FALSE(lines.entry.ds_type);
  EXPECT_EQ(lines.rows, 2);
  write("notes/a.md", "# A\n");
  write("notes/deep/b.txt", "B\n");
  DataFacts notes = examine_data(folder_.path() + "/notes", {});
  EXPECT_EQ(notes.entry.ds_type, "document");
  EXPECT_EQ(notes.rows, 2);
  EXPECT_EQ(look("c.jsonl", R"({"body":"a story","id":7})").entry.field, "body");
  EXPECT_FALSE(look("d.jsonl", R"({"text":"a story"})").entry.field);
  EXPECT_EQ(look("e.jsonl", R"({"segments":[{"text":"a","label":true}]})").entry.type.name, "input_output");
  EXPECT_EQ(look("f.jsonl", R"({"input_ids":[1,2],"labels":[1,2]})").kind, DataKind::tokens);
}

TEST_F(InitData, FindsPreferences) {
  const std::string pair = R"({"question":"p","chosen":"good","rejected":"bad"})",
                    messages = R"({"chosen":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}],)"
                               R"("rejected":[{"from":"human","value":"q"},{"from":"gpt","value":"b"}]})";
  const DataFacts texts = look("a.jsonl", pair), lists = look("b.jsonl", messages),
                  thumbs = look("c.jsonl", R"({"prompt":"p","completion":"c","label":true})");
  EXPECT_EQ(texts.rl, Rl::dpo);
  EXPECT_EQ(texts.entry.type.name, "chat_template");
  EXPECT_EQ(texts.entry.field_messages, "question");
  EXPECT_EQ(lists.rl, Rl::dpo);
  EXPECT_EQ(lists.entry.field_messages, "messages");
  EXPECT_EQ(lists.entry.message_property_mappings.at("role"), "from");
  EXPECT_EQ(thumbs.rl, Rl::kto);
  const DataFacts judged = look(
      "j.jsonl", R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"label":false})");
  EXPECT_EQ(judged.rl, Rl::none);
  EXPECT_THAT(judged.notes, Contains(HasSubstr("'label' is not read")));
  EXPECT_EQ(look("c.csv", "prompt,completion,label\np,c,True\np,d,False\n").rl, Rl::kto);
  EXPECT_EQ(look("n.jsonl", R"({"prompt":"p","completion":"c","label":1})").rl, Rl::kto);
  EXPECT_EQ(look("m.jsonl", R"({"prompt":"p","completion":"c","label":2})").rl, Rl::none) << "a class";
  EXPECT_EQ(thumbs.entry.field_messages, "prompt");
  // As LLaMA-Factory has them: the turns before the answers, and each answer a message.
  const DataFacts turns =
      look("l.jsonl", R"({"conversations":[{"from":"human","value":"q"}],"chosen":{"from":"gpt","value":"a"},)"
                      R"("rejected":{"from":"gpt","value":"b"}})");
  EXPECT_EQ(turns.rl, Rl::dpo);
  EXPECT_EQ(turns.entry.field_messages, "conversations");
  EXPECT_EQ(turns.entry.message_property_mappings.at("content"), "value");
  EXPECT_FALSE(turns.entry.roles);
  // As UltraFeedback has them: `messages` is the chosen conversation.
  const DataFacts whole =
      look("u.jsonl", R"({"prompt":"q","chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],)"
                      R"("rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}],)"
                      R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})");
  EXPECT_EQ(whole.entry.type.name, "chat_template.argilla");
  EXPECT_THAT(whole.contents, HasSubstr("chosen: chosen"));
  const DataFacts named =
      look("o.jsonl", R"({"chat":[{"role":"customer","content":"q"}],"chosen":"a","rejected":"b"})");
  EXPECT_EQ(named.entry.field_messages, "chat");
  EXPECT_EQ(named.entry.roles->at("user"), std::vector<std::string>{"customer"});
  EXPECT_THAT(refused("d.jsonl", R"({"prompt":"p","answer":"c","label":true})"), HasSubstr("'completion' and 'label'"));
  EXPECT_THAT(refused("e.jsonl", R"({"titel":"p","chosen":"good","rejected":"bad"})"), HasSubstr("holds the prompt"));
  ColumnHints chosen;
  chosen.chosen_only = true;
  EXPECT_EQ(look("f.jsonl", pair, chosen).entry.message_columns,
            (Columns{{"user", {"question"}}, {"assistant", {"chosen"}}}));
  EXPECT_EQ(look("f.jsonl", pair, chosen).rl, Rl::none);
  EXPECT_EQ(look("g.jsonl", messages, chosen).entry.field_messages, "chosen");
  EXPECT_THAT(refused("i.jsonl", R"({"question":"p","answer":"good"})", chosen),
              HasSubstr("--chosen-only is for pairs of answers"));
  EXPECT_THROW(look("h.jsonl",
                    R"({"chat":[{"role":"user","content":"q"}],"chosen":{"role":"assistant","content":"a"},)"
                    R"("rejected":{"role":"assistant","content":"b"}})",
                    chosen),
               UserError);
}

TEST_F(InitData, ReadsTheSystemTextOfPreferences) {
  const std::string pair = R"({"system":"Be brief.","question":"q","chosen":"a","rejected":"b"})";
  const DataFacts pairs = look("a.jsonl", pair);
  EXPECT_EQ(pairs.entry.field_system, "system");
  EXPECT_THAT(pairs.contents, HasSubstr("system: system, prompt: question"));
  const DataFacts labeled = look("b.jsonl", R"({"system_prompt":"s","prompt":"p","completion":"c","label":true})");
  EXPECT_EQ(labeled.entry.field_system, "system_prompt");
  ColumnHints chosen;
  chosen.chosen_only = true;
  EXPECT_EQ(look("a.jsonl", pair, chosen).entry.message_columns.at("system"), std::vector<std::string>{"system"});
}

TEST_F(InitData, RefusesStepsForProcessRewardModels) {
  EXPECT_THAT(refused("a.jsonl", R"({"prompt":"p","completions":["1","2"],"labels":[true,false]})"),
              HasSubstr("process_reward_model: true and type: stepwise_supervised"));
}

TEST_F(InitData, ListsTheColumnsWhenNoneIsRecognized) {
  const std::string rows = "Alpha,Beta,Gamma\na,b,c\n";
  EXPECT_THAT(refused("a.csv", rows), testing::AllOf(HasSubstr("Alpha, Beta, Gamma"), HasSubstr("--user COLUMN")));
  ColumnHints hints;
  hints.user = {"alpha", "Beta"};
  hints.assistant = "Gamma";
  EXPECT_EQ(look("b.csv", rows, hints).entry.message_columns,
            (Columns{{"user", {"Alpha", "Beta"}}, {"assistant", {"Gamma"}}}));
  hints.assistant = "Gama";
  EXPECT_THAT(refused("c.csv", rows, hints), HasSubstr("did you mean 'Gamma'"));
  ColumnHints system;
  system.system = "Alpha";
  EXPECT_THAT(refused("s.csv", rows, system), HasSubstr("--system requires both --user and --assistant"));
  ColumnHints text;
  text.text = "Beta";
  EXPECT_EQ(look("d.csv", rows, text).entry.field, "Beta");
  EXPECT_THAT(refused("e.csv", "Question,Answer\n\xff,a\n"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused("f.jsonl", ""), HasSubstr("empty"));
}

TEST_F(InitData, TakesASampleThatIsSpreadOverAllRows) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += fmt::format("{{\"text\":\"{}\"}}\n", i);
  DataFacts facts = look("a.jsonl", text);
  EXPECT_EQ(facts.rows, 9000);
  EXPECT_LE(facts.sample.size(), 2000u);
  EXPECT_GE(facts.sample.size(), 1000u);
  EXPECT_GT(std::stoi(facts.sample.back()["text"].get<std::string>()), 8900);
}

TEST(InitName, IsThatOfTheData) {
  EXPECT_EQ(recipe_name("data/faq.csv"), "faq.yml");
  EXPECT_EQ(recipe_name("notes/"), "notes.yml");
  EXPECT_EQ(recipe_name("x.jsonl.gz"), "x.yml");
  EXPECT_EQ(recipe_name("my data (2).csv"), "mydata2.yml");
  EXPECT_EQ(recipe_name("."), "recipe.yml");
}

// A model's config and tokenizer without its weights: a large one need not be there to be planned for.
ModelFacts facts_of(const Json& config, const std::string& dtype) {
  ModelFacts m;
  m.directory = "models/base";
  m.storage = {m.directory, dtype == "F32" ? DType::f32 : DType::bf16, {}};
  m.spec = spec_of_config(config);
  m.dtype = dtype;
  m.tokenizer = load_tokenizer(DML_SOURCE_DIR "/datasets/quickstart/tokenizer");
  return m;
}

Json seven_billion() {
  return {{"model_type", "llama"},       {"vocab_size", 32000},
          {"hidden_size", 4096},         {"intermediate_size", 11008},
          {"num_hidden_layers", 32},     {"num_attention_heads", 32},
          {"num_key_value_heads", 32},   {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},        {"rope_theta", 10000.0},
          {"tie_word_embeddings", false}};
}

TEST(InitMemory, OfLargeModelsIsCountedWithoutTheirWeights) {
  Recipe recipe;
  recipe.adapter.adapter = AdapterKind::lora;
  recipe.adapter.lora_r = 16;
  recipe.adapter.lora_target_linear = true;
  recipe.data.sequence_len = 1024;
  recipe.train.micro_batch_size = 1;
  ModelFacts model = facts_of(seven_billion(), "BF16");
  MemoryPlan lora = plan_of(recipe, model.spec, model);
  EXPECT_NEAR(static_cast<double>(lora.frozen), 6.74e9 * 2, 0.01e9);  // bf16
  EXPECT_EQ(lora.optimizer, 2 * lora.trained);
  EXPECT_NEAR(static_cast<double>(lora.trained), 40e6 * 4, 1e6);  // r 16 on seven matrices of 32 layers
  recipe.adapter.adapter = AdapterKind::qlora;
  recipe.adapter.load_in_4bit = true;
  MemoryPlan qlora = plan_of(recipe, model.spec, model);
  EXPECT_LT(qlora.frozen, lora.frozen / 3);
  recipe.train.gradient_checkpointing = Recompute::layer;
  EXPECT_LT(plan_of(recipe, model.spec, model).activations, qlora.activations / 2);
}

TEST(InitChoices, OfAChatTemplateFollowWhatTheTokenizerKnows) {
  ModelFacts model = facts_of(seven_billion(), "BF16");
  ChatChoice adapter = choose_chat(model, false);
  EXPECT_EQ(adapter.chat_template, "alpaca");  // the quickstart's tokenizer has its frame as tokens
  EXPECT_TRUE(adapter.new_tokens.empty());
  model.tokenizer = load_tokenizer(DML_SOURCE_DIR "/datasets/quickstart/tokenizer",
                                   {.additional_special_tokens = {"<|im_start|>", "<|im_end|>"}});
  model.tokenizer->adds_bos = false;
  ChatChoice chatml = choose_chat(model, false);
  EXPECT_EQ(chatml.chat_template, "chatml");
  EXPECT_THAT(chatml.eot_tokens, ElementsAre("<|im_end|>"));
  EXPECT_TRUE(chatml.new_tokens.empty());
  model.tokenizer->adds_bos = true;  // which ChatML does not write
  const ChatChoice after_bos = choose_chat(model, false);
  EXPECT_EQ(after_bos.chat_template, "jinja");
  EXPECT_THAT(after_bos.chat_template_jinja, StartsWith("{{- bos_token -}}\n"));
  EXPECT_THAT(after_bos.chat_template_jinja, HasSubstr(find_chat_format("chatml")->source));
  EXPECT_THAT(after_bos.eot_tokens, ElementsAre("<|im_end|>"));
  model.tokenizer->chat_template = "{{ messages }}<|im_end|>";
  EXPECT_EQ(choose_chat(model, true).chat_template, "tokenizer_default");
  EXPECT_THAT(choose_chat(model, true).eot_tokens, ElementsAre("<|im_end|>"));
}

}  // namespace
}  // namespace dml
