// The table of commands: what stands on the command line behind `dml`, and who answers it.
#include "cli/command.h"

#include <unistd.h>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/stages.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/log.h"
#include "core/version.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

std::string overview() {
  std::string out = fmt::format(
      "dml {}: fine-tune language models from one YAML recipe, on CPUs\n\nusage: dml COMMAND …\n\n", version());
  for (const Command& c : commands()) out += fmt::format("  {:<12} {}\n", c.name, c.summary);
  out +=
      "\nexamples:\n"
      "  dml preprocess recipe.yml              tokenise and pack, say what was dropped\n"
      "  mpirun -np 4 dml train recipe.yml      train on four ranks\n"
      "  dml infer recipe.yml --prompt 'Hello'  talk to the result\n"
      "\ndml help COMMAND explains a command, dml help KEY a key of the recipe.\n";
  return out;
}

const Command* find_command(const std::string& name) {
  for (const Command& c : commands())
    if (c.name == name) return &c;
  return nullptr;
}

int help(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(overview().c_str(), stdout);
  } else if (const Command* c = find_command(words[0])) {
    std::fputs(c->page().c_str(), stdout);
  } else {
    std::string text = help_for(words[0]);
    std::fputs((text + (text.ends_with('\n') ? "" : "\n")).c_str(), stdout);
  }
  return 0;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& c : commands()) names.push_back(c.name);
  return names;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(overview().c_str(), stderr);
    return static_cast<int>(ExitCode::user);
  }
  const std::string& name = words[0];
  std::vector<std::string> rest(words.begin() + 1, words.end());
  if (name == "--help" || name == "-h") return help({});
  if (name == "--version") return find_command("version")->run({});
  const Command* command = find_command(name);
  if (!command) throw UserError("unknown command '{}'{}", name, did_you_mean(name, command_names()));
  for (auto& word : rest) {
    if (word == "--") break;
    if (word == "--help" || word == "-h") return help({name});
  }
  return command->run(rest);
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      validate_command(),
      preprocess_command(),
      inspect_command(),
      train_command(),
      evaluate_command(),
      infer_command(),
      merge_command(),
      info_command(),
      convert_command(),
      plan_command(),
      bench_command(),
      launch_command(),
      doctor_command(),
      ckpt_command(),
      tokenize_command(),
      template_command(),
      list_command(),
      schema_command(),
      {"help", "explains a command, or a key of the recipe",
       [] {
         return std::string("usage: dml help [COMMAND | KEY]\n\nexamples:\n  dml help train\n  dml help lora_r\n");
       },
       help},
      version_command()};
  return table;
}

int run_command_line(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const Error& e) {
    log_error("{}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    log_error("out of memory");
    return static_cast<int>(ExitCode::memory);
  } catch (const std::exception& e) {
    log_error("{}", e.what());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace dml
