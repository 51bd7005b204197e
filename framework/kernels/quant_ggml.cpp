#include "kernels/quant_ggml.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/bf16.h"
#include "kernels/quant_ggml_search.h"

namespace dml::kernels {
namespace {

constexpr int kSmall = 32;

void put_half(float x, std::uint8_t* out) {
  const f16 h = to_f16(x);
  std::memcpy(out, &h, 2);
}
float half_at(const std::uint8_t* in) {
  f16 h;
  std::memcpy(&h, in, 2);
  return to_float(h);
}

// ---- blocks of 32

void quantize_q8_0(const float* x, std::int64_t blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b, x += kSmall, out += 34) {
    float most = 0;
    for (int i = 0; i < kSmall; ++i) most = std::max(most, std::fabs(x[i]));
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    put_half(d, out);
    for (int i = 0; i < kSmall; ++i) {
      const float v = x[i] * inverse;  // to the nearest, halves away from zero
      const int whole = static_cast<int>(v);
      const float rest = v - static_cast<float>(whole);
      out[2 + i] = static_cast<std::uint8_t>(whole + (rest >= 0.5f) - (rest <= -0.5f));
    }
  }
}

void unpack_q8_0(const std::uint8_t* in, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, in += 34, out += kSmall) {
    const float d = half_at(in);
    for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(in[2 + i]));
  }
}

// Bits 4 or 5; with a minimum of the block's own, or around zero.
template <int Bits, bool Minimum>
void quantize_small(const float* x, std::int64_t blocks, std::uint8_t* out) {
  constexpr int kTop = (1 << Bits) - 1, kHalf = 1 << (Bits - 1), kFront = Minimum ? 4 : 2;
  constexpr int kCodes = kFront + (Bits == 5 ? 4 : 0);
  for (std::int64_t b = 0; b < blocks; ++b, x += kSmall, out += kCodes + 16) {
    float d, shift, least = 0;
    if constexpr (Minimum) {
      const auto [low, high] = std::minmax_element(x, x + kSmall);
      least = *low;
      d = (*high - least) / kTop, shift = 0.5f;
      put_half(least, out + 2);
    } else {
      float signed_most = 0, most = 0;
      for (int i = 0; i < kSmall; ++i)
        if (std::fabs(x[i]) > most) most = std::fabs(x[i]), signed_most = x[i];
      d = signed_most / -kHalf, shift = kHalf + 0.5f;
    }
    put_half(d, out);
    const float inverse = d != 0 ? 1 / d : 0;
    auto code = [&](int i) {
      return std::min(kTop, static_cast<int>(static_cast<std::int8_t>((x[i] - least) * inverse + shift)));
    };
    std::uint32_t fifth = 0;
    for (int i = 0; i < 16; ++i) {
      const int low = code(i), high = code(i + 16);
      out[kCodes + i] = static_cast<std::uint8_t>((low & 15) | (high & 15) << 4);
      fifth |= static_cast<std::uint32_t>(low >> 4 & 1) << i | static_cast<std::uint32_t>(high >> 4 & 1) << (i + 16);
    }
    if constexpr (Bits == 5) std::memcpy(out + kFront, &fifth, 4);
  }
}

template <int Bits, bool Minimum>
void unpack_small(const std::uint8_t* in, std::int64_t blocks, float* out) {
  constexpr int kFront = Minimum ? 4 : 2, kCodes = kFront + (Bits == 5 ? 4 : 0), kZero = Minimum ? 0 : 1 << (Bits - 1);
  for (std::int64_t b = 0; b < blocks; ++b, in += kCodes + 16, out += kSmall) {
    const float d = half_at(in), least = Minimum ? half_at(in + 2) : 0;
    std::uint32_t fifth = 0;
    if constexpr (Bits == 5) std::memcpy(&fifth, in + kFront, 4);
    auto value = [&](int code) {
      const float product = d * static_cast<float>(code - kZero);
      return Minimum ? product + least : product;
    };
    for (int i = 0; i < 16; ++i) {
      const int codes = in[kCodes + i];
      out[i] = value((codes & 15) | static_cast<int>(fifth >> i & 1) << 4);
      out[i + 16] = value(codes >> 4 | static_cast<int>(fifth >> (i + 16) & 1) << 4);
    }
  }
}

// ---- blocks of 256

