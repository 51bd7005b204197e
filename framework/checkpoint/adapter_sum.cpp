#include "checkpoint/adapter_sum.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "model/low_rank_init.h"

namespace dml {
namespace {

std::string pattern_of(const std::string& module) {
  std::string out;
  for (char c : module) out += c == '.' ? std::string("\\.") : std::string(1, c);
  return out;
}

/// Names the tensors of the base, and rows of them, that an adapter replaces by its own values.
std::vector<std::string> own_values(const AdapterPlan& plan) {
  std::vector<std::string> out;
  for (auto* list : {&plan.saved, &plan.biases})
    for (const WeightName& w : *list) out.push_back(fmt::format("'{}'", w.tensor));
  for (const TrainedRows& rows : plan.rows)
    for (std::int64_t token : rows.tokens) out.push_back(fmt::format("row {} of '{}'", token, rows.weight.tensor));
  return out;
}

std::set<std::string> changed_modules(const AdapterPlan& plan) {
  std::set<std::string> out;
  for (const WeightName& w : plan.saved) out.insert(w.module());
  for (const TrainedRows& rows : plan.rows) out.insert(rows.weight.module());
  return out;
}

/// Whether, in a tied model, what the adapter does to the embedding applies to the head as well.
bool changes_both_ends(const AdapterPlan& plan, const ModelSpec& spec) {
  return spec.tied && !plan.unties_head && changed_modules(plan).contains(embedding_and_head(spec)[0].module());
}

// The config of the sum: every module has the sum of the ranks, and scale 1.
AdapterConfig config_of_sum(const std::vector<WeightedAdapter>& adapters, const ModelSpec& spec) {
  AdapterConfig config;
  config.base_model = adapters[0].adapter.config.base_model;
  config.revision = adapters[0].adapter.config.revision;
  ModelSpec parted = spec;
  for (const WeightedAdapter& a : adapters) {
    parted.tied = parted.tied && !a.adapter.plan.unties_head;
    config.lora_bias |= a.adapter.config.lora_bias;
    config.ensure_weight_tying |= a.adapter.config.ensure_weight_tying;
    for (const TrainedRows& rows : a.adapter.plan.rows) {
      auto own = std::ranges::find(config.token_rows, rows.weight.module(), &TokenRows::module);
      if (own == config.token_rows.end()) own = config.token_rows.insert(own, {rows.weight.module(), {}});
      own->tokens.insert(own->tokens.end(), rows.tokens.begin(), rows.tokens.end());
    }
  }
  for (const AdaptableModule& m : adaptable_modules(parted)) {
    std::int64_t rank = 0;
    for (const WeightedAdapter& a : adapters)
      for (const AdaptedModule& own : a.adapter.plan.modules)
        if (own.module.name == m.name) rank += own.r;
    if (rank == 0) continue;
    config.target_modules.push_back(m.name);
    config.rank_pattern.emplace_back(pattern_of(m.name), rank);
    config.alpha_pattern.emplace_back(pattern_of(m.name), static_cast<double>(rank));  // scale 1
  }
  for (const WeightedAdapter& a : adapters)
    for (const std::string& name : a.adapter.config.modules_to_save)
      if (std::ranges::find(config.modules_to_save, name) == config.modules_to_save.end())
        config.modules_to_save.push_back(name);
  return config;
}

}  // namespace

void refuse_conflicts(const std::vector<WeightedAdapter>& adapters, const ModelSpec& spec) {
  Problems problems;
  std::map<std::string, std::string> owners;
  for (const WeightedAdapter& a : adapters) {
    const AdapterPlan& plan = a.adapter.plan;
    for (const std::string& what : own_values(plan)) {
      if (a.weight != 1)
        problems.add(fmt::format("{}: it replaces {}, so its weight must be 1, is {}", a.name, what, a.weight));
      if (auto [owner, fresh] = owners.try_emplace(what, a.name); !fresh)
        problems.add(fmt::format("{}: {} has its own values of {}, too", a.name, owner->second, what));
    }
    for (const WeightedAdapter& other : adapters) {
      if (&other == &a) continue;
      for (const std::string& module : changed_modules(plan)) {
        if (other.adapter.plan.adapted(module))
          problems.add(fmt::format("{}: it has its own values of '{}', which {} adapts", a.name, module, other.name));
        const bool whole = plan.rows.empty() ||
                           std::ranges::any_of(plan.saved, [&](const WeightName& w) { return w.module() == module; });
        if (whole && std::ranges::any_of(other.adapter.plan.rows,
                                         [&](const TrainedRows& rows) { return rows.weight.module() == module; }))
          problems.add(
              fmt::format("{}: it has its own values of '{}', of which {} has rows", a.name, module, other.name));
      }
      if (changes_both_ends(plan, spec) && other.adapter.plan.unties_head)
        problems.add(fmt::format("{}: embedding and head of this tied model share its values, but {} unties them",
                                 a.name, other.name));
    }
  }
  for (const WeightedAdapter& a : adapters)
    if (!a.adapter.plan.experts.empty())
      problems.add(fmt::format(
          "{}: it has target_parameters; such adapters are neither added up nor weighted: merge it first", a.name));
  problems.raise();
}

bool are_products(const std::vector<WeightedAdapter>& adapters) {
  return std::ranges::none_of(adapters, [](const WeightedAdapter& a) {
    return a.adapter.config.use_dora || starts_from_base(a.adapter.config.init);
  });
}

Adapter sum_adapters(std::vector<WeightedAdapter> adapters, const ModelSpec& spec) {
  DML_CHECK(!adapters.empty() && are_products(adapters));

  Adapter out;
  out.config = config_of_sum(adapters, spec);
  out.plan = plan_adapter(out.config, spec, "the sum of the adapters");
  out.tensors = adapter_tensors(out.config, spec, out.plan);
  std::erase_if(out.tensors, [](const AdapterTensor& t) { return !t.trained(); });

  for (const AdapterTensor& t : out.tensors) {
    std::vector<float>& to = out.values[t.key];
    if (t.kind == AdapterTensor::Kind::b_bias) to.resize(static_cast<std::size_t>(t.shape[0]));
    if (t.kind == AdapterTensor::Kind::b) to.resize(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
    std::int64_t column = 0;
    for (const WeightedAdapter& a : adapters) {
      auto found = a.adapter.values.find(t.key);
      if (found == a.adapter.values.end()) continue;
      const std::vector<float>& from = found->second;
      const AdaptedModule* own = a.adapter.plan.adapted(t.module);
      const auto scale = own ? static_cast<float>(a.weight * own->scale) : 1.0f;
      if (t.kind == AdapterTensor::Kind::b_bias) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += scale * from[i];
        continue;
      }
      if (t.kind != AdapterTensor::Kind::b) {  // rows are concatenated; a module that is saved whole occurs once
        to.insert(to.end(), from.begin(), from.end());
        continue;
      }
      for (std::int64_t row = 0; row < t.shape[0]; ++row)
        for (std::int64_t k = 0; k < own->r; ++k)
          to[static_cast<std::size_t>(row * t.shape[1] + column + k)] =
              scale * from[static_cast<std::size_t>(row * own->r + k)];
      column += own->r;
    }
  }
  return out;
}

}  // namespace dml
