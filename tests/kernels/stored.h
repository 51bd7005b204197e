// Weights in every storage for tests of products.
#pragma once

#include <cstring>
#include <ostream>
#include <vector>

#include "core/bf16.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "kernels/weight.h"
#include "values.h"

namespace dml::kernels {

struct Kind {
  Storage storage;
  bool bf16_values = false;
};
inline constexpr Kind kKinds[] = {{Storage::f32},  {Storage::bf16}, {Storage::f16},
                           {Storage::int8}, {Storage::nf4},  {Storage::nf4, true}};
inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << "storage " << static_cast<int>(kind.storage) << (kind.bf16_values ? " in bf16" : "");
}

// Weights in every storage, and the float32 values they stand for.
struct Stored {
  std::vector<float> plain, scales;
  std::vector<std::byte> data;
  Weight weight;

  Stored(Kind kind, std::int64_t n, std::int64_t k, std::uint64_t seed = 2)
      : plain(values(static_cast<std::size_t>(n * k), seed)), data(plain.size() * 4) {
    const Storage storage = kind.storage;
    weight = {storage, n, k, data.data()};
    weight.bf16_values = kind.bf16_values;
    const std::size_t size = plain.size();
    if (storage == Storage::f32) std::memcpy(data.data(), plain.data(), size * 4);
    else if (storage == Storage::bf16)
      for (std::size_t i = 0; i < size; ++i) reinterpret_cast<bf16*>(data.data())[i] = to_bf16(plain[i]);
    else if (storage == Storage::f16)
      for (std::size_t i = 0; i < size; ++i) reinterpret_cast<f16*>(data.data())[i] = to_f16(plain[i]);
    else if (storage == Storage::int8) {
      scales.resize(static_cast<std::size_t>(n));
      quantize_int8(mat(plain, n, k), {reinterpret_cast<std::int8_t*>(data.data()), size}, scales);
    } else {
      scales.resize((size + 63) / 64);
      quantize_nf4(plain, {reinterpret_cast<std::uint8_t*>(data.data()), (size + 1) / 2}, scales);
    }
    weight.scales = scales.data();
    unpack(weight, 0, n, 0, k, plain.data());
  }
};

}  // namespace dml::kernels
