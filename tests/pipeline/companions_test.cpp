// The companion files make a model answer without the recipe as with it: for every built-in chat template, instruction
// formats, and recipes that set variables of the template, with an adapter, merged and trained in full.
#include "assembly/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "assembly/job.h"
#include "assembly/model_output.h"
#include "assembly/reward_model.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/random.h"
#include "data/example.h"
#include "data/prepare.h"
#include "pipeline/infer.h"
#include "pipeline/merge.h"
#include "prompt/chat_formats.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kTokenizer = DML_SOURCE_DIR "/datasets/quickstart/tokenizer";

void randomize(CausalLm& model, std::uint64_t seed, double size) {
  const Random random(seed, Purpose::sample);
  std::uint64_t at = 0;
  for (Unit& unit : model.parameters.units())
    for (std::int64_t i = 0; i < unit.size; ++i)
      unit.value.floats()[i] = static_cast<float>(size * (static_cast<double>(random.below(at++, 2001)) / 1000 - 1));
}

class CompanionFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    home_ = new testing_tools::TemporaryFolder;
    ModelSection section;
    // 64 rows more than the tokenizer has tokens: room for those that recipes add.
    section.model_config = {{"model_type", "llama"},
                            {"vocab_size", 2112},
                            {"hidden_size", 16},
                            {"intermediate_size", 32},
                            {"num_hidden_layers", 1},
                            {"num_attention_heads", 2},
                            {"num_key_value_heads", 1},
                            {"max_position_embeddings", 2048},
                            {"tie_word_embeddings", false},
                            {"bos_token_id", 1},
                            {"eos_token_id", 2}};
    const BaseModel base = open_base_model(section);
    auto trainable = make_trainable_model(base, section, {}, 1);
    make_directories(at("base"));
    randomize(*trainable.model, 3, 0.3);
    write_model_directory(at("base"), base, *trainable.model, DType::f32);
    save_tokenizer_files(kTokenizer, {}, at("base"));
  }
  static void TearDownTestSuite() {
    delete home_;
    home_ = nullptr;
  }
  static std::string at(const std::string& name) { return *home_ / name; }

  static RecipeFile recipe(const std::string& output, const std::string& keys) {
    return read_recipe(
        fmt::format("base_model: {}\noutput_dir: {}\nlearning_rate: 1e-4\n{}", at("base"), at(output), keys),
        "recipe.yml");
  }
  // What `dml train` leaves in output_dir, but for the training: random values.
  static void train(const RecipeFile& file, std::uint64_t seed) {
    const Recipe& recipe = file.recipe;
    const BaseModel base = open_base_model(recipe.model, recipe.adapter);
    auto trained = make_trainable_model(base, recipe.model, recipe.adapter, 1);
    const bool adapter = recipe.adapter.adapter != AdapterKind::none;
    randomize(*trained.model, seed, adapter ? 0.2 : 0.3);
    make_directories(recipe.train.output_dir);
    if (adapter) write_adapter_directory(recipe.train.output_dir, *trained.adapter, *trained.model);
    else write_model_directory(recipe.train.output_dir, base, *trained.model, DType::f32);
    Companions(file, *open_tokenizer(recipe.model), base).write(recipe.train.output_dir);
  }
  static Assistant assistant(const Recipe* recipe, const std::string& base = {}, const std::string& adapter = {}) {
    InferOptions options;
    if (!base.empty()) options.base_model = base;
    if (!adapter.empty()) options.adapters = {adapter};
    options.generation = generation_defaults(recipe, answering_model(recipe, options.base_model, options.adapters));
    options.generation.sampling.greedy = true;
    options.generation.max_new_tokens = 6;
    return Assistant(recipe, options);
  }
  // Both have the same prompt tokens, the same stop tokens and the same answers.
  static void expect_same(Assistant& recipe, Assistant& folder, const std::string& what) {
    std::vector<Json> rows{Json{{"prompt", "What is a cat?"}}, Json{{"prompt", "  two spaces, and <s> as text"}}};
    if (recipe.chats()) {
      ASSERT_TRUE(folder.chats()) << what;
      rows.push_back({{"messages",
                       {{{"role", "user"}, {"content", "Tell me about bread."}},
                        {{"role", "assistant"}, {"content", "It is old."}},
                        {{"role", "user"}, {"content", "And rain?"}}}}});
    }
    for (const Json& row : rows) {
      const std::vector<Token> ids = recipe.prompt_ids(row);
      ASSERT_EQ(folder.prompt_ids(row), ids) << what << ": " << dump(row);
      EXPECT_EQ(folder.answer(ids).text, recipe.answer(ids).text) << what;
    }
    auto stops = [](Assistant& a) {
      auto list = a.generation().stop_tokens;
      std::ranges::sort(list);
      return list;
    };
    EXPECT_EQ(stops(folder), stops(recipe)) << what;
  }
  // Adapter, merged and full.
  static void expect_portable(const std::string& name, const std::string& keys) {
    const RecipeFile lora = recipe(name, keys + "adapter: lora\nlora_r: 2\nlora_target_linear: true\n");
    train(lora, 5);
    Assistant by_recipe = assistant(&lora.recipe), by_folder = assistant(nullptr, at("base"), at(name));
    expect_same(by_recipe, by_folder, name + ", adapter");
    merge(lora, {}, at(name + "-merged"));
    Assistant merged = assistant(nullptr, at(name + "-merged"));
    expect_same(by_recipe, merged, name + ", merged");
    const RecipeFile full = recipe(name + "-full", keys);
    train(full, 6);
    Assistant trained = assistant(&full.recipe), alone = assistant(nullptr, at(name + "-full"));
    expect_same(trained, alone, name + ", full");
  }
  static Json json(const std::string& path) { return read_json(at(path)); }

  static testing_tools::TemporaryFolder* home_;
};
testing_tools::TemporaryFolder* CompanionFiles::home_ = nullptr;

