// dml init: writes a working recipe for a model directory and data.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>

#include "assembly/model_location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/text.h"
#include "hub/fetch.h"
#include "pipeline/init.h"

namespace dml {
namespace {

struct Init {
  InitRequest request;
  std::optional<std::string> output;
  Options options{"init",
                  "init [MODEL] [DATA] [-o RECIPE] [--force] [--user COLUMN --assistant COLUMN | --text COLUMN]",
                  {"dml init models/llama faq.csv                                  writes faq.yml",
                   "dml init models/llama chats/conversations.json -o chats.yml    a ChatGPT export",
                   "dml init models/llama notes/                                   a folder of .txt and .md files",
                   "dml init models/llama faq.csv --user Title --user Question --assistant Reply",
                   "dml init tokenizer stories.jsonl                               a model from scratch",
                   "dml init org/name faq.csv                                      a model of the Hugging Face Hub",
                   "dml init                                                       asks for model and data"}};
  Init() {
    options.about(
        "Examines a model's directory, its tokenizer and the columns of the data, and writes a commented recipe: "
        "format and columns of the data, chat template, special tokens, sequence length from the lengths of the rows, "
        "training method, batch size and memory for this machine, learning rate. Prints what it found and the next "
        "commands. Without MODEL or DATA, it asks for them on a terminal. An existing file is replaced only with "
        "--force.");
    options.positional("MODEL", request.model,
                       "a model's directory, a GGUF file, or a model of the Hugging Face Hub, which is downloaded; a "
                       "directory with a tokenizer alone is for a model from scratch",
                       false);
    options.positional("DATA", request.data,
                       "a file or a folder: CSV, JSON, chat exports (ChatGPT, ShareGPT), text, Markdown", false);
    options.text("output", output, "the recipe's file, also -o; default: named after the data, in this folder", "FILE");
    options.flag("force", request.force, "replace an existing recipe");
    options.choice(
        "adapter", request.adapter,
        {{"none", AdapterKind::none}, {"lora", AdapterKind::lora}, {"qlora", AdapterKind::qlora}},
        "lora, qlora, or none for training every weight; default: by the model's size and the available memory");
    options.texts("user", request.columns.user, "the column of the question; given again, the columns are joined",
                  "COLUMN");
    options.text("assistant", request.columns.assistant, "the column of the answer", "COLUMN");
    options.text("system", request.columns.system, "the column of the system message", "COLUMN");
    options.text("text", request.columns.text, "the column of a document: all of it is trained on", "COLUMN");
    options.flag("chosen-only", request.columns.chosen_only,
                 "pairs of answers: train on the chosen ones as on ordinary answers, not on preferences (rl: dpo)");
  }
};

// Asks until problem_of(answer) is "", with `otherwise` as the default answer if it is not empty. UserError at the end
// of the input.
std::string ask(const std::string& question, const std::string& otherwise,
                const std::function<std::string(const std::string&)>& problem_of) {
  while (true) {
    std::fprintf(stderr, "%s%s ", question.c_str(), otherwise.empty() ? "" : fmt::format(" [{}]", otherwise).c_str());
    std::fflush(stderr);
    std::string line;
    if (!std::getline(std::cin, line)) throw UserError("no answer; nothing was written");
    const std::string_view given = trim(line);
    const std::string answer(given.empty() ? otherwise : given);
    if (answer.empty()) continue;
    const std::string problem = problem_of(answer);
    if (problem.empty()) return answer;
    std::fprintf(stderr, "%s\n", problem.c_str());
  }
}

std::string problem_of_path(const std::string& path) {
  return file_exists(path) ? "" : fmt::format("{}: no such file or directory", path);
}

// Why `name` is not a model; a name of the Hub is accepted unless it begins with an existing folder.
std::string problem_of_model(const std::string& name) {
  const auto slash = name.find('/');
  const bool of_hub = slash != name.npos && parse_hub_name(name) && !file_exists(name.substr(0, slash));
  return of_hub ? "" : problem_of_path(model_directory(name));
}

void ask_for_the_rest(Init& in) {
  InitRequest& r = in.request;
  if (!r.model.empty() && !r.data.empty()) return;
  if (!isatty(STDIN_FILENO))
    throw UserError(
        "init needs a model and data: dml init MODEL DATA [-o RECIPE] (it asks for them only on a terminal)");
  if (r.model.empty()) r.model = ask("Model (a directory, or org/name of the Hugging Face Hub):", "", problem_of_model);
  if (r.data.empty()) r.data = ask("Data (a file or a folder):", "", problem_of_path);
  if (!in.output)
    in.output = ask("Recipe to write:", recipe_name(r.data), [&](const std::string& path) {
      return r.force || !file_exists(path) ? "" : fmt::format("{}: exists already; name another file", path);
    });
}

int run_init(std::vector<std::string> words) {
  Init in;
  for (auto& word : words)
    if (word == "-o") word = "--output";
  in.options.parse(words);
  ask_for_the_rest(in);
  in.request.output = in.output.value_or("");
  if (!file_exists(in.request.model)) hub_model_folder(in.request.model);
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
