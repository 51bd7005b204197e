#include "assembly/harness_task.h"

#include <algorithm>
#include <optional>

#include "assembly/eval_tasks.h"
#include "assembly/harness_config.h"
#include "core/error.h"
#include "core/text.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace dml {
namespace {

constexpr std::size_t kMaxProblems = 20;

/// A column's name, or Jinja: text, or, where the template is nothing but {{ one expression }}, that expression's
/// value.
class FieldOf {
 public:
  FieldOf(const std::string& source, const std::string& name) : source_(source) {
    const std::string core(trim(source, " \n\t"));
    const bool expression = core.starts_with("{{") && core.ends_with("}}") && core.find("{{", 2) == core.npos &&
                            core.find("}}") == core.size() - 2;
    if (expression) value_.emplace("{{ (" + core.substr(2, core.size() - 4) + ") | tojson }}", name);
    // Newlines at the end are part of the text, although Jinja removes one.
    const std::size_t end = source.find_last_not_of('\n') + 1;
    newlines_ = source.substr(end);
    text_.emplace(source.substr(0, end), name);
  }

  Json value(const Json& row) const {
    if (const auto column = row.find(source_); column != row.end()) return *column;
    if (!value_) return text(row);
    return parse_json(rendered(*value_, row), source_);
  }
  std::string text(const Json& row) const {
    if (const auto column = row.find(source_); column != row.end()) return text_or_json(*column);
    return rendered(*text_, row) + newlines_;
  }
  bool empty() const { return source_.empty(); }

 private:
  // As the harness does it: a column that the row does not have is an error.
  static std::string rendered(const jinja::Template& text, const Json& row) {
    return text.render(jinja::from_json(row), {.strict = true}).text;
  }

