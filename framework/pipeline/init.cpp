#include "pipeline/init.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "pipeline/init_choice.h"
#include "pipeline/init_model.h"
#include "pipeline/init_text.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

// Quotes a word for the shell.
std::string shell_word(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/' || c == '+' || c == ',' || c >= 0x80;
  });
  if (plain && !text.empty()) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Detects swapped arguments for model and data.
void check_order(const InitRequest& request) {
  std::error_code error;
  if (fs::is_directory(request.data, error) && file_exists(request.data + "/config.json") &&
      !file_exists(request.model + "/config.json") && !file_exists(request.model + "/tokenizer.json"))
    throw UserError("{} is a model, {} is not; the model comes first: dml init {} {}", request.data, request.model,
                    shell_word(request.data), shell_word(request.model));
}

std::string output_directory(const std::string& recipe) { return "outputs/" + fs::path(recipe).stem().string(); }

}  // namespace

std::string recipe_name(const std::string& data) {
  fs::path path(data);
  if (path.filename().empty()) path = path.parent_path();
  std::string name = path.filename().string();
  while (fs::path(name).has_extension() && !fs::path(name).stem().empty()) name = fs::path(name).stem().string();
  std::erase_if(name, [](unsigned char c) { return !std::isalnum(c) && c != '_' && c != '-' && c < 0x80; });
  return (name.empty() ? "recipe" : name) + ".yml";
}

InitResult init_recipe(const InitRequest& request) {
  InitResult result;
  result.path = request.output.empty() ? recipe_name(request.data) : request.output;
  if (!request.force && file_exists(result.path))
    throw UserError("{}: exists already; name another file with --output, or replace it with --force", result.path);
  require_not_an_input("--output", result.path, {request.data, request.model});
  check_order(request);
  const ModelFacts model = examine_model(request.model);
  const DataFacts data = examine_data(request.data, request.columns);
  const InitChoice choice = choose_settings(model, data, output_directory(result.path), request.adapter);
  const std::string name = shell_word(result.path), text = recipe_text(model, data, choice, name);
  const RecipeFile written = read_recipe(text, result.path);  // checks the recipe at once instead of in a later command

  result.lines = describe(model, data, choice);
  result.notes = data.notes;
  result.notes.insert(result.notes.end(), choice.notes.begin(), choice.notes.end());
  result.notes.insert(result.notes.end(), written.warnings.begin(), written.warnings.end());
  const LengthFacts& l = choice.lengths;
  if (l.failed > 0)
    result.notes.push_back(fmt::format(
        "{} of the {} rows that were examined cannot be used, and training would stop at them; the first: {}. "
        "on_bad_row: skip leaves them out",
        l.failed, l.failed + l.rows, l.failure));
  if (data.kind != DataKind::documents && l.longest() > choice.recipe.data.sequence_len)
    result.notes.push_back(
        fmt::format("{:.1f} % of the examples are longer than sequence_len and are dropped; excess_length_strategy: "
                    "truncate keeps their beginnings",
                    100.0 *
                        static_cast<double>(std::ranges::count_if(
                            l.sorted, [&](auto n) { return n > choice.recipe.data.sequence_len; })) /
                        static_cast<double>(l.sorted.size())));
  if (!choice.fits)
    result.notes.emplace_back(
        "this run does not fit into the memory of this machine; a smaller model or more memory is needed");
  result.train = "dml train " + name;
  result.infer = infer_command_line(data, name);
  make_parent_directories(result.path);
  write_file(result.path, text);
  return result;
}

}  // namespace dml
