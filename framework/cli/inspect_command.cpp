// dml inspect: shows prepared data: row by row, as a page, or compared with another folder.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "assembly/hub_files.h"
#include "assembly/job.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/row_view.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "data/difference.h"
#include "data/example.h"
#include "data/page.h"
#include "data/prepare.h"

namespace dml {
namespace {

constexpr std::int64_t kFound = 10;  // rows shown by --search

struct Inspect {
  std::string what;
  std::optional<std::int64_t> row, rows, random, packed;
  std::optional<std::string> search, split, model, html, diff, scores, by;
  bool ids = false, json = false, dropped = false, lowest = false;
  std::vector<Override> overrides;
  Options options{"inspect",
                  "inspect RECIPE|DIR [--row N | --rows N | --random N | --search TEXT | --packed N | --dropped | "
                  "--scores FILE [--by VALUE]] [--split train|validation] [--ids] [--json] [--html FILE] [--diff DIR]",
                  {"dml inspect recipe.yml                  rows kept and dropped, tokens trained",
                   "dml inspect recipe.yml --row 3          one row: trained and masked tokens",
                   "dml inspect recipe.yml --search pirate  rows that contain this text",
                   "dml inspect recipe.yml --scores scores.jsonl --by difference --lowest",
                   "dml inspect recipe.yml --html rows.html  a page for the browser",
                   "dml inspect last_run_prepared/NEW --diff last_run_prepared/OLD"}};
  Inspect() {
    options.about(
        "Shows prepared data: what was kept and dropped, rows with their trained and masked tokens, packed rows, or "
        "the differences between two prepared folders. Prepares the data first if necessary.");
    options.positional("RECIPE|DIR", what, "a recipe, whose data are prepared if necessary, or a prepared folder");
    options.integer("row", row, "show row N");
    options.integer("rows", rows, "show the first N rows; with --html: maximum number of rows (default 2000)");
    options.integer("random", random, "show N random rows");
    options.text("search", search, "show up to 10 rows that contain TEXT");
    options.integer("packed", packed, "show packed row N of the first epoch");
    options.flag("dropped", dropped, "show every dropped row with the reason");
    options.choice("split", split, {"train", "validation"}, "train or validation; default: train, with --scores both");
    options.text(
        "scores", scores,
        "show the rows with the highest scores in FILE, which `dml score` wrote: 10, or as many as --rows says",
        "FILE");
    options.choice("by", by, score_names(), "with --scores: order by this value (loss)");
    options.flag("lowest", lowest, "with --scores: the lowest first");
    options.flag("ids", ids, "show each token as token(label, id)");
    options.flag("json", json, "JSON lines instead of text");
    options.text("html", html, "write a self-contained HTML page", "FILE");
    options.text("diff", diff, "show the differences from another prepared folder: settings and rows", "DIR");
    options.text("model", model, "with DIR: directory of its tokenizer", "DIR");
    options.take_overrides(overrides);
  }
};

void print_dropped(const DroppedRow& row, bool json) {
  print(json ? dump(Json{{"place", row.place}, {"reason", row.reason}, {"detail", row.detail}}) + "\n"
             : fmt::format("{}: {}{}\n", row.place, row.reason, row.detail.empty() ? "" : ", " + row.detail));
}

// The data to inspect, opened from a recipe or a prepared folder.
struct Subject {
  std::optional<RecipeFile> recipe;
  std::unique_ptr<Tokenizer> tokenizer;  // null for a folder whose tokenizer was not found
  Prepared prepared;
  std::optional<ScheduleOptions> plan;  // only with a recipe

  static Subject open(const Inspect& in) {
    Subject out;
    if (file_exists(in.what + "/manifest.json")) {
      require_no_keys(in.overrides, "a prepared folder");
      out.prepared = Prepared::open(in.what);
      out.open_tokenizer_of_folder(in.model);
      return out;
    }
    if (in.model) throw UserError("--model is for a prepared folder; a recipe names its tokenizer");
    out.recipe = load_recipe_to_run(in.what, in.overrides, RecipeUse::train, {.weights = false});
    out.tokenizer = open_tokenizer(out.recipe->recipe.model);
    auto self = make_self_comm();
    try {
      out.prepared = prepare_on_ranks(out.recipe->recipe, *out.tokenizer, *self);
    } catch (const UserError&) {
      if (in.dropped) out.list_dropped(in.json);
      throw;
    }
    out.plan =
        train_schedule(out.recipe->recipe.data, out.recipe->recipe.train, 1, out.recipe->recipe.preference.sampling());
    return out;
  }

  const Tokenizer& with_tokenizer() const {
    if (!tokenizer)
      throw UserError(
          "{}: the tokenizer that made it was not found; give its directory with --model, or give the RECIPE",
          prepared.folder());
    return *tokenizer;
  }

