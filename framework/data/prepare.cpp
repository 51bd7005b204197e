#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/built_folder.h"
#include "core/error.h"
#include "core/file_identity.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/parallel.h"
#include "data/builder.h"
#include "data/byte_stream.h"
#include "prompt/chat_template.h"
#include "recipe/recipe.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// The entries of pretraining_dataset, with the format for plain text.
std::vector<DatasetEntry> pretraining_entries(const DataSection& data) {
  std::vector<DatasetEntry> out = data.pretraining_dataset;
  for (auto& entry : out) {
    if (entry.type.pre_tokenized()) entry.type.name = "pretrain";
  }
  return out;
}

// Calls `part`; adds its errors to `problems`, with the setting that they concern.
template <class Part>
void attempt(std::vector<Problem>& problems, const std::string& key, const std::string& prefix, Part&& part) {
  try {
    part();
  } catch (const UserError& error) {
    for (Problem problem : error.about(key).problems()) {
      problem.text = prefix + problem.text;
      problems.push_back(std::move(problem));
    }
  }
}

// Every entry whose files and format can be read; errors of the others are added to `problems`.
std::vector<PlannedDataset> plan_datasets(const DataSection& data, const TemplateSection& templates,
                                          const Tokenizer& tokenizer, const std::vector<DatasetEntry>& pretraining,
                                          std::vector<Problem>& problems) {
  std::vector<PlannedDataset> out;
  auto add = [&](const char* list, const std::vector<DatasetEntry>& entries, bool validation, bool plain_text = false) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const DatasetEntry& entry = entries[i];
      PlannedDataset planned;
      planned.entry = &entry;
      planned.key = fmt::format("{}.{}", list, i);
      planned.validation = validation;
      attempt(problems, planned.key + ".path", "", [&] {
        planned.files = find_sources(entry);
        if (plain_text && !entry.ds_type)  // in prose a line is not an example
          for (auto& file : planned.files)
            if (file.form == RowForm::text) file.form = RowForm::document;
      });
      attempt(problems, planned.key + ".type", entry.path + ": ",
              [&] { planned.strategy = make_prompt_strategy(prompt_context(data, templates, entry, tokenizer)); });
      if (!planned.files.empty() && planned.strategy) out.push_back(std::move(planned));
    }
  };
  add("test_datasets", data.test_datasets, true);
  add("datasets", data.datasets, false);
  add("pretraining_dataset", pretraining, false, true);
  attempt(problems, "chat_template", "", [&] {
    try {
      const DatasetEntry none;
      check_chat_template_name(prompt_context(data, templates, none, tokenizer));
    } catch (const UserError& error) {
      // A template that is refused is one problem, however many datasets use it.
      std::erase_if(problems, [&](const Problem& problem) { return problem.text.ends_with(error.what()); });
      throw;
    }
  });
  if (data.datasets.empty() && pretraining.empty()) problems.push_back({"datasets", "", "the recipe has no datasets"});
  return out;
}

PreparedInputs inputs_of(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                         const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends) {
  PreparedInputs in;
  auto add = [&](std::string name, std::string value) { in.emplace_back(std::move(name), std::move(value)); };
  add("format version", fmt::format("{}", Prepared::kVersion));
  add("tokenizer", tokenizer.digest);
  add("bos and eos", fmt::format("{} {}", tokenizer.bos.value_or(-1), tokenizer.eos.value_or(-1)));
  add("end tokens", fmt::format("{}", fmt::join(ends, " ")));
  add("sequence_len", fmt::format("{}", data.sequence_len));
  if (data.completion_len > 0) add("max_completion_length", fmt::format("{}", data.completion_len));
  add("eval_sequence_len", fmt::format("{}", data.eval_sequence_len.value_or(data.sequence_len)));
  add("excess_length_strategy", fmt::format("{}", static_cast<int>(data.excess_length_strategy)));
  add("min_sample_len", fmt::format("{}", data.min_sample_len));
  add("rl", fmt::format("{}", static_cast<int>(data.rows)));
  add("train_on_inputs", fmt::format("{}", data.train_on_inputs));
  add("val_set_size", fmt::format("{}", data.val_set_size));
  add("shuffle", fmt::format("{} {}", data.shuffle_merged_datasets && !data.curriculum_sampling,
                             data.shuffle_before_merging_datasets));
  add("dataset_exact_deduplication", fmt::format("{}", data.dataset_exact_deduplication));
  add("dataset_near_deduplication", fmt::format("{}", data.dataset_near_deduplication));
  const ScoreFilter& s = data.scores;
  if (!s.path.empty()) add("scores", stream_digest(s.path));
  if (s != ScoreFilter{})
    add("scores' limits of an example",
        fmt::format("{} {} {}", s.max_loss.value_or(HUGE_VAL), s.min_loss.value_or(-HUGE_VAL), fmt::join(s.drop, " ")));
  add("dataset_shard_num", fmt::format("{} {}", data.dataset_shard_num.value_or(1), data.dataset_shard_idx));
  add("on_bad_row", data.on_bad_row == BadRow::error ? "error" : "skip");
  add("seed", fmt::format("{}", seed));
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const DatasetEntry& e = *datasets[i].entry;
    const std::string name = fmt::format("{}[{}]", datasets[i].validation ? "test_datasets" : "datasets", i);
    for (auto& [key, value] : datasets[i].strategy->inputs()) add(name + "." + key, value);
    add(name + ".weights", fmt::format("{} {} margin {}", e.field_weight.value_or(""),
                                       e.message_field_weight.value_or(""), e.field_margin));
    add(name + ".rows", fmt::format("{} shards {} {} weight {} max_rows {} skip {}", e.split, e.shards.value_or(1),
                                    e.shards_idx, e.weight, e.max_rows.value_or(-1), e.skip));
    std::map<std::string, int> seen;  // files of the same name in several folders
    for (auto& file : datasets[i].files) {
      const std::string file_name = fs::path(file.path).filename().string();
      const int earlier = seen[file_name]++;
      add(fmt::format("{} {}{}", name, file_name, earlier == 0 ? "" : fmt::format(" ({})", earlier + 1)),
          fmt::format("{} {}", stream_digest(file.path), name_of(file.form)));
    }
  }
  return in;
}

