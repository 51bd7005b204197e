#include "model/adapter_init.h"

#include <algorithm>
#include <cmath>

#include "core/bf16.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "kernels/dora.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"

namespace dml {
namespace {

void fill_uniform(const Random& random, Mat m) {
  float bound = 1 / std::sqrt(static_cast<float>(m.cols));
  parallel_ranges(m.size(), 1 << 14, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      m.data[i] = (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1) * bound;
  });
}

void fill_normal(const Random& random, float divisor, Mat m) {
  random.normals(0, m.flat());
  for (float& x : m.flat()) x /= divisor;
}

}  // namespace

Random stream_of(std::uint64_t seed, Purpose purpose, const std::string& name) {
  return Random(seed, purpose, Hasher().text(name).digest64());
}

void init_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed, const std::string& name) {
  Random a = stream_of(seed, Purpose::adapter, name + ".lora_A"),
         b = stream_of(seed, Purpose::adapter, name + ".lora_B");
  if (init == "gaussian") fill_normal(a, static_cast<float>(lora.a.rows), lora.a.value());
  else fill_uniform(a, lora.a.value());
  if (init == "false") fill_uniform(b, lora.b.value());
}

void init_embedding_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed,
                            const std::string& name) {
  fill_normal(stream_of(seed, Purpose::adapter, name + ".lora_embedding_B"), 1, lora.b.value());
  if (init == "false") fill_normal(stream_of(seed, Purpose::adapter, name + ".lora_embedding_A"), 1, lora.a.value());
}

void reinit_adapter(const LoraAdapter& lora, const AdapterRestart& r) {
  const Random random(r.seed, Purpose::adapter, static_cast<std::uint64_t>(r.number) << 32 | lora.stream, 1);
  Mat a = lora.a.value(), b = lora.b.value();
  std::ranges::fill((r.embedding ? a : b).flat(), 0.0f);
  if (r.embedding) fill_normal(random, 1, b);
  else if (r.first_part && r.gaussian) fill_normal(random, static_cast<float>(a.rows), a);
  else if (r.first_part) fill_uniform(random, a);
}

void init_magnitude(const Linear& linear) {
  const LoraAdapter& lora = *linear.lora;
  kernels::dora_norms(linear.value(), lora.a.value(), lora.b.value(), lora.scale, lora.magnitude.value().data);
}

kernels::Weight keep_values(DType dtype, std::vector<float> values, std::int64_t rows, std::int64_t cols, bool nested,
                            std::vector<std::vector<float>>& owned) {
  const std::size_t count = values.size(), bytes = static_cast<std::size_t>(dtype_bytes(dtype, rows * cols));
  kernels::Weight w{dtype, rows, cols, nullptr, nullptr};
  std::vector<float> packed((bytes + sizeof(float) - 1) / sizeof(float)), scales;
  if (dtype == DType::bf16) {
    auto* to = reinterpret_cast<bf16*>(packed.data());
    for (std::size_t i = 0; i < count; ++i) to[i] = to_bf16(values[i]);
  } else if (dtype == DType::nf4) {
    scales.resize(static_cast<std::size_t>(ceil_div(std::ssize(values), kernels::kNf4Block)));
    kernels::quantize_nf4(values, {reinterpret_cast<std::uint8_t*>(packed.data()), (count + 1) / 2}, scales);
    if (nested) kernels::round_scales(scales);
  } else if (dtype == DType::int8) {
    scales.resize(static_cast<std::size_t>(rows));
    kernels::quantize_int8({values.data(), rows, cols}, {reinterpret_cast<std::int8_t*>(packed.data()), count}, scales);
  } else {
    w.dtype = DType::f32;
    packed = std::move(values);
  }
  auto own = [&](std::vector<float> block) {
    owned.push_back(std::move(block));
    return owned.back().data();
  };
  w.data = own(std::move(packed));
  if (!scales.empty()) w.scales = own(std::move(scales));
  return w;
}

}  // namespace dml
