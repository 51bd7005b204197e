// preprocess, inspect, tokenize, template: the text half.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "data/inspect.h"
#include "pipeline/job.h"
#include "prompt/chat_template.h"

namespace dml {
namespace {

// ---- preprocess

struct Preprocess {
  std::string recipe;
  bool rebuild = false;
  std::optional<std::int64_t> debug;
  std::vector<Override> overrides;
  Options options{"preprocess", "preprocess RECIPE [--rebuild] [--debug N] [--KEY VALUE …]", {"dml preprocess recipe.yml", "dml preprocess recipe.yml --debug 3"}};
  Preprocess() {
    options.positional("RECIPE", recipe, "the recipe");
    options.flag("rebuild", rebuild, "prepare again even when nothing has changed");
    options.integer("debug", debug, "show the first N rows, token by token");
    options.take_overrides(overrides);
  }
};

void show_rows(const Prepared& prepared, const Examples& examples, const Tokenizer& tokenizer, std::int64_t count, ViewStyle style) {
  for (std::int64_t i = 0; i < std::min(count, examples.size()); ++i)
    print(render_text(view_row(examples, i, tokenizer, fmt::format("row {}, {}", i, prepared.place(examples.stored(i)))), style) + "\n");
}

ViewStyle view_style(bool ids) {
  const char* no_color = std::getenv("NO_COLOR");
  return {isatty(STDOUT_FILENO) == 1 && !(no_color && *no_color), ids};
}

int preprocess(const std::vector<std::string>& words) {
  Preprocess p;
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
    if (!examples.empty()) schedule.emplace(examples.lengths(), train_schedule(file.recipe.data, file.recipe.train, comm.size()));
    for (auto& line : describe(prepared, schedule ? &*schedule : nullptr)) log_info("{}", line);
    if (p.debug) show_rows(prepared, examples, *tokenizer, *p.debug, view_style(true));
    print(prepared.folder() + "\n");
    return 0;
  });
}

// ---- inspect

struct Inspect {
  std::string what;
  std::optional<std::int64_t> row, rows;
  std::optional<std::string> search, split, tokenizer;
  bool ids = false, json = false;
  std::vector<Override> overrides;
  Options options{"inspect", "inspect RECIPE [--row N | --rows N | --search TEXT] [--split train|validation] [--ids] [--json]",
                  {"dml inspect recipe.yml                  what was kept, dropped, learned", "dml inspect recipe.yml --row 3          one row: learned and masked tokens",
                   "dml inspect recipe.yml --search pirate  rows with this text"}};
  Inspect() {
    options.positional("RECIPE", what, "a recipe whose data is prepared, or will be");
    options.integer("row", row, "show row N");
    options.integer("rows", rows, "show the first N rows");
    options.text("search", search, "show up to 10 rows that contain TEXT");
    options.text("split", split, "train (default) or validation");
    options.flag("ids", ids, "every token as token(label, id)");
    options.flag("json", json, "rows as JSON lines");
    options.take_overrides(overrides);
  }
};

int inspect(const std::vector<std::string>& words) {
  Inspect in;
  in.options.parse(words);
  RecipeFile file = load_recipe(in.what, in.overrides);
  auto tokenizer = open_tokenizer(file.recipe.model);
  auto self = make_self_comm();
  Prepared prepared = prepare_on_ranks(file.recipe, *tokenizer, *self);
  std::string split = in.split.value_or("train");
  if (split != "train" && split != "validation") throw UserError("--split: '{}'; choose from train, validation", split);
  Examples examples = split == "train" ? prepared.train() : prepared.validation();

  std::vector<std::int64_t> chosen;
  if (in.row) {
    if (*in.row < 0 || *in.row >= examples.size()) throw UserError("--row: {} is not there; the {} split has rows 0 to {}", *in.row, split, examples.size() - 1);
    chosen.push_back(*in.row);
  } else if (in.search) {
    chosen = find_rows(examples, *tokenizer, *in.search, 10);
    if (chosen.empty()) throw UserError("--search: no row of the {} split contains '{}'", split, *in.search);
  } else if (in.rows) {
    for (std::int64_t i = 0; i < std::min(*in.rows, examples.size()); ++i) chosen.push_back(i);
  } else {
    std::optional<Schedule> schedule;
    if (!prepared.train().empty()) schedule.emplace(prepared.train().lengths(), train_schedule(file.recipe.data, file.recipe.train, 1));
    for (auto& line : describe(prepared, schedule ? &*schedule : nullptr)) print(line + "\n");
  }
  for (std::int64_t i : chosen) {
    RowView row = view_row(examples, i, *tokenizer, fmt::format("row {}, {}", i, prepared.place(examples.stored(i))));
    print((in.json ? dump(render_json(row)) : render_text(row, view_style(in.ids))) + "\n");
  }
  return 0;
}

// ---- tokenize

struct Tokenize {
  std::optional<std::string> model, text, file, input;
  bool special = false, decode = false;
  Options options{"tokenize", "tokenize --model DIR (--text T | --file F | --input F.jsonl) [--special] [--decode]",
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
  if (t.text.has_value() + t.file.has_value() + t.input.has_value() != 1) throw UserError("tokenize needs one of --text, --file, --input");
  auto tokenizer = load_tokenizer(*t.model);
  auto encode = [&](std::string_view text) {
    return Json(tokenizer->encode(text, {.add_special = t.special}).ids).dump() + "\n";
  };
  auto decode = [&](const Json& ids, const std::string& place) { return dump(Json(tokenizer->decode(ids_of(ids, *tokenizer, place)))) + "\n"; };
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
      if (!row.is_object() || !row.contains("text") || !row["text"].is_string()) throw UserError("{}: expected {{\"text\": …}}", place);
      print(encode(row["text"].get_ref<const std::string&>()));
    }
  }
  return 0;
}

// ---- template

struct Template {
  std::optional<std::string> path, context;
  Options options{"template", "template --template FILE.jinja --context FILE.json", {"dml template --template chat_template.jinja --context context.json"}};
  Template() {
    options.text("template", path, "a chat template");
    options.text("context", context, "its variables, an object: messages, bos_token, add_generation_prompt …");
  }
};

int render(const std::vector<std::string>& words) {
  Template t;
  t.options.parse(words);
  if (!t.path || !t.context) throw UserError("template needs --template FILE and --context FILE");
  print(render_template_file(*t.path, *t.context));
  return 0;
}

}  // namespace

Command preprocess_command() {
  return {"preprocess", "tokenises and packs the data of a recipe", [] { return Preprocess().options.page(); }, preprocess};
}
Command inspect_command() {
  return {"inspect", "shows prepared data: counts, and which tokens are learned", [] { return Inspect().options.page(); }, inspect};
}
Command tokenize_command() {
  return {"tokenize", "text to token ids and back", [] { return Tokenize().options.page(); }, tokenize};
}
Command template_command() {
  return {"template", "renders a chat template", [] { return Template().options.page(); }, render};
}

}  // namespace dml
