// Completions as the shells themselves compute them.
#include "cli/completion.h"

#include <gmock/gmock.h>

#include <sstream>

#include "cli/command.h"
#include "cli/tool.h"
#include "core/error.h"
#include "core/files.h"
#include "recipe/recipe.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

class Completion : public testing::Test {
 protected:
  Completion() {
    write_file(folder_ / "my recipe.yml", "");
    write_file(folder_ / "other.yaml", "");
    write_file(folder_ / "notes.txt", "");
    make_directories(folder_ / "outputs");
  }
  /// A shell's answers, one a line, when it has run `text` beside the script in `folder_`.
  std::vector<std::string> lines_of(const std::string& shell, const std::string& text) const {
    write_file(folder_ / "script", completion_script(shell));
    write_file(folder_ / "ask", text);
    std::istringstream out(output_of(fmt::format("cd '{}' && {} ask 2>&1", folder_.path(), shell)));
    std::vector<std::string> lines;
    for (std::string line; std::getline(out, line);) lines.push_back(line);
    return lines;
  }
  /// The completions that bash offers for the last word.
  std::vector<std::string> bash(const Words& words) const {
    std::string text = "source ./script\nCOMP_WORDS=(dml";
    for (const std::string& word : words) text += " '" + word + "'";
    text += fmt::format(")\nCOMP_CWORD={}\n_dml\n[ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
                        words.size());
    return lines_of("bash", text);
  }
  testing_tools::TemporaryFolder folder_;
};

