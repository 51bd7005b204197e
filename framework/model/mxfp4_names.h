// The names of the two tensors of an mxfp4 matrix: NAME_blocks, its codes, and NAME_scales, their powers of two.
#pragma once

#include <string>
#include <string_view>

namespace dml {

inline constexpr std::string_view kMxfp4Codes = "_blocks", kMxfp4Scales = "_scales";

/// The name of the scales that belong to codes.
inline std::string mxfp4_scales_of(std::string_view codes) {
  return std::string(codes.substr(0, codes.size() - kMxfp4Codes.size())).append(kMxfp4Scales);
}
/// The name of the codes that belong to scales.
inline std::string mxfp4_codes_of(std::string_view scales) {
  return std::string(scales.substr(0, scales.size() - kMxfp4Scales.size())).append(kMxfp4Codes);
}

}  // namespace dml