std::vector<std::string> stamps_of(const std::vector<PlannedDataset>& datasets) {
  std::vector<std::string> out;
  for (auto& dataset : datasets)
    for (auto& file : dataset.files) out.push_back(file_identity(file.path));
  return out;
}

std::string digest_of_inputs(const PreparedInputs& inputs) {
  Hasher hasher;
  for (auto& [name, value] : inputs) hasher.text(name).text(value);
  return hasher.digest();
}

std::vector<Token> end_tokens(const TemplateSection& templates, const Tokenizer& tokenizer) {
  std::vector<Token> ends;
  if (tokenizer.eos) ends.push_back(*tokenizer.eos);
  for (auto& token : templates.eot_tokens.value_or(std::vector<std::string>{})) {
    auto id = tokenizer.find(token);
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
    if (!id)
      log_warning("eot_tokens: this tokenizer splits '{}' into several tokens; add tokens: [\"{}\"]", token, token);
  }
  return ends;
}

void write_manifest(const std::string& folder, const std::string& digest, const PreparedInputs& inputs,
                    const Tokenizer& tokenizer, const Built& built) {
  Json files = Json::object(), named = Json::object();
  for (auto& file : built.files) files[file.name] = {{"size", file.size}, {"xxh3", file.digest}};
  for (auto& [name, value] : inputs) named[name] = value;
  Json sources = Json::array();
  for (auto& source : built.sources)
    sources.push_back(
        {{"path", source.path}, {"form", name_of(source.form)}, {"delimiter", std::string(1, source.delimiter)}});
  Json manifest{{"version", Prepared::kVersion},    {"digest", digest},   {"inputs", named},
                {"tokenizer", tokenizer.directory}, {"sources", sources}, {"files", std::move(files)},
                {"report", to_json(built.report)}};
  write_file(folder + "/manifest.json", manifest_text(std::move(manifest)));
}

}  // namespace

PromptContext prompt_context(const DataSection& data, const TemplateSection& templates, const DatasetEntry& dataset,
                             const Tokenizer& tokenizer) {
  auto piece = [&](std::optional<Token> id) { return id ? tokenizer.piece(*id) : std::string(); };
  PromptContext context;
  context.dataset = &dataset;
  context.rows = data.rows;
  context.train_on_inputs = data.train_on_inputs;
  context.tokenizer_template = tokenizer.chat_template;
  context.named_templates = tokenizer.named_templates;
  context.bos_token = piece(tokenizer.bos);
  context.eos_token = piece(tokenizer.eos);
  context.pad_token = piece(tokenizer.pad);
  context.unk_token = piece(tokenizer.unk);
  context.chat_template = templates.chat_template.value_or("");
  context.chat_template_jinja = templates.chat_template_jinja.value_or("");
  context.chat_template_kwargs = templates.chat_template_kwargs;
  context.default_system_message = templates.default_system_message.value_or("");
  context.eot_tokens = templates.eot_tokens.value_or(std::vector<std::string>{});
  return context;
}