TEST_F(Completion, OfCommandsInBash) {
  Words names{"--help", "--version"};
  for (const Command& c : commands()) names.push_back(c.name);
  EXPECT_THAT(bash({""}), testing::UnorderedElementsAreArray(names));
  EXPECT_THAT(bash({"val"}), ElementsAre("validate"));
  EXPECT_THAT(bash({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(bash({"nothing"}), IsEmpty());
}

TEST_F(Completion, OfOptionsAndRecipeKeysInBash) {
  EXPECT_THAT(bash({"train", "other.yaml", "--res"}), IsSupersetOf({"--resume", "--resume_from_checkpoint"}));
  EXPECT_THAT(bash({"train", "--learning_r"}), ElementsAre("--learning_rate"));
  Words keys_of_train = bash({"train", "--"});
  for (const std::string& key : keys()) EXPECT_THAT(keys_of_train, testing::Contains("--" + key));
  const Words of_info = bash({"info", "--"});
  EXPECT_THAT(of_info, IsSupersetOf({"--json", "--help"}));
  EXPECT_THAT(of_info, testing::Not(testing::Contains("--learning_rate")));  // takes no keys
}

TEST_F(Completion, OfValuesInBash) {
  EXPECT_THAT(bash({"train", "other.yaml", "--adapter", "q"}), ElementsAre("qlora"));
  EXPECT_THAT(bash({"train", "other.yaml", "--adapter", "=", "q"}), ElementsAre("qlora"));  // as readline splits it
  EXPECT_THAT(bash({"train", "other.yaml", "--adapter=q"}), ElementsAre("--adapter=qlora"));
  EXPECT_THAT(bash({"train", "other.yaml", "--load-in-8bit", ""}), UnorderedElementsAre("true", "false"));
  EXPECT_THAT(bash({"train", "other.yaml", "--sample_packing", "--learning_r"}), ElementsAre("--learning_rate"));
  EXPECT_THAT(bash({"ckpt", ""}), UnorderedElementsAre("ls", "verify", "rm"));
  EXPECT_THAT(bash({"completion", "z"}), ElementsAre("zsh"));
  EXPECT_THAT(bash({"help", "lora_r"}), ElementsAre("lora_r", "lora_rank_pattern"));
  EXPECT_THAT(bash({"help", "trai"}), IsSupersetOf({"train", "train_on_inputs"}));
  EXPECT_THAT(bash({"infer", "other.yaml", "--prompt", ""}), IsEmpty());
  EXPECT_THAT(bash({"infer", "other.yaml", "--kv-cache", "b"}), ElementsAre("bf16"));
  EXPECT_THAT(bash({"list", "mo"}), ElementsAre("models"));
  EXPECT_THAT(bash({"merge", "other.yaml", "--format", "g"}), ElementsAre("gguf"));
  EXPECT_THAT(bash({"merge", "other.yaml", "--format", ""}), UnorderedElementsAre("safetensors", "gguf"));
  EXPECT_THAT(bash({"convert", "outputs", "--dtype", "q4"}), ElementsAre("q4_k_m", "q4_k_s", "q4_1", "q4_0"));
  EXPECT_THAT(bash({"inspect", "other.yaml", "--split", "v"}), ElementsAre("validation"));
  EXPECT_THAT(bash({"inspect", "other.yaml", "--by", "trained"}), ElementsAre("trained_tokens"));
  EXPECT_THAT(bash({"inspect", "other.yaml", "--by", "per"}), ElementsAre("perplexity"));
  EXPECT_THAT(bash({"serve", "other.yaml", "--chat-template", "chat"}), ElementsAre("chatml"));
}

TEST_F(Completion, OfFilesInBash) {
  EXPECT_THAT(bash({"train", ""}), UnorderedElementsAre("my recipe.yml", "other.yaml", "outputs"));
  EXPECT_THAT(bash({"ckpt", "ls", ""}), ElementsAre("outputs"));
  EXPECT_THAT(bash({"info", "ou"}), ElementsAre("outputs"));
  EXPECT_THAT(bash({"tokenize", "--file", "n"}), ElementsAre("notes.txt"));
  EXPECT_THAT(bash({"train", "other.yaml", "--output_dir", "out"}), ElementsAre("outputs"));
}

TEST_F(Completion, AfterLaunchIsThatOfTheCommandInBash) {
  EXPECT_THAT(bash({"launch", "-n", "2", "eval"}), ElementsAre("evaluate"));
  EXPECT_THAT(bash({"launch", "--h"}), UnorderedElementsAre("--hostfile", "--help"));
  EXPECT_THAT(bash({"train", "other.yaml", "--resume", "no"}), ElementsAre("none"));
  EXPECT_THAT(bash({"launch", "-n", "2", "train", "o"}), UnorderedElementsAre("other.yaml", "outputs"));
  EXPECT_THAT(bash({"launch", "--ranks", "2", "train", "other.yaml", "--adapter", "l"}), ElementsAre("lora"));
}

TEST_F(Completion, InFish) {
  if (!has_tool("fish")) GTEST_SKIP() << "there is no fish";
  auto ask = [&](const std::string& line) {
    return lines_of("fish", "source script\ncomplete -C '" + line + "' | string replace -r '\\t.*' ''\n");
  };
  EXPECT_THAT(ask("dml vali"), ElementsAre("validate"));
  EXPECT_THAT(ask("dml train --learning_r"), ElementsAre("--learning_rate"));
  EXPECT_THAT(ask("dml train other.yaml --adapter q"), ElementsAre("qlora"));
  EXPECT_THAT(ask("dml ckpt v"), ElementsAre("verify"));
  EXPECT_THAT(ask("dml list mo"), ElementsAre("models"));
  EXPECT_THAT(ask("dml merge other.yaml --format g"), ElementsAre("gguf"));
  EXPECT_THAT(ask("dml train oth"), ElementsAre("other.yaml"));
}

TEST_F(Completion, InZshIsAValidScript) {
  const std::string script = completion_script("zsh");
  EXPECT_TRUE(script.starts_with("#compdef dml\n"));
  for (const Command& c : commands()) EXPECT_THAT(script, testing::HasSubstr("\n    " + c.name + ")\n")) << c.name;
  for (const std::string& key : keys()) EXPECT_THAT(script, testing::HasSubstr("'--" + key + "=[")) << key;
  EXPECT_THAT(script, testing::HasSubstr(":safetensors|gguf:(safetensors gguf)'"));
  EXPECT_THAT(script, testing::HasSubstr("'1:LIST:(models prompts "));
  if (!has_tool("zsh")) GTEST_SKIP() << "there is no zsh";
  EXPECT_THAT(lines_of("zsh", "zsh -n script && echo read\n"), ElementsAre("read"));
}

TEST_F(Completion, OfAnUnknownShellIsRefused) { EXPECT_THROW(completion_script("csh"), UserError); }

}  // namespace
}  // namespace dml