constexpr const char* kChatData = "datasets: [{path: rows.jsonl, type: chat_template}]\n";

TEST_F(CompanionFiles, EveryBuiltInTemplateAnswersWithoutTheRecipeAsWithIt) {
  set_log_level(LogLevel::error);
  for (const ChatFormat& format : chat_formats()) {
    std::string keys = fmt::format("{}chat_template: {}\n", kChatData, format.name);
    if (!format.terminator.empty())
      keys += fmt::format("tokens: [{0}]\neot_tokens: [{0}]\n", dump(Json(format.terminator)));
    expect_portable(format.name, keys);
  }
  set_log_level(LogLevel::info);
}

TEST_F(CompanionFiles, VariablesAndTheSystemMessageOfARecipeArePartOfTheTemplate) {
  set_log_level(LogLevel::error);
  expect_portable("thinking",
                  std::string(kChatData) +
                      "chat_template: qwen3\nchat_template_kwargs: {enable_thinking: false, note: \"a 'b' \\n\"}\n"
                      "default_system_message: \"Be \\\"brief\\\".\\n\"\n");
  expect_portable("blanks",
                  std::string(kChatData) +
                      "chat_template_jinja: \"\\n  {% if who %}{{ who }}{% endif %}{% for m in messages %}<{{ m.role "
                      "}}>{{ m.content }}{% endfor %}\"\nchat_template_kwargs: {who: [1, null, {a: true}]}\n");
  set_log_level(LogLevel::info);
}

TEST_F(CompanionFiles, InstructionFormatsBecomeTemplates) {
  set_log_level(LogLevel::error);
  int number = 0;  // not pygmalion: its turns are tokenized apart, each with <s>, which no template can do
  for (const char* type : {"alpaca", "alpaca_chat.load_qa", "llama2_chat",
                           "{format: \"Q: {instruction} {input}\", no_input_format: \"Q: {instruction}\\nA:\", "
                           "system_prompt: Hello., system_format: \"{system}\\n\"}"})
    expect_portable(fmt::format("format-{}", ++number),
                    fmt::format("datasets: [{{path: rows.jsonl, type: {}}}]\n", type));
  set_log_level(LogLevel::info);
}

TEST_F(CompanionFiles, LayoutsOfPairsBecomeTemplates) {
  for (const char* type : {"chatml.icr", "llama3.argilla_chat"})
    expect_portable(type, fmt::format("rl: dpo\ndatasets: [{{path: rows.jsonl, type: {}}}]\n", type));
}

TEST_F(CompanionFiles, PlainTextLeavesTheTemplateOfTheBaseAlone) {
  expect_portable("plain", "datasets: [{path: rows.txt, type: completion}]\n");
  EXPECT_FALSE(file_exists(at("plain/chat_template.jinja")));
}

