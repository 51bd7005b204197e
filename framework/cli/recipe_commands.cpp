// dml validate, dml list, dml schema, dml version.

#include "assembly/eval_metrics.h"
#include "checkpoint/model_config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "core/version.h"
#include "dist/strategy.h"
#include "kernels/gemm.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "pipeline/preflight.h"
#include "prompt/chat_formats.h"
#include "prompt/preference.h"
#include "prompt/strategy.h"
#include "train/objective_rows.h"

namespace dml {
namespace {

struct Validate {
  std::string recipe;
  bool resolved = false, recipe_only = false;
  std::vector<Override> overrides;
  Options options{"validate",
                  "validate RECIPE [--recipe-only | --resolved] [--KEY VALUE …]",
                  {"dml validate recipe.yml                 recipe, model, tokenizer, data, memory and disk",
                   "dml validate recipe.yml --recipe-only   the recipe alone",
                   "dml validate recipe.yml --resolved --learning_rate 1e-4"}};
  Validate() {
    options.about(
        "Lists every problem for which a later command would refuse this recipe, with its place: unknown keys, missing "
        "files, targets that the model does not have, rows that cannot be used, too little memory or disk space. Reads "
        "up to 32 MiB of each dataset and writes nothing.");
    options.positional("RECIPE", recipe, "the recipe");
    options.flag("recipe-only", recipe_only, "check only the recipe, not model and data");
    options.flag("resolved", resolved, "print every value of the recipe with its origin, and check nothing else");
    options.take_overrides(overrides);
  }
};

int run_validate(const std::vector<std::string>& words) {
  Validate v;
  v.options.parse(words);
  const bool alone = v.recipe_only || v.resolved;
  RecipeFile file = alone ? load_recipe(v.recipe, v.overrides) : examine_recipe(v.recipe, v.overrides);
  show_notes(file, {.missing = alone});
  if (v.resolved) {
    print(resolved_yaml(file, true));
    return 0;
  }
  if (!alone) {
    const Validation found = validate(file);
    for (auto& line : found.notes) log_info("note: {}", line);
    if (!found.problems.empty()) throw UserError(found.problems);
  }
  print(fmt::format("{}: good\n", v.recipe));
  return 0;
}

template <class Rows>
void print_rows(const std::string& title, const Rows& rows) {
  print(fmt::format("{}\n", title));
  for (auto& r : rows) print(fmt::format("  {:<34} {}\n", r.name, r.help));
}

const std::vector<std::string> kLists{"models",     "prompts",    "chat_templates", "objectives",
                                      "optimizers", "schedulers", "distributions",  "eval_metrics"};

std::string shown_default(const Json& value) {
  return value.is_number() ? fmt::format("{:g}", value.get<double>()) : dump(value);
}

// Lists optimizers with their optim_args.
void list_optimizers() {
  print("optimizers\n");
  for (const auto& row : optimizers().rows()) {
    print(
        fmt::format("  {:<34} {}\n", row.name, row.make.notice.empty() ? row.help : row.help + "; " + row.make.notice));
    std::string arguments;
    for (const OptimizerArgument& a : row.make.arguments)
      if (!a.from)
        arguments += fmt::format("{}{}: {}", arguments.empty() ? "" : ", ", a.name, shown_default(a.fallback));
    if (!arguments.empty()) print(fmt::format("  {:<34} optim_args: {}\n", "", arguments));
  }
}

void list_one(const std::string& what) {
  if (what == "models") {
    print("models (each: full fine-tuning, LoRA, QLoRA in 4 and 8 bits, decoding)\n");
    for (auto& f : families()) print(fmt::format("  {:<34} {}\n", f.model_type, f.help));
  } else if (what == "prompts") {
    print_rows("prompts (datasets.type)", prompt_strategies().rows());
    print_rows("prompts of pairs (datasets.type with rl: dpo, ipo, orpo, simpo, cpo)", pair_strategies().rows());
    print_rows("prompts of answers with a label (datasets.type with rl: kto)", labeled_strategies().rows());
  } else if (what == "chat_templates") {
    print("chat_templates\n");
    for (auto& f : chat_formats()) print(fmt::format("  {:<34} {}\n", f.name, f.help));
  } else if (what == "objectives") {
    print_rows("token losses (objective)", objectives().rows());
  } else if (what == "optimizers") {
    list_optimizers();
  } else if (what == "schedulers") {
    print_rows("schedulers (lr_scheduler)", schedules().rows());
  } else if (what == "distributions") {
    print_rows("distributions", strategies().rows());
  } else {
    print_rows("eval_metrics", eval_metrics().rows());
  }
}

struct List {
  std::string what;
  Options options{"list", "list [LIST]", {"dml list", "dml list prompts"}};
  List() {
    options.about("Prints the names that recipe keys accept, each with a line of explanation.");
    options.positional("LIST", what, fmt::format("one of {}; without it, all of them", fmt::join(kLists, ", ")), false);
    options.values("LIST", kLists);
  }
};

int list(const std::vector<std::string>& words) {
  List l;
  l.options.parse(words);
  if (!l.what.empty() && std::ranges::find(kLists, l.what) == kLists.end())
    throw UserError("unknown list '{}'{}", l.what, did_you_mean(l.what, kLists));
  for (auto& name : kLists)
    if (l.what.empty() || l.what == name) list_one(name);
  return 0;
}

struct PrintSchema {
  Options options{"schema", "schema", {"dml schema > dml.schema.json"}};
  PrintSchema() { options.about("Prints a JSON Schema of recipes, with which editors complete and check them."); }
};

struct PrintVersion {
  Options options{"version", "version", {"dml version"}};
  PrintVersion() { options.about("Prints the version, the build and the libraries."); }
};

}  // namespace

Command validate_command() {
  return {"validate", "checks a recipe, its model and its data; lists every problem",
          [] { return Validate().options.page(); }, run_validate};
}

Command list_command() {
  return {"list", "lists model families, prompt formats, optimizers and other choices",
          [] { return List().options.page(); }, list};
}

Command schema_command() {
  return {"schema", "prints a JSON Schema of recipes, for editors", [] { return PrintSchema().options.page(); },
          [](const std::vector<std::string>& words) {
            PrintSchema().options.parse(words);
            print(json_schema().dump(2) + "\n");
            return 0;
          }};
}

Command version_command() {
  return {"version", "prints version, build and libraries", [] { return PrintVersion().options.page(); },
          [](const std::vector<std::string>& words) {
            PrintVersion().options.parse(words);
            print(fmt::format("dml {}\n{}\n{}\n", version(), build_description(), kernels::blas_description()));
            return 0;
          }};
}

}  // namespace dml
