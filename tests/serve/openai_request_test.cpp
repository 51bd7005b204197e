// Requests as prompts and settings of the engine, with a model that is never run.
#include "serve/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "model/golden.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

// The model's thinking is open.
constexpr const char* kTemplate =
    "{# <tool_call> </think> #}{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}"
    "[{{ m.role }}]{{ m.content }};{% endfor %}{% if add_generation_prompt %}[assistant]<think>\n{% endif %}";

class OpenAiRequests : public testing::Test {
 protected:
  OpenAiRequests() {
    for (auto& entry : fs::directory_iterator(DML_SOURCE_DIR "/datasets/quickstart/tokenizer"))
      fs::copy(entry.path(), folder_.path());
    fs::copy(golden_path("traces/model/model.safetensors"), folder_.path());
    Json config = read_json(golden_path("traces/model/config.json"));
    config["max_position_embeddings"] = 512;
    write_file(folder_ / "config.json", dump(config));
    write_file(folder_ / "template.jinja", kTemplate);
    ServedOptions options;
    options.base_model = folder_.path();
    options.chat_template = folder_ / "template.jinja";
    models_ = std::make_unique<ServedModels>(nullptr, options);
  }
  RequestReader reader() { return {*models_, constraints_}; }
  static Json body(const std::string& last = "") {
    Json out = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    if (last.empty()) return out;
    out["messages"].push_back({{"role", "assistant"}, {"content", last}});
    out.update({{"continue_final_message", true}, {"add_generation_prompt", false}});
    return out;
  }
  // The prompt of a chat as text.
  std::string prompt(const Asked& asked) const { return models_->format().tokenizer().decode(asked.prompts.at(0)); }
  std::string refused(const Json& request, bool chat) {
    try {
      chat ? reader().chat(request) : reader().completion(request);
    } catch (const ApiError& e) {
      return e.param;
    }
    return "";
  }

  testing_tools::TemporaryFolder folder_;
  std::unique_ptr<ServedModels> models_;
  Constraints constraints_;
};

TEST_F(OpenAiRequests, AnAnswerThatContinuesAMessageKeepsItsSpace) {
  const Asked asked = reader().chat(body("one two"));
  EXPECT_TRUE(asked.continued);
  EXPECT_THAT(prompt(asked), testing::EndsWith("[assistant]one two"));
  EXPECT_FALSE(reader().chat(body()).continued);
}

TEST_F(OpenAiRequests, AnAnswerMayBeginInsideTheReasoning) {
  EXPECT_TRUE(reader().chat(body()).reply.inside_reasoning) << "the template opens it";
  EXPECT_TRUE(reader().chat(body("<think>\nTwo")).reply.inside_reasoning);
  EXPECT_FALSE(reader().chat(body("<think>\nTwo\n</think>\n\nThe answer")).reply.inside_reasoning);
  EXPECT_FALSE(reader().chat(body("The tag <think>")).reply.inside_reasoning);
  Json asks = body("The tag");
  asks["messages"][0]["content"] = "What does <think> mean?";
  EXPECT_FALSE(reader().chat(asks).reply.inside_reasoning);
}

TEST_F(OpenAiRequests, WhatIsForcedStandsBehindTheReasoning) {
  const std::string thinking = prompt(reader().chat(body()));
  Json call = body();
  call["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  EXPECT_EQ(prompt(reader().chat(call)), "f" + thinking);
  call["tool_choice"] = "required";
  const Asked asked = reader().chat(call);
  EXPECT_EQ(prompt(asked), "f" + thinking + "\n</think>\n\n<tool_call>");
  EXPECT_TRUE(asked.reply.inside_call && !asked.reply.inside_reasoning);
  call["response_format"] = {{"type", "json_object"}};
  const Asked calls_only = reader().chat(call);
  EXPECT_EQ(prompt(calls_only), prompt(asked));
  EXPECT_FALSE(calls_only.reply.either);
  call["response_format"] = {{"type", "text"}};
  call["guided_choice"] = {"x"};
  EXPECT_EQ(refused(call, true), "tool_choice");
  Json choice = body();
  choice["guided_choice"] = {"x"};
  EXPECT_EQ(prompt(reader().chat(choice)), thinking + "\n</think>\n\n");
}

TEST_F(OpenAiRequests, FieldsWithTheValueOfTheirDefaultAreAccepted) {
  const Json text = {{"prompt", "a"}};
  auto with = [](Json request, const char* name, const Json& value) {
    request[name] = value;
    return request;
  };
  EXPECT_EQ(refused(with(text, "best_of", 1), false), "");
  EXPECT_EQ(refused(with(with(text, "n", 3), "best_of", 3), false), "");
  EXPECT_EQ(refused(with(text, "best_of", 2), false), "best_of");
  EXPECT_EQ(refused(with(text, "suffix", ""), false), "");
  EXPECT_EQ(refused(with(text, "suffix", "x"), false), "suffix");
  EXPECT_EQ(refused(with(body(), "modalities", {"text"}), true), "");
  EXPECT_EQ(refused(with(body(), "modalities", {"text", "audio"}), true), "modalities");
  EXPECT_EQ(refused(with(body(), "top_logprobs", 0), true), "");
  EXPECT_EQ(refused(with(body(), "top_logprobs", 1), true), "top_logprobs");
}

}  // namespace
}  // namespace dml
