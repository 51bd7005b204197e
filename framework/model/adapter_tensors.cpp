// The tensors of PEFT's adapter_model.safetensors for a plan. Source: peft/utils/save_and_load.py
// (get_peft_model_state_dict).
#include <algorithm>

#include "core/regex.h"
#include "model/adapter_plan.h"

namespace dml {
namespace {

using Kind = AdapterTensor::Kind;

constexpr std::string_view kPrefix = "base_model.model.";

}  // namespace

std::string parameter_key(const WeightName& w, const AdapterPlan& plan) {
  std::string key(kPrefix);
  return w.bias && plan.adapted(w.module()) ? key + w.module() + ".base_layer.bias" : key + w.tensor;
}

std::string rows_key(const WeightName& w) {
  return std::string(kPrefix) + w.module() + ".token_adapter.trainable_tokens_delta";
}

namespace {

/// Frozen tensors of embedding and head in PEFT's file: their base values, if the vocabulary was resized or if
/// target_modules names them.
class EndTensors {
 public:
  EndTensors(const AdapterConfig& config, const ModelSpec& spec, const AdapterPlan& plan,
             std::vector<AdapterTensor>& out)
      : config_(config), spec_(spec), plan_(plan), out_(out), ends_(embedding_and_head(spec)) {}

  void add() {
    const bool targeted = ends_are_targeted();
    for (const WeightName& w : ends_) {
      const bool follows = spec_.tied && !plan_.unties_head && w.role == WeightRole::head;
      if (targeted && config_.token_rows.empty()) {
        if (plan_.adapted(w.module())) base(w, ".base_layer.weight");
      } else if (config_.resized) {
        resized(w, follows);
      } else if (follows && plan_.saves(w, spec_)) {
        copy(Kind::saved, w, ".weight", ends_[0]);
      }
    }
  }

 private:
  // As in PEFT: whether the list has the plain names, or the pattern matches one of the modules.
  bool ends_are_targeted() const {
    auto known = [](std::string_view name) { return name == "embed_tokens" || name == "lm_head"; };
    if (config_.target_pattern.empty()) return std::ranges::any_of(config_.target_modules, known);
    const Regex pattern(config_.target_pattern, "target_modules");
    return std::ranges::any_of(ends_, [&](const WeightName& w) {
      const std::string module = w.module();
      return known(std::string_view(module).substr(module.rfind('.') + 1)) && pattern.matches(module);
    });
  }
  std::string key(const WeightName& w, const char* suffix) const { return std::string(kPrefix) + w.module() + suffix; }
  void base(const WeightName& w, const char* suffix) {
    out_.push_back({Kind::base, key(w, suffix), w.tensor, w.tensor_shape()});
  }
  void copy(Kind kind, const WeightName& w, const char* suffix, const WeightName& of) {
    out_.push_back({kind, key(w, suffix), w.tensor, w.tensor_shape(), parameter_key(of, plan_)});
  }
  // PEFT saves everything that its state_dict has of the module.
  void resized(const WeightName& w, bool follows) {
    const WeightName& source = follows ? ends_[0] : w;
    if (plan_.saves(w, spec_)) {
      if (follows) copy(Kind::saved, w, ".weight", source);
      copy(Kind::saved, w, ".modules_to_save.weight", source);
      base(w, ".original_module.weight");
    } else if (const TrainedRows* rows = plan_.rows_of(source.role)) {
      base(w, ".token_adapter.base_layer.weight");
      if (follows)
        out_.push_back({Kind::rows, rows_key(w), w.tensor, {std::ssize(rows->tokens), w.cols}, rows_key(source)});
    } else {
      base(w, plan_.adapted(w.module()) ? ".base_layer.weight" : ".weight");
    }
  }

  const AdapterConfig& config_;
  const ModelSpec& spec_;
  const AdapterPlan& plan_;
  std::vector<AdapterTensor>& out_;
  std::vector<WeightName> ends_;
};

}  // namespace

std::vector<AdapterTensor> adapter_tensors(const AdapterConfig& config, const ModelSpec& spec,
                                           const AdapterPlan& plan) {
  std::vector<AdapterTensor> out;
  auto add = [&](Kind kind, const std::string& key, const std::string& module, std::vector<std::int64_t> shape) {
    out.push_back({kind, key, module, std::move(shape), key});
  };
  for (auto& [m, r, scale] : plan.modules) {
    std::string stem = std::string(kPrefix) + m.name;
    if (m.embedding) {  // rows are tokens: A maps the one-hot token, so it is (r, vocab)
      add(Kind::a, stem + ".lora_embedding_A", m.name, {r, m.rows});
      add(Kind::b, stem + ".lora_embedding_B", m.name, {m.cols, r});
    } else {
      add(Kind::a, stem + ".lora_A.weight", m.name, {r, m.cols});
      add(Kind::b, stem + ".lora_B.weight", m.name, {m.rows, r});
      if (config.lora_bias) add(Kind::b_bias, stem + ".lora_B.bias", m.name, {m.rows});
    }
    if (config.use_dora) add(Kind::magnitude, stem + ".lora_magnitude_vector", m.name, {m.embedding ? m.cols : m.rows});
  }
  for (auto& [p, stem, r, scale] : plan.experts) {
    const std::string key = std::string(kPrefix) + stem;
    add(Kind::a, key + ".lora_A.weight", stem, {p.experts * r, p.cols});
    add(Kind::b, key + ".lora_B.weight", stem, {p.rows, r * p.experts});
  }
  for (auto& w : plan.saved) add(Kind::saved, parameter_key(w, plan), w.tensor, w.tensor_shape());
  for (auto& w : plan.biases) add(Kind::bias, parameter_key(w, plan), w.tensor, w.tensor_shape());
  for (auto& [w, tokens] : plan.rows) add(Kind::rows, rows_key(w), w.tensor, {std::ssize(tokens), w.cols});
  EndTensors(config, spec, plan, out).add();
  return out;
}

}  // namespace dml