// 8 scales and 8 mins of 6 bits in 12 bytes.
void pack_scales(const std::uint8_t (&scale)[8], const std::uint8_t (&min)[8], std::uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<std::uint8_t>(scale[j] | scale[j + 4] >> 4 << 6);
    out[j + 4] = static_cast<std::uint8_t>(min[j] | min[j + 4] >> 4 << 6);
    out[j + 8] = static_cast<std::uint8_t>((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
  }
}
void unpack_scales(const std::uint8_t* in, int (&scale)[8], int (&min)[8]) {
  for (int j = 0; j < 4; ++j) {
    scale[j] = in[j] & 63, min[j] = in[j + 4] & 63;
    scale[j + 4] = (in[j + 8] & 15) | in[j] >> 6 << 4;
    min[j + 4] = in[j + 8] >> 4 | in[j + 4] >> 6 << 4;
  }
}

// Recomputes the codes of a q4_k or q5_k block after its scales are rounded; codes of a scale that became 0 are kept.
template <int Bits>
void put_k_block(const float* x, const GroupSearch* found, std::uint8_t* out) {
  constexpr int kTop = (1 << Bits) - 1;
  float most_scale = 0, most_min = 0;
  for (int j = 0; j < 8; ++j) {
    most_scale = std::max(most_scale, found[j].scale);
    most_min = std::max(most_min, found[j].min);
  }
  const float to_scale = most_scale > 0 ? 63 / most_scale : 0, to_min = most_min > 0 ? 63 / most_min : 0;
  std::uint8_t scale[8], min[8], code[256];
  for (int j = 0; j < 8; ++j) {
    scale[j] = std::min<std::uint8_t>(63, static_cast<std::uint8_t>(nearest(to_scale * found[j].scale)));
    min[j] = std::min<std::uint8_t>(63, static_cast<std::uint8_t>(nearest(to_min * found[j].min)));
  }
  put_half(most_scale / 63, out);
  put_half(most_min / 63, out + 2);
  pack_scales(scale, min, out + 4);
  const float whole = half_at(out), whole_min = half_at(out + 2);
  for (int j = 0; j < 8; ++j) {
    const float d = whole * scale[j], m = whole_min * min[j];
    for (int i = 32 * j; i < 32 * j + 32; ++i)
      code[i] = static_cast<std::uint8_t>(
          d != 0 ? std::clamp(nearest((x[i] + m) / d), 0, kTop)
                 : std::clamp(nearest(found[j].inverse * (x[i] - found[j].least)), 0, found[j].top));
  }
  std::uint8_t* codes = out + 16;
  if constexpr (Bits == 5) {
    for (int l = 0; l < 32; ++l) {
      int fifth = 0;
      for (int j = 0; j < 8; ++j) fifth |= (code[32 * j + l] >> 4) << j;
      codes[l] = static_cast<std::uint8_t>(fifth);
    }
    codes += 32;
  }
  for (int pair = 0; pair < 4; ++pair)
    for (int l = 0; l < 32; ++l)
      *codes++ = static_cast<std::uint8_t>((code[64 * pair + l] & 15) | (code[64 * pair + 32 + l] & 15) << 4);
}

template <int Bits>
void quantize_k(const float* x, std::int64_t blocks, std::uint8_t* out) {
  constexpr std::int64_t kBytes = Bits == 4 ? 144 : 176;
  for (std::int64_t b = 0; b < blocks; b += 2) {
    const std::int64_t some = std::min<std::int64_t>(2, blocks - b);
    GroupSearch found[16];
    search_groups<Bits>(x + 256 * b, static_cast<int>(some), found);
    for (std::int64_t i = b; i < b + some; ++i) put_k_block<Bits>(x + 256 * i, found + 8 * (i - b), out + kBytes * i);
  }
}

template <int Bits>
void unpack_k(const std::uint8_t* in, std::int64_t blocks, float* out) {
  constexpr std::int64_t kBytes = Bits == 4 ? 144 : 176;
  for (std::int64_t b = 0; b < blocks; ++b, in += kBytes, out += 256) {
    const float d = half_at(in), least = half_at(in + 2);
    int scale[8], min[8];
    unpack_scales(in + 4, scale, min);
    const std::uint8_t *fifth = in + 16, *codes = in + (Bits == 5 ? 48 : 16);
    for (int j = 0; j < 8; ++j) {
      const float step = d * static_cast<float>(scale[j]), down = least * static_cast<float>(min[j]);
      for (int l = 0; l < 32; ++l) {
        int code = codes[j / 2 * 32 + l] >> (j % 2 * 4) & 15;
        if constexpr (Bits == 5) code |= (fifth[l] >> j & 1) << 4;
        out[32 * j + l] = step * static_cast<float>(code) - down;
      }
    }
  }
}

void put_q6_k_block(const float* x, const float* scales, const float* inverse, std::uint8_t* out) {
  float signed_most = 0, most = 0;
  for (int j = 0; j < 16; ++j)
    if (std::fabs(scales[j]) > most) most = std::fabs(scales[j]), signed_most = scales[j];
  std::memset(out, 0, 210);
  if (most < kNoScale) return;
  const float to_scale = -128.0f / signed_most;
  put_half(1 / to_scale, out + 208);
  const float whole = half_at(out + 208);
  int code[256];
  for (int j = 0; j < 16; ++j) {
    const int scale = std::min(127, nearest(to_scale * scales[j]));
    out[192 + j] = static_cast<std::uint8_t>(scale);
    const float d = whole * static_cast<float>(static_cast<std::int8_t>(scale));
    for (int i = 16 * j; i < 16 * j + 16; ++i)
      code[i] = std::clamp(d != 0 ? nearest(x[i] / d) : nearest(inverse[j] * x[i]), -32, 31) + 32;
  }
  for (int half = 0; half < 2; ++half) {
    const int* c = code + 128 * half;
    std::uint8_t *low = out + 64 * half, *high = out + 128 + 32 * half;
    for (int l = 0; l < 32; ++l) {
      low[l] = static_cast<std::uint8_t>((c[l] & 15) | (c[l + 64] & 15) << 4);
      low[l + 32] = static_cast<std::uint8_t>((c[l + 32] & 15) | (c[l + 96] & 15) << 4);
      high[l] = static_cast<std::uint8_t>(c[l] >> 4 | c[l + 32] >> 4 << 2 | c[l + 64] >> 4 << 4 | c[l + 96] >> 4 << 6);
    }
  }
}

void quantize_q6_k(const float* x, std::int64_t blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 256, out += 210) {
    float scales[16], inverse[16];
    search_symmetric(x, scales, inverse);
    put_q6_k_block(x, scales, inverse, out);
  }
}

