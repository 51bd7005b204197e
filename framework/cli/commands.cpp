// The table of commands with their functions. The overview, the help pages and all other lists of commands are
// generated from commands().
#include "cli/command.h"

#include <cstdio>
#include <exception>
#include <map>

#include "assembly/recipe_names.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/log.h"
#include "core/version.h"
#include "diagnose/launch.h"
#include "dist/started_rank.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

std::string overview() {
  std::string out = fmt::format(
      "dml {}: fine-tune language models from one YAML recipe, on CPUs\n\nusage: dml COMMAND …\n\n", version());
  for (const Command& c : commands()) out += fmt::format("  {:<12} {}\n", c.name, c.summary);
  out +=
      "\nexamples:\n"
      "  dml preprocess recipe.yml              tokenize and pack the data; report dropped rows\n"
      "  dml launch -n 4 train recipe.yml       train on four ranks\n"
      "  dml resume outputs/run                 continue a run that was stopped\n"
      "  dml infer recipe.yml --prompt 'Hello'  generate text with the result\n"
      "\ndml help COMMAND describes a command, dml help KEY a key of the recipe.\n";
  return out;
}

const Command* find_command(const std::string& name) {
  for (const Command& c : commands())
    if (c.name == name) return &c;
  return nullptr;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& c : commands()) names.push_back(c.name);
  return names;
}

// The command that an unknown one stands for, by its name in Axolotl or by its letters; "" if none is like it.
std::string nearest_command(const std::string& name) {
  static const std::map<std::string, std::string> kOtherNames{
      {"merge-lora", "merge"}, {"merge_lora", "merge"}, {"inference", "infer"}, {"chat", "infer"},
      {"lm-eval", "evaluate"}, {"vllm-serve", "serve"}, {"quantize", "convert"}};
  const auto other = kOtherNames.find(name);
  return other == kOtherNames.end() ? closest(name, command_names()) : other->second;
}

std::string help_for_key(const std::string& key) {
  try {
    return help_for(key);
  } catch (const UserError&) {
    const std::string near = nearest_command(key);
    if (near.empty()) throw;
    throw UserError("there is no command or key '{}'; did you mean 'dml help {}'?", key, near);
  }
}

int help(const std::vector<std::string>& words) {
  if (words.size() > 1) throw UserError("unexpected argument '{}'\nusage: dml help [COMMAND | KEY]", words[1]);
  if (words.empty()) {
    print(overview());
  } else if (const Command* c = find_command(words[0])) {
    print(page_text(c->page()));
  } else {
    std::string text = help_for_key(words[0]);
    print(text + (text.ends_with('\n') ? "" : "\n"));
  }
  return 0;
}

int dispatch(const std::vector<std::string>& words) {
  name_choices();
  enable_recipe_plugins();
  std::size_t first = 0;
  while (first < words.size() && take_output_option(words, first)) ++first;
  if (first == words.size()) {
    std::fputs(overview().c_str(), stderr);
    return static_cast<int>(ExitCode::user);
  }
  const std::string& name = words[first];
  std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(first) + 1, words.end());
  if (name == "--help" || name == "-h") return help({});
  if (name == "--version" || name == "-V") return find_command("version")->run({});
  if (name == kTrialRank) return run_on_ranks([](Comm&) { return static_cast<int>(ExitCode::ok); });
  const Command* command = find_command(name);
  if (!command) {
    const std::string near = nearest_command(name);
    throw UserError("unknown command '{}'{}", name, near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
  for (auto& word : rest) {
    if (word == "--") break;
    if (word == "--help" || word == "-h") return help({name});
  }
  if (command->ranks == Ranks::one) {
    const StartedRank started = started_rank();
    if (!is_started_rank()) refuse_tasks_without_mpi();
    if (started.ranks == 1) return command->run(rest);
    if (started.rank > 0) return 0;  // rank 0 speaks
    throw UserError("dml {} runs in one process, but {} ranks were started; start it without mpirun or srun", name,
                    started.ranks);
  }
  return command->run(rest);
}

}  // namespace

Command help_command() {
  return {"help", "describes a command, or a key of the recipe",
          [] {
            return CommandPage{
                "help [COMMAND | KEY]",
                "Prints the help page of a command, or what a key of the recipe means, its type and default.",
                {"dml help train   a command", "dml help lora_r  a key of the recipe"},
                {{"COMMAND|KEY", "", "what to explain; without it, the list of commands"}},
                {}};
          },
          help};
}

const std::vector<Command>& commands() {
  static const std::vector<Command> table = [] {
    std::vector<Command> all;
    for (auto command : kCommands) all.push_back(command());
    return all;
  }();
  return table;
}

int run_command_line(const std::vector<std::string>& words) {
  set_log_rank(started_rank().rank);
  try {
    return dispatch(words);
  } catch (const std::exception&) {
    return report_failure();
  }
}

}  // namespace dml
