#include "checkpoint/train_state.h"

#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

constexpr std::int64_t kStateFormat = 1;

const Json& member(const Json& json, const char* key, const std::string& source) {
  auto it = json.find(key);
  if (it == json.end()) throw UserError("{}: no '{}'", source, key);
  return *it;
}

std::int64_t count(const Json& json, const char* key, const std::string& source, std::int64_t least = 0) {
  member(json, key, source);
  std::int64_t n = json_integer(json, key, least - 1, source);
  if (n < least) throw UserError("{}: '{}' must be at least {}, is {}", source, key, least, n);
  return n;
}

std::string text(const Json& json, const char* key, const std::string& source) {
  member(json, key, source);
  return json_string(json, key, "", source);
}

}  // namespace

std::string train_state_text(const TrainState& s) {
  Json j;
  j["format"] = kStateFormat;
  j["step"] = s.step;
  j["epoch"] = s.epoch;
  j["data_pass"] = s.pass;
  j["data_row"] = s.row;
  j["seed"] = s.seed;
  j["tokens"] = s.tokens;
  j["trained_tokens"] = s.trained_tokens;
  j["recipe"] = s.recipe;
  j["data"] = s.data;
  j["base"] = s.base;
  j["numerics"] = s.numerics;
  j["best_metric"] = s.best_metric ? Json(*s.best_metric) : Json(nullptr);
  j["best_step"] = s.best_step;
  j["extra"] = s.extra;
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

TrainState read_train_state(const Json& json, const std::string& source) {
  if (!json.is_object()) throw UserError("{}: expected an object", source);
  std::int64_t format = count(json, "format", source);
  if (format > kStateFormat)
    throw UserError("{}: written in format {} by a newer dml, this one reads up to {}; upgrade dml", source, format,
                    kStateFormat);
  if (format < 1) throw UserError("{}: unknown format {}", source, format);
  TrainState s;
  s.step = count(json, "step", source);
  member(json, "epoch", source);
  s.epoch = json_number(json, "epoch", -1, source);
  if (!(s.epoch >= 0)) throw UserError("{}: 'epoch' must not be negative", source);
  s.pass = count(json, "data_pass", source);
  s.row = count(json, "data_row", source);
  auto& seed = member(json, "seed", source);
  if (!seed.is_number_unsigned()) throw UserError("{}: 'seed' must be a non-negative integer", source);
  s.seed = seed.get<std::uint64_t>();
  s.tokens = count(json, "tokens", source);
  s.trained_tokens = count(json, "trained_tokens", source);
  s.recipe = text(json, "recipe", source);
  s.data = text(json, "data", source);
  s.base = text(json, "base", source);
  s.numerics = text(json, "numerics", source);
  if (!member(json, "best_metric", source).is_null()) s.best_metric = json_number(json, "best_metric", 0, source);
  s.best_step = count(json, "best_step", source, -1);
  s.extra = member(json, "extra", source);
  if (!s.extra.is_object()) throw UserError("{}: 'extra' must be an object", source);
  return s;
}

std::string trainer_state_text(const TrainerState& s) {
  WideJson j;  // a tree map: keys come out sorted
  j["best_global_step"] = s.best_step < 0 ? WideJson(nullptr) : WideJson(s.best_step);
  j["best_metric"] = s.best_metric ? WideJson(*s.best_metric) : WideJson(nullptr);
  j["best_model_checkpoint"] = s.best_checkpoint.empty() ? WideJson(nullptr) : WideJson(s.best_checkpoint);
  j["epoch"] = s.epoch;
  j["eval_steps"] = s.eval_steps;
  j["global_step"] = s.step;
  j["is_hyper_param_search"] = false;
  j["is_local_process_zero"] = j["is_world_process_zero"] = true;
  j["log_history"] = WideJson::array();
  for (auto& row : s.log_history) {
    WideJson sorted = WideJson::object();
    for (auto& [key, value] : row.items()) sorted[key] = WideJson::parse(dump(value));
    j["log_history"].push_back(std::move(sorted));
  }
  j["logging_steps"] = s.logging_steps;
  j["max_steps"] = s.max_steps;
  j["num_input_tokens_seen"] = s.tokens;
  if (s.epochs == std::floor(s.epochs)) j["num_train_epochs"] = static_cast<std::int64_t>(s.epochs);
  else j["num_train_epochs"] = s.epochs;
  j["save_steps"] = s.save_steps;
  j["stateful_callbacks"] = WideJson::object();
  j["total_flos"] = 0.0;  // not counted
  j["train_batch_size"] = s.batch_size;
  j["trial_name"] = j["trial_params"] = nullptr;
  return j.dump(2, ' ', true, WideJson::error_handler_t::replace) + "\n";
}

}  // namespace dml
