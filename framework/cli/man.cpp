#include "cli/man.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/closest.h"
#include "core/error.h"
#include "core/utf8.h"
#include "core/version.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

/// Escapes text for roff: no character is a request or an escape, and characters beyond ASCII are named by code point.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c == U'\\') out += "\\e";
    else if (c == U'-') out += "\\-";
    else if (c == U'\'') out += "\\(aq";
    else if (c == U'`') out += "\\(ga";
    else if (c == U'"') out += "\\(dq";
    else if (c == U'^') out += "\\(ha";
    else if (c == U'~') out += "\\(ti";
    else if (c == U'.' && (out.empty() || out.back() == '\n')) out += "\\&.";
    else if (c < 0x80) out += static_cast<char>(c);
    else out += fmt::format("\\[u{:04X}]", static_cast<std::uint32_t>(c));
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string heading(const std::string& page, int section, const std::string& summary) {
  std::string title = page;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH \"{}\" \"{}\" \"\" \"dml {}\" \"dml manual\"\n.SH NAME\n{} \\- {}\n", roff(title), section,
                     roff(version()), roff(page), roff(summary));
}

std::string item(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", name, roff(text));
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitStatus& s : exit_statuses()) out += item(bold(fmt::format("{}", s.code)), s.meaning);
  return out;
}

std::string examples(const std::vector<std::string>& lines) {
  std::string out = ".SH EXAMPLES\n";
  for (const std::string& line : lines) {
    const CommandExample e = split_example(line);
    out += ".TP\n" + bold(e.line) + "\n" + (e.meaning.empty() ? "\\&" : roff(e.meaning)) + "\n";
  }
  return out;
}

std::string of_command(const Command& command) {
  const CommandPage page = command.page();
  std::string out = heading("dml-" + command.name, 1, command.summary);
  out += ".SH SYNOPSIS\n.nh\n.ad l\n" + bold("dml " + command.name);
  if (page.usage.size() > command.name.size()) out += roff(page.usage.substr(command.name.size()));
  out += "\n.ad\n.hy\n.SH DESCRIPTION\n" +
         roff(page.about.empty() ? fmt::format("dml {}: {}.", command.name, command.summary) : page.about) + "\n";
  out += ".SH OPTIONS\n";
  for (const CommandOption& w : page.words) out += item(italic(w.name), w.help);
  for (const CommandOption& o : page.options)
    out += item(bold(o.name) + (o.placeholder.empty() ? "" : " " + italic(o.placeholder)), o.help);
  if (page.overrides)
    out += item(bold("--") + italic("KEY") + " " + italic("VALUE"),
                "Set any key of the recipe for this command, as in --learning_rate 1e-4; see dml-recipe(5).");
  out += item(bold("--help"), "Show a help page.");
  out += examples(page.examples) + exit_status();
  out += ".SH SEE ALSO\n" + bold("dml") + "(1), " + bold("dml-recipe") + "(5)\n";
  return out;
}

std::string of_program() {
  std::string out = heading("dml", 1, "fine-tune language models on CPUs from one YAML recipe");
  out += ".SH SYNOPSIS\n" + bold("dml") + " " + italic("COMMAND") + roff(" …") + "\n.SH DESCRIPTION\n";
  out += roff(
      "dml trains and fine-tunes language models on CPUs, on one machine or on many through MPI. One YAML recipe says "
      "what to train on which data; its keys are Axolotl's. Models and adapters are directories as Hugging Face "
      "transformers and PEFT read and write them.");
  out += "\n.PP\n" + roff("Results go to standard output, everything else to standard error.") + "\n.SH COMMANDS\n";
  for (const Command& c : commands()) out += item(bold(c.name), c.summary + fmt::format("; see dml-{}(1)", c.name));
  out +=
      examples({"dml preprocess recipe.yml  prepare the data and show what was dropped",
                "dml train recipe.yml  train on this machine", "dml launch -n 4 train recipe.yml  train on four ranks",
                "dml infer recipe.yml --prompt 'Hello'  ask the trained model"});
  out += ".SH ENVIRONMENT\n";
  out += item(bold("NO_COLOR"), "When set to anything, output has no colors.");
  out += item(bold("DML_ISA"),
              "The instruction set to use: portable, avx2, avx512, avx512_bf16 or amx. Without it, the fastest that "
              "the processor has.");
  out += exit_status();
  out += ".SH SEE ALSO\n" + bold("dml-recipe") + "(5), " + bold("mpirun") + "(1)\n";
  return out;
}

std::string of_recipe() {
  std::string out = heading("dml-recipe", 5, "the recipe of a dml run");
  out +=
      ".SH DESCRIPTION\n" +
      roff(
          "A recipe is a YAML file. These are its keys; an empty value is the same as no value. Every key is also an "
          "option of the commands that read a recipe: --learning_rate 1e-4, --datasets.0.path rows.jsonl.") +
      "\n";
  for (const KeySection& section : key_sections()) {
    out += fmt::format(".SH \"{}\"\n{}\n", roff(section.title), roff(section.intro));
    for (const KeyHelp& key : section.keys) {
      out += item(bold(key.name), key.help);
      out += fmt::format(".br\n{}\n", roff(fmt::format("Type: {}. Default: {}.", key.type, key.fallback)));
      if (!key.example.empty()) out += fmt::format(".br\n{}\n", roff("Example: " + key.example));
    }
  }
  out += ".SH SEE ALSO\n" + bold("dml") + "(1), " + bold("dml-validate") + "(1)\n";
  return out;
}

}  // namespace

ManPage man_page(const std::string& name) {
  if (name.empty() || name == "dml") return {"dml.1", of_program()};
  if (name == "recipe") return {"dml-recipe.5", of_recipe()};
  std::vector<std::string> names{"recipe"};
  for (const Command& c : commands()) {
    if (c.name == name) return {fmt::format("dml-{}.1", name), of_command(c)};
    names.push_back(c.name);
  }
  throw UserError("there is no manual page of '{}'{}", name, did_you_mean(name, names));
}

std::vector<ManPage> man_pages() {
  std::vector<ManPage> pages{man_page("dml"), man_page("recipe")};
  for (const Command& c : commands()) pages.push_back(man_page(c.name));
  return pages;
}

}  // namespace dml
