// The Modelfile beside a GGUF file, of goldens with templates of their own.
#include "exchange/modelfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/gguf.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing::Not;

class Modelfiles : public testing::Test {
 protected:
  // A file without tensors.
  std::string write(const std::string& jinja) const {
    GgufMetadata m;
    m.add("general.architecture", GgufValue::text("llama"));
    m.add("llama.context_length", GgufValue::u32(4096));
    m.add("tokenizer.ggml.tokens", GgufValue::texts({"<unk>", "<s>", "</s>", "a\"b"}));
    m.add("tokenizer.ggml.bos_token_id", GgufValue::u32(1));
    m.add("tokenizer.ggml.eos_token_id", GgufValue::u32(2));
    m.add("tokenizer.ggml.eot_token_id", GgufValue::u32(3));
    if (!jinja.empty()) m.add("tokenizer.chat_template", GgufValue::text(jinja));
    const std::string path = folder_ / "small.gguf";
    GgufWriter(path, m, {}).commit();
    return path;
  }
  std::string modelfile(const std::string& jinja) const {
    return ollama_modelfile(GgufFile(write(jinja)), folder_.path());
  }

  const testing_tools::TemporaryFolder folder_;
};

constexpr const char* kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(Modelfiles, HoldTemplateStopTokensAndParameters) {
  write_file(folder_ / "generation_config.json",
             R"({"temperature": 0.7, "top_k": 20, "repetition_penalty": 1.1, "eos_token_id": [2]})");
  EXPECT_EQ(
      modelfile(kChatml),
      "# Written by dml: ollama create NAME -f Modelfile\n"
      "FROM ./small.gguf\n"
      "TEMPLATE \"\"\"{{ range $i, $m := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}"
      "{{ if eq $i 0 }}{{ if eq .Role \"system\" }}<|im_start|>system\n{{ else }}<|im_start|>user\n{{ end }}{{ end }}"
      "{{ .Content }}{{ if eq .Role \"system\" }}<|im_end|>\n<|im_start|>user\n{{ else }}"
      "{{ if eq .Role \"user\" }}{{ if $last }}<|im_end|>\n<|im_start|>assistant\n{{ else }}<|im_end|>\n"
      "<|im_start|>assistant\n{{ end }}{{ else if not $last }}<|im_end|>\n<|im_start|>user\n{{ end }}"
      "{{ end }}{{ end }}\"\"\"\n"
      "PARAMETER stop \"<|im_end|>\"\n"
      "PARAMETER stop \"</s>\"\n"
      "PARAMETER stop \"a\\\"b\"\n"
      "PARAMETER num_ctx 4096\n"
      "PARAMETER temperature 0.7\n"
      "PARAMETER top_k 20\n"
      "PARAMETER repeat_penalty 1.1\n");
}

TEST_F(Modelfiles, AreGreedyWhereTheModelIs) {
  write_file(folder_ / "generation_config.json",
             R"({"do_sample": false, "temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.1})");
  const std::string text = modelfile("");
  EXPECT_THAT(text, testing::EndsWith("PARAMETER temperature 0\nPARAMETER repeat_penalty 1.1\n"));
  EXPECT_THAT(text, Not(HasSubstr("top_p")));
}

TEST_F(Modelfiles, HoldWhatTheTemplateWritesAroundEachMessage) {
  // The system message inside of the first question, as Llama 2 has it; the text before a single turn; no system.
  const std::string llama2 = modelfile(
      "{% for m in messages %}{% if m.role == 'system' %}[INST] <<SYS>>\n{{ m.content }}\n<</SYS>>\n\n{% elif m.role "
      "== "
      "'user' %}{% if not (loop.index0 == 1 and messages[0].role == 'system') %}{{ bos_token }}[INST] {% endif %}"
      "{{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}");
  EXPECT_THAT(llama2, HasSubstr("{{ if eq .Role \"system\" }}[INST] <<SYS>>\n{{ else }}[INST] {{ end }}"));
  EXPECT_THAT(llama2, HasSubstr("{{ if eq .Role \"system\" }}\n<</SYS>>\n\n{{ else }}"));
  EXPECT_THAT(llama2, HasSubstr("{{ if $last }} [/INST]{{ else }} [/INST] {{ end }}"));
  EXPECT_THAT(llama2, HasSubstr("{{ else if not $last }}</s>[INST] {{ end }}"));
  EXPECT_THAT(llama2, HasSubstr("PARAMETER stop \"</s>\"\n"));

  const std::string one_turn = modelfile(
      "{% if messages|length > 2 %}{{ raise_exception('one turn') }}{% endif %}Below is a task.\n\n### Instruction:\n"
      "{{ messages[0].content }}\n\n### Response:\n{% if messages|length > 1 %}{{ messages[1].content }}{% endif %}");
  EXPECT_THAT(one_turn,
              HasSubstr("TEMPLATE \"\"\"Below is a task.\n\n### Instruction:\n{{ .Prompt }}\n\n### Response:\n"));

  const std::string no_system = modelfile(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_THAT(no_system, HasSubstr("TEMPLATE \"\"\"<user>{{ range $i, $m := .Messages }}"));
  EXPECT_THAT(no_system, HasSubstr("{{ if ne .Role \"system\" }}{{ .Content }}"));
}

TEST_F(Modelfiles, HaveNoTemplateThatWouldWriteAnotherPrompt) {
  // A number before each message; a system message that stands before the last question; braces; no template.
  for (const char* jinja : {"{% for m in messages %}{{ loop.index }}: {{ m.content }}\n{% endfor %}",
                            "{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{% if loop.last and "
                            "messages[0].role == 'system' %}"
                            "{{ messages[0].content }}\n{% endif %}{{ m.content }}{% endif %}{% endfor %}",
                            "{% for m in messages %}{{ '{{' }}{{ m.content }}{% endfor %}", "{% for", ""})
    EXPECT_THAT(modelfile(jinja), Not(HasSubstr("TEMPLATE"))) << jinja;
  EXPECT_THAT(modelfile(""), HasSubstr("PARAMETER stop \"</s>\""));
}

TEST_F(Modelfiles, ThoseOfOthersAreNotOverwritten) {
  const std::string path = write("");
  write_modelfile(path, folder_.path());
  EXPECT_THAT(read_file(folder_ / "Modelfile"), HasSubstr("FROM ./small.gguf"));
  write_modelfile(path, folder_.path());
  write_file(folder_ / "Modelfile", "FROM mine\n");
  write_modelfile(path, folder_.path());
  EXPECT_EQ(read_file(folder_ / "Modelfile"), "FROM mine\n");
}

}  // namespace
}  // namespace dml
