// Inspecting data from the command line: output of preprocess, inspect and template.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/files.h"
#include "core/json.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class Looking : public Workshop {
 protected:
  std::string out_of(Words words, int exit = 0) const {
    Ended e = dml(words);
    EXPECT_EQ(e.exit, exit) << e.err;
    return exit == 0 ? e.out : e.err;
  }
  // Twenty rows, the last one too long to keep.
  std::string packed_recipe(const Keys& keys = {}) const {
    std::string rows = read_file(alpaca("rows.jsonl", 20));
    rows += "{\"instruction\": \"zebra\", \"output\": \"";
    for (int i = 0; i < 400; ++i) rows += "word ";
    write("rows.jsonl", rows + "\"}\n");
    return recipe("r.yml", tiny_model() + Keys{{"sample_packing", "true"}} + keys);
  }
};

TEST_F(Looking, PreprocessReportsWhyItPreparesAndItsTimes) {
  const std::string r = packed_recipe();
  const Ended first = dml({"preprocess", r});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("No cached dataset; preparing"));
  EXPECT_THAT(first.err, HasSubstr("tokenizing"));
  EXPECT_THAT(dml({"preprocess", r}).err, HasSubstr("Using the cached dataset"));
  const Ended other = dml({"preprocess", r, "--min_sample_len", "5"});
  EXPECT_THAT(other.err, HasSubstr("Rebuilding the dataset: min_sample_len changed"));
  const Ended debug = dml({"preprocess", r, "--debug"});
  EXPECT_EQ(debug.exit, 0) << debug.err;
  EXPECT_THAT(debug.out, HasSubstr("<s>(-100, 1)"));
}

TEST_F(Looking, InspectShowsRowsPacksAndDroppedRows) {
  const std::string r = packed_recipe();
  EXPECT_THAT(out_of({"inspect", r}), HasSubstr("21 rows → 20 examples"));
  EXPECT_THAT(out_of({"inspect", r, "--row", "0"}), HasSubstr("⟦"));
  EXPECT_THAT(out_of({"inspect", r, "--packed", "0"}), HasSubstr("trained\n"));
  EXPECT_THAT(out_of({"inspect", r, "--random", "2"}), HasSubstr("row "));
  // As many as the training split has, each once.
  const auto all = json_lines(write("all.out", out_of({"inspect", r, "--random", "1000000000000", "--json"})));
  std::set<std::string> titles;
  for (auto& row : all) titles.insert(row["title"]);
  EXPECT_EQ(all.size(), 16u);
  EXPECT_EQ(titles.size(), 16u);
  EXPECT_THAT(out_of({"inspect", r, "--dropped"}), HasSubstr("rows.jsonl:21: longer than sequence_len, "));
  EXPECT_EQ(json_lines(write("rows.out", out_of({"inspect", r, "--rows", "3", "--json"}))).size(), 3u);
  const Json report = parse_json(out_of({"inspect", r, "--json"}), "report");
  EXPECT_EQ(report["report"]["datasets"][0]["examples"], 20);
  EXPECT_THAT(out_of({"inspect", r, "--row", "0", "--dropped"}, 2), HasSubstr("choose one of"));
  const Ended none = dml({"inspect", r, "--dropped", "--sequence_len", "8", "--sample_packing", "false"});
  EXPECT_EQ(none.exit, 2);
  EXPECT_EQ(std::ranges::count(none.out, '\n'), 21) << none.out;
  EXPECT_THAT(none.out, HasSubstr("rows.jsonl:21: longer than sequence_len, "));
  EXPECT_THAT(none.err, HasSubstr("all 21 rows were dropped (21 longer than sequence_len); the first: "));
  EXPECT_THAT(out_of({"inspect", r, "--packed", "1000"}, 2), HasSubstr("--packed: there is no row 1000"));
}

TEST_F(Looking, InspectOpensAPreparedFolderAndComparesItWithAnother) {
  const std::string r = packed_recipe();
  auto prepared = [&](Words more) {
    Words words{"preprocess", r};
    words.insert(words.end(), more.begin(), more.end());
    std::string folder = out_of(words);
    return folder.substr(0, folder.find('\n'));
  };
  const std::string before = prepared({}), after = prepared({"--train_on_inputs", "true"});
  EXPECT_THAT(out_of({"inspect", before, "--row", "0"}), HasSubstr("⟦"));
  EXPECT_THAT(out_of({"inspect", before, "--packed", "0"}, 2), HasSubstr("needs a recipe"));
  const std::string difference = out_of({"inspect", after, "--diff", before});
  EXPECT_THAT(difference, HasSubstr("train_on_inputs: false → true"));
  EXPECT_THAT(difference, HasSubstr("20 with other labels"));
  EXPECT_THAT(out_of({"inspect", before, "--diff", before}), HasSubstr("same settings and data files"));
  const std::string page = at("page.html");
  EXPECT_EQ(out_of({"inspect", before, "--html", page, "--rows", "5"}), page + "\n");
  EXPECT_THAT(read_file(page), HasSubstr("5 of 20 rows, evenly spread; 1 dropped"));
}

