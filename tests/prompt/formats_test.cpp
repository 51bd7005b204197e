// Each format's text and mask. What is trained stands in [[ ]], a new tokenization begins at |, bos-like tokens are ^
// and the trained end is $.
#include <gmock/gmock.h>

#include "core/error.h"
#include "prompt/instruction_formats.h"
#include "prompt/layout.h"
#include "prompt/preference_record.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

using ::testing::HasSubstr;

std::string shown(const Rendered& rendered) {
  std::string out;
  for (auto& segment : rendered.segments) {
    if (!out.empty()) out += "|";
    if (segment.add_special) out += "^";
    bool open = false;
    for (auto& piece : segment.pieces()) {
      if (piece.trained != open) out += piece.trained ? "[[" : "]]";
      open = piece.trained;
      out += piece.text;
    }
    if (open) out += "]]";
    if (segment.end_of_text)
      out += std::string(static_cast<std::size_t>(segment.ends), segment.end_trained ? '$' : '.');
  }
  return out;
}

std::unique_ptr<PromptStrategy> make(const std::string& type, bool train_on_inputs = false) {
  DatasetEntry entry;
  entry.type.name = type;
  PromptContext context;
  context.dataset = &entry;
  context.train_on_inputs = train_on_inputs;
  context.bos_token = "<s>";
  context.eos_token = "<|im_end|>";
  return make_prompt_strategy(context);
}

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

const std::string kNo =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
const std::string kIn =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.";
const std::string kPair = R"({"instruction": "Do", "output": "Done"})";
const std::string kTriple = R"({"instruction": "Do", "input": "this", "output": "Done"})";
const std::string kSystem = R"({"system": "Be brief.", "instruction": "Do", "input": "this", "output": "Done"})";
const std::string kOrca = R"({"system_prompt": "Be brief.", "question": "Why?", "response": "So."})";

struct FormatCase {
  std::string type, record, text;
};

void PrintTo(const FormatCase& c, std::ostream* out) { *out << c.type; }

class Format : public ::testing::TestWithParam<FormatCase> {};

