#include "evaluate/eval_run.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "evaluate/likelihood.h"
#include "generate/generator.h"

namespace dml {
namespace {

constexpr std::size_t kGroup = 8;            // rows that are computed together
constexpr std::size_t kMostProblems = 20;    // that are told

std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A log-likelihood that JSON can hold; that of what a model holds to be impossible is a very low one.
double finite(double log_likelihood) { return std::isfinite(log_likelihood) ? log_likelihood : -1e30; }

double words_of(const std::string& text) {
  double words = 0;
  bool inside = false;
  for (unsigned char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    words += !space && !inside;
    inside = !space;
  }
  return words;
}

std::size_t first_largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

/// Restores what positions the model can compute.
class SameLength {
 public:
  explicit SameLength(CausalLm& model) : model_(model), length_(model.length()) {}
  ~SameLength() {
    if (length_ > 0) model_.set_length(length_);
  }
  SameLength(const SameLength&) = delete;
  SameLength& operator=(const SameLength&) = delete;

 private:
  CausalLm& model_;
  std::int64_t length_;
};

}  // namespace

const EvalValue* EvalResult::find(const std::string& metric) const {
  const auto found = std::ranges::find(values, metric, &EvalValue::name);
  return found == values.end() ? nullptr : &*found;
}

MeanAndError mean_and_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (double v : values) sum += v;
  const double mean = sum / n;
  for (double v : values) squares += (v - mean) * (v - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

Eval::Eval(EvalTask task, const EvalPrompts& prompts, std::int64_t context) : task_(std::move(task)), prompts_(prompts) {
  std::vector<std::string> problems;
  auto problem = [&](const std::string& text) { problems.push_back(fmt::format("evals: {}: {}", task_.name, text)); };
  if (task_.checks.empty()) problem("there is no check");
  for (const CheckRequest& request : task_.checks) try {
      choice_ |= request.name == "choice";
      perplexity_ |= request.name == "perplexity";
      if (is_likelihood_check(request.name)) continue;
      if (!answer_checks().find(request.name))
        throw UserError("unknown check '{}'{}", request.name, did_you_mean(request.name, check_names()));
      checks_.push_back(answer_checks().at(request.name).make(request));
      for (std::size_t i = 0; i + 1 < checks_.size(); ++i)
        if (checks_[i]->name() == checks_.back()->name())
          throw UserError("two checks are called '{}'; give one of them another with 'name'", checks_.back()->name());
    } catch (const UserError& e) {
      problem(e.what());
    }
  if (task_.rows.empty()) problem("there are no rows");
  check_rows(context, problems);
  const std::vector<EvalValue> known = metrics();
  for (const auto& [metric, limit] : task_.fail_below)
    if (std::ranges::find(known, metric, &EvalValue::name) == known.end() && !metric.ends_with("_score")) {
      std::vector<std::string> names;
      for (const EvalValue& v : known) names.push_back(v.name);
      problem(fmt::format("fail_below: there is no metric '{}'{}", metric, did_you_mean(metric, names)));
    }
  if (!problems.empty()) throw UserError("{}", fmt::join(problems, "\n"));
}

void Eval::check_rows(std::int64_t context, std::vector<std::string>& problems) const {
  for (const EvalRow& row : task_.rows) {
    if (problems.size() >= kMostProblems) return;
    auto problem = [&](const std::string& text) {
      if (!text.empty()) problems.push_back(fmt::format("{}: evals: {}: {}", row.place, task_.name, text));
    };
    for (const auto& check : checks_) problem(check->problem_with(row.json));
    if (perplexity_ && text_of(row.json, "text").empty()) problem("check 'perplexity' needs 'text'");
    if (perplexity_ && prompts_.prefix() < 0) problem("the tokenizer has neither BOS nor EOS to begin a text with");
    const std::string of_choices = choice_ ? problem_with_choices(row.json) : "";
    problem(of_choices);
    try {
      if (choice_ && of_choices.empty()) choices_of(row.json);
      if (checks_.empty()) continue;
      const auto length = std::ssize(prompts_.prompt(row.json, task_.raw));
      if (context > 0 && length >= context)
        problem(fmt::format("the prompt has {} tokens; the context is {} tokens, which leaves no room for an answer", length, context));
    } catch (const UserError& e) {
      problem(e.what());
    }
  }
}

Eval::Choices Eval::choices_of(const Json& row) const {
  Choices out;
  out.answer = row.at("answer").get<std::size_t>();
  for (const Json& c : row.at("choices")) {
    const std::string choice = c.get<std::string>();
    if (task_.raw) {
      EvalPrompts::Continued both = prompts_.continued(text_of(row, "prompt"), choice);
      out.context = std::move(both.context);
      out.continuations.push_back(std::move(both.continuation));
    } else {
      if (out.context.empty()) out.context = prompts_.prompt(row, false);
      out.continuations.push_back(prompts_.plain(choice));
    }
    if (out.continuations.back().empty()) throw UserError("choice '{}' has no tokens behind the prompt", choice);
    out.characters.push_back(static_cast<double>(
        std::ranges::count_if(choice, [](char b) { return (static_cast<unsigned char>(b) & 0xc0) != 0x80; })));
    out.bytes.push_back(static_cast<double>(choice.size()));
  }
  return out;
}

void Eval::add_answers(CausalLm& model, std::size_t first, std::size_t last, std::vector<Json>& out) const {
  std::vector<std::vector<Token>> prompts;
  for (std::size_t i = first; i < last; ++i) prompts.push_back(prompts_.prompt(task_.rows[i].json, task_.raw));
  GenerationOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = task_.max_new_tokens;
  options.context = model.spec.max_positions;
  options.stop_tokens = prompts_.stop_tokens(task_.raw);
  options.first_number = first;
  const std::vector<Generated> answers = Generator(model).run(prompts, options);
  for (std::size_t i = 0; i < answers.size(); ++i) out[i]["output"] = prompts_.answer(prompts[i], answers[i].tokens, task_.raw);
}

Json Eval::group(CausalLm& model, std::size_t first, std::size_t last) const {
  std::vector<Json> out(last - first, Json::object());
  Likelihoods likelihoods(model);
  for (std::size_t i = first; i < last; ++i) {
    const Json& row = task_.rows[i].json;
    if (choice_) {
      const Choices c = choices_of(row);
      for (double l : likelihoods.of(c.context, c.continuations)) out[i - first]["choices"].push_back(finite(l));
    }
    if (perplexity_) {
      const std::vector<Token> tokens = prompts_.plain(text_of(row, "text"));
      out[i - first]["tokens"] = tokens.size();
      out[i - first]["log_likelihood"] = tokens.empty() ? 0.0 : finite(likelihoods.rolling(tokens, prompts_.prefix()));
    }
  }
  if (!checks_.empty()) add_answers(model, first, last, out);
  return out;
}

// Of the longest rows: a likelihood may read a whole text at once, answers are generated for a group.
Eval::Memory Eval::memory(CausalLm& model) const {
  const SameLength same(model);
  const ModelSpec& spec = model.spec;
  std::int64_t longest = 0, together = 0;
  std::vector<std::vector<Token>> prompts;
  for (const EvalRow& row : task_.rows) {
    if (choice_) {
      const Choices c = choices_of(row.json);
      std::int64_t all = 0, most = 0;
      for (const auto& t : c.continuations) all += std::ssize(c.context) + std::ssize(t), most = std::max(most, std::ssize(t));
      longest = std::max(longest, std::min(spec.max_positions, std::ssize(c.context) + most));
      together = std::max(together, all + std::ssize(c.context));
    }
    if (perplexity_)
      longest = std::max(longest, std::min(spec.max_positions, std::ssize(prompts_.plain(text_of(row.json, "text"))) + 1));
    if (!checks_.empty()) prompts.push_back(prompts_.prompt(row.json, task_.raw));
  }
  Memory out;
  if (longest > 0) {
    model.set_length(std::max(model.length(), longest));
    out.working = model.measure({longest, longest, 1}, false);
    out.beside = static_cast<std::size_t>(
        together * KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, kernels::Storage::f32));
  }
  if (prompts.empty()) return out;
  std::ranges::sort(prompts, std::greater<>(), [](const auto& p) { return p.size(); });
  prompts.resize(std::min(prompts.size(), kGroup));
  GenerationOptions options;
  options.max_new_tokens = task_.max_new_tokens;
  options.context = spec.max_positions;
  const Generator::Memory generating = Generator(model).measure(prompts, options);
  return {std::max(out.working, generating.working), std::max(out.beside, generating.caches)};
}

EvalResult Eval::run(CausalLm& model, Comm& comm, const Progress& done) {
  const SameLength same(model);
  const std::size_t rows = task_.rows.size(), groups = (rows + kGroup - 1) / kGroup, ranks = static_cast<std::size_t>(comm.size());
  Json mine = Json::object();
  std::int64_t through = 0;
  for (auto g = static_cast<std::size_t>(comm.rank()); g < groups; g += ranks) {
    mine[std::to_string(g)] = group(model, g * kGroup, std::min(rows, (g + 1) * kGroup));
    if (done) done(++through, static_cast<std::int64_t>((groups + ranks - 1 - static_cast<std::size_t>(comm.rank())) / ranks));
  }
  std::vector<Json> all(rows);
  for (const std::string& text : comm.all_gather(dump(mine))) {
    const Json of_rank = Json::parse(text);
    for (auto& [number, values] : of_rank.items())
      for (std::size_t i = 0; i < values.size(); ++i) all[std::stoul(number) * kGroup + i] = values[i];
  }

  EvalResult result{task_.name, static_cast<std::int64_t>(rows), {}, {}, {}};
  if (choice_) add_choice(all, result);
  if (perplexity_) add_perplexity(all, result);
  if (!checks_.empty()) {
    for (std::size_t i = 0; i < rows; ++i) {
      const Json& row = task_.rows[i].json;
      const auto expected = row.find("expected");
      result.answers.push_back({text_of(row, "prompt"), expected == row.end() ? "" : expected->is_string() ? expected->get<std::string>() : dump(*expected),
                                all[i]["output"].get<std::string>()});
    }
    Json verdicts = Json::array();
    if (comm.rank() == 0) {
      std::vector<Json> made(rows, Json::object());
      for (const auto& check : checks_)
        for (std::size_t i = 0; i < rows; ++i) {
          const Verdict v = check->check(result.answers[i], task_.rows[i].json);
          Json& out = made[i][check->name()];
          out = {{"pass", v.counts ? Json(v.pass) : Json(nullptr)}};
          if (v.score) out["score"] = *v.score;
          if (!v.critique.empty()) out["critique"] = v.critique;
        }
      verdicts = made;
      for (const auto& check : checks_)
        for (const std::string& line : check->problems()) result.problems.push_back(fmt::format("evals: {}: {}", task_.name, line));
    }
    check_answers(Json::parse(comm.broadcast_text(dump(verdicts), 0)).get<std::vector<Json>>(), result);
  }
  return result;
}

void Eval::check_answers(const std::vector<Json>& verdicts, EvalResult& result) {
  for (std::size_t i = 0; i < verdicts.size(); ++i) result.answers[i].checks = verdicts[i];
  for (const auto& check : checks_) {
    std::vector<double> passes, scores;
    double failed = 0;
    for (const Json& row : verdicts) {
      const Json& v = row.at(check->name());
      if (v["pass"].is_null()) ++failed;
      else passes.push_back(v["pass"].get<bool>() ? 1 : 0);
      if (v.contains("score")) scores.push_back(v["score"].get<double>());
    }
    const MeanAndError rate = mean_and_error(passes);
    result.values.push_back({check->name(), rate.mean, rate.error, true});
    if (const MeanAndError mean = mean_and_error(scores); !scores.empty())
      result.values.push_back({check->name() + "_score", mean.mean, mean.error, true});
    if (failed > 0) result.values.push_back({check->name() + "_failed", failed, 0, false});
  }
}

void Eval::add_choice(const std::vector<Json>& rows, EvalResult& result) const {
  std::vector<double> acc, norm, bytes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Choices c = choices_of(task_.rows[i].json);
    const auto likelihoods = rows[i]["choices"].get<std::vector<double>>();
    std::vector<double> by_character = likelihoods, by_byte = likelihoods;
    for (std::size_t k = 0; k < likelihoods.size(); ++k) by_character[k] /= c.characters[k], by_byte[k] /= c.bytes[k];
    acc.push_back(first_largest(likelihoods) == c.answer);
    norm.push_back(first_largest(by_character) == c.answer);
    bytes.push_back(first_largest(by_byte) == c.answer);
  }
  for (const auto& [name, values] : {std::pair{"acc", &acc}, {"acc_norm", &norm}, {"acc_bytes", &bytes}}) {
    const MeanAndError m = mean_and_error(*values);
    result.values.push_back({name, m.mean, m.error, true});
  }
}