TEST_F(Looking, TokensThatAnAdapterDoesNotTrainAreNamed) {
  alpaca("rows.jsonl", 8);
  const std::string warning = "lora_modules_to_save: [embed_tokens, lm_head]";
  const Keys fresh{{"tokens", "[\"<new>\"]"}};
  const Ended e = dml({"preprocess", recipe("r.yml", tiny_lora() + fresh)});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("New tokens are untrained, and LoRA does not train embeddings: '<new>'"));
  EXPECT_THAT(e.err, HasSubstr(warning));
  EXPECT_THAT(dml({"preprocess",
                   recipe("s.yml", tiny_lora() + fresh + Keys{{"lora_modules_to_save", "[embed_tokens, lm_head]"}})})
                  .err,
              Not(HasSubstr(warning)));
  EXPECT_THAT(dml({"preprocess", recipe("t.yml", tiny_lora() + fresh +
                                                     Keys{{"lora_target_modules", "[q_proj, embed_tokens, lm_head]"}})})
                  .err,
              Not(HasSubstr("New tokens are untrained")));
  EXPECT_THAT(
      dml({"preprocess", recipe("p.yml", tiny_lora() + Keys{{"special_tokens", "{pad_token: \"<fill>\"}"}})}).err,
      Not(HasSubstr(warning)));
}

TEST_F(Looking, AnInvalidEndTokenIsNamed) {
  write("chat.jsonl", R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]})"
                      "\n");
  const Keys chat{{"datasets", fmt::format("[{{path: {}, type: chat_template}}]", at("chat.jsonl"))},
                  {"val_set_size", "0"},
                  {"eval_steps", ""},
                  {"chat_template", "chatml"},
                  {"eot_tokens", "[\"<|im_end|>\"]"}};
  const Ended e = dml({"preprocess", recipe("r.yml", tiny_model() + chat)});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(
      e.err,
      HasSubstr(R"(eot_tokens: this tokenizer splits '<|im_end|>' into several tokens; add tokens: ["<|im_end|>"])"));
}

TEST_F(Looking, TemplateRendersAConversationAndItsMask) {
  const std::string messages =
      write("m.json", R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])");
  const std::string file = write("t.jinja",
                                 "{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}{% if "
                                 "add_generation_prompt %}[assistant]{% endif %}");
  EXPECT_EQ(out_of({"template", "--template", file, "--messages", messages}), "[user]hi;[assistant]ho;");
  EXPECT_EQ(out_of({"template", "--template", file, "--messages", messages, "--add-generation-prompt"}),
            "[user]hi;[assistant]ho;[assistant]");
  EXPECT_EQ(out_of({"template", "--template", file, "--messages", messages, "--masks"}), "[user]hi;[assistant]⟦ho⟧;\n");
  EXPECT_EQ(out_of({"template", "--template", file, "--messages", messages, "--masks", "--add-generation-prompt"}),
            "[user]hi;[assistant]⟦ho⟧;[assistant]\n");
  const std::string other = write("o.jinja", "{% if add_generation_prompt %}!{% endif %}" + read_file(file));
  EXPECT_THAT(
      out_of({"template", "--template", other, "--messages", messages, "--masks", "--add-generation-prompt"}, 2),
      HasSubstr("m.json: with --add-generation-prompt, this template renders the messages differently"));
  const std::string context = write("c.json", R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_EQ(out_of({"template", "--template", file, "--context", context}), "[user]x;");
  EXPECT_THAT(out_of({"template", "--template", file}, 2), HasSubstr("--messages FILE"));
  EXPECT_THAT(
      out_of({"template", "--model", DML_SOURCE_DIR "/datasets/quickstart/tokenizer", "--messages", messages}, 2),
      testing::AllOf(HasSubstr("quickstart/tokenizer: has no chat template"), HasSubstr("--template chatml")));
  // Without a model its special tokens are empty, with masks as without.
  const std::string plain = out_of({"template", "--template", "llama2", "--messages", messages});
  EXPECT_THAT(plain, HasSubstr("[INST] hi [/INST]"));
  EXPECT_THAT(out_of({"template", "--template", "llama2", "--messages", messages, "--masks"}),
              HasSubstr("[INST] hi [/INST]"));
  EXPECT_EQ(out_of({"template", "--template", "chatml", "--messages", messages, "--masks"}),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦ho<|im_end|>⟧\n\n");
  EXPECT_EQ(out_of({"template", "--model", DML_SOURCE_DIR "/datasets/quickstart/tokenizer", "--template", "chatml",
                    "--messages", messages, "--masks"}),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦ho⟧<|im_end|>\n\n")
      << "as in training: <|im_end|> is neither the EOS nor one of eot_tokens";
  EXPECT_THAT(out_of({"template", "--template", "chatmll", "--messages", messages}, 2),
              HasSubstr("chatmll: is neither a file nor a built-in template; did you mean 'chatml'?"));
  EXPECT_THAT(out_of({"template", "--template", file, "--messages", write("bad.json", "{}")}, 2),
              HasSubstr("bad.json: must be a list of messages"));
}

TEST_F(Looking, TemplateTakesSpecialTokensFromAModel) {
  const std::string messages = write("m.json", R"([{"role": "user", "content": "hi"}])"),
                    file = write("t.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const Words without{"template", "--template", file, "--messages", messages};
  Words with = without;
  with.insert(with.end(), {"--model", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"});
  EXPECT_EQ(out_of(with), "<s>hi");
  const Ended e = dml(without);
  EXPECT_EQ(e.out, "hi");
  EXPECT_THAT(e.err, HasSubstr("the template uses bos_token, which is empty without a model; --model DIR gives"));
  EXPECT_THAT(dml({"template", "--template", "chatml", "--messages", messages}).err, "");
  EXPECT_EQ(out_of({"template", "--template", file, "--messages",
                    write("row.json", R"({"bos_token": "^", "messages": [{"role": "user", "content": "hi"}]})")}),
            "^hi");
}

}  // namespace
}  // namespace dml::e2e
