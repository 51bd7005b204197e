#include "model/adapted_weights.h"

#include <set>

#include "core/error.h"
#include "kernels/stored_format.h"
#include "model/adapter_init.h"
#include "model/weight_slots.h"

namespace dml {

AdaptedWeights::AdaptedWeights(CausalLm& model, bool in_float32) : model_(model) {
  for (const WeightName& w : weight_names(model.spec)) {
    const auto* lora = w.bias || w.vector ? nullptr : adapter_at(model, w);
    if (!lora || !*lora) continue;
    if (kernels::is_quantized(frozen_at(model, w)->dtype))
      throw UserError("relora: '{}' is quantized: what is merged into it would be rounded away; use adapter: lora",
                      w.tensor);
    matrices_.push_back(copy_to_owned(model, w, in_float32));
  }
}

void AdaptedWeights::merge() {
  for (const OwnedMatrix& m : matrices_) {
    const MergedRows merged(m.own, &**adapter_at(model_, m.place), m.place.role == WeightRole::embed);
    set_rows(m, [&](std::int64_t first, std::int64_t count, float* out) { merged.read(first, count, out); });
  }
}

void AdaptedWeights::reinit_adapters(const std::string& init, std::uint64_t seed, std::int64_t number) {
  std::set<std::uint32_t> started;  // parts of a fused matrix share A
  for (const OwnedMatrix& m : matrices_) {
    const LoraAdapter& lora = **adapter_at(model_, m.place);
    reinit_adapter(lora, {.seed = seed,
                          .number = number,
                          .embedding = m.place.role == WeightRole::embed,
                          .gaussian = init == "gaussian",
                          .first_part = started.insert(lora.stream).second});
    if (lora.magnitude) init_magnitude(*linear_at(model_, m.place));
  }
}

void AdaptedWeights::reset() {
  for (const OwnedMatrix& m : matrices_) restore(m);
}

}  // namespace dml
