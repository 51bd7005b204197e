#include "assembly/harness_config.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "recipe/codecs.h"
#include "recipe/reader.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using recipe::Node;
using recipe::Report;

/// The metrics of each output type.
const std::map<std::string, std::vector<std::string>>& metrics_of_outputs() {
  static const std::map<std::string, std::vector<std::string>> all = {
      {"multiple_choice", {"acc", "acc_norm", "acc_bytes"}},
      {"loglikelihood", {"acc", "perplexity"}},
      {"loglikelihood_rolling", {"word_perplexity", "byte_perplexity", "bits_per_byte"}},
      {"generate_until", {"exact_match"}}};
  return all;
}

/// Keys without an effect.
constexpr const char* kIdle[] = {"task",
                                 "tag",
                                 "task_alias",
                                 "dataset_name",
                                 "metadata",
                                 "should_decontaminate",
                                 "doc_to_decontamination_query",
                                 "version",
                                 "unsafe_code"};
constexpr const char* kKnown[] = {
    "include",       "dataset_path",     "dataset_kwargs",    "training_split", "validation_split", "test_split",
    "fewshot_split", "fewshot_config",   "output_type",       "doc_to_text",    "doc_to_target",    "doc_to_choice",
    "description",   "target_delimiter", "fewshot_delimiter", "gen_prefix",     "num_fewshot",      "generation_kwargs",
    "metric_list",   "filter_list",      "repeats",           "group",          "process_docs"};

/// Lines that ask for Python: YAML readers would stop at the first tag.
void refuse_python(const std::string& text, Report& report) {
  for (const auto [number, line] : Lines(text)) {
    const auto tag = line.find("!function");
    if (tag == line.npos || line.find('#') < tag) continue;
    const auto first = line.find_first_not_of(" -\t");
    const std::string_view key = line.substr(first, std::min(line.find(':', first), tag) - first);
    report.error({static_cast<int>(number), static_cast<int>(tag) + 1},
                 fmt::format("'{}' is a Python function ({}); dml runs no Python: write it in Jinja", key,
                             recipe::shown(std::string(line.substr(tag + 10)))));
  }
}

/// The tree of a file with the keys of those that it includes.
Node tree_of(const std::string& path, Report& report, int depth) {
  const std::string text = read_file(path);
  refuse_python(text, report);
  report.raise();
  Node root = recipe::read_yaml(text, report);
  if (root.kind != Node::Kind::map) throw UserError("{}: expected a table of settings", path);
  const Node* include = root.find("include");
  if (!include) return root;
  if (depth > 8) throw UserError("{}: include: goes deeper than 8 files", path);
  const std::string other = (fs::path(path).parent_path() / include->text).string();
  Report inner(other);
  const Node base = tree_of(other, inner, depth + 1);
  for (std::size_t i = 0; i < base.keys.size(); ++i)
    if (!root.find(base.keys[i].text)) root.keys.push_back(base.keys[i]), root.items.push_back(base.items[i]);
  return root;
}

class ConfigReader {
 public:
  ConfigReader(const std::string& path, Report& report) : report_(report), root_(tree_of(path, report, 0)) {
    out_.path = path;
    out_.folder = fs::path(path).parent_path().string();
  }

  HarnessConfig read() {
    check_keys();
    read_output();
    read_texts();
    read_data();
    read_generation();
    out_.metrics = json("metric_list", Json::array());
    out_.filters = json("filter_list", Json::array());
    check_metrics();
    check_filters();
    return std::move(out_);
  }

 private:
  std::string text(const char* key, const std::string& fallback = "") const {
    const Node* node = root_.find(key);
    return node && node->is_scalar() ? node->text : fallback;
  }
  Json json(const char* key, const Json& fallback) const {
    const Node* node = root_.find(key);
    return node && !node->is_null() ? recipe::to_json(*node) : fallback;
  }
  void error(const char* key, const std::string& what) {
    const Node* node = root_.find(key);
    report_.error(node ? node->place : recipe::Place{1, 1}, what);
  }
  std::int64_t whole(const char* key, std::int64_t fallback) {
    const Json value = json(key, fallback);
    if (value.is_number_integer() && value >= 0) return value.get<std::int64_t>();
    error(key, fmt::format("'{}' must be a whole number, is {}", key, dump(value)));
    return fallback;
  }

  void check_keys() {
    std::vector<std::string> known(std::begin(kKnown), std::end(kKnown));
    known.insert(known.end(), std::begin(kIdle), std::end(kIdle));
    for (const Node& key : root_.keys)
      if (std::ranges::find(known, key.text) == known.end())
        report_.error(key.place,
                      fmt::format("unknown key '{}'{}", recipe::shown(key.text), did_you_mean(key.text, known)));
    for (const char* key : {"group", "process_docs"})
      if (root_.find(key))
        error(key, fmt::format("'{}' is not supported; name single tasks, and prepare rows beforehand", key));
    if (const Node* task = root_.find("task"); task && !task->is_scalar())
      error("task", "a group of tasks is not supported; name each of them");
    if (whole("repeats", 1) != 1) error("repeats", "'repeats' must be 1: answers are greedy");
  }

  void read_output() {
    out_.output_type = text("output_type", "generate_until");
    std::vector<std::string> names;
    for (const auto& [name, metrics] : metrics_of_outputs()) names.push_back(name);
    if (!metrics_of_outputs().contains(out_.output_type))
      error("output_type", fmt::format("unknown output_type '{}'{}", recipe::shown(out_.output_type),
                                       did_you_mean(out_.output_type, names)));
  }