TEST_P(Format, RendersItsTextAndMask) {
  auto rendered = make(GetParam().type)->render(parse_json(GetParam().record, "row"));
  ASSERT_EQ(rendered.size(), 1u);
  EXPECT_EQ(shown(rendered[0]), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, Format,
    ::testing::Values(
        FormatCase{"alpaca", kPair, "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca", kTriple,
                   "^" + kIn + "\n\n### Instruction:\nDo\n\n### Input:\nthis\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca.load", R"({"instruction": "Do", "input": null, "output": "Done"})",
                   "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca:instruct", kPair, "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca_instruct", kPair, "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca_instruct.load_no_prompt", kPair, "^### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca:chat", kPair, "^SYSTEM: " + kNo + "\nUSER: Do\nASSISTANT:|[[Done]]$"},
        FormatCase{"alpaca:chat", kTriple, "^SYSTEM: " + kIn + "\nUSER: Do\nthis\nASSISTANT:|[[Done]]$"},
        FormatCase{"alpaca_chat.load", kPair, "^SYSTEM: " + kNo + "\nUSER: Do\nASSISTANT:|[[Done]]$"},
        FormatCase{"alpaca_chat.load_no_prompt", kTriple, "^USER: Do\nthis\nASSISTANT:|[[Done]]$"},
        FormatCase{"alpaca:chatml", kPair,
                   "^<|im_start|>system\n" + kNo +
                       "<|im_end|>\n<|im_start|>user\nDo<|im_end|>\n<|im_start|>assistant\n|[[Done]]$"},
        FormatCase{"alpaca:chatml", kTriple,
                   "^<|im_start|>system\n" + kIn +
                       "<|im_end|>\n<|im_start|>user\nDo\nthis<|im_end|>\n<|im_start|>assistant\n|[[Done]]$"},
        FormatCase{"alpaca:phi", kPair,
                   "^<|system|>\n" + kNo + "<|end|>\n<|user|>\nDo<|end|>\n<|assistant|>\n|[[Done]]$"},
        FormatCase{"alpaca:phi", kTriple,
                   "^<|system|>\n" + kIn + "<|end|>\n<|user|>\nDo<|end|>this<|assistant|>|[[Done]]$"},
        FormatCase{
            "alpaca_chat.load_concise", kPair,
            "^SYSTEM: Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that "
            "appropriately and concisely completes the request.\n\n\nUSER: Do\nASSISTANT:|[[Done]]$"},
        FormatCase{
            "alpaca_chat.load_qa", R"({"question": "Why?", "answer": "So."})",
            "^SYSTEM: Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that "
            "appropriately and concisely completes the request.\n\n\nUSER: Why?\nASSISTANT:|[[So.]]$"},
        FormatCase{
            "alpaca_chat.load_camel_ai", R"({"message_1": "Why?", "message_2": "So."})",
            "^SYSTEM: Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that "
            "appropriately and concisely completes the request.\n\n\nUSER: Why?\nASSISTANT:|[[So.]]$"},
        FormatCase{"alpaca_w_system", kSystem, "^SYSTEM: Be brief.\nUSER: Do\nthis\nASSISTANT:|[[Done]]$"},
        FormatCase{"alpaca_w_system.load_instruct", kSystem,
                   "^### System:\nBe brief.\n\n### Instruction:\nDo\n\n### Input:\nthis\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca_w_system.load_instruct", R"({"system": "", "instruction": "Do", "output": "Done"})",
                   "^### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"alpaca_w_system.load_open_orca", kOrca,
                   "^### System:\nBe brief.\n### Human:\nWhy?\n### Assistant:\n|[[So.]]$"},
        FormatCase{"alpaca_w_system.load_open_orca_chatml", kOrca,
                   "^<|im_start|>system\nBe "
                   "brief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n|[[So.]]$"},
        FormatCase{"orcamini", kOrca, "^### System:\nBe brief.\n\n### User:\nWhy?\n\n### Response:\n|[[So.]]$"},
        FormatCase{"gpteacher", R"({"instruction": "Do", "input": "", "response": "Done"})",
                   "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{"oasst", R"({"INSTRUCTION": "Do", "RESPONSE": "Done"})",
                   "^" + kNo + "\n\n### Instruction:\nDo\n\n### Response:\n|[[Done]]$"},
        FormatCase{
            "jeopardy", R"({"question": "Capital of France", "category": "TOWNS", "answer": "Paris"})",
            "^" + kIn +
                "\n\n### Instruction:\nCapital of France\n\n### Input:\nTOWNS\n\n### Response:\n|[[what is Paris]]$"},
        FormatCase{"explainchoice", R"({"question": "2+2?", "choices": ["3", "4"], "solution": "4, by adding."})",
                   "^Choose the answer that best answers the question. Explain your reasoning.\n\n\n### "
                   "Instruction:\n2+2?\n\n### Input:\n- \"3\"\n- \"4\"\n\n### Response:\n|[[4, by adding.]]$"},
        FormatCase{
            "concisechoice", R"({"question": "2+2?", "choices": ["3", "4"], "explanation": "4"})",
            "^SYSTEM: Choose the answer that best answers the question. Be concise in your response.\n\nUSER: 2+2?\n- "
            "\"3\"\n- \"4\"\nASSISTANT:|[[4]]$"},
        FormatCase{"summarizetldr", R"({"article": "Long.", "summary": "L."})",
                   "^USER: Summarize the following article as a TL;DR.\nLong.\nASSISTANT:|[[L.]]$"},
        FormatCase{
            "reflection", R"({"instruction": "Do", "output": "A", "reflection": "B", "corrected": "C"})",
            "^" + kNo +
                "\n\n### Instruction:\nDo\n\n### Response:\n[[### Thought:\nA\n\n### Agent Reflection:\nB\n\n### "
                "Final Response:\nC]]$"},
        FormatCase{"context_qa", R"({"article": "Text.", "question": "Why?", "answer": "So."})",
                   "^SYSTEM: Use the following contextual information to concisely answer the question.\n\nUSER: "
                   "Text.\n===\nWhy?\nASSISTANT:|[[So.]]$"},
        FormatCase{"context_qa.load_v2", R"({"context": "Text.", "question": "Why?", "answer": "So."})",
                   "^Context: Text.\nQuestion: Why?\n|[[Answer: So.]]$"},
        FormatCase{
            "context_qa.load_404", R"({"article": "Text.", "unanswerable_question": "Who?"})",
            "^SYSTEM: Use the following contextual information to concisely answer the question.\n\nUSER: "
            "Text.\n===\nWho?\nASSISTANT:|[[The context provided does not contain any information about your inquiry. "
            "Therefore, I'm unable to answer your question based on the given context.]]$"},
        FormatCase{"metharme", R"({"prompt": "<|user|>Hi<|model|>", "generation": "Yo"})",
                   "^<|user|>Hi<|model|>|[[Yo]]$$$"},
        FormatCase{"prompt_completion", R"({"prompt": "Q: ", "completion": "A"})", "^Q: [[A]]$"},
        FormatCase{"completion", R"({"text": "Once."})", "^[[Once.]]$"},
        FormatCase{"text", R"({"text": "Once."})", "^[[Once.]]$"},
        FormatCase{"pretrain", R"({"text": "Once."})", "^[[Once.]]$"},
        FormatCase{"input_output",
                   R"({"segments": [{"label": false, "text": "<s>Hi"}, {"label": true, "text": "Yo</s>"}]})",
                   "<s>Hi|[[Yo</s>]]"},
        FormatCase{
            "pygmalion",
            R"({"conversations": [{"role": "system", "value": "Bob\n<START>"}, {"role": "human", "value": "Hi "}, {"role": "bot", "value": "Yo"}]})",
            "^<|system|>Persona: Bob|<|user|> Hi|<|model|>[[ Yo]]$"},
        FormatCase{
            "llama2_chat",
            R"({"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "A"}, {"from": "gpt", "value": "B"}, {"from": "human", "value": "C"}, {"from": "gpt", "value": "D"}]})",
            "^[INST] <<SYS>>\nS\n<</SYS>>\n\nA [/INST]|[[B]]$|<s>[INST] C [/INST]|[[D]]$"},
        FormatCase{
            "creative_acr.load_answer", R"({"instruction": "Why?", "revision": "So."})",
            "^Answer the following question in a comprehensive, in-depth, and creative way. Additionally your "
            "response should be relevant, accurate, and free of any ambiguity.\nUSER: Why?\nASSISTANT:|[[So.]]$"}));

