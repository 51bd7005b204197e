// preprocess, tokenize.
#include <cstdio>
#include <cstdlib>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/row_view.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "data/inspect.h"
#include "pipeline/job.h"

namespace dml {
namespace {

// ---- preprocess

struct Preprocess {
  std::string recipe;
  bool rebuild = false;
  std::optional<std::int64_t> debug;
  std::vector<Override> overrides;
  Options options{"preprocess",
                  "preprocess RECIPE [--rebuild] [--debug [N]] [--KEY VALUE …]",
                  {"dml preprocess recipe.yml", "dml preprocess recipe.yml --debug 3"}};
  Preprocess() {
    options.positional("RECIPE", recipe, "the recipe");
    options.flag("rebuild", rebuild, "prepare again even when nothing has changed");
    options.integer("debug", debug, "show the first N rows (5), token by token");
    options.take_overrides(overrides);
  }
};

int preprocess(std::vector<std::string> words) {
  Preprocess p;
  // As Axolotl's, --debug may stand without a number.
  for (auto word = words.begin(); word != words.end(); ++word)
    if (*word == "--debug" && (word + 1 == words.end() || word[1].starts_with("--"))) *word = "--debug=5";
  p.options.parse(words);
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe(p.recipe, p.overrides);
    show_notes(file);
    set_job_threads(file.recipe.train, comm);
    auto tokenizer = open_tokenizer(file.recipe.model);
    Prepared prepared = prepare_on_ranks(file.recipe, *tokenizer, comm, p.rebuild);
    if (comm.rank() != 0) return 0;
    Examples examples = prepared.train();
    std::optional<Schedule> schedule;
    if (!examples.empty())
      schedule.emplace(examples.lengths(), train_schedule(file.recipe.data, file.recipe.train, comm.size()));
    for (auto& line : describe(prepared, schedule ? &*schedule : nullptr)) log_info("{}", line);
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < std::min(p.debug.value_or(0), examples.size()); ++i) first.push_back(i);
    show_rows(prepared, examples, first, *tokenizer, true, false);
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
    options.text("model", model, "directory with tokenizer.json or tokenizer.model");
    options.text("text", text, "this text; with --decode a JSON array of ids");
    options.text("file", file, "a whole file as one text");
    options.text("input", input, "one {\"text\": …} a line; with --decode one {\"ids\": […]} a line");
    options.flag("special", special, "with bos and eos, as the tokenizer's post-processor adds them");
    options.flag("decode", decode, "ids to text; one JSON string a line");
  }
};

std::vector<Token> ids_of(const Json& json, const Tokenizer& tokenizer, const std::string& place) {
  if (!json.is_array()) throw UserError("{}: expected an array of ids", place);
  std::vector<Token> ids;
  for (auto& id : json) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= tokenizer.size())
      throw UserError("{}: {} is no token id of this tokenizer (0 to {})", place, dump(id), tokenizer.size() - 1);
    ids.push_back(static_cast<Token>(id.get<std::int64_t>()));
  }
  return ids;
}

int tokenize(const std::vector<std::string>& words) {
  Tokenize t;
  t.options.parse(words);
  if (!t.model) throw UserError("tokenize needs --model DIR");
  if (t.text.has_value() + t.file.has_value() + t.input.has_value() != 1)
    throw UserError("tokenize needs one of --text, --file, --input");
  auto tokenizer = load_tokenizer(*t.model);
  auto encode = [&](std::string_view text) {
    return Json(tokenizer->encode(text, {.add_special = t.special}).ids).dump() + "\n";
  };
  auto decode = [&](const Json& ids, const std::string& place) {
    return dump(Json(tokenizer->decode(ids_of(ids, *tokenizer, place)))) + "\n";
  };
  if (t.text || t.file) {
    // What a file holds is one text, its last newline included.
    std::string text = t.text ? *t.text : read_file(*t.file);
    print(t.decode ? decode(parse_json(text, t.text ? "--text" : *t.file), t.text ? "--text" : *t.file) : encode(text));
    return 0;
  }
  std::FILE* in = std::fopen(t.input->c_str(), "r");
  if (!in) throw UserError("{}: cannot be opened", *t.input);
  struct Closer {
    std::FILE* f;
    ~Closer() { std::fclose(f); }
  } closer{in};
  char* buffer = nullptr;
  std::size_t room = 0, number = 0;
  struct Freer {
    char*& p;
    ~Freer() { std::free(p); }
  } freer{buffer};
  for (ssize_t n; (n = getline(&buffer, &room, in)) >= 0;) {
    ++number;
    std::string_view line(buffer, static_cast<std::size_t>(n));
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    std::string place = fmt::format("{}:{}", *t.input, number);
    Json row = parse_json(line, place);
    if (t.decode) {
      if (!row.is_object() || !row.contains("ids")) throw UserError("{}: expected {{\"ids\": […]}}", place);
      print(decode(row["ids"], place));
    } else {
      if (!row.is_object() || !row.contains("text") || !row["text"].is_string())
        throw UserError("{}: expected {{\"text\": …}}", place);
      print(encode(row["text"].get_ref<const std::string&>()));
    }
  }
  return 0;
}

}  // namespace

Command preprocess_command() {
  return {"preprocess", "tokenises and packs the data of a recipe", [] { return Preprocess().options.page(); },
          preprocess};
}
Command tokenize_command() {
  return {"tokenize", "text to token ids and back", [] { return Tokenize().options.page(); }, tokenize};
}
}  // namespace dml
