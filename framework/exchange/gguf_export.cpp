#include "exchange/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/size_text.h"
#include "exchange/gguf_families.h"
#include "exchange/gguf_phi3.h"
#include "exchange/gguf_vocabulary.h"
#include "kernels/quant_ggml.h"

namespace dml {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // values in memory at once
constexpr std::int64_t kTask = std::int64_t{1} << 16;   // values of one task
constexpr float kAboveBlocks = 3e8f;  // above what a block of any type holds (q6_k: 65504 · 128 · 32)

// The number of weights as gguf-py writes it: "1.1B", "135M".
std::string size_label(std::int64_t weights) {
  auto x = static_cast<double>(weights);
  for (auto [least, unit] : {std::pair{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {0.0, 'K'}})
    if (x > least) {
      x /= least > 0 ? least : 1e3;
      return std::round(x) < 10 ? fmt::format("{:.1f}{}", x, unit) : fmt::format("{:.0f}{}", x, unit);
    }
  return "0K";
}

// Reads rows of experts in mxfp4, whose gate and up rows are interleaved.
void read_coded_rows(const ModelFiles& files, const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
  const TensorView &codes = *files.find(w.tensor), &scales = *files.find(w.mxfp4_scales());
  kernels::Weight all{DType::mxfp4, w.tensor_rows, w.cols, codes.bytes.data()};
  all.scale_codes = reinterpret_cast<const std::uint8_t*>(scales.bytes.data());
  const StoredOrder order = w.order();
  for (std::int64_t r = 0; r < count; ++r)
    kernels::unpack(all, order.place((w.first_row + first + r) * w.cols) / w.cols, 1, 0, w.cols, out + r * w.cols);
}

// Reads rows of a tensor in the file's order.
void read_rows(const GgufTensor& t, const WeightRows& rows, std::int64_t first, std::int64_t count, float* out) {
  if (t.sources.empty()) {
    std::copy_n(t.values.begin() + first, count, out);
    return;
  }
  if (t.order) {
    for (std::int64_t r = first; r < first + count; ++r, out += t.cols()) rows(t.sources[0], t.order.source(r), 1, out);
    return;
  }
  for (const WeightName& w : t.sources) {
    const std::int64_t here = std::min(count, w.rows - first);
    if (here > 0) {
      rows(w, first, here, out);
      count -= here, out += here * t.cols();
    }
    first = std::max<std::int64_t>(0, first - w.rows);
    if (count == 0) return;
  }
}

// Quantizes blocks of 32 as ggml does: the scale is the largest power of two not above the largest magnitude, divided
// by 4. Values that came from mxfp4 are restored exactly.
void encode_mxfp4(std::span<const float> values, std::uint8_t* out) {
  constexpr float kCodes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  constexpr std::size_t kValues = 32;
  for (; !values.empty(); values = values.subspan(kValues)) {
    float largest = 0;
    for (float x : values.first(kValues)) largest = std::max(largest, std::abs(x));
    const int exponent = largest > 0 ? std::clamp(std::ilogb(largest) - 2, -127, 127) : -127;
    *out++ = static_cast<std::uint8_t>(exponent + 127);
    auto code = [&](float x) {
      const float size = std::ldexp(std::abs(x), -exponent);
      std::uint8_t best = 0;
      for (std::uint8_t c = 1; c < 8; ++c)
        if (std::abs(kCodes[c] - size) < std::abs(kCodes[best] - size)) best = c;
      return static_cast<std::uint8_t>(best | (std::signbit(x) && best > 0 ? 8 : 0));
    };
    for (std::size_t i = 0; i < kValues / 2; ++i)
      *out++ = static_cast<std::uint8_t>(code(values[i]) | code(values[i + kValues / 2]) << 4);
  }
}

class Encoder {
 public:
  Encoder(const GgufTensor& tensor, const GgmlType& type, const GgufExport& what)
      : tensor_(tensor), type_(type), what_(what) {}

  void write(GgufWriter& out) const {
    const std::int64_t cols = tensor_.cols(), rows = tensor_.rows();
    const std::int64_t piece = std::max<std::int64_t>(1, kPiece / cols), task = std::max<std::int64_t>(1, kTask / cols);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(type_.size(std::min(piece, rows) * cols)));
    for (std::int64_t first = 0; first < rows; first += piece) {
      const std::int64_t count = std::min(piece, rows - first);
      parallel_ranges(count, task, [&](std::int64_t from, std::int64_t to) {
        encode(first + from, to - from, bytes.data() + type_.size(from * cols));
      });
      out.append(bytes.data(), static_cast<std::size_t>(type_.size(count * cols)));
    }
  }

 private:
  void encode(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
    const std::int64_t n = count * tensor_.cols();
    std::vector<float> values(static_cast<std::size_t>(n));
    read_rows(tensor_, what_.rows, first, count, values.data());
    const bool half = type_.dtype == DType::f16;
    const auto* blocks = type_.dtype ? kernels::block_format(*type_.dtype) : nullptr;
    const float limit = half ? 65520 : blocks ? kAboveBlocks : std::numeric_limits<float>::infinity();
    for (float& x : values) {
      if (tensor_.offset != 0) x += tensor_.offset;
      if (!std::isfinite(x)) throw UserError("{}: tensor '{}' has values that are not finite", what_.named(), name());
      if (std::abs(x) >= limit) refuse_large(x);
    }
    if (!type_.dtype) return encode_mxfp4(values, out);
    if (blocks) quantize(*blocks, values, out);
    else write_floats(*type_.dtype, values.data(), n, out);
  }

  // The scales of a block are f16, which large values make infinite.
  void quantize(const kernels::BlockFormat& format, std::span<const float> values, std::uint8_t* out) const {
    const std::int64_t blocks = std::ssize(values) / format.values();
    format.quantize(values.data(), blocks, out);
    for (std::int64_t b = 0; b < blocks; ++b)
      if (!kernels::block_is_finite(format, out + b * format.bytes())) {
        const auto block =
            values.subspan(static_cast<std::size_t>(b * format.values()), static_cast<std::size_t>(format.values()));
        refuse_large(*std::ranges::max_element(block, {}, [](float x) { return std::abs(x); }));
      }
  }

  [[noreturn]] void refuse_large(float x) const {
    throw UserError("{}: tensor '{}' has values like {:g}, which {} cannot hold; set --dtype bf16", what_.named(),
                    name(), x, type_.name);
  }
  const std::string& name() const { return tensor_.sources.empty() ? tensor_.name : tensor_.sources[0].tensor; }

  const GgufTensor& tensor_;
  const GgmlType& type_;
  const GgufExport& what_;
};

// Writes xIELU's scalars as arrays with one number per layer.
void write_xielu(const GgufExport& what, GgufMetadata& m) {
  std::map<WeightRole, std::vector<float>> scalars;
  for (const WeightName& w : weight_names(what.spec))
    if (xielu_key(w.role)) what.rows(w, 0, 1, &scalars[w.role].emplace_back());
  for (auto& [role, values] : scalars) m.set(xielu_key(role), GgufValue::f32s(values));
}

GgufMetadata metadata_of(const GgufExport& what, const GgufFamily& family, bool quantized) {
  const GgufVocabulary vocabulary = read_vocabulary(what.directory, what.spec, what.named());
  GgufMetadata m;
  m.set("general.architecture", GgufValue::text(std::string(family.architecture)));
  m.set("general.type", GgufValue::text("model"));
  m.set("general.name", GgufValue::text(name_for_stripping(vocabulary, what.name, what.named())));
  m.set("general.size_label", GgufValue::text(size_label(what.spec.parameters())));
  write_model_keys(what.spec, family, what.named(), m);
  if (what.spec.activation == kernels::Activation::xielu) write_xielu(what, m);
  m.set("general.file_type", GgufValue::u32(what.type.id));
  vocabulary.write(m);
  if (quantized) m.set("general.quantization_version", GgufValue::u32(2));
  return m;
}

}  // namespace

