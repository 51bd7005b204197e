// llama.cpp's file types: the block format of each tensor. As in llama-quantize, some tensors get more bits than the
// file type's name says (its function llama_tensor_get_type).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/gguf.h"
#include "exchange/gguf_tensors.h"

namespace dml {

struct GgufFileType {
  std::string_view name;  // value of --dtype
  std::uint32_t id;       // general.file_type
  DType base;
  std::string_view help;
};
const std::vector<GgufFileType>& gguf_file_types();
/// The file type of this name. UserError naming the nearest one.
const GgufFileType& gguf_file_type(const std::string& name);

/// The type of each tensor, in the order given.
std::vector<const GgmlType*> mixed_types(const GgufFileType& file, const std::vector<GgufTensor>& tensors,
                                         const ModelSpec& spec);

}  // namespace dml
