#include "exchange/gguf_mix.h"

#include "checkpoint/safetensors_dtype.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/text.h"
#include "kernels/stored_format.h"

namespace dml {
namespace {

// Whether layer i of n gets more bits: the first and last eighth, and every third layer between them.
bool gets_more(std::int64_t i, std::int64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

bool stays_float32(const GgufTensor& t) {
  if (!t.matrix()) return true;
  const WeightRole role = t.sources[0].role;
  const bool routes = role == WeightRole::router || role == WeightRole::shared_gate;
  return routes || role == WeightRole::positions || t.name.ends_with("_norm.weight") || !t.name.ends_with(".weight");
}

// With eight experts, attention is a small part of the model and keeps more bits.
constexpr std::int64_t kFineExperts = 8;

DType wanted(const GgufFileType& file, const GgufTensor& t, bool ends, const ModelSpec& spec) {
  const std::int64_t layers = spec.layers;
  const WeightName& w = t.sources[0];
  const bool medium4 = file.name == "q4_k_m", small4 = file.name == "q4_k_s", medium5 = file.name == "q5_k_m";
  if (ends) return file.base == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  if (w.role == WeightRole::q && w.fused()) return medium4 ? DType::q5_k : medium5 ? DType::q6_k : file.base;
  if (spec.moe.experts == kFineExperts) {
    if (w.role == WeightRole::k || w.role == WeightRole::v) return DType::q8_0;
    if (w.role == WeightRole::o && (medium4 || small4)) return DType::q5_k;
  }
  if (w.role == WeightRole::v) {
    if ((medium4 || medium5) && gets_more(w.layer, layers)) return DType::q6_k;
    if (small4 && w.layer < 4) return DType::q5_k;
  }
  if (w.role == WeightRole::down) {
    if ((medium4 || medium5) && gets_more(w.layer, layers)) return DType::q6_k;
    if (small4 && w.layer < layers / 8) return DType::q5_k;
  }
  return file.base;
}

// The type for rows that are not a multiple of the block size.
DType fitting(DType s, std::int64_t cols, bool ends) {
  const auto whole = [&](DType x) { return cols % ggml_type(x).values == 0; };
  if (whole(s)) return s;
  if (ends) s = DType::q8_0;
  if (s == DType::q4_k) s = DType::q5_0;
  if (s == DType::q5_k) s = DType::q5_1;
  if (s == DType::q6_k) s = DType::q8_0;
  return whole(s) ? s : DType::f16;
}

}  // namespace

const std::vector<GgufFileType>& gguf_file_types() {
  static const std::vector<GgufFileType> table = {
      {"f32", 0, DType::f32, "float32"},
      {"f16", 1, DType::f16, "float16"},
      {"bf16", 32, DType::bf16, "bfloat16"},
      {"q8_0", 7, DType::q8_0, "8.5 bits per weight"},
      {"q6_k", 18, DType::q6_k, "6.6 bits"},
      {"q5_k_m", 17, DType::q5_k, "about 5.7 bits: q5_k, some tensors q6_k"},
      {"q5_k_s", 16, DType::q5_k, "about 5.5 bits"},
      {"q5_1", 9, DType::q5_1, "6 bits"},
      {"q5_0", 8, DType::q5_0, "5.5 bits"},
      {"q4_k_m", 15, DType::q4_k, "about 4.8 bits: q4_k, some tensors q6_k"},
      {"q4_k_s", 14, DType::q4_k, "about 4.6 bits"},
      {"q4_1", 3, DType::q4_1, "5 bits"},
      {"q4_0", 2, DType::q4_0, "4.5 bits"},
  };
  return table;
}

const GgufFileType& gguf_file_type(const std::string& name) {
  std::string low = ascii_lower(name);
  if (const auto dtype = weight_dtype_named(low)) low = dtype_row(*dtype).name;
  std::vector<std::string> names;
  for (const GgufFileType& t : gguf_file_types()) {
    if (t.name == low) return t;
    names.emplace_back(t.name);
  }
  throw UserError("--dtype: '{}' is not one of {}{}", name, fmt::join(names, ", "), did_you_mean(low, names));
}

std::vector<const GgmlType*> mixed_types(const GgufFileType& file, const std::vector<GgufTensor>& tensors,
                                         const ModelSpec& spec) {
  std::vector<const GgmlType*> types;
  for (const GgufTensor& t : tensors) {
    DType s = DType::f32;
    if (!stays_float32(t)) {
      const WeightRole role = t.sources[0].role;
      const bool ends = role == WeightRole::head || (spec.tied && role == WeightRole::embed);
      s = kernels::is_quantized(file.base) ? fitting(wanted(file, t, ends, spec), t.cols(), ends) : file.base;
    }
    types.push_back(t.matrix() && t.sources[0].coded ? ggml_type("mxfp4") : &ggml_type(s));
  }
  return types;
}

}  // namespace dml
