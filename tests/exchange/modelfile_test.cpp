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

TEST_F(Modelfiles, HoldTemplateStopTokensAndParameters) {
  write_file(folder_ / "generation_config.json",
             R"({"temperature": 0.7, "top_k": 20, "repetition_penalty": 1.1, "eos_token_id": [2]})");
  EXPECT_EQ(modelfile("{% for m in messages %}<|im_start|>{{ m.role }}"),
            "# Written by dml: ollama create NAME -f Modelfile\n"
            "FROM ./small.gguf\n"
            "TEMPLATE \"\"\"{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end "
            "}}<|im_start|>assistant\n\"\"\"\n"
            "PARAMETER stop \"<|im_end|>\"\n"
            "PARAMETER stop \"</s>\"\n"
            "PARAMETER stop \"a\\\"b\"\n"
            "PARAMETER num_ctx 4096\n"
            "PARAMETER temperature 0.7\n"
            "PARAMETER top_k 20\n"
            "PARAMETER repeat_penalty 1.1\n");
}

TEST_F(Modelfiles, RecognizeTheUsualTemplates) {
  EXPECT_THAT(modelfile("<|start_header_id|>"), HasSubstr("<|eot_id|>{{ end }}<|start_header_id|>assistant"));
  EXPECT_THAT(modelfile("<start_of_turn>"), HasSubstr("{{ if eq .Role \"assistant\" }}model{{ else }}user"));
  EXPECT_THAT(modelfile("<|user|>\n<|end|>"), HasSubstr("{{ .Content }}<|end|>"));
  EXPECT_THAT(modelfile("[INST]"), HasSubstr("[INST] {{ .Content }} [/INST]"));
  EXPECT_THAT(modelfile("something else"), Not(HasSubstr("TEMPLATE")));
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