DataCheck check_data(const DataSection& data, const TemplateSection& templates, std::uint64_t seed,
                     const Tokenizer& tokenizer, CheckLimits limits, const ProblemSink& problem) {
  const std::vector<DatasetEntry> pretraining = pretraining_entries(data);
  std::vector<Problem> problems;
  auto datasets = plan_datasets(data, templates, tokenizer, pretraining, problems);
  for (auto& one : problems) problem(one);
  limits.all_datasets = problems.empty();
  DataCheck out = check_rows(data, seed, tokenizer, datasets, end_tokens(templates, tokenizer), limits, problem);
  out.problems += std::ssize(problems);
  return out;
}

void check_sources(const DataSection& data, const ProblemSink& problem) {
  const std::vector<DatasetEntry> pretraining = pretraining_entries(data);
  std::vector<Problem> problems;
  for (auto& [list, entries] : {std::pair{"test_datasets", &data.test_datasets},
                                {"datasets", &data.datasets},
                                {"pretraining_dataset", &pretraining}})
    for (std::size_t i = 0; i < entries->size(); ++i) {
      const DatasetEntry& entry = (*entries)[i];
      const std::string key = fmt::format("{}.{}", list, i);
      attempt(problems, key + ".path", "", [&] { find_sources(entry); });
      attempt(problems, key + ".type", entry.path + ": ", [&] { check_prompt_type(entry.type, data.rows); });
    }
  for (auto& one : problems) problem(one);
}

namespace {

RowOrigins origins_of(const std::vector<PlannedDataset>& datasets) {
  RowOrigins out;
  for (const PlannedDataset& dataset : datasets) {
    out.datasets.push_back(dataset.entry->path);
    for (const SourceFile& file : dataset.files) out.files.push_back(file.path);
  }
  return out;
}

// Existing prepared data, or none; `damage` says why they cannot be used.
std::optional<Prepared> find_ready(const std::string& folder, const std::vector<PlannedDataset>& datasets, bool verify,
                                   const char* note, std::string& damage) {
  damage.clear();
  if (!file_exists(folder + "/manifest.json")) return std::nullopt;
  try {
    Prepared ready = Prepared::open(folder, verify);
    ready.relocate(origins_of(datasets));
    ready.was_ready = true;
    ready.note = fmt::format("{} {}", note, folder);
    return ready;
  } catch (const UserError& error) {
    damage = error.what();
    return std::nullopt;
  }
}

}  // namespace

Prepared prepare(const DataSection& data, const TemplateSection& templates, std::uint64_t seed,
                 const Tokenizer& tokenizer, const PrepareOptions& options) {
  const std::vector<DatasetEntry> pretraining = pretraining_entries(data);
  std::vector<Problem> problems;
  auto datasets = plan_datasets(data, templates, tokenizer, pretraining, problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  PhaseSeconds seconds;
  PhaseClock clock(seconds);
  const auto stamps = stamps_of(datasets);
  const auto ends = end_tokens(templates, tokenizer);
  const PreparedInputs inputs = inputs_of(data, seed, tokenizer, datasets, ends);
  clock.lap(Phase::digest);
  const std::string digest = digest_of_inputs(inputs);
  const std::string root = data.dataset_prepared_path.empty() ? "last_run_prepared" : data.dataset_prepared_path;
  const std::string folder = root + "/" + digest;

  std::string damage;
  if (!options.rebuild)
    if (auto ready = find_ready(folder, datasets, options.verify, "Using the cached dataset", damage)) {
      remove_leftovers(root);
      return std::move(*ready);
    }

  make_directories(root);
  BuildLock lock(root, digest);
  if (!options.rebuild)
    if (auto ready = find_ready(folder, datasets, options.verify, "Another process prepared the dataset:", damage))
      return std::move(*ready);
  lock.remove_leftovers();
  std::string changed = what_changed(inputs, root);
  std::string why = !damage.empty()   ? fmt::format("Rebuilding the dataset: {}", damage)
                    : options.rebuild ? "Rebuilding the dataset (--rebuild)"
                    : changed.empty() ? "No cached dataset; preparing"
                                      : fmt::format("Rebuilding the dataset: {}", changed);

  DirectoryWriter writer(
      folder, options.rebuild || !damage.empty() || (file_exists(folder) && !file_exists(folder + "/manifest.json")));
  Built built = build_arrays(data, seed, tokenizer, datasets, ends, writer.path());
  clock.skip();
  if (stamps_of(datasets) != stamps) throw UserError("{}: a data file changed while it was read", root);
  write_manifest(writer.path(), digest, inputs, tokenizer, built);
  clock.lap(Phase::digest);
  writer.commit();
  clock.lap(Phase::write);
  Prepared out = Prepared::open(folder, false);
  seconds += built.seconds;
  out.note = fmt::format("{}: {}", why, folder);
  out.cost = fmt::format("{:.2f} s of CPU time on {} thread{}: {}", seconds.total(), threads(),
                         threads() == 1 ? "" : "s", seconds.shares());
  return out;
}

}  // namespace dml