  void read_texts() {
    out_.doc_to_text = text("doc_to_text");
    out_.doc_to_target = text("doc_to_target");
    out_.doc_to_choice = json("doc_to_choice", nullptr);
    out_.description = text("description");
    out_.target_delimiter = text("target_delimiter", out_.target_delimiter);
    out_.fewshot_delimiter = text("fewshot_delimiter", out_.fewshot_delimiter);
    out_.gen_prefix = text("gen_prefix");
    out_.num_fewshot = whole("num_fewshot", 0);
    if (!root_.find("doc_to_target")) error("doc_to_target", "'doc_to_target' is missing: the correct answer of a row");
    if (!root_.find("doc_to_text") && out_.output_type != "loglikelihood_rolling")
      error("doc_to_text", "'doc_to_text' is missing: the prompt of a row");
    if (out_.output_type == "multiple_choice" && out_.doc_to_choice.is_null())
      error("doc_to_choice", "'doc_to_choice' is missing: output_type multiple_choice needs choices");
    const Json shots = json("fewshot_config", Json::object());
    const Json sampler = shots.is_object() ? shots.value("sampler", Json("first_n")) : Json();
    if (sampler != "first_n" && sampler != "default")
      error("fewshot_config", "'fewshot_config' is supported only with sampler: first_n");
  }

  void read_data() {
    const std::string form = text("dataset_path");
    if (form != "json")
      return error(
          "dataset_path",
          fmt::format("'dataset_path: {}' is not local: write its rows as JSON lines and set dataset_path: json "
                      "and dataset_kwargs: {{data_files: {{test: FILE}}}}",
                      recipe::shown(form)));
    const Json kwargs = json("dataset_kwargs", Json::object());
    const Json files = kwargs.is_object() ? kwargs.value("data_files", Json()) : Json();
    const std::string test = text("test_split", text("validation_split", files.is_object() ? "" : "train"));
    const std::string shots = text("fewshot_split", text("training_split", text("validation_split", test)));
    if (test.empty())
      return error("dataset_path", "'test_split' is missing: which of dataset_kwargs.data_files is evaluated");
    out_.test_files = split_files(files, test);
    if (out_.test_files.empty())
      error("dataset_kwargs", fmt::format("'dataset_kwargs' has no data_files for split '{}'", recipe::shown(test)));
    if (out_.num_fewshot == 0) return;
    out_.shots_are_test = shots == test;
    out_.shot_files = split_files(files, shots);
    if (out_.shot_files.empty())
      error("dataset_kwargs",
            fmt::format("'dataset_kwargs' has no data_files for split '{}', where the {} examples come from",
                        recipe::shown(shots), out_.num_fewshot));
  }

  std::vector<std::string> split_files(const Json& files, const std::string& split) const {
    const Json of_split = files.is_object() ? files.value(split, Json()) : files;
    std::vector<std::string> out;
    for (const Json& f : of_split.is_array() ? of_split : Json::array({of_split}))
      if (f.is_string()) out.push_back((fs::path(out_.folder) / f.get<std::string>()).lexically_normal().string());
    return out;
  }

  void read_generation() {
    const Json g = json("generation_kwargs", Json::object());
    if (!g.is_object()) return error("generation_kwargs", "'generation_kwargs' must be a table");
    if (out_.output_type == "generate_until" && !g.contains("until")) out_.until = {out_.fewshot_delimiter};
    for (auto& [key, value] : g.items()) {
      if (key == "until") {
        for (const Json& stop : value.is_array() ? value : Json::array({value}))
          if (stop.is_string() && !stop.get<std::string>().empty()) out_.until.push_back(stop.get<std::string>());
      } else if (key == "max_gen_toks" || key == "max_tokens" || key == "max_new_tokens") {
        if (value.is_number_integer() && value > 0) out_.max_gen_toks = value.get<std::int64_t>();
        else error("generation_kwargs", fmt::format("'{}' must be a number above 0, is {}", key, dump(value)));
      } else if (!(key == "do_sample" && value == false) && !(key == "temperature" && value == 0)) {
        error("generation_kwargs",
              fmt::format("'{}: {}' is not supported: answers are greedy", recipe::shown(key), dump(value)));
      }
    }
  }

  void check_metrics() {
    const auto known = metrics_of_outputs().find(out_.output_type);
    if (known == metrics_of_outputs().end()) return;
    if (!out_.metrics.is_array()) return error("metric_list", "'metric_list' must be a list");
    for (const Json& m : out_.metrics) {
      const Json metric = m.is_object() ? m.value("metric", Json()) : Json();
      if (!metric.is_string()) {
        error("metric_list", fmt::format("'metric_list' must be a list of tables with the name of a metric, has {}",
                                         recipe::shown(dump(m))));
        continue;
      }
      const std::string name = metric.get<std::string>();
      if (std::ranges::find(known->second, name) == known->second.end())
        error("metric_list", fmt::format("output_type {} has no metric '{}'{}", out_.output_type, recipe::shown(name),
                                         did_you_mean(name, known->second)));
    }
  }

  void check_filters() {
    if (!out_.filters.is_array()) return error("filter_list", "'filter_list' must be a list");
    for (const Json& f : out_.filters)
      if (!f.is_object() || !f.value("name", Json("none")).is_string() || !f.value("filter", Json::array()).is_array())
        error("filter_list", fmt::format("'filter_list' must be a list of tables with a name and a list of filters, "
                                         "has {}",
                                         recipe::shown(dump(f))));
  }

  Report& report_;
  Node root_;
  HarnessConfig out_;
};

}  // namespace

HarnessConfig read_harness_config(const std::string& path) {
  Report report(path);
  HarnessConfig config = ConfigReader(path, report).read();
  report.raise();
  return config;
}

}  // namespace dml
