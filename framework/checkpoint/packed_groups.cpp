#include "checkpoint/packed_groups.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <list>
#include <set>

#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/shown.h"
#include "kernels/quant_ggml.h"
#include "model/weight_names.h"

namespace dml {
namespace {

constexpr std::int64_t kBlock = 32, kPerWord = 8, kBits = 4;
const std::vector<DType> kFloats = {DType::f16, DType::bf16, DType::f32}, kWords = {DType::i32, DType::u32};

struct Backing {
  explicit Backing(ModelFiles files) : stored(std::move(files)) {}
  ModelFiles stored;
  std::list<std::string> names;
  std::list<std::vector<std::int64_t>> shapes;
  std::list<std::vector<std::byte>> blocks;
};

std::uint32_t code_of(const TensorView& t, std::int64_t word, std::int64_t place) {
  std::uint32_t bits;
  std::memcpy(&bits, t.bytes.data() + word * 4, 4);
  return bits >> (kBits * place) & 15;
}

class Unpacker {
 public:
  Unpacker(ModelFiles stored, const PackedConfig& config, const ModelSpec& spec)
      : config_(config), spec_(spec), own_(std::make_shared<Backing>(std::move(stored))) {}

  ModelFiles run() {
    for (const WeightName& w : weight_names(spec_))
      if (!w.vector && !w.bias && !w.transposed && w.experts == 0 && done_.insert(w.tensor).second) add(w);
    for (const TensorView& t : own_->stored.tensors())
      if (!used_.contains(std::string(t.name))) views_.push_back(t);
    std::ranges::sort(views_, {}, &TensorView::name);
    const std::string directory = own_->stored.directory();
    std::vector<std::string> paths = own_->stored.paths();
    return ModelFiles(directory, std::move(views_), std::move(paths), own_);
  }

 private:
  const TensorView* find(const std::string& name) const { return own_->stored.find(name); }

  const TensorView& part(const std::string& name, const std::vector<DType>& dtypes, std::int64_t rows,
                         std::int64_t cols) {
    const TensorView* t = find(name);
    if (!t) throw UserError("{}: tensor '{}' is missing", own_->stored.directory(), name);
    const std::array<std::int64_t, 2> shape{rows, cols};
    if (std::ranges::find(dtypes, t->dtype) == dtypes.end() || !std::ranges::equal(t->shape, shape))
      throw UserError("{}: tensor '{}' is {} {}, a 4-bit matrix of {} needs [{}, {}]", own_->stored.directory(), name,
                      safetensors_name(t->dtype), shape_text(t->shape), config_.name(), rows, cols);
    used_.insert(name);
    return *t;
  }

  // Matrices that were not quantized have their usual name and no codes.
  void add(const WeightName& w) {
    const std::string stem = w.tensor.substr(0, w.tensor.rfind(".weight"));
    const bool mlx = config_.format == PackedFormat::mlx;
    if (!find(stem + (mlx ? ".scales" : ".qweight"))) return;
    const std::int64_t rows = w.tensor_rows, cols = w.cols, group = config_.group > 0 ? config_.group : cols;
    if (cols % group != 0 || group % kBlock != 0 || rows % kPerWord != 0)
      throw UserError("{}: tensor '{}' is {} × {} in groups of {}; groups must be a multiple of {} and divide its rows",
                      own_->stored.directory(), w.tensor, rows, cols, group, kBlock);
    own_->names.push_back(w.tensor);
    own_->shapes.push_back({rows, cols});
    auto& blocks = own_->blocks.emplace_back(static_cast<std::size_t>(dtype_bytes(DType::q4_1, rows * cols)));
    if (mlx) read_mlx(w.tensor, stem, rows, cols, group, blocks);
    else read_columns(stem, rows, cols, group, blocks);
    views_.push_back({own_->names.back(), DType::q4_1, own_->shapes.back(), blocks});
  }

  void read_mlx(const std::string& name, const std::string& stem, std::int64_t rows, std::int64_t cols,
                std::int64_t group, std::vector<std::byte>& out) {
    const TensorView& codes = part(name, kWords, rows, cols / kPerWord);
    const std::vector<float> scales =
        part(stem + ".scales", kFloats, rows, cols / group).floats(own_->stored.directory());
    const std::vector<float> biases =
        part(stem + ".biases", kFloats, rows, cols / group).floats(own_->stored.directory());
    const auto groups = cols / group;
    write(
        stem, rows, cols, out,
        [&](std::int64_t r, std::int64_t c) { return code_of(codes, (r * cols + c) / kPerWord, c % kPerWord); },
        [&](std::int64_t r, std::int64_t c) {
          const auto g = static_cast<std::size_t>(r * groups + c / group);
          return std::pair(scales[g], biases[g]);
        });
  }