  std::string source_, newlines_;
  std::optional<jinja::Template> value_, text_;
};

std::optional<std::size_t> index_in(const Json& target, const std::vector<std::string>& choices) {
  if (target.is_number_integer()) return target.get<std::size_t>();
  if (!target.is_string()) return std::nullopt;
  const std::string text = target.get<std::string>();
  if (const auto at = std::ranges::find(choices, text); at != choices.end())
    return static_cast<std::size_t>(at - choices.begin());
  if (!text.empty() && text.size() < 4 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return static_cast<std::size_t>(std::stoi(text));
  return std::nullopt;
}

class TaskMaker {
 public:
  explicit TaskMaker(const HarnessConfig& config)
      : config_(config),
        text_(config.doc_to_text, config.path + ": doc_to_text"),
        target_(config.doc_to_target, config.path + ": doc_to_target"),
        choice_(config.doc_to_choice.is_string() ? config.doc_to_choice.get<std::string>() : "",
                config.path + ": doc_to_choice"),
        description_(config.description, config.path + ": description"),
        prefix_(config.gen_prefix, config.path + ": gen_prefix") {}

  EvalTask task(const std::string& name, const std::vector<EvalRow>& tests, const std::vector<EvalRow>& shots) const {
    EvalTask out{.name = name,
                 .rows = {},
                 .raw = true,
                 .max_new_tokens = config_.max_gen_toks,
                 .until = config_.until,
                 .checks = checks(),
                 .fail_below = {}};
    Problems problems;  // each once, at the first row: a template's mistake shows in every row
    for (std::size_t i = 0; i < tests.size() && problems.all().size() < kMaxProblems; ++i) try {
        out.rows.push_back({row(tests[i].json, shots, config_.shots_are_test ? i : SIZE_MAX), tests[i].place});
      } catch (const UserError& e) {
        if (std::ranges::find(problems.all(), e.what(), &Problem::text) == problems.all().end())
          problems.add({"", tests[i].place, e.what()});
      }
    problems.raise();
    return out;
  }

 private:
  std::vector<std::string> choices(const Json& doc) const {
    std::vector<std::string> out;
    const Json all = config_.doc_to_choice.is_array() ? config_.doc_to_choice : choice_.value(doc);
    if (!all.is_array() || all.empty()) throw UserError("doc_to_choice gives no list of choices");
    for (const Json& c : all) out.push_back(text_or_json(c));
    return out;
  }

  std::size_t right_choice(const Json& doc, const std::vector<std::string>& all) const {
    const Json target = target_.value(doc);
    const auto at = index_in(target, all);
    if (!at || *at >= all.size())
      throw UserError("doc_to_target gives {}, which is none of the {} choices", dump(target), all.size());
    return *at;
  }

  std::string prompt_of(const Json& doc) const {
    std::string prompt = text_.text(doc);
    if (!prefix_.empty()) prompt += config_.target_delimiter + prefix_.text(doc);
    return prompt;
  }

  /// The correct text after a prompt; of several, the first.
  std::string answer_of(const Json& doc) const {
    if (!config_.doc_to_choice.is_null()) {
      const std::vector<std::string> all = choices(doc);
      return all[right_choice(doc, all)];
    }
    const Json target = target_.value(doc);
    if (target.is_array()) return target.empty() ? "" : text_or_json(target[0]);
    return target_.text(doc);
  }

  /// `self`: the row's own number among the examples, which it must not be one of.
  std::string context(const Json& doc, const std::vector<EvalRow>& shots, std::size_t self) const {
    std::string out = description_.empty() ? "" : description_.text(doc);
    std::int64_t left = config_.num_fewshot;
    for (std::size_t i = 0; i < shots.size() && left > 0; ++i) {
      if (i == self) continue;
      out += prompt_of(shots[i].json) + config_.target_delimiter + answer_of(shots[i].json) + config_.fewshot_delimiter;
      --left;
    }
    if (left > 0)
      throw UserError("there are only {} rows to take {} examples from", config_.num_fewshot - left,
                      config_.num_fewshot);
    return out + prompt_of(doc);
  }

  Json row(const Json& doc, const std::vector<EvalRow>& shots, std::size_t self) const {
    if (config_.output_type == "loglikelihood_rolling") return {{"text", target_.text(doc)}};
    Json out{{"prompt", context(doc, shots, self)}};
    if (config_.output_type == "multiple_choice") {
      out["delimiter"] = config_.target_delimiter;  // a single continuation has none
      const std::vector<std::string> all = choices(doc);
      out["choices"] = all;
      out["answer"] = right_choice(doc, all);
    } else if (config_.output_type == "loglikelihood") {
      out["continuation"] = answer_of(doc);
    } else {
      const Json target = target_.value(doc);
      out["expected"] = target.is_array() ? target : Json(answer_of(doc));
    }
    return out;
  }

  std::vector<CheckRequest> checks() const {
    if (config_.output_type == "multiple_choice") return {{"choice", nullptr}};
    if (config_.output_type == "loglikelihood") return {{"continuation", nullptr}};
    if (config_.output_type == "loglikelihood_rolling") return {{"perplexity", nullptr}};
    Json options = Json::object();
    for (const Json& m : config_.metrics)
      for (const char* key : {"regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers"})
        if (m.contains(key)) options[key] = m[key];
    if (config_.filters.empty()) return {{"exact_match", nullptr, options}};
    std::vector<CheckRequest> out;
    for (const Json& f : config_.filters) {
      options["filter"] = f.value("filter", Json::array());
      options["name"] = "exact_match_" + f.value("name", "none");
      out.push_back({"exact_match", nullptr, options});
    }
    return out;
  }

  const HarnessConfig& config_;
  FieldOf text_, target_, choice_, description_, prefix_;
};

}  // namespace

bool is_harness_task(const std::string& text) {
  auto has = [&](const std::string& key) { return text.starts_with(key) || text.find("\n" + key) != text.npos; };
  return has("task:") && (has("output_type:") || has("doc_to_text:") || has("include:"));
}

EvalTask read_harness_task(const std::string& path, const std::string& name, const std::string& rows) {
  const HarnessConfig config = read_harness_config(path);
  const std::vector<EvalRow> tests = read_eval_rows(rows.empty() ? config.test_files : std::vector{rows});
  const std::vector<EvalRow> shots =
      config.num_fewshot == 0 ? std::vector<EvalRow>() : read_eval_rows(config.shot_files);
  return TaskMaker(config).task(name, tests, shots);
}

}  // namespace dml