// A recipe with a chat template, on rows whose prompt, chosen and rejected are these JSON values.
std::string on_pairs(const std::string& path, const char* prompt, const char* chosen, const char* rejected) {
  write_file(path, fmt::format(R"({{"prompt": {}, "chosen": {}, "rejected": {}}})", prompt, chosen, rejected) + "\n");
  return fmt::format("chat_template: chatml\ndatasets: [{{path: {}, type: passthrough}}]\n", path);
}

constexpr const char* kLora = "adapter: lora\nlora_r: 2\nlora_target_linear: true\n";

TEST_F(CompanionFiles, PairsOfTextsArePromptedAsTextsWhateverTheTemplate) {
  const RecipeFile file =
      recipe("texts", on_pairs(at("texts.jsonl"), R"("Q: hi\nA:")", R"(" yes")", R"(" no")") + "rl: dpo\n" + kLora);
  train(file, 5);
  const std::vector<Token> want =
      open_tokenizer(file.recipe.model)->encode("What is a cat?", {.add_special = true}).ids;
  for (const bool with_data : {true, false}) {
    if (!with_data) std::filesystem::remove(at("texts.jsonl"));
    Assistant by_recipe = assistant(&file.recipe), by_folder = assistant(nullptr, at("base"), at("texts"));
    EXPECT_EQ(by_recipe.prompt_ids(Json{{"prompt", "What is a cat?"}}), want) << with_data;
    EXPECT_EQ(by_folder.prompt_ids(Json{{"prompt", "What is a cat?"}}), want);
  }
}

TEST_F(CompanionFiles, PairsOfMessagesArePromptedThroughTheTemplate) {
  const char *user = R"([{"role": "user", "content": "hi"}])", *yes = R"([{"role": "assistant", "content": "yes"}])",
             *no = R"([{"role": "assistant", "content": "no"}])";
  const RecipeFile file = recipe("messages", on_pairs(at("messages.jsonl"), user, yes, no) + "rl: dpo\n" + kLora);
  const RecipeFile chat = recipe("messages", std::string(kChatData) + "chat_template: chatml\n" + kLora);
  train(file, 5);
  const Json question{{"prompt", "What is a cat?"}};
  const Json list{{"prompt", Json::array({{{"role", "user"}, {"content", "What is a cat?"}}})}};
  const std::vector<Token> want = assistant(&chat.recipe).prompt_ids(question);
  for (const bool with_data : {true, false}) {
    if (!with_data) std::filesystem::remove(at("messages.jsonl"));
    Assistant by_recipe = assistant(&file.recipe), by_folder = assistant(nullptr, at("base"), at("messages"));
    EXPECT_EQ(by_recipe.prompt_ids(question), want) << with_data;
    EXPECT_EQ(by_recipe.prompt_ids(list), want) << with_data;
    EXPECT_EQ(by_folder.prompt_ids(question), want);
    expect_same(by_recipe, by_folder, "messages");
  }
}

TEST_F(CompanionFiles, ARewardModelOfTextsReadsTextsAsItWasTrained) {
  write_file(at("base/chat_template.jinja"), find_chat_format("chatml")->source);
  write_file(at("base/tokenizer_config.json"),
             dump(Json{{"chat_template", find_chat_format("chatml")->source}, {"eos_token", "</s>"}}));
  const RecipeFile file = recipe("judge", on_pairs(at("judge.jsonl"), R"("Q: hi</s>\nA:")", R"(" yes")", R"(" no")") +
                                              "reward_model: true\n" + kLora);
  train(file, 5);
  const auto tokenizer = open_tokenizer(file.recipe.model);
  const DatasetEntry& dataset = file.recipe.data.datasets[0];
  const auto format =
      make_prompt_strategy(prompt_context(file.recipe.data, file.recipe.templates, dataset, *tokenizer));
  const Json row{{"prompt", "Q: hi</s>\nA:"}, {"chosen", " yes"}, {"rejected", " no"}};
  const std::vector<Token> trained = assemble(format->render(row)[0], *tokenizer).ids;
  EXPECT_EQ(RewardModel(at("judge")).ids("Q: hi</s>\nA:", " yes"), trained);
  EXPECT_FALSE(file_exists(at("judge/chat_template.jinja")));
  EXPECT_TRUE(json("judge/tokenizer_config.json").at("chat_template").is_null());
  std::filesystem::remove(at("base/chat_template.jinja"));
  std::filesystem::remove(at("base/tokenizer_config.json"));
  save_tokenizer_files(kTokenizer, {}, at("base"));

  const std::string card = read_file(at("judge/README.md"));
  EXPECT_THAT(card, HasSubstr("\npipeline_tag: text-classification\n"));
  EXPECT_THAT(card, HasSubstr("AutoPeftModelForSequenceClassification.from_pretrained(\".\", num_labels=1)\n"));
  EXPECT_THAT(card, HasSubstr("\ndml score . --input FILE\n"));
  EXPECT_THAT(card, Not(HasSubstr("CausalLM")));
}

