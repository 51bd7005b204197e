// init: a recipe that is already right, out of a model directory and data.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/init.h"

namespace dml {
namespace {

struct Init {
  InitRequest request;
  std::optional<std::string> output, adapter;
  Options options{"init",
                  "init [MODEL] [DATA] [-o RECIPE] [--force] [--user COLUMN --assistant COLUMN | --text COLUMN]",
                  {"dml init models/llama faq.csv                                  writes faq.yml",
                   "dml init models/llama chats/conversations.json -o chats.yml    a ChatGPT export",
                   "dml init models/llama notes/                                   a folder of .txt and .md files",
                   "dml init models/llama faq.csv --user Title --user Question --assistant Reply",
                   "dml init tokenizer stories.jsonl                               a model from scratch",
                   "dml init                                                       asks for model and data"}};
  Init() {
    options.about(
        "Looks at a model's directory, its tokenizer and the columns of the data, and writes a commented recipe: "
        "format and columns of the data, chat template, special tokens, sequence length from the lengths of the rows, "
        "training method, batch size and memory for this machine, learning rate. Prints what it found and the next "
        "commands. Without MODEL or DATA it asks, on a terminal. An existing file is never replaced without --force.");
    options.positional("MODEL", request.model,
                       "a model's directory; a directory with a tokenizer alone is for a model from scratch", false);
    options.positional("DATA", request.data,
                       "a file or a folder: CSV, JSON, chat exports (ChatGPT, ShareGPT), text, Markdown", false);
    options.text("output", output, "the recipe's file, also -o; without: named after the data, in this folder", "FILE");
    options.flag("force", request.force, "replace a recipe that is there");
    options.text("adapter", adapter,
                 "lora, qlora, or none for training every weight; without: by the model's size and the memory there is",
                 "none|lora|qlora");
    options.texts("user", request.columns.user, "the column of the question; given again, the columns are joined",
                  "COLUMN");
    options.text("assistant", request.columns.assistant, "the column of the answer", "COLUMN");
    options.text("system", request.columns.system, "the column of the system message", "COLUMN");
    options.text("text", request.columns.text, "the column of a document: all of it is trained on", "COLUMN");
    options.flag("chosen-only", request.columns.chosen_only,
                 "pairs of answers: train on the chosen ones as on ordinary answers, not on preferences (rl: dpo)");
  }
};

// Until there is an answer that is a file or folder; UserError at the end of the input.
std::string ask(const std::string& question, const std::string& otherwise = "") {
  while (true) {
    std::fprintf(stderr, "%s%s ", question.c_str(), otherwise.empty() ? "" : fmt::format(" [{}]", otherwise).c_str());
    std::fflush(stderr);
    std::string answer;
    if (!std::getline(std::cin, answer)) throw UserError("no answer; nothing was written");
    const auto first = answer.find_first_not_of(" \t\r");
    if (first == answer.npos && otherwise.empty()) continue;
    return first == answer.npos ? otherwise : answer.substr(first, answer.find_last_not_of(" \t\r") + 1 - first);
  }
}

void ask_for_the_rest(Init& in) {
  InitRequest& r = in.request;
  if (!r.model.empty() && !r.data.empty()) return;
  if (!isatty(STDIN_FILENO))
    throw UserError(
        "init needs a model and data: dml init MODEL DATA [-o RECIPE] (it asks for them on a terminal only)");
  if (r.model.empty()) r.model = ask("Directory of the model:");
  if (r.data.empty()) r.data = ask("Data (a file or a folder):");
  if (!in.output) in.output = ask("Recipe to write:", recipe_name(r.data));
}

int run_init(std::vector<std::string> words) {
  Init in;
  for (auto& word : words)
    if (word == "-o") word = "--output";
  in.options.parse(words);
  if (in.adapter) {
    static const std::map<std::string, AdapterKind> kKinds{
        {"none", AdapterKind::none}, {"lora", AdapterKind::lora}, {"qlora", AdapterKind::qlora}};
    auto kind = kKinds.find(*in.adapter);
    if (kind == kKinds.end()) throw UserError("--adapter must be none, lora or qlora, is '{}'", *in.adapter);
    in.request.adapter = kind->second;
  }
  ask_for_the_rest(in);
  in.request.output = in.output.value_or("");
  const InitResult result = init_recipe(in.request);
  for (auto& line : result.lines) log_info("{}", line);
  for (auto& note : result.notes) log_warning("{}", note);
  log_info("next       {}", result.train);
  log_info("then       {}", result.infer);
  print(result.path + "\n");
  return 0;
}

}  // namespace

Command init_command() {
  return {"init", "writes a recipe for a model and data", [] { return Init().options.page(); }, run_init};
}

}  // namespace dml
