#include "cli/constraint_options.h"

#include "core/error.h"
#include "core/files.h"

namespace dml {

namespace {
constexpr std::size_t kLargestConstraint = std::size_t{16} << 20;
}

void ConstraintOptions::add_to(Options& options) {
  options.text("schema", schema, "a file: the text is JSON that this JSON Schema (drafts 4 to 2020-12) accepts",
               "FILE");
  options.text("regex", regex, "the whole text matches this regular expression");
  options.text("grammar", grammar,
               "a file: the text follows this grammar in llama.cpp's GBNF notation, from its rule `root`", "FILE");
  options.texts("choice", choices, "the text is this one; repeat the option for more choices");
}

std::unique_ptr<Automaton> ConstraintOptions::automaton(JsonSpace space) const {
  const int given = schema.has_value() + regex.has_value() + grammar.has_value() + !choices.empty();
  if (given == 0) return nullptr;
  if (given > 1) throw UserError("set only one of --schema, --regex, --grammar and --choice");
  if (schema) return schema_automaton(read_file(*schema, kLargestConstraint), *schema, space);
  if (grammar) return grammar_automaton(read_file(*grammar, kLargestConstraint), *grammar);
  return regex ? regex_automaton(*regex) : choice_automaton(choices);
}

}  // namespace dml