// Sums over all rows; the error of the loss per token is that of the rows' mean.
void Eval::add_perplexity(const std::vector<Json>& rows, EvalResult& result) const {
  double sum = 0, tokens = 0, bytes = 0, words = 0;
  std::vector<double> each;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string text = text_of(task_.rows[i].json, "text");
    const double loss = -rows[i]["log_likelihood"].get<double>(), count = rows[i]["tokens"].get<double>();
    sum += loss, tokens += count;
    bytes += static_cast<double>(text.size());
    words += words_of(text);
    if (count > 0) each.push_back(loss / count);
  }
  const double loss = tokens > 0 ? sum / tokens : 0;
  result.values.push_back({"loss", loss, mean_and_error(each).error, false});
  result.values.push_back({"perplexity", std::exp(loss), 0, false});
  result.values.push_back({"byte_perplexity", std::exp(sum / std::max(1.0, bytes)), 0, false});
  result.values.push_back({"word_perplexity", std::exp(sum / std::max(1.0, words)), 0, false});
  result.values.push_back({"bits_per_byte", sum / std::max(1.0, bytes) / std::log(2.0), 0, false});
}

std::vector<EvalValue> Eval::metrics() const {
  std::vector<EvalValue> out;
  if (choice_)
    for (const char* name : {"acc", "acc_norm", "acc_bytes"}) out.push_back({name});
  if (perplexity_)
    for (const char* name : {"loss", "perplexity", "byte_perplexity", "word_perplexity", "bits_per_byte"})
      out.push_back({name, 0, 0, false});
  for (const auto& check : checks_) out.push_back({check->name()});
  return out;
}

std::vector<std::string> below_limits(const EvalTask& task, const EvalResult& result) {
  std::vector<std::string> lines;
  for (const auto& [metric, limit] : task.fail_below) {
    const EvalValue* value = result.find(metric);
    if (!value) lines.push_back(fmt::format("{} {} was not measured (fail_below: {:g})", task.name, metric, limit));
    else if (!(value->value >= limit)) lines.push_back(fmt::format("{} {} is {:.4f}, below {:g}", task.name, metric, value->value, limit));
  }
  return lines;
}

}  // namespace dml