  // AWQ and GPTQ store matrices as (in, out).
  void read_columns(const std::string& stem, std::int64_t rows, std::int64_t cols, std::int64_t group,
                    std::vector<std::byte>& out) {
    static constexpr std::int64_t kAwqPlace[kPerWord] = {0, 4, 1, 5, 2, 6, 3, 7};
    const bool awq = config_.format == PackedFormat::awq;
    const TensorView& codes = awq ? part(stem + ".qweight", kWords, cols, rows / kPerWord)
                                  : part(stem + ".qweight", kWords, cols / kPerWord, rows);
    const TensorView& zeros = part(stem + ".qzeros", kWords, cols / group, rows / kPerWord);
    const std::vector<float> scales =
        part(stem + ".scales", kFloats, cols / group, rows).floats(own_->stored.directory());
    if (!awq) check_order(stem, cols, group);
    auto place = [&](std::int64_t row) { return awq ? kAwqPlace[row % kPerWord] : row % kPerWord; };
    write(
        stem, rows, cols, out,
        [&](std::int64_t r, std::int64_t c) {
          if (awq) return code_of(codes, c * (rows / kPerWord) + r / kPerWord, place(r));
          return code_of(codes, c / kPerWord * rows + r, c % kPerWord);
        },
        [&](std::int64_t r, std::int64_t c) {
          const std::int64_t g = c / group;
          const float zero = static_cast<float>(code_of(zeros, g * (rows / kPerWord) + r / kPerWord, place(r)) +
                                                config_.zeros_less_one);
          const float scale = scales[static_cast<std::size_t>(g * rows + r)];
          return std::pair(scale, -scale * zero);
        });
  }

  // With desc_act, columns are sorted by importance and a group is not a contiguous range of a row.
  void check_order(const std::string& stem, std::int64_t cols, std::int64_t group) {
    const TensorView* order = find(stem + ".g_idx");
    if (!order) return;
    used_.insert(stem + ".g_idx");
    if (order->dtype != DType::i32 || order->size() != cols)
      throw UserError("{}: tensor '{}.g_idx' is not {} numbers", own_->stored.directory(), stem, cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      std::int32_t g;
      std::memcpy(&g, order->bytes.data() + c * 4, 4);
      if (g != c / group)
        throw UserError(
            "{}: tensor '{}.g_idx': the groups are not ranges of columns (desc_act: true), which dml does not read; "
            "take a model that was quantized with desc_act: false",
            own_->stored.directory(), stem);
    }
  }

  template <class Code, class Scale>
  void write(const std::string& stem, std::int64_t rows, std::int64_t cols, std::vector<std::byte>& out,
             const Code& code, const Scale& scale) {
    struct Block {
      f16 d, m;
      std::uint8_t codes[kBlock / 2];
    };
    static_assert(sizeof(Block) == 20);
    const std::int64_t blocks = cols / kBlock;
    std::atomic<bool> finite = true;
    parallel_ranges(rows, 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r)
        for (std::int64_t b = 0; b < blocks; ++b) {
          Block block;
          const auto [s, offset] = scale(r, b * kBlock);
          block.d = to_f16(s), block.m = to_f16(offset);
          if (!std::isfinite(to_float(block.d)) || !std::isfinite(to_float(block.m))) finite = false;
          for (std::int64_t i = 0; i < kBlock / 2; ++i)
            block.codes[i] =
                static_cast<std::uint8_t>(code(r, b * kBlock + i) | code(r, b * kBlock + i + kBlock / 2) << 4);
          std::memcpy(out.data() + (r * blocks + b) * static_cast<std::int64_t>(sizeof block), &block, sizeof block);
        }
    });
    if (!finite)
      throw UserError("{}: tensor '{}': a scale is NaN, infinite or beyond half precision", own_->stored.directory(),
                      stem);
  }

  const PackedConfig config_;
  const ModelSpec& spec_;
  std::shared_ptr<Backing> own_;
  std::set<std::string> done_, used_;
  std::vector<TensorView> views_;
};

}  // namespace

const char* PackedConfig::name() const {
  return format == PackedFormat::awq    ? "AWQ"
         : format == PackedFormat::gptq ? "GPTQ"
         : format == PackedFormat::mlx  ? "mlx-lm"
                                        : "none";
}

PackedConfig packed_config(const Json& config, const std::string& source) {
  if (!config.is_object()) throw UserError("{}: expected an object of settings", source);
  PackedConfig out;
  const Json given = config.value("quantization_config", Json());
  const std::string method = given.is_object() ? json_string(given, "quant_method", "", source) : "";
  const Json mlx = config.value("quantization", Json());
  const bool is_mlx = mlx.is_object() && mlx.contains("bits") && method.empty();
  if (method != "awq" && method != "gptq" && !is_mlx) return out;
  const Json& of = is_mlx ? mlx : given;
  out.format = is_mlx ? PackedFormat::mlx : method == "awq" ? PackedFormat::awq : PackedFormat::gptq;
  auto refuse = [&](const std::string& what) { throw UserError("{}: quantized by {} {}", source, out.name(), what); };
  if (const auto bits = json_integer(of, "bits", 4, source); bits != kBits)
    refuse(fmt::format("to {} bits; dml reads 4", bits));
  if (const auto mode = json_string(of, "mode", "affine", source); mode != "affine")
    refuse(fmt::format("in mode '{}'; dml reads affine", shown(mode, 40)));
  if (const auto version = json_string(of, "version", "gemm", source);
      method == "awq" && version != "gemm" && version != "GEMM")
    refuse(fmt::format("in version '{}'; dml reads gemm", shown(version, 40)));
  out.group = std::max<std::int64_t>(0, json_integer(of, "group_size", is_mlx ? 64 : 128, source));
  const std::string format = json_string(of, "checkpoint_format", "gptq", source);
  if (method == "gptq" && format != "gptq" && format != "gptq_v2")
    refuse(fmt::format("in checkpoint_format '{}'; dml reads gptq and gptq_v2", shown(format, 40)));
  out.zeros_less_one = method == "gptq" && format == "gptq";
  return out;
}

ModelFiles unpack_groups(ModelFiles stored, const PackedConfig& config, const ModelSpec& spec) {
  return Unpacker(std::move(stored), config, spec).run();
}

}  // namespace dml
