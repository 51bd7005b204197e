// The trained parts of a conversation: the rendered text with the trained bytes between « and ».
#include "prompt/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "prompt/chat_formats.h"
#include "prompt/prompt_only.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

using ::testing::HasSubstr;

struct Case {
  DatasetEntry dataset;
  PromptContext context;

  Case() {
    context.bos_token = "<s>";
    context.eos_token = "<|im_end|>";
    context.chat_template = "chatml";
  }
  Case& named(std::string name, std::string eos) {
    context.chat_template = std::move(name);
    context.eos_token = std::move(eos);
    return *this;
  }
  Case& jinja(std::string source) {
    context.chat_template = "";
    context.chat_template_jinja = std::move(source);
    return *this;
  }
  std::unique_ptr<PromptStrategy> make() {
    context.dataset = &dataset;
    return make_chat_template(context);
  }
  Rendered rendered(const Json& record) { return make()->render(record).at(0); }
  std::string shown(const Json& record) {
    std::string out;
    bool open = false;
    const Rendered r = rendered(record);
    for (const Piece& p : r.segments.at(0).pieces()) {
      if (p.trained != open) out += p.trained ? "«" : "»";
      open = p.trained;
      out += p.text;
    }
    return out + (open ? "»" : "");
  }
  std::string error(const Json& record) {
    try {
      return "gave " + shown(record);
    } catch (const UserError& e) {
      return e.what();
    }
  }
};

Json say(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }
Json row(std::vector<Json> messages) { return {{"messages", messages}}; }
const Json kTwoTurns =
    row({say("user", "hello"), say("assistant", "hi"), say("user", "bye"), say("assistant", "ciao")});
const Json kOneTurn = row({say("system", "S"), say("user", "U"), say("assistant", "A")});

