// Weights of every type for tests of products.
#pragma once

#include <cmath>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "core/bf16.h"
#include "kernels/quant_ggml.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "kernels/stored_format.h"
#include "kernels/weight.h"
#include "values.h"

namespace dml::kernels {

struct Kind {
  DType dtype;
  bool bf16_values = false;
  std::int64_t row_step = 1;
};
inline constexpr Kind kKinds[] = {{DType::f32},  {DType::bf16}, {DType::f16},
                                  {DType::int8}, {DType::nf4},  {DType::nf4, true}};
// Rows of whole blocks of 32 values: gpt-oss's experts, whose gate and up have every other row.
inline constexpr Kind kBlockKinds[] = {{DType::mxfp4}, {DType::mxfp4, false, 2}};
inline constexpr std::int64_t kWholeBlocks = 256;  // columns for these and for the blocks of ggml
inline std::vector<Kind> all_kinds() {
  std::vector<Kind> all(std::begin(kKinds), std::end(kKinds));
  all.insert(all.end(), std::begin(kBlockKinds), std::end(kBlockKinds));
  for (const BlockFormat& f : block_formats()) all.push_back({f.dtype});
  return all;
}
inline std::string name_of(const Kind& kind) {
  return std::string(dtype_row(kind.dtype).name) + (kind.bf16_values ? "_in_bf16" : "") +
         (kind.row_step > 1 ? "_in_turn" : "");
}
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << name_of(kind); }

// Weights of every type, and the float32 values they stand for.
struct Stored {
  std::vector<float> plain, scales;
  std::vector<std::byte> data;
  std::vector<std::uint8_t> powers;  // of mxfp4
  Weight weight;

  Stored(Kind kind, std::int64_t n, std::int64_t k, std::uint64_t seed = 2)
      : plain(values(static_cast<std::size_t>(n * k), seed)), data(plain.size() * 4) {
    const DType dtype = kind.dtype;
    weight = {dtype, n, k, data.data()};
    weight.bf16_values = kind.bf16_values;
    weight.row_step = kind.row_step;
    const std::size_t size = plain.size();
    if (dtype == DType::mxfp4) {
      fill_with_mxfp4(seed);
      return;
    }
    if (const BlockFormat* blocks = block_format(dtype)) {
      blocks->quantize(plain.data(), n * k / blocks->values(), reinterpret_cast<std::uint8_t*>(data.data()));
      blocks->unpack(reinterpret_cast<const std::uint8_t*>(data.data()), n * k / blocks->values(), plain.data());
      return;
    }
    if (dtype == DType::f32) std::memcpy(data.data(), plain.data(), size * 4);
    else if (dtype == DType::bf16)
      for (std::size_t i = 0; i < size; ++i) reinterpret_cast<bf16*>(data.data())[i] = to_bf16(plain[i]);
    else if (dtype == DType::f16)
      for (std::size_t i = 0; i < size; ++i) reinterpret_cast<f16*>(data.data())[i] = to_f16(plain[i]);
    else if (dtype == DType::int8) {
      scales.resize(static_cast<std::size_t>(n));
      quantize_int8(mat(plain, n, k), {reinterpret_cast<std::int8_t*>(data.data()), size}, scales);
    } else {
      scales.resize((size + 63) / 64);
      quantize_nf4(plain, {reinterpret_cast<std::uint8_t*>(data.data()), (size + 1) / 2}, scales);
    }
    weight.scales = scales.data();
    unpack(weight, 0, n, 0, k, plain.data());
  }

 private:
  // Any codes are numbers. The values by the definition of E2M1 and E8M0: two bits of exponent, one of fraction.
  void fill_with_mxfp4(std::uint64_t seed) {
    const Random random(seed, Purpose::noise);
    const std::int64_t stored = weight.rows * weight.row_step * weight.cols;
    powers.resize(static_cast<std::size_t>(stored / kMxfp4Block));
    for (std::size_t i = 0; i < powers.size(); ++i) powers[i] = static_cast<std::uint8_t>(123 + random.below(i, 4));
    for (std::int64_t i = 0; i < stored / 2; ++i)
      data[static_cast<std::size_t>(i)] =
          static_cast<std::byte>(random.below(static_cast<std::uint64_t>(stored + i), 256));
    weight.scale_codes = powers.data();
    for (std::int64_t i = 0; i < weight.rows * weight.cols; ++i) {
      const std::int64_t at = i / weight.cols * weight.row_step * weight.cols + i % weight.cols;
      const int code = static_cast<int>(data[static_cast<std::size_t>(at / 2)]) >> (at % 2 * 4) & 15;
      const int exponent = code >> 1 & 3, half = code & 1;
      const double value = exponent == 0 ? 0.5 * half : (1 + 0.5 * half) * std::exp2(exponent - 1);
      const double power = std::exp2(powers[static_cast<std::size_t>(at / kMxfp4Block)] - 127);
      plain[static_cast<std::size_t>(i)] = static_cast<float>((code & 8 ? -value : value) * power);
    }
  }
};

}  // namespace dml::kernels