 private:
  // Lists the dropped rows of data that cannot be prepared, for example because no row is left.
  void list_dropped(bool json) const {
    const Recipe& r = recipe->recipe;
    const DroppedSink list = [json](const DroppedRow& row) { print_dropped(row, json); };
    check_data(r.data, r.templates, static_cast<std::uint64_t>(r.train.seed), *tokenizer, {.dropped = &list},
               [](const Problem&) {});
  }

  void open_tokenizer_of_folder(const std::optional<std::string>& model) {
    const Json& manifest = prepared.manifest();
    const std::string place = prepared.folder() + "/manifest.json";
    const std::string directory = model ? *model : json_string(manifest, "tokenizer", "", place);
    if (directory.empty() || (!model && !file_exists(directory))) return;
    tokenizer = load_tokenizer(directory);
    const Json inputs = manifest.value("inputs", Json::object());
    if (tokenizer->digest != json_string(inputs, "tokenizer", "", place))
      throw UserError(
          "{}: was made with another tokenizer than the one in {} (or the recipe adds tokens to it); give the RECIPE, "
          "or the directory of the tokenizer with --model",
          prepared.folder(), directory);
  }
};

// The examples of a scored row, by their numbers in `all`; with --split those that are in it.
class ScoredRows {
 public:
  ScoredRows(const Inspect& in, const Prepared& prepared, const Examples& all) : all_(all) {
    for (std::int64_t i = 0; i < all.size(); ++i) at_[prepared.place(all.stored(i))].push_back(i);
    if (!in.split) return;
    const Examples examples = *in.split == "train" ? prepared.train() : prepared.validation();
    split_.emplace();
    for (std::int64_t i = 0; i < examples.size(); ++i) split_->insert(examples.stored(i));
  }
  /// Nothing if the row has no example in the split.
  std::optional<std::vector<std::int64_t>> of(const RowScore& score) const {
    const auto rows = at_.find(score.place);
    std::vector<std::int64_t> out = rows == at_.end() ? std::vector<std::int64_t>() : rows->second;
    // A row may have become several examples: the one that was scored is the one with its digest.
    const auto scored = std::ranges::find_if(out, [&](std::int64_t i) { return is_scored(score, i); });
    if (scored != out.end()) out = {*scored};
    if (!split_) return out;
    std::erase_if(out, [&](std::int64_t i) { return !split_->contains(all_.stored(i)); });
    return out.empty() ? std::nullopt : std::optional(out);
  }
  bool is_scored(const RowScore& score, std::int64_t i) const {
    return !score.digest.empty() && digest_of_example(all_.ids(i), all_.labels(i)) == score.digest;
  }