WeightRows rows_of_files(const ModelFiles& files) {
  return [&files](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    const TensorView& t = *files.find(w.tensor);
    const std::int64_t row = w.first_row + first;
    if (w.coded) return read_coded_rows(files, w, first, count, out);
    if (!w.reordered()) {
      t.read(row * w.cols, count * w.cols, out);
      if (const std::int64_t width = dtype_bytes(t.dtype, 1); !t.quantized())
        release_pages(t.bytes.subspan(static_cast<std::size_t>(row * w.cols * width),
                                      static_cast<std::size_t>(count * w.cols * width)));
      return;
    }
    const StoredOrder order = w.order();
    for (std::int64_t i = 0; i < count * w.cols; ++i) t.read(order.place(row * w.cols + i), 1, out + i);
  };
}

void log_gguf(const std::string& path, const GgufFileType& type, const GgufReport& report) {
  std::vector<std::string> counts;
  for (auto& [name, count] : report.tensors) counts.push_back(fmt::format("{} {}", count, name));
  log_info("{}: {}, {:.2f} bits per weight; tensors: {}", path, size_text(report.bytes),
           8.0 * static_cast<double>(report.bytes) / static_cast<double>(report.weights), fmt::join(counts, ", "));
  if (report.other_blocks > 0)
    log_info("{} matrices have rows that are no multiple of {} values, and so another type than {}",
             report.other_blocks, ggml_type(type.base).values, type.name);
}

GgufReport write_gguf(const GgufExport& what, const std::string& path) {
  if (what.spec.head != HeadKind::causal_lm)
    throw UserError(
        "{}: is a model for {} classification, whose head a GGUF file of a language model does not hold; keep it as "
        "safetensors",
        what.named(), what.spec.head == HeadKind::sequence_classification ? "sequence" : "token");
  const GgufFamily& family = gguf_family(what.spec.model_type, what.named());
  const std::vector<GgufTensor> tensors = gguf_tensors(what.spec, family);
  const std::vector<const GgmlType*> types = mixed_types(what.type, tensors, what.spec);
  GgufReport report;
  std::vector<GgufTensorInfo> infos;
  bool quantized = false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    infos.push_back({tensors[i].name, tensors[i].shape, types[i]});
    ++report.tensors[std::string(types[i]->name)];
    report.weights += infos.back().elements();
    quantized |= types[i]->values > 1;
    report.other_blocks += tensors[i].matrix() && tensors[i].cols() % ggml_type(what.type.base).values != 0;
  }
  GgufWriter out(path, metadata_of(what, family, quantized), std::move(infos));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (what.open) what.open(tensors[i]);
    Encoder(tensors[i], *types[i], what).write(out);
    report.bytes += out.tensors()[i].bytes();
  }
  out.commit();
  return report;
}

}  // namespace dml
