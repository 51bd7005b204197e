// Quantizes the base's tensors to codes and scales, one layer file at a time.
#include <algorithm>
#include <functional>
#include <set>

#include "checkpoint/bitsandbytes.h"
#include "checkpoint/finite.h"
#include "checkpoint/quantized.h"
#include "core/error.h"
#include "core/interruption.h"
#include "core/parallel.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "model/weight_names.h"

namespace dml {
namespace {

using kernels::kNf4Block, kernels::kNf4ScaleBlock;

std::int64_t blocks(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// Calls take(first, values) for consecutive blocks of the matrix as (out, in), each of a multiple of `grain` values.
void for_pieces(const QuantizedMatrix& m, const FiniteValues& values, std::int64_t grain,
                const std::function<void(std::int64_t, std::span<const float>)>& take) {
  if (m.transposed) {
    const StoredOrder& order = m.order;
    const std::int64_t size = order.rows * order.cols;
    DML_CHECK(order.experts == 1 || size % grain == 0);
    std::vector<float> stored(static_cast<std::size_t>(size)), reordered(stored.size());
    for (std::int64_t e = 0; e < order.experts; ++e) {
      values.read(e * size, stored);
      parallel_ranges(size, 1 << 16, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
          reordered[static_cast<std::size_t>(i)] = stored[static_cast<std::size_t>(order.place(i))];
      });
      take(e * size, reordered);
    }
    return;
  }
  std::int64_t piece = std::max(FiniteValues::kPiece / grain, std::int64_t{1}) * grain;
  std::vector<float> buffer(static_cast<std::size_t>(std::min(piece, m.size())));
  for (std::int64_t first = 0; first < m.size(); first += piece) {
    std::span<float> part(buffer.data(), static_cast<std::size_t>(std::min(piece, m.size() - first)));
    values.read(first, part);
    take(first, part);
  }
}

// Quantizes the scales (double quantization).
void nest_scales(Quantized& q) {
  q.scale_codes.resize(q.scales.size());
  std::vector<float> blocks_of(
      static_cast<std::size_t>(1 + blocks(static_cast<std::int64_t>(q.scales.size()), kNf4ScaleBlock)));
  blocks_of[0] = kernels::quantize_scales(q.scales, q.scale_codes, std::span(blocks_of).subspan(1));
  q.scales = std::move(blocks_of);
}

Quantized quantize(const QuantizedMatrix& m, const FiniteValues& values, DType scheme) {
  Quantized out;
  out.codes.resize(m.codes(scheme).bytes());
  out.scales.resize(static_cast<std::size_t>(m.scales(scheme).size()));
  if (scheme == DType::nf4) {
    for_pieces(m, values, kNf4Block, [&](std::int64_t first, std::span<const float> x) {
      auto n = static_cast<std::int64_t>(x.size());
      kernels::quantize_nf4(x, {out.codes.data() + first / 2, static_cast<std::size_t>((n + 1) / 2)},
                            {out.scales.data() + first / kNf4Block, static_cast<std::size_t>(blocks(n, kNf4Block))});
    });
    nest_scales(out);
  } else {
    for_pieces(m, values, m.cols, [&](std::int64_t first, std::span<const float> x) {
      std::int64_t rows = static_cast<std::int64_t>(x.size()) / m.cols;
      kernels::quantize_int8({x.data(), rows, m.cols},
                             {reinterpret_cast<std::int8_t*>(out.codes.data()) + first, x.size()},
                             {out.scales.data() + first / m.cols, static_cast<std::size_t>(rows)});
    });
  }
  return out;
}

void check_tensors(const ModelSpec& spec, const ModelFiles& base) {
  Problems problems;
  for (const WeightName& w : weight_names(spec)) {
    const TensorView* t = base.find(w.tensor);
    if (!t && is_new_head(w, spec)) continue;
    if (!t) problems.add(fmt::format("{}: tensor '{}' is missing", base.directory(), w.tensor));
    else if (auto wanted = w.tensor_shape();
             !std::ranges::equal(t->shape, wanted) && !(is_linear(w) && is_bitsandbytes(base, w.tensor)))
      problems.add(fmt::format("{}: tensor '{}' has shape {}, config.json asks for {}", base.directory(), w.tensor,
                               shape_text(t->shape), shape_text(wanted)));
  }
  problems.raise();
}

}  // namespace

TensorInfo QuantizedMatrix::codes(DType scheme) const {
  if (scheme == DType::nf4) return {name, DType::u8, {(size() + 1) / 2}};
  return {name, DType::i8, {rows, cols}};
}

TensorInfo QuantizedMatrix::scales(DType scheme) const {
  if (scheme == DType::nf4) return {name + ".absmax", DType::f32, {blocks(size(), kNf4Block)}};
  return {name + ".scale", DType::f32, {rows}};
}

TensorInfo QuantizedMatrix::scale_codes() const { return {name + ".absmax", DType::u8, {blocks(size(), kNf4Block)}}; }

TensorInfo QuantizedMatrix::scale_blocks() const {
  return {name + ".nested_absmax", DType::f32, {1 + blocks(blocks(size(), kNf4Block), kNf4ScaleBlock)}};
}

QuantizedLayout quantized_layout(const ModelSpec& spec, DType scheme) {
  QuantizedLayout layout;
  std::set<std::string> seen, out_of_step;
  const auto names = weight_names(spec);
  for (const WeightName& w : names)  // a part of a fused tensor must begin at a block boundary
    if (is_linear(w) && scheme == DType::nf4 && w.first_row * w.cols % kNf4Block != 0) out_of_step.insert(w.tensor);
  for (const WeightName& w : names)
    if (is_linear(w) && !out_of_step.contains(w.tensor) && seen.insert(w.tensor).second)
      layout.matrices.push_back({w.tensor, w.layer, w.tensor_rows, w.cols, w.transposed, w.tensor_shape(), w.order()});
  layout.left_out.assign(out_of_step.begin(), out_of_step.end());
  return layout;
}

std::string layer_file(std::int64_t layer) { return fmt::format("layer-{:04}.safetensors", layer); }

void quantize_layers(const ModelSpec& spec, const ModelFiles& base, const QuantizedLayout& layout, DType scheme,
                     const std::string& folder) {
  check_tensors(spec, base);
  std::set<std::string> quantized;
  for (auto first = layout.matrices.begin(); first != layout.matrices.end();) {
    std::int64_t layer = first->layer;
    std::vector<TensorInfo> infos;
    std::map<std::string, Quantized> done;     // by matrix
    std::map<std::string, std::string> owner;  // tensor → matrix
    for (; first != layout.matrices.end() && first->layer == layer; ++first) {
      check_interruption();
      const TensorView& tensor = *base.find(first->name);
      Quantized q = is_bitsandbytes(base, first->name)
                        ? read_bitsandbytes(base, *first, scheme)
                        : quantize(*first, FiniteValues(tensor, base.directory()), scheme);
      std::vector<TensorInfo> tensors{first->codes(scheme)};
      if (q.scale_codes.empty()) tensors.push_back(first->scales(scheme));
      else tensors.insert(tensors.end(), {first->scale_codes(), first->scale_blocks()});
      for (TensorInfo& t : tensors) {
        owner[t.name] = first->name;
        infos.push_back(std::move(t));
      }
      done[first->name] = std::move(q);
      quantized.insert(first->name);
    }
    SafetensorsWriter out(folder + "/" + layer_file(layer), std::move(infos));
    for (const TensorInfo& t : out.tensors()) {
      const std::string& matrix = owner.at(t.name);
      const Quantized& q = done.at(matrix);
      const void* codes = t.name == matrix ? q.codes.data() : q.scale_codes.data();
      out.append(t.dtype == DType::f32 ? static_cast<const void*>(q.scales.data()) : codes, t.bytes());
    }
    out.commit();
  }
  for (const WeightName& w : weight_names(spec))
    if (const TensorView* tensor = base.find(w.tensor); tensor && quantized.insert(w.tensor).second)
      FiniteValues(*tensor, base.directory()).scan();
}

}  // namespace dml
