// The file types of llama.cpp: which block format every tensor gets. llama-quantize gives some tensors more bits than
// the type's name says (its function llama_tensor_get_type).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/gguf.h"
#include "exchange/gguf_tensors.h"

namespace dml {

struct GgufFileType {
  std::string_view name;  // as in --dtype
  std::uint32_t id;       // general.file_type
  DType base;
  std::string_view help;
};
const std::vector<GgufFileType>& gguf_file_types();
/// UserError naming the nearest.
const GgufFileType& gguf_file_type(const std::string& name);

/// The type of each tensor, in the order given.
std::vector<const GgmlType*> mixed_types(const GgufFileType& file, const std::vector<GgufTensor>& tensors,
                                         const ModelSpec& spec);

}  // namespace dml
