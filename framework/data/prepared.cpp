#include "data/prepared.h"

#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "data/byte_stream.h"
#include "data/records.h"
#include "data/tensor_file.h"

namespace dml {

struct Prepared::Arrays {
  std::string folder;
  Json manifest;
  std::vector<MappedFile> files;
  std::span<const Token> ids, labels;
  std::span<const std::int64_t> offsets, source_line;
  std::span<const std::int32_t> source_file, train, validation, kinds, splits;
  std::span<const float> numbers, weights;
  std::vector<std::int32_t> everything;
};

const std::vector<std::string>& Prepared::array_names() {
  static const std::vector<std::string> names{"ids",        "labels", "offsets", "source_file", "source_line", "train",
                                              "validation", "kinds",  "splits",  "numbers",     "weights"};
  return names;
}

namespace {

RowForm form_of(const std::string& name) {
  for (const RowForm form :
       {RowForm::json_array, RowForm::csv, RowForm::text, RowForm::document, RowForm::parquet, RowForm::arrow})
    if (name == name_of(form)) return form;
  return RowForm::json_lines;
}

/// A digest detects damage, not manipulation: indices are checked against the arrays, too.
template <class Arrays>
void check_arrays(const Arrays& a, const std::string& folder) {
  auto fail = [&](const char* what) { throw UserError("{}: damaged: {}", folder, what); };
  if (a.offsets.empty() || a.offsets.front() != 0 || a.offsets.back() != static_cast<std::int64_t>(a.ids.size()) ||
      a.labels.size() != a.ids.size())
    fail("offsets, ids and labels do not match");
  for (std::size_t i = 1; i < a.offsets.size(); ++i)
    if (a.offsets[i] < a.offsets[i - 1]) fail("offsets are not ascending");
  const auto examples = static_cast<std::int32_t>(a.offsets.size() - 1);
  if (a.source_file.size() != a.offsets.size() - 1 || a.source_line.size() != a.offsets.size() - 1)
    fail("the number of sources is not the number of examples");
  if (a.kinds.size() != a.offsets.size() - 1 || a.splits.size() != a.kinds.size())
    fail("the number of kinds is not the number of examples");
  if (a.numbers.size() != 2 * a.kinds.size() || (!a.weights.empty() && a.weights.size() != a.ids.size()))
    fail("the number of weights is not that of examples and tokens");
  for (std::size_t i = 0; i < a.kinds.size(); ++i) {
    const bool pair = a.kinds[i] == static_cast<std::int32_t>(ExampleKind::pair);
    if (a.kinds[i] < 0 || a.kinds[i] > static_cast<std::int32_t>(ExampleKind::undesirable)) fail("an unknown kind");
    if (pair && (a.splits[i] < 1 || a.splits[i] >= a.offsets[i + 1] - a.offsets[i]))
      fail("a pair has only one document");
  }
  for (auto list : {a.train, a.validation})
    for (std::int32_t i : list)
      if (i < 0 || i >= examples) fail("a list names an example that does not exist");
}

}  // namespace

std::string manifest_text(Json manifest) {
  constexpr const char* kOwn = "xxh3";
  manifest.erase(kOwn);
  auto text = [&] { return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  manifest[kOwn] = digest_of(text());
  return text();
}

Prepared Prepared::open(const std::string& folder, bool verify) {
  auto arrays = std::make_shared<Arrays>();
  Arrays& a = *arrays;
  a.folder = folder;
  const std::string manifest_path = folder + "/manifest.json";
  if (!file_exists(manifest_path)) throw UserError("{}: is not a prepared dataset (manifest.json is missing)", folder);
  a.manifest = read_json(manifest_path);
  if (auto version = json_integer(a.manifest, "version", 0, manifest_path); version != kVersion)
    throw UserError("{}: has version {}, this dml reads version {}; prepare the data again", manifest_path, version,
                    kVersion);

  if (manifest_text(a.manifest) != read_file(manifest_path))
    throw UserError("{}: damaged: its content has changed", manifest_path);
  const Json files = a.manifest.value("files", Json::object());
  for (auto& name : array_names()) {
    const std::string file = name + ".safetensors", path = folder + "/" + file;
    if (!files.contains(file)) throw UserError("{}: 'files' does not name {}", manifest_path, file);
    a.files.emplace_back(path);
    auto size = static_cast<std::size_t>(json_integer(files[file], "size", -1, manifest_path));
    if (a.files.back().bytes().size() != size)
      throw UserError("{}: damaged: {} bytes instead of {}", path, a.files.back().bytes().size(), size);
    if (verify && !has_digest(path, json_string(files[file], "xxh3", "", manifest_path)))
      throw UserError("{}: damaged: its content has changed", path);
  }
  const std::string dropped = folder + "/dropped.jsonl";
  if (!files.contains("dropped.jsonl")) throw UserError("{}: 'files' does not name dropped.jsonl", manifest_path);
  if (verify && stream_digest(dropped) != json_string(files["dropped.jsonl"], "xxh3", "", manifest_path))
    throw UserError("{}: damaged: its content has changed", dropped);
  a.ids = tensor<Token>(a.files[0], "ids");
  a.labels = tensor<Token>(a.files[1], "labels");
  a.offsets = tensor<std::int64_t>(a.files[2], "offsets");
  a.source_file = tensor<std::int32_t>(a.files[3], "source_file");
  a.source_line = tensor<std::int64_t>(a.files[4], "source_line");
  a.train = tensor<std::int32_t>(a.files[5], "train");
  a.validation = tensor<std::int32_t>(a.files[6], "validation");
  a.kinds = tensor<std::int32_t>(a.files[7], "kinds");
  a.splits = tensor<std::int32_t>(a.files[8], "splits");
  a.numbers = tensor<float>(a.files[9], "numbers");
  a.weights = tensor<float>(a.files[10], "weights");
  if (!a.manifest.contains("report") || !a.manifest.contains("sources") || !a.manifest["sources"].is_array())
    throw UserError("{}: 'report' or 'sources' is missing", manifest_path);
  Prepared out;
  out.report_ = report_from_json(a.manifest["report"], manifest_path);
  for (auto& source : a.manifest["sources"])
    out.sources_.push_back({json_string(source, "path", "", manifest_path),
                            form_of(json_string(source, "form", "", manifest_path)), "",
                            json_string(source, "delimiter", ",", manifest_path)[0]});

  check_arrays(a, folder);
  a.everything.resize(a.offsets.size() - 1);
  std::iota(a.everything.begin(), a.everything.end(), 0);

  out.arrays_ = std::move(arrays);
  return out;
}

Examples Prepared::list(std::span<const std::int32_t> chosen) const {
  const Arrays& a = *arrays_;
  Examples out(a.ids, a.labels, a.offsets, chosen, a.kinds, a.splits, a.numbers, a.weights);
  out.train_chosen_prompts(trains_chosen_prompts);
  return out;
}

Examples Prepared::train() const { return list(arrays_->train); }
Examples Prepared::validation() const { return list(arrays_->validation); }
Examples Prepared::all() const { return list(arrays_->everything); }

std::string Prepared::place(std::int32_t stored) const {
  auto i = static_cast<std::size_t>(stored);
  auto file = static_cast<std::size_t>(arrays_->source_file[i]);
  return (file < sources_.size() ? sources_[file] : SourceFile{"?", RowForm::json_lines, ""})
      .place(arrays_->source_line[i]);
}

std::vector<Json> Prepared::records(std::span<const std::int32_t> stored) const {
  const Arrays& a = *arrays_;
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<std::size_t>> wanted;  // file and line → places in `out`
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto at = static_cast<std::size_t>(stored[i]);
    wanted[{a.source_file[at], a.source_line[at]}].push_back(i);
  }
  std::vector<Json> out(stored.size());
  for (std::size_t file = 0; file < sources_.size(); ++file) {
    const auto number = static_cast<std::int32_t>(file);
    auto next = wanted.lower_bound({number, 0});
    if (next == wanted.end() || next->first.first != number) continue;
    RowReader reader(sources_[file]);
    for (RawRow raw; next != wanted.end() && next->first.first == number && reader.next(raw);) {
      if (raw.line != next->first.second) continue;
      Json record;
      reader.parse(raw, record);
      for (std::size_t i : next->second) out[i] = record;
      ++next;
    }
    if (next != wanted.end() && next->first.first == number)
      throw UserError("{}: the row is not there any more", sources_[file].place(next->first.second));
  }
  return out;
}

std::vector<DroppedRow> Prepared::dropped(std::int64_t most) const {
  const SourceFile file{arrays_->folder + "/dropped.jsonl", RowForm::json_lines, ""};
  RowReader reader(file);
  std::vector<DroppedRow> out;
  for (RawRow raw; std::ssize(out) < most && reader.next(raw);) {
    Json row;
    reader.parse(raw, row);
    auto text = [&](const char* key) { return json_string(row, key, "", reader.place(raw)); };
    out.push_back(with_places_now({text("place"), text("reason"), text("detail")}));
  }
  return out;
}

RowOrigins Prepared::origins() const {
  RowOrigins out;
  for (const DatasetReport& dataset : report_.datasets) out.datasets.push_back(dataset.name);
  for (const SourceFile& source : sources_) out.files.push_back(source.path);
  return out;
}

void Prepared::relocate(const RowOrigins& now) {
  if (now.datasets.size() != report_.datasets.size() || now.files.size() != sources_.size())
    throw UserError("{}: was prepared from {} files of {} datasets, not from {} of {}", folder(), sources_.size(),
                    report_.datasets.size(), now.files.size(), now.datasets.size());
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].path != now.files[i]) {
      moved_.emplace_back(sources_[i].path, now.files[i]);
      sources_[i].path = now.files[i];
    }
  for (std::size_t i = 0; i < now.datasets.size(); ++i) {
    DatasetReport& dataset = report_.datasets[i];
    dataset.name = now.datasets[i];
    for (std::string& file : dataset.files) file = with_places_now(file);
    for (DroppedRow& row : dataset.first_dropped) row = with_places_now(row);
  }
}

// Replaces paths of files that moved at the start of a text and behind "of ", where texts have them: "a.jsonl:5: …",
// "of a.jsonl:3".
std::string Prepared::with_places_now(const std::string& text) const {
  const std::size_t begin = text.starts_with("of ") ? 3 : 0;
  const std::string_view rest = std::string_view(text).substr(begin);
  for (const auto& [before, now] : moved_) {
    if (!rest.starts_with(before)) continue;
    const std::string_view behind = rest.substr(before.size());
    if (behind.starts_with(':') || behind.starts_with(", row "))
      return text.substr(0, begin) + now + std::string(behind);
  }
  return text;
}

DroppedRow Prepared::with_places_now(const DroppedRow& row) const {
  return {with_places_now(row.place), row.reason, with_places_now(row.detail)};
}

const DataReport& Prepared::report() const { return report_; }
const Json& Prepared::manifest() const { return arrays_->manifest; }
const std::string& Prepared::folder() const { return arrays_->folder; }

}  // namespace dml
