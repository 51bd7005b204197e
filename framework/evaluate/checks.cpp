#include "evaluate/checks.h"

#include <algorithm>

#include "constraint/automaton.h"
#include "constraint/number.h"
#include "core/error.h"
#include "core/files.h"
#include "core/regex.h"
#include "core/text.h"
#include "core/utf8.h"

namespace dml {
namespace {

/// The row's `expected`: a string, or a list of alternatives.
std::vector<std::string> expected_of(const Json& row) {
  std::vector<std::string> all;
  const Json& expected = row.at("expected");
  for (const Json& e : expected.is_array() ? expected : Json::array({expected}))
    all.emplace_back(trim(e.get_ref<const std::string&>()));
  return all;
}

void require_no_value(const CheckRequest& r) {
  if (!r.value.is_null()) throw UserError("check '{}' takes no value, has {}", r.name, dump(r.value));
}

bool is_equal(const std::string& output, const std::string& expected) { return output == expected; }
bool has_inside(const std::string& output, const std::string& expected) { return output.find(expected) != output.npos; }

/// Compares with the row's `expected`.
class Expected : public AnswerCheck {
 public:
  using Compare = bool (*)(const std::string& output, const std::string& expected);
  Expected(const CheckRequest& r, Compare compare) : name_(r.name), compare_(compare) { require_no_value(r); }
  std::string problem_with(const Json& row) const override {
    const auto e = row.find("expected");
    const bool texts =
        e != row.end() && (e->is_string() || (e->is_array() && !e->empty() &&
                                              std::ranges::all_of(*e, [](const Json& x) { return x.is_string(); })));
    return texts ? "" : fmt::format("check '{}' needs 'expected', a text or a list of texts", name_);
  }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    const std::string output(trim(answer.output));
    return {.pass = std::ranges::any_of(expected_of(row), [&](const std::string& e) { return compare_(output, e); })};
  }
  std::string name() const override { return name_; }

 private:
  std::string name_;
  Compare compare_;
};

/// Passes if the check's own pattern, or the row's `regex`, matches anywhere in the answer.
class Matches : public AnswerCheck {
 public:
  explicit Matches(const CheckRequest& r) {
    if (r.value.is_null()) return;
    if (!r.value.is_string()) throw UserError("check 'regex' takes a pattern, got {}", dump(r.value));
    const std::string pattern = r.value.get<std::string>();
    Regex(pattern, "check 'regex'");  // so that an error shows the pattern as it is written
    pattern_.emplace(anywhere(pattern));
  }
  std::string problem_with(const Json& row) const override {
    if (pattern_) return "";
    const auto own = row.find("regex");
    if (own == row.end() || !own->is_string()) return "check 'regex' needs a pattern, or a 'regex' in every row";
    return Regex::problem(own->get<std::string>());
  }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    if (pattern_) return {.pass = pattern_->matches_start(answer.output)};
    return {.pass = anywhere(row["regex"].get<std::string>()).matches_start(answer.output)};
  }
  std::string name() const override { return "regex"; }

 private:
  static Regex anywhere(const std::string& pattern) { return Regex("(?s:.*?)(?:" + pattern + ")", "check 'regex'"); }

  std::optional<Regex> pattern_;
};

std::optional<Json> json_of(const std::string& text) {
  try {
    return parse_json(trim(text), "an answer");
  } catch (const UserError&) {
    return std::nullopt;
  }
}

class ValidJson : public AnswerCheck {
 public:
  explicit ValidJson(const CheckRequest& r) { require_no_value(r); }
  Verdict decide(const EvalAnswer& answer, const Json&) override {
    return {.pass = json_of(answer.output).has_value()};
  }
  std::string name() const override { return "json_valid"; }
};

