#include "checkpoint/adapter_sum.h"

#include <algorithm>
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

}  // namespace

void refuse_conflicts(const std::vector<WeightedAdapter>& adapters) {
  Problems problems;
  std::set<std::string> saved;
  for (const WeightedAdapter& a : adapters) {
    for (const WeightName& w : a.adapter.plan.saved) {
      if (a.weight != 1)
        problems.add(fmt::format("{}: it saves '{}' whole, which has no weight {}", a.name, w.tensor, a.weight));
      for (const WeightedAdapter& other : adapters)
        if (std::ranges::find(other.adapter.plan.modules, w.module(),
                              [](const AdaptedModule& m) { return m.module.name; }) != other.adapter.plan.modules.end())
          problems.add(fmt::format("{}: it saves '{}' whole, which {} adapts", a.name, w.tensor, other.name));
      if (!saved.insert(w.tensor).second)
        problems.add(fmt::format("{}: '{}' is saved whole by another adapter, too", a.name, w.tensor));
    }
  }
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
  out.config.base_model = adapters[0].adapter.config.base_model;
  for (const AdaptableModule& m : adaptable_modules(spec)) {
    std::int64_t rank = 0;
    for (const WeightedAdapter& a : adapters)
      for (const AdaptedModule& own : a.adapter.plan.modules)
        if (own.module.name == m.name) rank += own.r;
    if (rank == 0) continue;
    out.config.target_modules.push_back(m.name);
    out.config.rank_pattern.emplace_back(pattern_of(m.name), rank);
    out.config.alpha_pattern.emplace_back(pattern_of(m.name), static_cast<double>(rank));  // scale 1
  }
  for (const WeightedAdapter& a : adapters)
    for (const std::string& name : a.adapter.config.modules_to_save)
      if (std::ranges::find(out.config.modules_to_save, name) == out.config.modules_to_save.end())
        out.config.modules_to_save.push_back(name);
  out.plan = plan_adapter(out.config, spec, "the sum of the adapters");
  out.tensors = adapter_tensors(out.config, out.plan);

  for (const AdapterTensor& t : out.tensors) {
    std::vector<float>& to = out.values[t.key];
    if (t.kind == AdapterTensor::Kind::b) to.resize(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
    std::int64_t column = 0;
    for (const WeightedAdapter& a : adapters) {
      auto found = a.adapter.values.find(t.key);
      if (found == a.adapter.values.end()) continue;
      const std::vector<float>& from = found->second;
      if (t.kind != AdapterTensor::Kind::b) {  // A's rows follow one another; what is saved whole is there once
        to.insert(to.end(), from.begin(), from.end());
        continue;
      }
      auto own =
          std::ranges::find(a.adapter.plan.modules, t.module, [](const AdaptedModule& m) { return m.module.name; });
      const auto scale = static_cast<float>(a.weight * own->scale);
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
