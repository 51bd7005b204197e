// The frozen base quantized to 4 or 8 bits: quantized once, stored in a cache by its digest, and mapped from there.
//
// ROOT/DIGEST/ contains one safetensors file per decoder layer and manifest.json, which is written last. DIGEST covers
// the contents of the weight files, the names and shapes read from them, the scheme and the version of this layout.
//   nf4    NAME (U8)                 two codes per byte
//          NAME.absmax (U8)          a code of the scale of every block of 64 values, row by row
//          NAME.nested_absmax (F32)  the mean of the scales, then the largest deviation from it of every 256 scales
//   int8   NAME (I8)                 (out, in)
//          NAME.scale (F32)          one per row
//
// NF4 values are expanded to float32, or, if the base has 16 bits, rounded to bf16, as by bitsandbytes in a model that
// computes in bf16. The stored form is the same.
//
// Double quantization takes 4.13 bits per weight on disk and in memory: the kernels expand the few scales of a panel
// when they unpack it. For a base that bitsandbytes quantized, the expanded scales of its own tables are stored:
// NAME.absmax (F32).
//
// The linear layers of the decoder are quantized; embeddings, norms, biases and the output head are not.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_files.h"
#include "core/dtype.h"
#include "model/build.h"
#include "model/spec.h"
#include "model/weight_names.h"

namespace dml {

/// A weight matrix to be quantized, as (out, in).
struct QuantizedMatrix {
  std::string name;  // name of the tensor in the base's files
  std::int64_t layer = 0, rows = 0, cols = 0;
  bool transposed = false;            // stored as (in, out) in the files
  std::vector<std::int64_t> shape{};  // in the files
  StoredOrder order{};                // order of a transposed tensor

  std::int64_t size() const { return rows * cols; }
  TensorInfo codes(DType scheme) const;
  TensorInfo scales(DType scheme) const;
  TensorInfo scale_codes() const;   // for nf4 with double quantization, these
  TensorInfo scale_blocks() const;  // two replace scales()
};

struct QuantizedLayout {
  std::vector<QuantizedMatrix> matrices;  // in the order of the layers
  std::vector<std::string> left_out;      // fused tensors that are not quantized, since a part begins within a block
};
QuantizedLayout quantized_layout(const ModelSpec& spec, DType scheme);

/// Writes the layer files into `folder`, tensor by tensor; memory use is one layer's result plus 16 MB. UserError
/// naming every tensor that is missing or has another shape, or the first element that is NaN or infinite (tensors that
/// are not quantized are checked as well).
void quantize_layers(const ModelSpec& spec, const ModelFiles& base, const QuantizedLayout& layout, DType scheme,
                     const std::string& folder);
/// "layer-0007.safetensors"
std::string layer_file(std::int64_t layer);

class QuantizedBase {
 public:
  static constexpr int kVersion = 2;

  /// Opens the base in the cache `root`, or builds it there while other processes wait. A damaged one, or one of
  /// another version, is rebuilt.
  QuantizedBase(const ModelSpec& spec, const ModelFiles& base, DType scheme, const std::string& root);

  /// The quantized tensor; empty if it is not quantized. The view is valid as long as this object.
  std::optional<StoredTensor> find(const std::string& name) const;

  DType scheme() const { return scheme_; }
  std::string_view scheme_name() const { return dtype_row(scheme_).name; }
  const std::string& folder() const { return folder_; }
  /// Bytes of codes and scales.
  std::size_t bytes() const { return bytes_; }
  /// Number of quantized weights.
  std::int64_t weights() const;
  /// Bits per quantized weight, scales included.
  double bits() const {
    return 8.0 * static_cast<double>(bytes_) / static_cast<double>(std::max<std::int64_t>(1, weights()));
  }
  /// A message: where the base was found, or why it was built.
  const std::string& note() const { return note_; }
  const std::vector<std::string>& left_out() const { return layout_.left_out; }

 private:
  void load(const ModelFiles& base);
  std::string ready_or_why(const ModelFiles& base, const std::string& note);
  void build(const ModelSpec& spec, const ModelFiles& base, const std::string& why);

  DType scheme_;
  QuantizedLayout layout_;
  std::string folder_, digest_, note_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, StoredTensor> tensors_;
  std::size_t bytes_ = 0;
};

}  // namespace dml