TEST_F(CompanionFiles, ARewardModelReadsConversationsAsItWasTrained) {
  const Json row{{"system", "Be good."}, {"prompt", "hi"}, {"input", "hi"}, {"chosen", "yes"}, {"rejected", "no"}};
  Json messages = {{{"role", "system"}, {"content", "Be good."}},
                   {{"role", "user"}, {"content", "hi"}},
                   {{"role", "assistant"}, {"content", "yes"}}};
  int number = 0;
  for (const char* type :
       {"bradley_terry.chat_template", "bradley_terry.llama3.icr", "chatml.prompt_pairs",
        "{field_prompt: input, prompt_format: \"Q: {prompt}\\n\", chosen_format: \"A: {chosen}.\"}"}) {
    const bool own = *type == '{';  // its prompts have no system text
    const std::string name = fmt::format("rewards-{}", ++number);
    const RecipeFile file = recipe(name, fmt::format("reward_model: true\nchat_template: chatml\n{}datasets: "
                                                     "[{{path: rows.jsonl, type: {}}}]\n",
                                                     kLora, type));
    train(file, 5);
    const auto tokenizer = open_tokenizer(file.recipe.model);
    const Recipe& r = file.recipe;
    const auto format = make_prompt_strategy(prompt_context(r.data, r.templates, r.data.datasets[0], *tokenizer));
    if (own) messages.erase(messages.begin());
    EXPECT_EQ(RewardModel(at(name)).ids(messages), assemble(format->render(row)[0], *tokenizer).ids) << type;
  }
}

TEST_F(CompanionFiles, ContainTheMetadataOfTransformersAndTheHub) {
  write_file(at("base/generation_config.json"),
             R"({"_from_model_config": true, "eos_token_id": 7, "top_k": 20, "temperature": 0.6})");
  const RecipeFile file =
      recipe("known", std::string(kChatData) +
                          "chat_template: chatml\ntokens: [\"<|im_end|>\"]\neot_tokens: [\"<|im_end|>\"]\n"
                          "generation_temperature: 0.9\nadapter: lora\nlora_r: 2\nlora_target_linear: true\n");
  train(file, 5);
  std::filesystem::remove(at("base/generation_config.json"));
  const auto tokenizer = open_tokenizer(file.recipe.model);
  const Token end = *tokenizer->find("<|im_end|>");
  const Json generation = json("known/generation_config.json"), config = json("known/tokenizer_config.json");
  EXPECT_EQ(generation.at("eos_token_id"), (Json{end, 2, 7}));
  EXPECT_EQ(generation.at("bos_token_id"), 1);
  EXPECT_EQ(generation.at("top_k"), 20) << "of the base";
  EXPECT_EQ(generation.at("temperature"), 0.9) << "of the recipe";
  EXPECT_FALSE(generation.contains("_from_model_config"));
  EXPECT_EQ(config.at("chat_template"), find_chat_format("chatml")->source);
  EXPECT_EQ(read_file(at("known/chat_template.jinja")), find_chat_format("chatml")->source);
  EXPECT_EQ(config.at("eot_token"), "<|im_end|>");
  EXPECT_EQ(config.at("eos_token"), "</s>");
  const std::string card = read_file(at("known/README.md"));
  EXPECT_TRUE(
      card.starts_with("---\nlibrary_name: peft\npipeline_tag: text-generation\ntags:\n- dml\n- lora\n"
                       "- transformers\n---\n"))
      << card << "\npaths are no names of the Hub";
  EXPECT_THAT(card, HasSubstr("A LoRA adapter for `base` on rows.jsonl, trained with"));
  EXPECT_THAT(card, HasSubstr(file.text));

  // The folder's settings of sampling are the defaults of whoever uses it.
  const GenerationOptions options = generation_defaults(nullptr, answering_model(nullptr, at("base"), {at("known")}));
  const auto none_and_another = [&] { answering_model(nullptr, at("base"), {"none", at("known")}); };
  EXPECT_THAT(none_and_another, testing::ThrowsMessage<UserError>(HasSubstr("give it without other adapters")));
  EXPECT_EQ(options.sampling.temperature, 0.9);
  EXPECT_EQ(options.sampling.top_k, 20);

  merge(file, {}, at("known-merged"));
  const std::string merged = read_file(at("known-merged/README.md"));
  EXPECT_THAT(merged, HasSubstr("library_name: transformers\n"));
  EXPECT_THAT(merged, Not(HasSubstr("base_model:adapter")));
}

