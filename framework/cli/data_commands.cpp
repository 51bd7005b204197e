// preprocess, tokenize.
#include "assembly/hub_files.h"
#include "assembly/job.h"
#include "assembly/model_location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/row_view.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "data/inspect.h"
#include "data/prepare.h"
#include "data/records.h"

namespace dml {
namespace {

// ---- preprocess

struct Preprocess {
  std::string recipe;
  bool rebuild = false, check = false;
  std::optional<std::int64_t> debug;
  std::vector<Override> overrides;
  Options options{"preprocess",
                  "preprocess RECIPE [--check | --rebuild] [--debug [N]] [--KEY VALUE …]",
                  {"dml preprocess recipe.yml", "dml preprocess recipe.yml --debug 3",
                   "dml preprocess recipe.yml --check   list the bad rows, write nothing"}};
  Preprocess() {
    options.about(
        "Turns the rows of the recipe's datasets into tokens and labels and stores them in dataset_prepared_path. "
        "Prints what was kept, dropped and trained. Later runs with the same data and settings use the stored result.");
    options.positional("RECIPE", recipe, "the recipe");
    options.flag("check", check, "read every row, list those that cannot be used (FILE:LINE: reason), write nothing");
    options.flag("rebuild", rebuild, "prepare the data again even if nothing has changed");
    options.integer("debug", debug, "show the first N rows (default 5), token by token");
    options.take_overrides(overrides);
  }
};

// Prints the problems and the rows that are skipped as lines.
int check_all_rows(const RecipeFile& file, const Tokenizer& tokenizer) {
  const Recipe& recipe = file.recipe;
  const bool skips = recipe.data.on_bad_row == BadRow::skip;
  std::int64_t skipped = 0;
  const DroppedSink list = [&](const DroppedRow& row) {
    if (!skips || row.reason != dropped::kBadRow) return;
    ++skipped;
    print(row.detail + "\n");
  };
  const DataCheck found =
      check_data(recipe.data, recipe.templates, static_cast<std::uint64_t>(recipe.train.seed), tokenizer,
                 {.dropped = &list}, [&](const Problem& problem) { print(file.located(problem).line() + "\n"); });
  const std::string read = counted(found.report.total(&DatasetReport::rows), "row", "rows") + " read";
  std::int64_t dropped = 0;
  for (const DatasetReport& dataset : found.report.datasets)
    for (auto& [reason, rows] : dataset.dropped) dropped += rows;
  if (found.problems == 0) {
    print(fmt::format(
        "{}: {}, {}\n", file.path, read,
        skipped == 0 ? "no problems" : counted(skipped, "row", "rows") + " cannot be used (on_bad_row: skip)"));
    if (dropped > 0)
      log_info("{} left out; to list them with their reasons: dml inspect {} --dropped",
               counted(dropped, "row is", "rows are"), file.path);
    return 0;
  }
  log_error("{}, {}", read, counted(found.problems, "problem", "problems"));
  return static_cast<int>(ExitCode::user);
}

int preprocess(std::vector<std::string> words) {
  Preprocess p;
  // As in Axolotl, --debug may have no number.
  for (auto word = words.begin(); word != words.end(); ++word)
    if (*word == "--debug" && (word + 1 == words.end() || word[1].starts_with("--"))) *word = "--debug=5";
  p.options.parse(words);
  if (p.check && (p.rebuild || p.debug)) throw UserError("--check writes nothing: leave out --rebuild and --debug");
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe_to_run(p.recipe, p.overrides, RecipeUse::train, {.weights = false});
    show_notes(file);
    set_up_processor(file.recipe.train, comm);
    auto tokenizer = open_tokenizer(file.recipe.model);
    if (p.check) return comm.rank() == 0 ? check_all_rows(file, *tokenizer) : 0;
    Prepared prepared = with_places(file, [&] { return prepare_on_ranks(file.recipe, *tokenizer, comm, p.rebuild); });
    if (comm.rank() != 0) return 0;
    Examples examples = prepared.train();
    std::optional<Schedule> schedule;
    if (!examples.empty())
      schedule.emplace(examples.lengths(), train_schedule(file.recipe.data, file.recipe.train, comm.size(),
                                                          file.recipe.preference.sampling()));
    for (auto& line : describe(prepared, schedule ? &*schedule : nullptr)) log_info("{}", line);
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < std::min(p.debug.value_or(0), examples.size()); ++i) first.push_back(i);
    show_rows(prepared, examples, first, *tokenizer, {.ids = true});
    print(prepared.folder() + "\n");
    return 0;
  });
}