/// Passes for JSON that satisfies the check's own schema (a table or a file) or the row's `schema`.
class FollowsSchema : public AnswerCheck {
 public:
  explicit FollowsSchema(const CheckRequest& r) {
    if (r.value.is_null()) return;
    if (!r.value.is_object() && !r.value.is_string())
      throw UserError("check 'json_schema' takes a schema or the path of one, got {}", dump(r.value));
    const bool file = r.value.is_string();
    const std::string source = file ? r.value.get<std::string>() : "check 'json_schema'";
    schema_ = schema_automaton(file ? read_file(source) : dump(r.value), source);
  }
  std::string problem_with(const Json& row) const override {
    if (schema_) return "";
    const auto own = row.find("schema");
    if (own == row.end() || !own->is_object()) return "check 'json_schema' needs a schema, or a 'schema' in every row";
    try {
      schema_automaton(dump(*own), "schema");
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    const std::optional<Json> value = json_of(answer.output);
    if (!value) return {};
    const std::string text = with_plain_numbers(dump(*value));
    if (schema_) return {.pass = schema_->accepts(text)};
    return {.pass = schema_automaton(dump(row["schema"]), "schema")->accepts(text)};
  }
  std::string name() const override { return "json_schema"; }

 private:
  std::unique_ptr<Automaton> schema_;
};

/// Passes for at most `limit` characters; above it the score decreases linearly to 0 at twice the limit.
class Length : public AnswerCheck {
 public:
  explicit Length(const CheckRequest& r) {
    if (!r.value.is_number_integer() || r.value <= 0)
      throw UserError("check 'length' takes a number of characters above 0, got {}", dump(r.value));
    most_ = r.value.get<double>();
  }
  Verdict decide(const EvalAnswer& answer, const Json&) override {
    const auto characters = static_cast<double>(count_characters(answer.output));
    const double above = std::max(0.0, characters - most_);
    return {.pass = above == 0, .score = std::max(0.0, 1 - above / most_)};
  }
  std::string name() const override { return "length"; }
  bool gives_score() const override { return true; }

 private:
  double most_ = 0;
};

/// `choice` as a reward: compares with the text in the row's `choices` that `answer` selects.
class Chosen : public Expected {
 public:
  explicit Chosen(const CheckRequest&) : Expected({"choice", nullptr}, is_equal) {}
  std::string problem_with(const Json& row) const override { return problem_with_choices(row); }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    return Expected::decide(answer, Json{{"expected", row.at("choices").at(row.at("answer").get<std::size_t>())}});
  }
};

template <class Check>
std::unique_ptr<AnswerCheck> make(const CheckRequest& request) {
  return std::make_unique<Check>(request);
}

std::unique_ptr<AnswerCheck> make_exact(const CheckRequest& r) { return std::make_unique<Expected>(r, is_equal); }
std::unique_ptr<AnswerCheck> make_contains(const CheckRequest& r) { return std::make_unique<Expected>(r, has_inside); }

}  // namespace

Verdict AnswerCheck::check(const EvalAnswer& answer, const Json& row) {
  constexpr std::size_t kMaxProblems = 3;
  try {
    return decide(answer, row);
  } catch (const UserError& error) {
    if (problems_.size() < kMaxProblems) problems_.emplace_back(error.what());
    return {.counts = false};
  }
}

Registry<CheckKind>& checks() {
  using Reads = CheckKind::Reads;
  static Registry<CheckKind> registry(
      "check", {{"exact", "the answer is the row's 'expected', white space around both aside", {make_exact}},
                {"contains", "the row's 'expected' stands somewhere in the answer", {make_contains}},
                {"regex", "a regular expression (Python's syntax) matches somewhere in the answer", {make<Matches>}},
                {"exact_match",
                 "the answer, filtered, is the row's 'expected' (lm-evaluation-harness)",
                 {.make = make_exact_match, .checks_options = true}},
                {"json_valid", "the answer is JSON", {make<ValidJson>}},
                {"json_schema", "the answer is JSON that a JSON Schema allows", {make<FollowsSchema>}},
                {"length", "the answer has at most this number of characters", {make<Length>}},
                {kProgramCheck,
                 "a program of yours decides: it gets JSON lines and answers them",
                 {.make = make_judge_check, .options = {"timeout"}}},
                {"choice",
                 "the right one of the row's 'choices' is the likeliest",
                 {.make = make<Chosen>, .reads = Reads::choice}},
                {"continuation", "how likely the row's 'continuation' is", {.reads = Reads::continuation}},
                {"perplexity", "how likely the row's 'text' is", {.reads = Reads::perplexity}}});
  return registry;
}

void check_options(const CheckRequest& request, std::vector<std::string> known) {
  const CheckKind& kind = checks().at(request.name).make;
  if (kind.checks_options) return;
  known.insert(known.end(), kind.options.begin(), kind.options.end());
  for (auto& [option, value] : request.options.items())
    if (std::ranges::find(known, option) == known.end())
      throw UserError("'{}' has no option '{}'{}", request.name, option, did_you_mean(option, known));
}

std::string problem_with_choices(const Json& row) {
  const auto choices = row.find("choices"), answer = row.find("answer");
  if (choices == row.end() || !choices->is_array() || choices->size() < 2 ||
      !std::ranges::all_of(*choices, [](const Json& c) { return c.is_string() && !c.get<std::string>().empty(); }))
    return "check 'choice' needs 'choices', a list of at least two texts";
  if (answer == row.end() || !answer->is_number_integer() || *answer < 0 || *answer >= std::ssize(*choices))
    return fmt::format("check 'choice' needs 'answer', the number of the right choice, 0 to {}", choices->size() - 1);
  return "";
}

}  // namespace dml
