// dml grammar: checks a constraint on generated text, and lines of a file against it.
#include "cli/constraint_options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"

namespace dml {
namespace {

struct Grammar {
  ConstraintOptions constraint;
  std::optional<std::string> check;
  Options options{"grammar",
                  "grammar (--schema FILE | --regex TEXT | --grammar FILE | --choice TEXT …) [--check FILE]",
                  {"dml grammar --schema person.json", "dml grammar --schema person.json --check answers.jsonl",
                   "dml grammar --regex '[0-9]{4}-[0-9]{2}' --check dates.txt",
                   "dml grammar --grammar chess.gbnf --check games.txt"}};
  Grammar() {
    options.about(
        "Reads a constraint on generated text and says whether it is supported. With --check, says of every line of a "
        "file whether the constraint accepts it.");
    constraint.add_to(options);
    options.text("check", check, "print `accept` or `reject` for each line of this file", "FILE");
  }
};

int run_grammar(const std::vector<std::string>& words) {
  Grammar g;
  g.options.parse(words);
  const std::unique_ptr<Automaton> automaton = g.constraint.automaton(JsonSpace::any);
  if (!automaton) throw UserError("grammar needs one of --schema, --regex, --grammar and --choice");
  if (!g.check) {
    print(automaton->start() == Automaton::kDead ? "The constraint is supported, but allows no text at all.\n"
                                                 : "The constraint is supported.\n");
    return 0;
  }
  const std::string rows = read_text_file(*g.check);
  std::string out;
  for (const Line row : Lines(rows)) out += automaton->accepts(row.text) ? "accept\n" : "reject\n";
  print(out);
  return 0;
}

}  // namespace

Command grammar_command() {
  return {"grammar", "checks texts against a JSON Schema, regular expression or grammar",
          [] { return Grammar().options.page(); }, run_grammar};
}

}  // namespace dml