void unpack_q6_k(const std::uint8_t* in, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, in += 210) {
    const float d = half_at(in + 208);
    for (int half = 0; half < 2; ++half, out += 128) {
      const std::uint8_t *low = in + 64 * half, *high = in + 128 + 32 * half;
      auto* scale = reinterpret_cast<const std::int8_t*>(in + 192 + 8 * half);
      for (int quarter = 0; quarter < 4; ++quarter)
        for (int l = 0; l < 32; ++l) {
          const int code = (low[32 * (quarter % 2) + l] >> (quarter / 2 * 4) & 15) | (high[l] >> (2 * quarter) & 3)
                                                                                         << 4;
          out[32 * quarter + l] = d * static_cast<float>(scale[2 * quarter + l / 16]) * static_cast<float>(code - 32);
        }
    }
  }
}

// ---- iq4: codes of unequal distance

// 32 codes in 16 bytes: value j in the low, j + 16 in the high nibbles.
void put_iq4_codes(const float* x, float inverse, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i)
    out[i] = static_cast<std::uint8_t>(nearest_iq4(inverse * x[i]) | nearest_iq4(inverse * x[i + 16]) << 4);
}

void unpack_iq4_codes(const std::uint8_t* in, float d, float* out) {
  for (int i = 0; i < 16; ++i)
    out[i] = d * static_cast<float>(kIq4Values[in[i] & 15]),
    out[i + 16] = d * static_cast<float>(kIq4Values[in[i] >> 4]);
}

void quantize_iq4_nl(const float* x, std::int64_t blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b, x += kSmall, out += 18) {
    const float d = search_iq4(x);
    put_half(d, out);
    put_iq4_codes(x, d != 0 ? 1 / d : 0, out + 2);
  }
}

void unpack_iq4_nl(const std::uint8_t* in, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, in += 18, out += kSmall) unpack_iq4_codes(in + 2, half_at(in), out);
}

