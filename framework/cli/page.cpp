#include "cli/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::size_t kWidth = 100;  // columns of a help page
constexpr std::size_t kIndent = 29;  // column where the help of an option begins

/// Wraps text at spaces; lines after the first are indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    if (column > indent && column + 1 + count_characters(word) > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += count_characters(word);
    at = end + 1;
  }
  return out;
}

std::string row(const std::string& name, const std::string& help) {
  const std::string start = "  " + name;
  const std::string gap = count_characters(start) < kIndent - 1 ? std::string(kIndent - count_characters(start), ' ')
                                                                : "\n" + std::string(kIndent, ' ');
  return start + gap + wrapped(help, kIndent) + "\n";
}

}  // namespace

CommandExample split_example(const std::string& example) {
  const std::size_t gap = example.find("  ");
  if (gap == std::string::npos) return {example, ""};
  return {example.substr(0, gap), example.substr(example.find_first_not_of(' ', gap))};
}

ValueHint value_hint(std::string_view placeholder) {
  ValueHint hint;
  while (!placeholder.empty()) {
    const std::string_view part = placeholder.substr(0, placeholder.find('|'));
    placeholder.remove_prefix(std::min(placeholder.size(), part.size() + 1));
    const bool spelling = !part.empty() && std::ranges::all_of(part, [](unsigned char c) {
      return std::islower(c) || std::isdigit(c) || c == '_' || c == '-';
    });
    if (spelling) hint.words.emplace_back(part);
    else if (part.starts_with("FILE") || part == "PATH") hint.files = true;
    else if (part.starts_with("DIR")) hint.directories = true;
    else if (part == "RECIPE") hint.recipes = true;
    else if (part.starts_with("COMMAND")) hint.commands = true;
    else if (part == "KEY") hint.keys = true;
  }
  return hint;
}

ValueHint value_hint(const CommandOption& option) {
  ValueHint hint = value_hint(std::string_view(option.name.starts_with("-") ? option.placeholder : option.name));
  hint.words.insert(hint.words.end(), option.values.begin(), option.values.end());
  return hint;
}

const std::vector<ExitStatus>& exit_statuses() {
  static const std::vector<ExitStatus> statuses{
      {static_cast<int>(ExitCode::ok), "Success."},
      {static_cast<int>(ExitCode::internal), "Internal error: a bug in dml."},
      {static_cast<int>(ExitCode::user),
       "An error in the command line, the recipe, the data or the model files. The message says what to change."},
      {static_cast<int>(ExitCode::below_limit), "dml evaluate: a metric is below its fail_below."},
      {static_cast<int>(ExitCode::diverged), "Training diverged: the loss or the gradients are not finite numbers."},
      {static_cast<int>(ExitCode::io), "Input/output error: disk full, read-only file system, failing disk."},
      {static_cast<int>(ExitCode::distributed),
       "A rank was lost, did not answer in time, or ranks disagree about the run."},
      {static_cast<int>(ExitCode::memory), "Out of memory while running."},
      {static_cast<int>(ExitCode::stopped),
       "Stopped by a signal or a time limit after saving; the run can be resumed."},
      {static_cast<int>(ExitCode::interrupted),
       "Interrupted by Ctrl-C; unfinished output was removed. In training: a second Ctrl-C, nothing was saved."}};
  return statuses;
}

std::string page_text(const CommandPage& page) {
  std::string out = fmt::format("usage: dml {}\n", page.usage);
  if (!page.about.empty()) out += "\n" + wrapped(page.about, 0) + "\n";
  if (!page.examples.empty()) out += "\nexamples:\n";
  std::size_t widest = 0;
  for (const std::string& e : page.examples)
    if (const CommandExample x = split_example(e); !x.meaning.empty())
      widest = std::max(widest, count_characters(x.line));
  for (const std::string& e : page.examples) {
    const CommandExample x = split_example(e);
    out += "  " + x.line;
    if (!x.meaning.empty()) out += std::string(widest - count_characters(x.line) + 3, ' ') + x.meaning;
    out += "\n";
  }
  out += "\noptions:\n";
  for (const CommandOption& w : page.words) out += row(w.name, w.help);
  for (const CommandOption& o : page.options)
    out += row(o.placeholder.empty() ? o.name : o.name + " " + o.placeholder, o.help);
  if (page.overrides)
    out += row("--KEY VALUE", "set a key of the recipe that is no option above; `dml help KEY` explains one");
  return out + row("--help", "show this page");
}

}  // namespace dml
