// exact_match of lm-evaluation-harness for generated answers. Filters transform the answer in order; then parts of both
// sides may be ignored. Options of the check:
//   filter     [{function: regex, regex_pattern: …, group_select: 0, fallback: "[invalid]"}, {function: take_first} …];
//              a regex selects the first group of a match; also remove_whitespace, lowercase, uppercase
//   regexes_to_ignore, ignore_case, ignore_punctuation, ignore_numbers
#include <algorithm>
#include <cctype>

#include "core/closest.h"
#include "core/error.h"
#include "core/regex.h"
#include "core/text.h"
#include "core/utf8.h"
#include "evaluate/checks.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

constexpr const char* kSource = "check 'exact_match'";

std::string lower(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) out += lower_case(next_code_point(text, i));
  return out;
}

std::string upper(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) append_utf8(out, upper_case(next_code_point(text, i)));
  return out;
}

std::string without_leading_space(const std::string& text) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < text.size() && is_python_space(next_code_point(text, i));) first = i;
  return text.substr(first);
}

using Filter = std::function<std::string(std::string)>;

Filter regex_filter(const Json& f) {
  const std::string pattern = json_string(f, "regex_pattern", R"(#### (\-?[0-9\.\,]+))", kSource),
                    fallback = json_string(f, "fallback", "[invalid]", kSource);
  const std::int64_t select = json_integer(f, "group_select", 0, kSource);
  return [regex = std::make_shared<Regex>(pattern, kSource), fallback, select](const std::string& text) {
    const std::vector<std::string> found = regex->captures(text);
    const std::int64_t at = select < 0 ? select + std::ssize(found) : select;
    return at < 0 || at >= std::ssize(found) ? fallback : std::string(trim(found[static_cast<std::size_t>(at)]));
  };
}

Filter filter_of(const Json& f) {
  const std::string name = f.is_object() ? json_string(f, "function", "", kSource) : "";
  if (name == "regex") return regex_filter(f);
  if (name == "take_first") return [](std::string text) { return text; };  // there is only one answer
  if (name == "lowercase") return lower;
  if (name == "uppercase") return upper;
  if (name == "remove_whitespace") return without_leading_space;
  const std::vector<std::string> known{"regex", "take_first", "lowercase", "uppercase", "remove_whitespace"};
  throw UserError("{}: unknown filter '{}'{}", kSource, name, did_you_mean(name, known));
}

class ExactMatch : public AnswerCheck {
 public:
  explicit ExactMatch(const CheckRequest& r) : name_(json_string(r.options, "name", "exact_match", kSource)) {
    for (const Json& f : r.options.value("filter", Json::array())) filters_.push_back(filter_of(f));
    for (const Json& pattern : r.options.value("regexes_to_ignore", Json::array())) {
      if (!pattern.is_string())
        throw UserError("{}: regexes_to_ignore must be strings, got {}", kSource, dump(pattern));
      ignored_.emplace_back(pattern.get<std::string>(), kSource);
    }
    ignore_case_ = json_bool(r.options, "ignore_case", false, kSource);
    ignore_punctuation_ = json_bool(r.options, "ignore_punctuation", false, kSource);
    ignore_numbers_ = json_bool(r.options, "ignore_numbers", false, kSource);
  }
  std::string problem_with(const Json& row) const override {
    return row.contains("expected") ? "" : "check 'exact_match' needs 'expected', a text or a list of texts";
  }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    std::string output = answer.output;
    for (const Filter& f : filters_) output = f(std::move(output));
    output = normalized(std::move(output));
    const Json& expected = row.at("expected");
    return {.pass = std::ranges::any_of(expected.is_array() ? expected : Json::array({expected}), [&](const Json& e) {
              return e.is_string() && normalized(e.get<std::string>()) == output;
            })};
  }
  std::string name() const override { return name_; }

 private:
  std::string normalized(std::string text) const {
    for (const Regex& r : ignored_) text = r.without_matches(text);
    if (ignore_case_) text = lower(text);
    if (ignore_punctuation_) std::erase_if(text, [](unsigned char c) { return std::ispunct(c) != 0; });
    if (ignore_numbers_) std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
    return text;
  }

  std::string name_;
  std::vector<Filter> filters_;
  std::vector<Regex> ignored_;
  bool ignore_case_ = false, ignore_punctuation_ = false, ignore_numbers_ = false;
};

}  // namespace

std::unique_ptr<AnswerCheck> make_exact_match(const CheckRequest& request) {
  return std::make_unique<ExactMatch>(request);
}

}  // namespace dml
