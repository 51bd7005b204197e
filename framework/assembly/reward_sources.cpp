#include "assembly/reward_sources.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "assembly/model_location.h"
#include "core/error.h"
#include "core/files.h"
#include "dist/agreement.h"
#include "hub/cache.h"
#include "tokenizer/same_tokens.h"

namespace dml {
namespace {

constexpr std::size_t kGroup = 8;  // completions that a reward model reads together

std::vector<CheckRequest> requests_of(const PreferenceSection& section) {
  std::vector<CheckRequest> out;
  for (const EvalCheck& check : section.rewards)
    out.push_back({check.name, check.value, check.options, fmt::format("rewards.{}", out.size())});
  const std::vector<double>& weights = section.trl.reward_weights;
  for (std::size_t i = 0; i < std::min(weights.size(), out.size()); ++i) out[i].options["weight"] = weights[i];
  return out;
}

std::vector<CheckRequest> checks_of(const PreferenceSection& section) {
  std::vector<CheckRequest> out = requests_of(section);
  std::erase_if(out, [](const CheckRequest& r) { return r.name == kRewardModel; });
  return out;
}

std::string bytes_of(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

// The prompt of a row, a text or a list of messages; null if it has none.
const Json* question_of(const Json& row) {
  const auto prompt = row.find("prompt"), messages = row.find("messages");
  const Json& said = messages != row.end() ? *messages : prompt != row.end() ? *prompt : row;
  return said.is_array() || said.is_string() ? &said : nullptr;
}

void require_judge_of_answers(bool judges_steps, const std::string& directory) {
  if (judges_steps)
    throw UserError("rewards: {} judges the steps of an answer, not an answer; use a model of reward_model: true",
                    directory);
}

// Broadcasts rank 0's result, or its error.
std::string from_first_rank(Comm& comm, const std::function<std::string()>& compute) {
  std::string found, problem;
  if (comm.rank() == 0) try {
      found = compute();
    } catch (const UserError& e) {
      problem = e.what();
    }
  problem = comm.broadcast_text(problem, 0);
  if (!problem.empty()) throw AgreedError("{}", problem);
  return comm.broadcast_text(found, 0);
}

}  // namespace

RewardSources::RewardSources(const Recipe& recipe)
    : quantized_cache_path_(recipe.adapter.quantized_cache_path), checks_(checks_of(recipe.preference)) {
  std::size_t check = 0;
  for (const CheckRequest& request : requests_of(recipe.preference)) {
    const std::size_t place = names_.size();
    if (request.name != kRewardModel) {
      names_.push_back(checks_.names()[check]);
      weights_.push_back(checks_.weights()[check++]);
      places_.push_back(place);
      continue;
    }
    if (!request.value.is_string())
      throw UserError("rewards: 'model' takes a reward model's folder, has {}", dump(request.value)).about(request.key);
    if (const auto name = request.value.get<std::string>(); !file_exists(model_directory(name)))
      throw UserError("rewards: model: {}: no such directory{}", name, missing_advice(HubKind::model, name))
          .about(request.key);
    names_.push_back(json_string(request.options, "name", kRewardModel, "rewards"));
    try {
      weights_.push_back(reward_weight(request, names_.back()));
    } catch (const UserError& e) {
      throw UserError("rewards: {}", e.what()).about(request.key);
    }
    models_.push_back({place, request.value.get<std::string>(), nullptr});
  }
  for (const std::string& name : names_)
    if (std::ranges::count(names_, name) > 1)
      throw UserError("rewards: two rewards are called '{}'; give one of them another name with 'name'", name);
}

void RewardSources::load() {
  for (Model& m : models_) {
    m.model = std::make_unique<RewardModel>(m.directory, quantized_cache_path_);
    require_judge_of_answers(m.model->judges_steps(), m.directory);
  }
}

void RewardSources::open() {
  for (Model& m : models_) {
    RewardModelFiles files = open_reward_model(m.directory);
    require_judge_of_answers(files.judges_steps(), m.directory);
    for (const std::string& adapter : files.adapters) read_adapter(adapter, files.base.spec, files.base.directory);
    m.tokenizer = std::move(files.tokenizer);
  }
}

void RewardSources::score_checks(const std::vector<Scored>& completions, std::vector<std::vector<double>>& out) {
  std::vector<EvalAnswer> answers;
  std::vector<const EvalRow*> rows;
  for (const Scored& s : completions) {
    auto text = [&](const char* key) {
      const auto found = s.row.json.find(key);
      return found == s.row.json.end() ? "" : text_or_json(*found);
    };
    answers.push_back({text("prompt"), text("expected"), s.text});
    rows.push_back(&s.row);
  }
  auto values = checks_.of(answers, rows);
  for (std::size_t r = 0; r < values.size(); ++r) out[places_[r]] = std::move(values[r]);
}

std::vector<std::string> RewardSources::problems_with(std::span<const EvalRow> rows, const Tokenizer& tokenizer) const {
  std::vector<std::string> problems = checks_.problems_with(rows);
  for (const Model& m : models_) {
    const Tokenizer* own = m.model ? &m.model->tokenizer() : m.tokenizer.get();
    if (!own || has_same_tokens(tokenizer, *own)) continue;
    for (const EvalRow& row : rows)
      if (problems.size() < Rewards::kMaxRefused && !question_of(row.json))
        problems.push_back(fmt::format(
            "{}: rewards: the row needs 'prompt' or 'messages', because the reward model {} has another tokenizer",
            row.place, m.directory));
  }
  return problems;
}

std::vector<Token> reward_model_tokens(const RewardModel& model, const Json& row, const std::string& answer) {
  const Json* question = question_of(row);
  if (!question) throw UserError("a reward model needs 'prompt' or 'messages'");
  if (question->is_string()) return model.ids(question->get<std::string>(), answer);
  Json all = *question;
  all.push_back({{"role", "assistant"}, {"content", answer}});
  return model.ids(all);
}

// Groups have a fixed size, so that the composition of a batch does not depend on the ranks.
void RewardSources::score_models(const std::vector<Scored>& completions, const Tokenizer& tokenizer, Comm& comm,
                                 std::vector<std::vector<double>>& out) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (Model& m : models_) {
    const Tokenizer& own = m.model->tokenizer();
    if (!m.same_tokens) m.same_tokens = has_same_tokens(tokenizer, own);
    // Its own chat template, where it has another, is what it has learned to judge.
    const bool same_text = tokenizer.digest == own.digest || tokenizer.chat_template == own.chat_template;
    std::vector<double> mine;
    std::string problem;
    try {
      for (std::size_t first = static_cast<std::size_t>(comm.rank()) * kGroup; first < completions.size();
           first += ranks * kGroup) {
        std::vector<std::vector<Token>> texts;
        for (std::size_t i = first; i < std::min(first + kGroup, completions.size()); ++i) {
          const Scored& s = completions[i];
          const bool as_it_is = *m.same_tokens && (same_text || !question_of(s.row.json));
          texts.push_back(as_it_is ? s.completion.text : reward_model_tokens(*m.model, s.row.json, s.text));
        }
        const std::vector<double> values = m.model->score(texts);
        mine.insert(mine.end(), values.begin(), values.end());
      }
    } catch (const UserError& e) {
      problem = e.what();
    }
    for (const std::string& other : comm.all_gather(problem))
      if (!other.empty()) throw AgreedError("reward '{}': {}", names_[m.place], other);
    std::vector<double>& values = out[m.place];
    values.resize(completions.size());
    const auto all = comm.all_gather(bytes_of(mine));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t group = i / kGroup, place = group / ranks * kGroup + i % kGroup;
      std::memcpy(&values[i], all[group % ranks].data() + place * sizeof(double), sizeof(double));
      if (!std::isfinite(values[i]))
        throw AgreedError("{}: reward '{}' is {}; expected a number", completions[i].row.place, names_[m.place],
                          values[i]);
    }
  }
}

std::vector<std::vector<double>> RewardSources::of(const std::vector<Scored>& completions, const Tokenizer& tokenizer,
                                                   Comm& comm) {
  std::vector<std::vector<double>> out(names_.size());
  const std::size_t bytes = completions.size() * sizeof(double);
  const std::string checked = from_first_rank(comm, [&] {
    score_checks(completions, out);
    std::string all;
    for (const std::size_t place : places_) all += bytes_of(out[place]);
    return all;
  });
  for (std::size_t k = 0; k < places_.size(); ++k) {
    out[places_[k]].resize(completions.size());
    std::memcpy(out[places_[k]].data(), checked.data() + k * bytes, bytes);
  }
  score_models(completions, tokenizer, comm, out);
  return out;
}

}  // namespace dml