// Not the folder in which the files of the model were put together.
TEST_F(CompanionFiles, AModelThatGgufCannotHoldIsNamedByItsRecipe) {
  std::filesystem::copy(at("base"), at("dynamic"));
  Json config = read_json(at("dynamic/config.json"));
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  write_file(at("dynamic/config.json"), dump(config));
  const RecipeFile file = read_recipe(fmt::format("base_model: {}\noutput_dir: {}\nlearning_rate: 1e-4\nadapter: "
                                                  "lora\nlora_r: 2\nlora_target_linear: true\n{}",
                                                  at("dynamic"), at("dynamic-adapter"), kChatData),
                                      "recipe.yml");
  train(file, 5);
  try {
    merge(file, {}, at("dynamic.gguf"), "f32");
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("the model of recipe.yml: GGUF: ")) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(at("dynamic.gguf")));
}

TEST_F(CompanionFiles, CardsLinkToModelsAndDataOfTheHub) {
  const RecipeFile file = read_recipe(
      "base_model: org/model@v1.0\nadapter: lora\nlora_target_linear: true\nlearning_rate: 1e-4\ndatasets:\n"
      "  - {path: org/rows, type: alpaca}\n  - {path: /data/own.jsonl, type: alpaca}\n",
      "recipe.yml");
  const std::string card = model_card(file, true, "x", {});
  EXPECT_TRUE(
      card.starts_with("---\nbase_model: \"org/model\"\nlibrary_name: peft\npipeline_tag: text-generation\n"
                       "tags:\n- dml\n- \"base_model:adapter:org/model\"\n- lora\n- transformers\n"
                       "datasets:\n- \"org/rows\"\n---\n"))
      << card;
  EXPECT_THAT(card, HasSubstr("```python\nfrom peft import AutoPeftModelForCausalLM\nfrom transformers import "
                              "AutoTokenizer\n\nmodel = AutoPeftModelForCausalLM.from_pretrained(\".\")\n"
                              "tokenizer = AutoTokenizer.from_pretrained(\".\")\n```\n"));
}

TEST_F(CompanionFiles, AdaptersNameTheirBaseAsPeftOpensIt) {
  const AdapterConfig pinned = adapter_config(AdapterSection(), "org/model@v1.0");
  EXPECT_EQ(pinned.base_model, "org/model");
  EXPECT_EQ(pinned.revision, "v1.0");
  for (const std::string& base : {std::string("org/model"), at("base")}) {
    EXPECT_EQ(adapter_config(AdapterSection(), base).base_model, base);
    EXPECT_EQ(adapter_config(AdapterSection(), base).revision, "");
  }
}

TEST_F(CompanionFiles, CardsLoadTheBaseQuantizedAsInTraining) {
  RecipeFile file = read_recipe(
      "base_model: org/model\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\nlearning_rate: 1e-4\n"
      "datasets:\n  - {path: org/rows, type: alpaca}\n",
      "recipe.yml");
  EXPECT_THAT(model_card(file, true, "x", {}),
              HasSubstr("```python\nimport json\n\nfrom peft import AutoPeftModelForCausalLM\n"
                        "from transformers import AutoTokenizer, BitsAndBytesConfig\n\n"
                        "quantization = BitsAndBytesConfig.from_dict(json.load(open(\"quantization_config.json\")))\n"
                        "model = AutoPeftModelForCausalLM.from_pretrained(\".\", quantization_config=quantization)\n"
                        "tokenizer = AutoTokenizer.from_pretrained(\".\")\n```\n"));
  EXPECT_THAT(model_card(file, false, "merged", {}), Not(HasSubstr("quantization")));
}