 private:
  const Examples& all_;
  std::map<std::string, std::vector<std::int64_t>> at_;
  std::optional<std::set<std::int32_t>> split_;
};

// Shows rows in the order of their scores, each with a line of its values.
void show_scores(const Inspect& in, const Subject& subject) {
  const std::vector<RowScore> scores = read_scores(*in.scores);
  const Examples all = subject.prepared.all();
  const ScoredRows rows(in, subject.prepared, all);
  std::int64_t left = std::max<std::int64_t>(0, in.rows.value_or(kFound));
  for (const std::size_t number : sorted_scores(scores, in.by.value_or("loss"), in.lowest)) {
    if (left == 0) break;
    const RowScore& s = scores[number];
    const auto shown = rows.of(s);
    if (!shown) continue;
    --left;
    if (in.json) {
      print(score_line(number, s) + "\n");
      continue;
    }
    print(fmt::format("loss {:.4f}{}, {} of {} tokens trained, {}\n", s.last_loss(),
                      s.loss ? fmt::format(", base {:.4f}, difference {:+.4f}", s.base_loss, s.difference()) : "",
                      s.trained_tokens, s.tokens, s.place));
    if (shown->empty()) {
      print("(not in the prepared data)\n");
      continue;
    }
    if (!s.digest.empty() && !rows.is_scored(s, shown->front())) print("(changed since it was scored)\n");
    show_rows(subject.prepared, all, *shown, subject.with_tokenizer(), {in.ids, false});
  }
}

std::vector<std::int64_t> packed_row(const Subject& subject, const Examples& examples, std::int64_t n) {
  if (subject.recipe && subject.recipe->recipe.data.rows != RowKind::text)
    throw UserError(
        std::string("--packed: there are no packed rows; the examples of a step are packed as it is trained"));
  if (!subject.plan || !subject.plan->packing) throw UserError("--packed: needs a recipe with `sample_packing: true`");
  ScheduleOptions one = *subject.plan;
  one.micro_batch_size = 1;
  const Lists rows = plan_epoch(examples.lengths(), one, 0);
  if (n < 0 || n >= rows.size())
    throw UserError("--packed: there is no row {}; there are rows 0 to {}", n, rows.size() - 1);
  auto chosen = rows[n];
  return {chosen.begin(), chosen.end()};
}

std::vector<std::int64_t> choose(const Inspect& in, const Subject& subject, const Examples& examples,
                                 const std::string& split) {
  std::vector<std::int64_t> chosen;
  if (in.row) {
    if (*in.row < 0 || *in.row >= examples.size())
      throw UserError("--row: there is no row {}; the {} split has rows 0 to {}", *in.row, split, examples.size() - 1);
    chosen.push_back(*in.row);
  } else if (in.search) {
    chosen = find_rows(examples, subject.with_tokenizer(), *in.search, kFound);
    if (chosen.empty()) throw UserError("--search: no row of the {} split contains '{}'", split, *in.search);
  } else if (in.packed) {
    chosen = packed_row(subject, examples, *in.packed);
  } else if (in.random && !examples.empty()) {
    // Distinct rows, by a partial shuffle; at most as many as exist.
    chosen.resize(static_cast<std::size_t>(examples.size()));
    std::iota(chosen.begin(), chosen.end(), 0);
    std::mt19937_64 chance(std::random_device{}());
    const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(*in.random, 0, examples.size()));
    for (std::size_t i = 0; i < count; ++i)
      std::swap(chosen[i], chosen[std::uniform_int_distribution<std::size_t>(i, chosen.size() - 1)(chance)]);
    chosen.resize(count);
  } else if (in.rows) {
    for (std::int64_t i = 0; i < std::min(*in.rows, examples.size()); ++i) chosen.push_back(i);
  }
  return chosen;
}

int inspect(const std::vector<std::string>& words) {
  Inspect in;
  in.options.parse(words);
  const std::string split = in.split.value_or("train");
  const int shown = in.row.has_value() + in.search.has_value() + in.packed.has_value() + in.random.has_value() +
                    (in.rows && !in.html && !in.scores) + in.dropped + in.scores.has_value() + in.html.has_value() +
                    in.diff.has_value();
  if (shown > 1)
    throw UserError("choose one of --row, --rows, --random, --search, --packed, --dropped, --scores, --html, --diff");
  if ((in.by || in.lowest) && !in.scores)
    throw UserError("--by and --lowest order rows by their scores: give --scores FILE");
  const bool shows_rows = in.row || in.search || in.packed || in.random || in.scores || (in.rows && !in.html);
  for (const auto& [option, given] : {std::pair{"--split", in.split.has_value()}, {"--ids", in.ids}})
    if (given && !shows_rows)
      throw UserError("{} requires one of --row, --rows, --random, --search, --packed and --scores, which show rows",
                      option);
  if (in.ids && in.scores && in.json)
    throw UserError("--ids shows tokens: with --scores and --json there are only the values of `dml score`");
  for (const auto& [option, count] : {std::pair{"--rows", in.rows}, std::pair{"--random", in.random}})
    if (count && *count < 1) throw UserError("{}: must be at least 1, is {}", option, *count);
  if (in.html) require_place_of_page("--html", *in.html);

  const Subject subject = Subject::open(in);
  const Prepared& prepared = subject.prepared;
  if (in.diff) {
    const Difference difference = compare(Prepared::open(*in.diff), prepared);
    if (in.json) print(dump(difference.json()) + "\n");
    for (auto& line : in.json ? std::vector<std::string>() : difference.lines()) print(line + "\n");
    return 0;
  }
  if (in.dropped) {
    for (const DroppedRow& row : prepared.dropped(INT64_MAX)) print_dropped(row, in.json);
    return 0;
  }
  if (in.scores) {
    show_scores(in, subject);
    return 0;
  }
  std::optional<Schedule> schedule;
  if (subject.plan && !prepared.train().empty()) schedule.emplace(prepared.train().lengths(), *subject.plan);
  if (in.html) {
    PageOptions page{.title = in.what, .most_rows = in.rows.value_or(PageOptions().most_rows)};
    make_parent_directories(*in.html);
    write_file(*in.html,
               page_html(page_data(prepared, subject.with_tokenizer(), schedule ? &*schedule : nullptr, page)));
    print(*in.html + "\n");
    return 0;
  }
  if (shown == 0) {
    if (in.json) print(dump(Json{{"folder", prepared.folder()}, {"report", to_json(prepared.report())}}) + "\n");
    else
      for (auto& line : describe(prepared, schedule ? &*schedule : nullptr)) print(line + "\n");
    return 0;
  }
  const Examples examples = split == "train" ? prepared.train() : prepared.validation();
  show_rows(prepared, examples, choose(in, subject, examples, split), subject.with_tokenizer(), {in.ids, in.json});
  return 0;
}

}  // namespace

Command inspect_command() {
  return {"inspect", "shows prepared data: counts, and which tokens are trained",
          [] { return Inspect().options.page(); }, inspect};
}

}  // namespace dml