TEST(Formats, TrainThePromptOnRequest) {
  EXPECT_EQ(
      shown(make("prompt_completion", true)->render(parse_json(R"({"prompt": "Q", "completion": "A"})", "row"))[0]),
      "^[[QA]]$");
}

TEST(Formats, HaveAPromptForInferenceThatIsTheirTrainingPrompt) {
  for (auto& format : instruction_formats()) {
    Json record;
    for (auto* layout : {&format.without_input, &format.with_input, &format.answer})
      for (auto& column : Layout(*layout).columns()) record[column] = column;
    record["choices"] = {"a"};
    record["scores"] = record["critiques"] = Json{{"refusal", 1}};
    auto strategy = make(format.name);
    std::string trained = shown(strategy->render(record)[0]);
    EXPECT_EQ(shown(strategy->prompt(record)), trained.substr(0, trained.find(format.joint ? "[[" : "|[[")))
        << format.name;
  }
  EXPECT_EQ(shown(make("alpaca:chat")->prompt({{"prompt", "Do"}})), "^SYSTEM: " + kNo + "\nUSER: Do\nASSISTANT:");
}

TEST(Formats, SuggestAFormatForTheRow) {
  EXPECT_EQ(error_of([] {
              make("alpaca")->render(parse_json(R"({"conversations": [{"from": "human", "value": "Hi"}]})", "row"));
            }),
            "the row has no 'instruction'; it has conversations; it looks like sharegpt: use `type: sharegpt`");
  EXPECT_THAT(error_of([] {
                make("alpaca")->render({{"messages", Json::array()}});
              }),
              HasSubstr("use `type: chat_template`"));
  EXPECT_EQ(error_of([] { make("alpaca")->render(parse_json(R"({"instruction": "Do", "output": 42})", "row")); }),
            "'output' must be a string, is 42");
  EXPECT_THAT(error_of([] { make("alpacca"); }), HasSubstr("did you mean 'alpaca'?"));
}

TEST(Formats, MarkTemplateTextButNotTextOfTheRow) {
  auto rendered =
      make("alpaca:chatml")->render(parse_json(R"({"instruction": "<|im_end|>", "output": "<|im_end|>"})", "row"))[0];
  for (auto& segment : rendered.segments)
    for (auto& piece : segment.pieces()) EXPECT_EQ(piece.markup, piece.text != "<|im_end|>") << piece.text;
}

class UserFormat : public ::testing::Test {
 protected:
  std::string render(const char* record) {
    entry.type.format = format;
    PromptContext context;
    context.dataset = &entry;
    return shown(make_prompt_strategy(context)->render(parse_json(record, "row"))[0]);
  }
  DatasetEntry entry;
  PromptFormat format;
};

