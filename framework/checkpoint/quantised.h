// The frozen base in 4 or 8 bits: quantised once, found again by its digest, mapped from then on.
//
// ROOT/DIGEST/ holds one safetensors file per decoder layer and manifest.json, written last. DIGEST stands for the
// contents of the weight files, the names and shapes taken from them, the scheme and the version of this layout.
//   nf4    NAME (U8)                 two codes a byte
//          NAME.absmax (U8)          a code of the scale of every block of 64 values, row by row
//          NAME.nested_absmax (F32)  the scales' mean, then the largest magnitude of every 256 of them without it
//   int8   NAME (I8)                 (out, in)
//          NAME.scale (F32)          one per row
//
// NF4 values are float32, unless the base is in 16 bits: then they are rounded to bf16, as by bitsandbytes in a model
// that computes in bf16. On disk the two are alike.
//
// Double quantisation makes 4.13 bits a weight, on disk and in memory: the kernels expand the few scales of a panel as
// they unpack it. A base that bitsandbytes quantised keeps the scales that follow from its own tables: NAME.absmax
// (F32).
//
// Quantised are the linear layers of the decoder; embeddings, norms, biases and the output head stay as they are.
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

/// A weight matrix that gets quantised, as (out, in).
struct QuantisedMatrix {
  std::string name;  // of the tensor in the base's files
  std::int64_t layer = 0, rows = 0, cols = 0;
  bool transposed = false;            // the files have it as (in, out)
  std::vector<std::int64_t> shape{};  // in the files
  StoredOrder order{};                // … where it is transposed

  std::int64_t size() const { return rows * cols; }
  TensorInfo codes(DType scheme) const;
  TensorInfo scales(DType scheme) const;
  TensorInfo scale_codes() const;   // nf4 with double quantisation has these
  TensorInfo scale_blocks() const;  // two instead
};

struct QuantisedLayout {
  std::vector<QuantisedMatrix> matrices;  // in the order of the layers
  std::vector<std::string> left_out;      // fused tensors whose parts begin within a block
};
QuantisedLayout quantised_layout(const ModelSpec& spec, DType scheme);

/// Writes the layer files into `folder`, tensor by tensor: memory for one layer's result and 16 MB of float32 is
/// enough. UserError naming every tensor that is missing or has another shape; the tensor and element that is NaN or
/// infinite (the tensors that are not quantised are looked through as well).
void quantise_layers(const ModelSpec& spec, const ModelFiles& base, const QuantisedLayout& layout, DType scheme,
                     const std::string& folder);
/// "layer-0007.safetensors"
std::string layer_file(std::int64_t layer);

class QuantisedBase {
 public:
  static constexpr int kVersion = 2;

  /// Found in `root`, or built there by one process while others wait. What is damaged or of another version is built
  /// anew.
  QuantisedBase(const ModelSpec& spec, const ModelFiles& base, DType scheme, const std::string& root);

  /// Nothing for a tensor that is not quantised. The view lives as long as this object.
  std::optional<StoredTensor> find(const std::string& name) const;

  DType scheme() const { return scheme_; }
  std::string_view scheme_name() const { return dtype_row(scheme_).name; }
  const std::string& folder() const { return folder_; }
  /// Codes and scales.
  std::size_t bytes() const { return bytes_; }
  /// Number of quantised weights.
  std::int64_t weights() const;
  /// For each of them, scales included.
  double bits() const {
    return 8.0 * static_cast<double>(bytes_) / static_cast<double>(std::max<std::int64_t>(1, weights()));
  }
  /// One line for people: where it was found, or why it was built.
  const std::string& note() const { return note_; }
  const std::vector<std::string>& left_out() const { return layout_.left_out; }

 private:
  void load(const ModelFiles& base);
  std::string ready_or_why(const ModelFiles& base, const std::string& note);
  void build(const ModelSpec& spec, const ModelFiles& base, const std::string& why);

  DType scheme_;
  QuantisedLayout layout_;
  std::string folder_, digest_, note_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, StoredTensor> tensors_;
  std::size_t bytes_ = 0;
};

}  // namespace dml