// ---- tokenize

struct Tokenize {
  std::optional<std::string> model, text, file, input;
  bool special = false, decode = false;
  Options options{
      "tokenize",
      "tokenize --model DIR (--text T | --file F | --input F.jsonl) [--special] [--decode]",
      {"dml tokenize --model DIR --text 'Hello there'", "dml tokenize --model DIR --input texts.jsonl --special"}};
  Tokenize() {
    options.about("Converts text to token ids or, with --decode, token ids to text.");
    options.text("model", model,
                 "directory with tokenizer.json or tokenizer.model, a GGUF file, or a model in the cache of the Hub",
                 "FILE|DIR");
    options.text("text", text, "a text; with --decode a JSON array of token ids");
    options.text("file", file, "a whole file as one text", "FILE");
    options.text("input", input, "JSON lines of {\"text\": …}; with --decode of {\"ids\": […]}", "FILE");
    options.flag("special", special, "add BOS and EOS as the tokenizer's post-processor does");
    options.flag("decode", decode, "token ids to text; one JSON string per line");
  }
};

std::vector<Token> ids_of(const Json& json, const Tokenizer& tokenizer, const std::string& place) {
  if (!json.is_array()) throw UserError("{}: expected an array of ids", place);
  std::vector<Token> ids;
  for (auto& id : json) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= tokenizer.size())
      throw UserError("{}: {} is not a token id of this tokenizer (0 to {})", place, dump(id), tokenizer.size() - 1);
    ids.push_back(static_cast<Token>(id.get<std::int64_t>()));
  }
  return ids;
}

int tokenize(const std::vector<std::string>& words) {
  Tokenize t;
  t.options.parse(words);
  if (!t.model) throw UserError("tokenize needs --model DIR");
  if (t.text.has_value() + t.file.has_value() + t.input.has_value() != 1)
    throw UserError("tokenize needs exactly one of --text, --file, --input");
  if (t.special && t.decode) throw UserError("--special is for texts: leave it out with --decode");
  auto tokenizer = load_tokenizer(model_directory(*t.model));
  auto encode = [&](std::string_view text) {
    return Json(tokenizer->encode(text, {.add_special = t.special}).ids).dump() + "\n";
  };
  auto decode = [&](const Json& ids, const std::string& place) {
    return dump(Json(tokenizer->decode(ids_of(ids, *tokenizer, place)))) + "\n";
  };
  if (t.text || t.file) {
    // A file is one text, including its last newline.
    std::string text = t.text ? *t.text : read_file(*t.file);
    print(t.decode ? decode(parse_json(text, t.text ? "--text" : *t.file), t.text ? "--text" : *t.file) : encode(text));
    return 0;
  }
  // Read like a dataset: bounded rows, decompression, and read errors that are not mistaken for the end of the file.
  RowReader reader({*t.input, RowForm::json_lines, ""});
  Json row;
  for (RawRow raw; reader.next(raw);) {
    reader.parse(raw, row);
    const std::string place = reader.place(raw);
    if (t.decode) {
      if (!row.contains("ids")) throw UserError("{}: expected {{\"ids\": […]}}", place);
      print(decode(row["ids"], place));
    } else {
      if (!row.contains("text") || !row["text"].is_string()) throw UserError("{}: expected {{\"text\": …}}", place);
      print(encode(row["text"].get_ref<const std::string&>()));
    }
  }
  return 0;
}

}  // namespace

Command preprocess_command() {
  return {"preprocess", "tokenizes the data of a recipe and plans the packing",
          [] { return Preprocess().options.page(); }, preprocess, Ranks::many};
}
Command tokenize_command() {
  return {"tokenize", "converts text to token ids and back", [] { return Tokenize().options.page(); }, tokenize};
}
}  // namespace dml