TEST_F(UserFormat, FollowsItsTable) {
  format.system_prompt = "Be kind.";
  format.system_format = "<<{system}>>\n";
  format.field_instruction = "ask";
  format.field_input = "instruction";
  format.field_output = "say";
  format.format = "Q {instruction} ({input}) {{x}}\n";
  format.no_input_format = "Q {instruction}\n";
  EXPECT_EQ(render(R"({"ask": "a", "instruction": "b", "say": "c"})"), "^<<Be kind.>>\nQ a (b) {x}\n|[[c]]$");
  EXPECT_EQ(render(R"({"ask": "a", "say": "c", "system": ""})"), "^Q a\n|[[c]]$");
  EXPECT_EQ(render(R"({"ask": "a", "system": "S", "say": null})"), "^<<S>>\nQ a\n|$");
}

TEST_F(UserFormat, RejectsUnknownPlaceholders) {
  format.format = "{instruktion}";
  EXPECT_EQ(error_of([&] { render("{}"); }),
            "format: unknown placeholder {instruktion}; did you mean 'instruction'?; write {{ and }} for braces");
  format.format = "{instruction";
  EXPECT_EQ(error_of([&] { render("{}"); }), "format: '{' without '}' (write '{{' for a brace)");
}

TEST(PreTokenized, UsesTokensUnchangedAndDropsMaskedOnes) {
  auto r = make("")->render(parse_json(
      R"({"input_ids": [1, 5, 6, 0], "labels": [-100, 5, 6, -100], "attention_mask": [1, 1, 1, 0]})", "row"))[0];
  EXPECT_EQ(r.ids, (std::vector<Token>{1, 5, 6}));
  EXPECT_EQ(r.labels, (std::vector<Token>{-100, 5, 6}));
  EXPECT_EQ(make("")->render(parse_json(R"({"input_ids": [1, 5]})", "row"))[0].labels, (std::vector<Token>{1, 5}));
}

TEST(PreTokenized, RejectsInconsistentRows) {
  auto error = [](const char* row) { return error_of([&] { make("")->render(parse_json(row, "row")); }); };
  EXPECT_EQ(error(R"({"input_ids": [1], "labels": [1, 2]})"), "'labels' has 2 entries, 'input_ids' has 1");
  EXPECT_EQ(error(R"({"input_ids": [1.5]})"), "'input_ids' must be a list of whole numbers, has 1.5");
  const std::string most(58, 'x');  // with a quote before them, the next two bytes are the 60th and 61st
  EXPECT_EQ(error(("{\"input_ids\": [\"" + most + "\u00e9\"]}").c_str()),
            "'input_ids' must be a list of whole numbers, has \"" + most + "…");
  EXPECT_EQ(error(R"({"input_ids": [-1]})"), "'input_ids' has -1, must be 0 to 2147483647");
  EXPECT_EQ(error(R"({"input_ids": [18446744073709551615]})"),
            "'input_ids' has 18446744073709551615, must be 0 to 2147483647");
  EXPECT_EQ(error(R"({"input_ids": [1], "labels": [-7]})"),
            "'labels' has -7; a label is the token id or -100 (not trained)");
  EXPECT_EQ(error(R"({"input_ids": "1"})"), "'input_ids' must be a list, is \"1\"");
  EXPECT_THAT(error(R"({"instruction": "a", "output": "b"})"), HasSubstr("use `type: alpaca`"));
}

TEST(Types, ThatAreUnknownOrOfOtherRowsNameWhatToDo) {
  const auto error = [](const char* name, RowKind rows) {
    DatasetType type;
    type.name = name;
    return error_of([&] { check_prompt_type(type, rows); });
  };
  EXPECT_EQ(error("passthrough", RowKind::text),
            "dataset type 'passthrough' is for preference data and needs rl: dpo, ipo, orpo, simpo, cpo or kto, or "
            "reward_model: true");
  EXPECT_THAT(error("chat_template.argilla", RowKind::text),
              HasSubstr("needs rl: dpo, ipo, orpo, simpo or cpo, or reward_model: true"));
  EXPECT_THAT(error("passthru", RowKind::pairs),
              HasSubstr("dataset type of pairs 'passthru'; most data are passthrough"));
  EXPECT_THAT(error("alpaca", RowKind::labeled), HasSubstr("dataset type of labeled answers 'alpaca'; "));
  EXPECT_EQ(error("passthrough", RowKind::pairs), "");
}