// Also where it is what dml does without it.
TEST_F(CompanionFiles, WhatTheRecipeSetsOverridesTheBasesSampling) {
  write_file(at("base/generation_config.json"),
             R"({"do_sample": false, "temperature": 0.01, "top_k": 1, "repetition_penalty": 1.5, "top_p": 0.5})");
  const RecipeFile file =
      recipe("sampling", std::string(kChatData) +
                             "chat_template: chatml\ngeneration_do_sample: true\ngeneration_temperature: 0.7\n"
                             "generation_top_k: -1\ngeneration_repetition_penalty: 1.0\n" +
                             kLora);
  train(file, 5);
  const SamplingOptions sampling = generation_defaults(&file.recipe, answering_model(&file.recipe, {}, {})).sampling;
  const Json generation = json("sampling/generation_config.json");
  std::filesystem::remove(at("base/generation_config.json"));
  EXPECT_FALSE(sampling.greedy);
  EXPECT_EQ(sampling.temperature, 0.7);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1);
  EXPECT_EQ(sampling.top_p, 0.5) << "not set by the recipe";
  EXPECT_EQ(generation.at("do_sample"), true);
  EXPECT_EQ(generation.at("temperature"), 0.7);
  EXPECT_EQ(generation.at("top_k"), 0);
  EXPECT_EQ(generation.at("repetition_penalty"), 1);
  EXPECT_EQ(generation.at("top_p"), 0.5);
}

TEST_F(CompanionFiles, ARecipesEosTokenIsThatOfTheModel) {
  const RecipeFile file =
      recipe("eos", std::string(kChatData) + "chat_template: chatml\nspecial_tokens: {eos_token: \"<|im_end|>\"}\n");
  train(file, 5);
  const Token end = *open_tokenizer(file.recipe.model)->find("<|im_end|>");
  EXPECT_EQ(json("eos/config.json").at("eos_token_id"), end);
  EXPECT_EQ(json("eos/tokenizer_config.json").at("eos_token"), "<|im_end|>");
  EXPECT_FALSE(json("eos/tokenizer_config.json").contains("eot_token")) << "it is the eos token";
}

TEST_F(CompanionFiles, AnAnswerHasNoSpaceThatTheTemplateWrites) {
  // Greedy answers of random weights: whatever they say, a template that ends in "ASSISTANT:" and writes a space in
  // front of answers gives them without it, and its text is else that of the tokens.
  const RecipeFile file = recipe("spaces", std::string(kChatData) + "chat_template: vicuna\n");
  train(file, 8);
  Assistant chat = assistant(&file.recipe);
  const auto tokenizer = open_tokenizer(file.recipe.model);
  const std::vector<Token> ids = chat.prompt_ids(Json{{"prompt", "What is a cat?"}});
  const Answer answer = chat.answer(ids);
  std::vector<Token> all = ids;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  std::string text = tokenizer->decode(all).substr(tokenizer->decode(ids).size());
  EXPECT_EQ(answer.text, text.starts_with(' ') ? text.substr(1) : text);
}

TEST_F(CompanionFiles, ConversationsNeedATemplate) {
  Assistant plain = assistant(nullptr, at("base"));
  const Json row = {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}};
  for (const Json& bad : {row, Json::object(), Json{{"prompt", 3}}}) EXPECT_THROW(plain.prompt_ids(bad), UserError);
  write_file(at("rows.jsonl"), dump(Json{{"prompt", "a"}}) + "\n" + dump(row) + "\n{}\n");
  try {
    answer_file(plain, {at("rows.jsonl"), at("answers.jsonl")});
    FAIL() << "rows without a prompt were answered";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rows.jsonl:2: a conversation needs a chat template"));
    EXPECT_THAT(e.what(), HasSubstr("rows.jsonl:3: ")) << "all of them at once";
  }
  EXPECT_FALSE(file_exists(at("answers.jsonl")));
}

TEST_F(CompanionFiles, AnAnswerEndsWithTheContext) {
  Assistant plain = assistant(nullptr, at("base"));
  plain.generation().max_new_tokens = 5000;
  plain.generation().stop_tokens.clear();
  std::vector<Token> ids(2024, 20);
  EXPECT_EQ(plain.answer(ids).tokens.size(), 24u);
  plain.generation().beams = 2;
  EXPECT_EQ(plain.answer(ids).tokens.size(), 24u);
  std::string words;
  for (int i = 0; i < 2200; ++i) words += "a ";
  EXPECT_THROW(plain.prompt_ids(Json{{"prompt", words}}), UserError);
}

}  // namespace
}  // namespace dml
