#include "model/build.h"

#include "core/page_policy.h"
#include "model/build_state.h"

namespace dml {

std::unique_ptr<CausalLm> build_model(const ModelSpec& spec, const TensorSource& source, const Training& training,
                                      const std::string& source_name) {
  const InterleavedPages pages;
  auto model = std::make_unique<CausalLm>();
  BuildState b{spec, source, training, source_name, *model};
  if (training.adapter) b.plan = plan_adapter(*training.adapter, spec, source_name);
  if (b.plan.unties_head) b.spec.tied = false;
  model->spec = b.spec;
  std::vector<std::string> units{"embed"};
  for (std::int64_t l = 0; l < spec.layers; ++l) units.push_back(fmt::format("layers.{}", l));
  units.push_back("head");
  model->parameters.create_units(std::move(units));
  model->layers.resize(static_cast<std::size_t>(spec.layers));
  set_up_blocks(b);
  place_weights(b);
  place_adapters(b);
  b.problems.raise();
  model->parameters.bf16_values = training.values.bf16;
  model->parameters.embedding_and_head_share_buffer = training.full && !b.spec.tied;
  if (training.values.in_parts) {
    model->parameters.start = [starts = std::move(b.starts)](const Parameter& p, std::int64_t first, std::int64_t last,
                                                             float* out) {
      starts.at(p.name).values(first, last, out);
    };
    model->parameters.allocate(false);
    return model;
  }
  model->parameters.allocate();
  for (auto& fill : b.fills) fill();
  model->parameters.widen();
  return model;
}

namespace {

std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

// The shape of stacked matrices as one matrix with all their rows.
std::vector<std::int64_t> folded(std::vector<std::int64_t> shape, std::size_t dimensions) {
  while (shape.size() > dimensions && shape.size() > 1) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  return shape;
}

}  // namespace

void load_parameters(ParameterStore& parameters, const TensorSource& source, const std::string& source_name) {
  Problems problems;
  for (Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters) {
      auto t = source(p.name);
      if (!t) problems.add(fmt::format("{}: tensor '{}' is missing", source_name, p.name));
      else if (folded(t->shape, p.shape.size()) != p.shape)
        problems.add(fmt::format("{}: tensor '{}' has shape {}, this model needs {}", source_name, p.name,
                                 shape_of(t->shape), shape_of(p.shape)));
      else if (float* to = unit.value.floats())
        read_values(*t, p.shape[0], elements(p.shape) / p.shape[0], to + p.offset);
      else {
        std::vector<float> values(static_cast<std::size_t>(p.size()));
        read_values(*t, p.shape[0], elements(p.shape) / p.shape[0], values.data());
        set_values(unit, p, 0, values);
      }
    }
  problems.raise();
}

}  // namespace dml