void put_iq4_xs_block(const float* x, std::uint8_t* out) {
  float scales[8], largest = 0;
  for (int j = 0; j < 8; ++j) {
    scales[j] = search_iq4(x + kSmall * j);
    if (std::fabs(scales[j]) > std::fabs(largest)) largest = scales[j];
  }
  const float d = -largest / 32, inverse = d != 0 ? 1 / d : 0;
  put_half(d, out);
  std::uint16_t high = 0;
  std::memset(out + 4, 0, 4);
  for (int j = 0; j < 8; ++j) {
    const int scale = std::clamp(nearest(inverse * scales[j]), -32, 31);
    const float step = d * static_cast<float>(scale);
    put_iq4_codes(x + kSmall * j, step != 0 ? 1 / step : 0, out + 8 + 16 * j);
    high = static_cast<std::uint16_t>(high | (scale + 32) >> 4 << 2 * j);
    out[4 + j / 2] = static_cast<std::uint8_t>(out[4 + j / 2] | ((scale + 32) & 15) << 4 * (j % 2));
  }
  std::memcpy(out + 2, &high, 2);
}

void quantize_iq4_xs(const float* x, std::int64_t blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 256, out += 136) put_iq4_xs_block(x, out);
}

void unpack_iq4_xs(const std::uint8_t* in, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, in += 136) {
    const float d = half_at(in);
    std::uint16_t high;
    std::memcpy(&high, in + 2, 2);
    for (int j = 0; j < 8; ++j, out += kSmall) {
      const int scale = (in[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4;
      unpack_iq4_codes(in + 8 + 16 * j, d * static_cast<float>(scale - 32), out);
    }
  }
}

// What a value is, and the bytes of a block in their order:
//   q4_0    d·(q − 8)           f16 d, 16 × two codes q; value j in the low, j + 16 in the high nibbles
//   q4_1    d·q + m             f16 d, f16 m, codes
//   q5_0    d·(q − 16)          f16 d, u32 fifth bits, codes
//   q5_1    d·q + m             f16 d, f16 m, u32 fifth bits, codes
//   q8_0    d·q                 f16 d, 32 × i8
//   q4_k    d·sc·q − dmin·m     f16 d, f16 dmin, 8 scales sc and 8 mins m of 6 bits, codes; 8 groups of 32
//   q5_k    as q4_k             f16 d, f16 dmin, scales and mins, 32 bytes of fifth bits, codes
//   q6_k    d·sc·(q − 32)       low nibbles, upper two bits, 16 × i8 sc, f16 d; 16 groups of 16
//   iq4_nl  d·v[q]              f16 d, codes as in q4_0; v are 16 values, further apart at the ends
//   iq4_xs  d·(sc − 32)·v[q]    f16 d, u16 upper and 4 bytes lower bits of 8 scales sc of 6 bits, codes; 8 groups of 32
constexpr BlockFormat kFormats[] = {
    {DType::q4_0, {0, 0}, quantize_small<4, false>, unpack_small<4, false>},
    {DType::q4_1, {0, 2}, quantize_small<4, true>, unpack_small<4, true>},
    {DType::q5_0, {0, 0}, quantize_small<5, false>, unpack_small<5, false>},
    {DType::q5_1, {0, 2}, quantize_small<5, true>, unpack_small<5, true>},
    {DType::q8_0, {0, 0}, quantize_q8_0, unpack_q8_0},
    {DType::q4_k, {0, 2}, quantize_k<4>, unpack_k<4>},
    {DType::q5_k, {0, 2}, quantize_k<5>, unpack_k<5>},
    {DType::q6_k, {208, 208}, quantize_q6_k, unpack_q6_k},
    {DType::iq4_nl, {0, 0}, quantize_iq4_nl, unpack_iq4_nl},
    {DType::iq4_xs, {0, 0}, quantize_iq4_xs, unpack_iq4_xs},
};

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

bool block_is_finite(const BlockFormat& format, const void* block) {
  auto* bytes = static_cast<const std::uint8_t*>(block);
  return std::isfinite(half_at(bytes + format.scale_places[0])) &&
         std::isfinite(half_at(bytes + format.scale_places[1]));
}

const BlockFormat* block_format(DType dtype) {
  for (const BlockFormat& f : kFormats)
    if (f.dtype == dtype) return &f;
  return nullptr;
}

}  // namespace dml::kernels