TEST(PromptTypes, FindTheMessageThatAFieldNames) {
  Json record = {{"msgs", Json::array()}};
  for (int i = 0; i < 13; ++i) record["msgs"].push_back({{"content", fmt::format("m{}", i)}});
  EXPECT_EQ(FieldPath::parse("msgs[12]").text(record), "m12");
  EXPECT_EQ(FieldPath::parse("other|msgs[1].content").text(record), "m1");
  for (const char* wrong : {"msgs[x]", "msgs[]", "msgs[", "msgs[-1]", "msgs[1", "msgs[1].role", "msgs[99999999999]"})
    EXPECT_THAT([&] { FieldPath::parse(wrong); },
                testing::ThrowsMessage<UserError>(
                    fmt::format("'{}' names no message of a column; write it as column[number].content", wrong)));
}

TEST(PromptTypes, WarnOfKeysThatTheyDoNotRead) {
  DatasetEntry entry;
  entry.path = "d.jsonl";
  entry.field_chosen = "good", entry.field_rejected = "bad", entry.field_margin = "by";
  entry.step_separator = "\n\n", entry.max_completion_length = 9, entry.train_on_last_step_only = true;
  entry.template_thinking_key = "thinking";
  PromptContext context;
  context.dataset = &entry;
  context.chat_template = "chatml";
  context.eos_token = "<|im_end|>";
  const auto warning = [&](const std::string& type, RowKind rows) {
    entry.type.name = type;
    context.rows = rows;
    testing::internal::CaptureStderr();
    make_prompt_strategy(context);
    return testing::internal::GetCapturedStderr();
  };
  const std::string steps = "step_separator, max_completion_length, train_on_last_step_only";
  EXPECT_THAT(warning("alpaca", RowKind::text),
              HasSubstr("d.jsonl: template_thinking_key, field_chosen, field_rejected, field_margin, " + steps +
                        " has no effect with type: alpaca"));
  EXPECT_THAT(warning("chat_template", RowKind::text),
              HasSubstr("d.jsonl: field_chosen, field_rejected, field_margin, " + steps + " has"));
  EXPECT_THAT(warning("chat_template", RowKind::pairs), HasSubstr("d.jsonl: " + steps + " has"));
  EXPECT_THAT(warning("chatml.intel", RowKind::pairs),
              HasSubstr("d.jsonl: template_thinking_key, field_chosen, field_rejected, " + steps + " has"));
  EXPECT_THAT(warning("", RowKind::steps),
              HasSubstr("field_chosen, field_rejected, field_margin has no effect with type: stepwise_supervised"));
  entry.field_messages = "question", entry.field_system = "system", entry.roles_to_train = {"user"};
  EXPECT_THAT(warning("chatml.intel", RowKind::pairs), HasSubstr("d.jsonl: field_messages, field_system, "));
  EXPECT_THAT(warning("chat_template", RowKind::pairs), HasSubstr("d.jsonl: roles_to_train, "));
  EXPECT_THAT(warning("", RowKind::steps), HasSubstr("d.jsonl: field_messages, field_system, "));
}

// Axolotl reads no system column here, so it is read only where the dataset names it.
TEST(Preferences, HaveTheSystemTextOfTheColumnThatIsNamed) {
  DatasetEntry entry;
  entry.type.name = "chat_template";
  entry.field_messages = "question";
  PromptContext context;
  context.dataset = &entry;
  context.rows = RowKind::pairs;
  context.chat_template = "chatml";
  context.eos_token = "<|im_end|>";
  Json row = {{"system", "Be brief."}, {"question", "Hi"}, {"chosen", "Yes?"}, {"rejected", "No."}};
  const auto text = [&] { return make_prompt_strategy(context)->render(row)[0].text(); };
  EXPECT_THAT(text(), testing::Not(HasSubstr("Be brief.")));
  entry.field_system = "system";
  EXPECT_THAT(text(), HasSubstr("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi"));
  row["question"] = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  EXPECT_THAT(text(), HasSubstr("system\nBe brief.<|im_end|>"));
}

TEST(ShareGpt, IsAConversationThroughAChatTemplate) {
  DatasetEntry entry;
  entry.type.name = "sharegpt";
  PromptContext context;
  context.dataset = &entry;
  context.eos_token = "<|im_end|>";
  context.chat_template = "chatml";
  auto rendered = make_prompt_strategy(context)->render(
      parse_json(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]})", "row"));
  ASSERT_EQ(rendered.size(), 1u);
  EXPECT_EQ(shown(rendered[0]), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yo<|im_end|>]]\n");
}

}  // namespace
}  // namespace dml
