#include "evaluate/eval_run.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/stop_text.h"
#include "core/utf8.h"
#include "evaluate/likelihood.h"
#include "generate/generator.h"

namespace dml {
namespace {

constexpr std::size_t kGroup = 8;         // rows computed together
constexpr std::size_t kMaxProblems = 20;  // maximum number of reported problems

/// A log-likelihood as a finite number for JSON: −∞ becomes a very low one.
double finite(double log_likelihood) { return std::isfinite(log_likelihood) ? log_likelihood : -1e30; }

}  // namespace

Eval::Eval(EvalTask task, const EvalPrompts& prompts, std::int64_t context)
    : task_(std::move(task)), prompts_(prompts) {
  Problems problems;
  auto problem = [&](const std::string& key, const std::string& text) {
    problems.add({key, "", fmt::format("evals: {}: {}", task_.name, text)});
  };
  if (task_.checks.empty()) problem(task_.key, "there is no check");
  for (const CheckRequest& request : task_.checks) try {
      const CheckKind& kind = checks().at(request.name).make;
      choice_ |= kind.reads == CheckKind::Reads::choice;
      perplexity_ |= kind.reads == CheckKind::Reads::perplexity;
      continuation_ |= kind.reads == CheckKind::Reads::continuation;
      if (kind.reads != CheckKind::Reads::answer) continue;
      check_options(request, {"name"});
      auto check = kind(request);
      const std::string name = json_string(request.options, "name", check->name(), "checks");
      if (std::ranges::find(names_, name) != names_.end())
        throw UserError("two checks are called '{}'; give one of them another name with 'name'", name);
      names_.push_back(name);
      checks_.push_back(std::move(check));
    } catch (const UserError& e) {
      problem(request.key, e.what());
    }
  if (task_.rows.empty()) problem(task_.key, "there are no rows");
  check_rows(context, problems);
  const std::vector<EvalValue> known = metrics();
  for (const auto& [metric, limit] : task_.fail_below)
    if (std::ranges::find(known, metric, &EvalValue::name) == known.end() && !metric.ends_with("_score")) {
      std::vector<std::string> names;
      for (const EvalValue& v : known) names.push_back(v.name);
      problem(task_.key + ".fail_below." + metric,
              fmt::format("fail_below: there is no metric '{}'{}", metric, did_you_mean(metric, names)));
    }
  problems.raise();
}

void Eval::check_rows(std::int64_t context, Problems& problems) const {
  for (const EvalRow& row : task_.rows) {
    if (problems.all().size() >= kMaxProblems) return;
    auto problem = [&](const std::string& text) {
      if (!text.empty()) problems.add({row.key, row.place, fmt::format("evals: {}: {}", task_.name, text)});
    };
    for (const auto& check : checks_) problem(check->problem_with(row.json));
    if (continuation_ && text_of(row.json, "continuation").empty())
      problem("check 'continuation' needs 'continuation', a text");
    if (perplexity_ && text_of(row.json, "text").empty()) problem("check 'perplexity' needs 'text'");
    if (perplexity_ && prompts_.prefix() < 0) problem("the tokenizer has neither BOS nor EOS to begin a text with");
    const std::string of_choices = choice_ ? problem_with_choices(row.json) : "";
    problem(of_choices);
    try {
      if (choice_ && of_choices.empty()) choices_of(row.json);
      if (continuation_ && !text_of(row.json, "continuation").empty()) continuation_of(row.json);
      if (checks_.empty()) continue;
      const auto length = std::ssize(prompts_.prompt(row.json, task_.raw));
      if (context > 0 && length >= context)
        problem(fmt::format("the prompt has {} tokens; the context is {} tokens, which leaves no room for an answer",
                            length, context));
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
    EvalPrompts::Continued both =
        prompts_.continued(row, (task_.raw ? text_of(row, "delimiter") : "") + choice, task_.raw);
    out.context = std::move(both.context);
    out.continuations.push_back(std::move(both.continuation));
    if (out.continuations.back().empty()) throw UserError("choice '{}' has no tokens after the prompt", choice);
    out.characters.push_back(static_cast<double>(count_characters(choice)));
    out.bytes.push_back(static_cast<double>(choice.size()));
  }
  return out;
}

EvalPrompts::Continued Eval::continuation_of(const Json& row) const {
  const std::string text = text_of(row, "continuation");
  EvalPrompts::Continued out = prompts_.continued(row, text, task_.raw);
  if (out.context.empty() || out.continuation.empty())
    throw UserError("continuation '{}' has no tokens after the prompt", text);
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
  struct Going {
    std::unique_ptr<StreamDecoder> decoder;
    StopText stop;
  };
  std::vector<Going> going;
  for (const auto& prompt : prompts) going.push_back({prompts_.answer_text(prompt, task_.raw), StopText(task_.until)});
  const auto wants_more = [&](std::size_t i, Token token) {
    Going& g = going[i];
    g.stop.next(g.decoder->next(token));
    return !g.stop.stopped();
  };
  const std::vector<Generated> answers = Generator(model).run(
      prompts, options, task_.until.empty() ? Generator::OnToken() : Generator::OnToken(wants_more));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::string text = prompts_.answer(prompts[i], answers[i].tokens, task_.raw);
    for (const std::string& stop : task_.until) text.resize(std::min(text.find(stop), text.size()));
    out[i]["output"] = std::move(text);
  }
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
    if (continuation_) {
      const EvalPrompts::Continued both = continuation_of(row);
      const Likelihoods::Greedy found = likelihoods.greedy(both.context, both.continuation);
      out[i - first]["continuation"] = finite(found.log_likelihood);
      out[i - first]["greedy"] = found.is_greedy;
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

// Memory for the longest rows: a likelihood may read a whole text at once, answers are generated in groups.
Eval::Memory Eval::memory(CausalLm& model) const {
  const KeepLength length(model);
  const ModelSpec& spec = model.spec;
  std::int64_t longest = 0, together = 0, logits = 0;
  std::vector<std::vector<Token>> prompts;
  for (const EvalRow& row : task_.rows) {
    if (choice_) {
      const Choices c = choices_of(row.json);
      std::int64_t all = 0, most = 0;
      for (const auto& t : c.continuations)
        all += std::ssize(c.context) + std::ssize(t), most = std::max(most, std::ssize(t));
      longest = std::max(longest, std::min(spec.max_positions, std::ssize(c.context) + most));
      together = std::max(together, all + std::ssize(c.context));
    }
    if (continuation_) {
      const EvalPrompts::Continued both = continuation_of(row.json);
      const std::int64_t all = std::ssize(both.context) + std::ssize(both.continuation);
      longest = std::max(longest, std::min(spec.max_positions, all));
      together = std::max(together, all);
      logits = std::max(logits, std::ssize(both.continuation) * spec.vocab);
    }
    if (perplexity_)
      longest =
          std::max(longest, std::min(spec.max_positions, std::ssize(prompts_.plain(text_of(row.json, "text"))) + 1));
    if (!checks_.empty()) prompts.push_back(prompts_.prompt(row.json, task_.raw));
  }
  Memory out;
  if (longest > 0) {
    model.set_length(std::max(model.length(), longest));
    out.working = model.measure({longest, longest, 1}, false);
    out.beside = static_cast<std::size_t>(
        together * KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, DType::f32) +
        logits * std::int64_t{sizeof(float)});
  }
  if (prompts.empty()) return out;
  std::ranges::sort(prompts, std::greater<>(), [](const auto& p) { return p.size(); });
  prompts.resize(std::min(prompts.size(), kGroup));
  GenerationOptions options;
  options.max_new_tokens = task_.max_new_tokens;
  options.context = spec.max_positions;
  const Generator::Memory generating = Generator(model).measure(prompts, options);
  return {std::max(out.working, generating.working), std::max(out.beside, generating.beside)};
}

EvalResult Eval::run(CausalLm& model, Comm& comm, const Progress& done) {
  const KeepLength length(model);
  const std::size_t rows = task_.rows.size(), groups = (rows + kGroup - 1) / kGroup,
                    ranks = static_cast<std::size_t>(comm.size());
  Json mine = Json::object();
  for (std::size_t first = 0; first < groups; first += ranks) {
    if (const std::size_t g = first + static_cast<std::size_t>(comm.rank()); g < groups)
      mine[std::to_string(g)] = group(model, g * kGroup, std::min(rows, (g + 1) * kGroup));
    if (done)
      done(static_cast<std::int64_t>(first / ranks + 1), static_cast<std::int64_t>((groups + ranks - 1) / ranks));
  }
  std::vector<Json> all(rows);
  for (const std::string& text : comm.all_gather(dump(mine))) {
    const Json of_rank = Json::parse(text);
    for (auto& [number, values] : of_rank.items())
      for (std::size_t i = 0; i < values.size(); ++i) all[std::stoul(number) * kGroup + i] = values[i];
  }

  EvalResult result{task_.name, static_cast<std::int64_t>(rows), {}, {}, {}};
  if (choice_) add_choice(all, result);
  if (continuation_) add_continuation(all, result);
  if (perplexity_) add_perplexity(all, result);
  if (!checks_.empty()) check_answers_of(all, comm, result);
  return result;
}

void Eval::check_answers_of(const std::vector<Json>& all, Comm& comm, EvalResult& result) {
  const std::size_t rows = all.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const Json& row = task_.rows[i].json;
    const auto expected = row.find("expected");
    const std::string reference = expected == row.end() ? "" : text_or_json(*expected);
    result.answers.push_back({text_of(row, "prompt"), reference, all[i]["output"].get<std::string>()});
  }
  Json verdicts = Json::array();
  if (comm.rank() == 0) {
    std::vector<Json> made(rows, Json::object());
    for (std::size_t c = 0; c < checks_.size(); ++c)
      for (std::size_t i = 0; i < rows; ++i) {
        const Verdict v = checks_[c]->check(result.answers[i], task_.rows[i].json);
        Json& out = made[i][names_[c]];
        out = {{"pass", v.counts ? Json(v.pass) : Json(nullptr)}};
        if (v.score) out["score"] = *v.score;
        if (!v.critique.empty()) out["critique"] = v.critique;
      }
    verdicts = made;
    for (const auto& check : checks_)
      for (const std::string& line : check->problems())
        result.problems.push_back(fmt::format("evals: {}: {}", task_.name, line));
  }
  check_answers(Json::parse(comm.broadcast_text(dump(verdicts), 0)).get<std::vector<Json>>(), result);
}

}  // namespace dml