TEST(ChatTemplate, TrainsTheAnswerAndItsEndToken) {
  EXPECT_EQ(Case().shown(kOneTurn),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n«A<|im_end|>»\n");
}

TEST(ChatTemplate, RendersLlama3) {
  Case s;
  s.named("llama3", "<|eot_id|>").context.bos_token = "<|begin_of_text|>";
  s.dataset.train_on_eos = TrainOnEnd::none;
  EXPECT_EQ(s.shown(kTwoTurns),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|"
            "end_header_id|>\n\n«hi»<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
            "\n\n«ciao»<|eot_id|>");
}

TEST(ChatTemplate, TrainsOnInputsWithoutTheirHeaders) {
  Case s;
  s.context.train_on_inputs = true;
  EXPECT_EQ(
      s.shown(kOneTurn),
      "<|im_start|>system\n«S<|im_end|>»\n<|im_start|>user\n«U<|im_end|>»\n<|im_start|>assistant\n«A<|im_end|>»\n");
}

TEST(ChatTemplate, TrainsTheChosenRoles) {
  Case s;
  s.dataset.roles_to_train = {"human"};
  EXPECT_EQ(s.shown(kOneTurn),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n«U<|im_end|>»\n<|im_start|>assistant\nA<|im_end|>\n");
  s.dataset.roles_to_train = {};
  EXPECT_THAT(s.shown(kOneTurn), ::testing::Not(HasSubstr("«")));
}

TEST(ChatTemplate, TrainsEndTokensByPolicy) {
  Case s;
  const std::string u = "<|im_start|>user\n", a = "<|im_start|>assistant\n", e = "<|im_end|>";
  EXPECT_EQ(s.shown(kTwoTurns),
            u + "hello" + e + "\n" + a + "«hi" + e + "»\n" + u + "bye" + e + "\n" + a + "«ciao" + e + "»\n");
  s.dataset.train_on_eos = TrainOnEnd::last;
  EXPECT_EQ(s.shown(kTwoTurns),
            u + "hello" + e + "\n" + a + "«hi»" + e + "\n" + u + "bye" + e + "\n" + a + "«ciao" + e + "»\n");
  s.dataset.train_on_eos = TrainOnEnd::all;
  EXPECT_EQ(s.shown(kTwoTurns),
            u + "hello«" + e + "»\n" + a + "«hi" + e + "»\n" + u + "bye«" + e + "»\n" + a + "«ciao" + e + "»\n");
}

TEST(ChatTemplate, KeepsEosAndEotApart) {
  Case s;
  s.jinja(
      "{% for m in messages %}{{ m.role[0] + ':' + m.content }}<end>{{ eos_token if m.role == 'assistant' }} {% endfor "
      "%}");
  s.context.eot_tokens = {"<end>"};
  s.dataset.train_on_eot = TrainOnEnd::none;
  EXPECT_EQ(s.shown(kOneTurn), "s:S<end> u:U<end> a:«A»<end>«<|im_end|>» ");
  s.dataset.train_on_eot = TrainOnEnd::all;
  s.dataset.train_on_eos = TrainOnEnd::none;
  EXPECT_EQ(s.shown(kOneTurn), "s:S«<end>» u:U«<end>» a:«A<end>»<|im_end|> ");
  s.context.eot_tokens = {};
  EXPECT_THAT(s.error(kOneTurn), HasSubstr("also an eot token"));
}

TEST(ChatTemplate, FindsTheEndTokenAfterBlanks) {
  Case s;
  EXPECT_EQ(s.named("llama2", "</s>").shown(row({say("user", "U"), say("assistant", " A ")})),
            "<s>[INST] U [/INST] «A» «</s>»");
}

TEST(ChatTemplate, TrainsOnlyTheLastTurns) {
  Case s;
  s.dataset.train_on_turns = 1;
  EXPECT_EQ(s.shown(kTwoTurns),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<"
            "|im_start|>assistant\n«ciao<|im_end|>»\n");
}

TEST(ChatTemplate, FollowsTheFlagOfAMessage) {
  Case s;
  s.dataset.message_field_training = "train";
  Json r = kTwoTurns;
  r["messages"][1]["train"] = false;
  r["messages"][2]["train"] = true;
  EXPECT_EQ(s.shown(r),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\n«bye<|im_end|>"
            "»\n<|im_start|>assistant\n«ciao<|im_end|>»\n");
  r["messages"][1]["train"] = "no";
  EXPECT_THAT(s.error(r), HasSubstr("messages[1].train: must be true or false"));
}

TEST(ChatTemplate, GivesTheTokensOfAMessageItsWeight) {
  Case s;
  s.dataset.message_field_weight = "weight";
  Json r = kTwoTurns;
  r["messages"][1]["weight"] = 0;
  r["messages"][3]["weight"] = 2.5;
  EXPECT_EQ(s.shown(r),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<"
            "|im_start|>assistant\n«ciao<|im_end|>»\n");
  const Rendered rendered = s.rendered(r);
  for (const Segment::Span& span : rendered.segments.at(0).spans) EXPECT_EQ(span.weight, span.trained ? 2.5f : 1.f);
  r["messages"][3]["weight"] = -1;
  EXPECT_THAT(s.error(r), HasSubstr("messages[3].weight' must be a weight from 0"));
}

TEST(ChatTemplate, FollowsDetailsByCharacter) {
  Case s;
  s.jinja("{% for m in messages %}{{ m.role[0] + ':' + m.content | trim + eos_token }}{% endfor %}");
  s.dataset.message_field_training_detail = "parts";
  Json r = row({say("user", "U"), say("assistant", " né abc. ")});
  r["messages"][1]["parts"] = Json::array({Json{{"begin_offset", 1}, {"end_offset", 2}, {"train", true}},
                                           Json{{"begin_offset", 4}, {"end_offset", 5}, {"train", false}},
                                           Json{{"begin_offset", 6}, {"end_offset", 7}, {"train", true}}});
  EXPECT_EQ(s.shown(r), "u:U<|im_end|>a:«né» ab«c.<|im_end|>»");
  r["messages"][1]["parts"][2]["end_offset"] = 99;
  EXPECT_THAT(
      s.error(r),
      HasSubstr("messages[1].parts[2]: begin_offset 6 and end_offset 99 must lie in the content's 9 characters"));
}

TEST(ChatTemplate, JoinsPartsAndTheirFlags) {
  Case s;
  Json r = row({say("user", ""), say("assistant", "")});
  r["messages"][0]["content"] =
      Json::array({Json{{"type", "text"}, {"text", "a"}}, Json{{"type", "text"}, {"value", "b"}}});
  r["messages"][1]["content"] =
      Json::array({Json{{"type", "text"}, {"text", "no "}, {"train", false}}, Json{{"type", "text"}, {"text", "yes"}},
                   Json{{"type", "text"}, {"content", "!"}, {"weight", 0}}});
  EXPECT_EQ(s.shown(r), "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\nno «yes»!«<|im_end|>»\n");
  r["messages"][0]["content"][0] = {{"type", "image"}, {"url", "x"}};
  EXPECT_THAT(s.error(r), HasSubstr("messages[0].content[0]: must be a text part"));
}

TEST(ChatTemplate, SplitsReasoningFromTheAnswer) {
  Case s;
  s.named("qwen3", "<|im_end|>").dataset.split_thinking = true;
  const Json r = row({say("user", "U"), say("assistant", "<think>\nhm\n</think>\n\nA")});
  EXPECT_EQ(s.shown(r),
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n«hm\n</think>\n\nA<|im_end|>»\n");
}

TEST(ChatTemplate, TrainsTheTagsThatTheModelOpensItself) {
  Case s;  // the generation prompt stops in front of <think>
  s.jinja(
      "{% for m in messages %}<{{ m.role }}>\n{{ '<think>' + m.reasoning_content + '</think>' if m.reasoning_content "
      "}}{{ m.content + eos_token }}\n{% endfor %}{{ '<assistant>\n' if add_generation_prompt }}");
  s.dataset.field_thinking = "why";
  Json r = row({say("user", "U"), say("assistant", "A")});
  r["messages"][1]["why"] = "hm";
  EXPECT_EQ(s.shown(r), "<user>\nU<|im_end|>\n<assistant>\n«<think>hm</think>A<|im_end|>»\n");
}

TEST(ChatTemplate, TrainsWholeToolCalls) {
  Case s;
  Json r = row(
      {say("user", "Weather?"),
       Json{{"role", "assistant"},
            {"content", nullptr},
            {"tool_calls",
             Json::array({Json{{"type", "function"},
                               {"function", {{"name", "get"}, {"arguments", "{\"city\": \"Oslo\", \"days\": 3}"}}}}})}},
       say("tool", "-3"), say("assistant", "Cold.")});
  s.named("qwen_25", "<|im_end|>");
  const std::string want =
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n"
      "«<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
      "3}}\n</tool_call><|im_end|>»\n<|im_start|>user\n<tool_response>\n-3\n</tool_response><|im_end|>\n"
      "<|im_start|>assistant\n«Cold.<|im_end|>»\n";
  EXPECT_EQ(s.shown(r), want);
  r["messages"][1]["tool_calls"][0]["function"]["arguments"] = Json{{"city", "Oslo"}, {"days", 3}};
  EXPECT_EQ(s.shown(r), want);  // a string and an object are the same call
  r["messages"][1]["tool_calls"][0]["function"]["arguments"] = "{city}";
  EXPECT_THAT(s.error(r), HasSubstr("messages[1].tool_calls[0].function.arguments"));
}

TEST(ChatTemplate, PassesToolsAsListOrText) {
  Case s;
  s.jinja("{{ tools | tojson if tools else 'none' }}{{ messages[0].content }}");
  Json r = row({say("user", "U")});
  EXPECT_EQ(s.shown(r), "noneU");
  r["tools"] = Json::array({Json{{"function", {{"name", "f"}, {"parameters", "{\"a\": 1}"}, {"strict", nullptr}}}}});
  EXPECT_EQ(s.shown(r), "[{\"function\": {\"name\": \"f\", \"parameters\": {\"a\": 1}}}]U");
  r["tools"] = r["tools"].dump();
  EXPECT_EQ(s.shown(r), "[{\"function\": {\"name\": \"f\", \"parameters\": {\"a\": 1}}}]U");
  r["tools"] = " ";  // a table has no other way to say that there are none
  EXPECT_EQ(s.shown(r), "noneU");
  r["tools"] = "{";
  EXPECT_THAT(s.error(r), HasSubstr("tools"));
}

TEST(ChatTemplate, HonorsGeneration) {
  Case s;
  s.jinja(
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}[{{ m.content }}]{{ eos_token }}\n{% "
      "endgeneration %}{% else %}U:{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}");
  EXPECT_EQ(s.shown(row({say("user", "U"), say("assistant", "A")})), "U:U<|im_end|>A:«[A]<|im_end|>\n»");
}

TEST(ChatTemplate, KeepsTextOfTheDataFromBecomingMarkup) {
  Case s;
  std::string markup, data;
  const Rendered r = s.rendered(row({say("user", "x <|im_end|> y"), say("assistant", "<|im_start|>")}));
  for (const Piece& p : r.segments[0].pieces()) (p.markup ? markup : data) += p.text;
  EXPECT_EQ(markup, "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n");
  EXPECT_EQ(data, "x <|im_end|> y<|im_start|>");
}

TEST(ChatTemplate, ReadsOtherSpellings) {
  Case s;
  s.dataset.field_messages = "conversations";
  s.dataset.message_property_mappings = {{"role", "from"}, {"content", "value"}};
  const Json turns = Json::array({Json{{"from", "human"}, {"value", "U"}}, Json{{"from", "gpt"}, {"value", "A"}}});
  const std::string want =
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n«A<|im_end|>»\n";
  EXPECT_EQ(s.shown({{"conversations", turns}, {"system", "S"}}), want);
  EXPECT_EQ(s.shown({{"conversations", turns.dump()}, {"system", "S"}}), want);
  s.dataset.drop_system_message = true;
  EXPECT_EQ(s.shown({{"conversations", turns}, {"system", "S"}}), want.substr(want.find("<|im_start|>user")));
  s.dataset.roles = {{"user", {"gpt"}}, {"assistant", {"human"}}};
  EXPECT_EQ(s.shown({{"conversations", turns}}),
            "<|im_start|>assistant\n«U<|im_end|>»\n<|im_start|>user\nA<|im_end|>\n");
}

TEST(ChatTemplate, NamesWhatARowLacks) {
  Case s;
  EXPECT_THAT(s.error({{"text", "x"}}), HasSubstr("the row has no 'messages'; it has 'text'"));
  EXPECT_THAT(s.error({{"messages", Json::array({Json{{"from", "human"}, {"value", "U"}}})}}),
              HasSubstr("use type: sharegpt"));
  EXPECT_THAT(s.error({{"messages", Json::array()}}), HasSubstr("empty"));
  EXPECT_THAT(s.error({{"messages", 3}}), HasSubstr("must be a list, is number"));
  EXPECT_THAT(s.error({{"messages", "[{"}}), HasSubstr("messages"));
  EXPECT_THAT(s.error({{"messages", Json::array({1})}}), HasSubstr("messages[0]: must be an object"));
  EXPECT_THAT(s.error({{"messages", Json::array({Json{{"role", "user"}, {"content", 5}}})}}),
              HasSubstr("messages[0].content: must be a string"));
  EXPECT_THAT(s.named("gemma", "<eos>").error(kOneTurn), HasSubstr("System role not supported"));
}

TEST(ChatTemplate, IsChosenByDatasetThenRecipeThenTokenizer) {
  Case s;
  s.context.dataset = &s.dataset;
  s.context.tokenizer_template = "T{{ messages }}";
  s.context.named_templates = {{"rag", "R"}};
  EXPECT_EQ(choose_chat_template(s.context).origin, "chatml, built in");
  s.dataset.chat_template = "tokenizer_default";
  EXPECT_EQ(choose_chat_template(s.context).source, "T{{ messages }}");
  s.dataset.chat_template = "rag";
  EXPECT_EQ(choose_chat_template(s.context).source, "R");
  s.dataset.chat_template = "lama3";
  EXPECT_THROW(choose_chat_template(s.context), UserError);
  s.dataset.chat_template.reset();
  s.dataset.chat_template_jinja = "D{{ 1 }}";  // alone it means jinja
  EXPECT_EQ(choose_chat_template(s.context).source, "D{{ 1 }}");
  s.dataset.chat_template = "chatml";
  EXPECT_THROW(choose_chat_template(s.context), UserError);
  s.dataset = {};
  s.context.chat_template = "";
  EXPECT_EQ(choose_chat_template(s.context).origin, "the tokenizer's");
  s.context.tokenizer_template = "";
  EXPECT_THROW(choose_chat_template(s.context), UserError);
  s.context.chat_template = "tokenizer_default_fallback_gemma";
  EXPECT_EQ(choose_chat_template(s.context).origin, "gemma, built in");
}

TEST(ChatTemplate, PromptsEndBeforeTheAnswer) {
  const Rendered r = Case().make()->prompt(kOneTurn);
  std::string text;
  for (const Piece& p : r.segments.at(0).pieces()) {
    EXPECT_FALSE(p.trained);
    text += p.text;
  }
  EXPECT_EQ(text, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, DetectsWhetherTurnsEnd) {
  Case s;
  const std::vector<std::string> ends = {"<|im_end|>"};
  TrainedEnds e = trained_ends(s.rendered(kTwoTurns), ends);
  EXPECT_EQ(e.trained, 2);
  EXPECT_EQ(e.ended, 2);
  s.dataset.train_on_eos = TrainOnEnd::none;
  EXPECT_EQ(trained_ends(s.rendered(kTwoTurns), ends).ended, 0);
  Case llama2;
  e = trained_ends(llama2.named("llama2", "</s>").rendered(row({say("user", "U"), say("assistant", "A")})), {"</s>"});
  EXPECT_EQ(e.trained, 1);
  EXPECT_EQ(e.ended, 1);
}

TEST(ChatTemplate, WarnsOfEndTokensThatAreNeverWritten) {
  Case s;
  EXPECT_TRUE(chat_template_warnings(s.context).empty());
  s.context.eos_token = "</s>";
  ASSERT_EQ(chat_template_warnings(s.context).size(), 1u);
  EXPECT_THAT(chat_template_warnings(s.context)[0], HasSubstr("eot_tokens: [\"<|im_end|>\"]"));
  EXPECT_TRUE(chat_template_warnings(answering_context(s.context)).empty()) << "nothing is learned";
  s.context.eot_tokens = {"<|im_end|>", "<nope>"};
  ASSERT_EQ(chat_template_warnings(s.context).size(), 1u);
  EXPECT_THAT(chat_template_warnings(s.context)[0], HasSubstr("<nope>"));
}

TEST(ChatTemplate, FingerprintsTheRelevantSettings) {
  const std::string base = Case().make()->fingerprint();
  EXPECT_EQ(base, Case().make()->fingerprint());
  Case a, b, c;
  a.dataset.train_on_turns = 1;
  b.context.chat_template = "llama3";
  c.context.chat_template_kwargs = {{"x", 1}};
  for (Case* s : {&a, &b, &c}) EXPECT_NE(s->make()->fingerprint(), base);
}

TEST(ChatTemplate, DocumentsComeWithTheVariables) {
  Case s;
  s.named("command_a_rag", "<|END_OF_TURN_TOKEN|>").context.chat_template_kwargs =
      parse_json(R"({"documents": [{"doc_id": 1, "text": "Rain."}]})", "");
  EXPECT_THAT(s.shown(kOneTurn),
              ::testing::AllOf(HasSubstr(R"("0": {"doc_id": 1, "text": "Rain."})"), HasSubstr("<|START_RESPONSE|>«A")));
  EXPECT_THAT(s.named("granite", "<|end_of_text|>").shown(kOneTurn),
              ::testing::AllOf(HasSubstr("document {\"document_id\": \"1\"}<|end_of_role|>\nRain."),
                               HasSubstr("assistant<|end_of_role|>«A<|end_of_text|>»\n")));
}

TEST(ChatTemplate, RefusesToGuessWhenMarksAreLost) {
  Case s;
  s.jinja("{% for m in messages %}{{ m.content | urlencode }}{% endfor %}");
  EXPECT_THAT(s.error(kOneTurn), HasSubstr("messages[2]: the chat template"));
}

TEST(ChatTemplate, RendersWithPlainVariables) {
  const ChosenTemplate chosen{"{{ messages[0].content }}\n{{ x }}\n", "t.jinja"};
  EXPECT_EQ(render_template(chosen, parse_json(R"({"messages": [{"content": "né"}], "x": 1.50})", ""), "c.json"),
            "né\n1.5");
  EXPECT_THROW(render_template(chosen, Json::array(), "c.json"), UserError);
}

}  // namespace
}  // namespace dml
