#include "diagnose/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "checkpoint/safetensors_dtype.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/rounding.h"
#include "core/shown.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "model/weight_names.h"

namespace dml {
namespace {

// Random values [first, first + out.size()) of a weight, none of them zero.
void random_values(std::uint64_t stream, float range, std::int64_t first, std::span<float> out) {
  Random random(0, Purpose::init, stream);
  float width = range * std::sqrt(12.f);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = (random.uniform(static_cast<std::uint64_t>(first) + i) - 0.5f) * width;
}

DType storage_of(const WeightName& w, const ModelSection& model, const AdapterSection& adapter) {
  if (w.vector) return DType::f32;
  if (is_linear(w) && adapter.load_in_4bit) return DType::nf4;
  if (is_linear(w) && adapter.load_in_8bit) return DType::int8;
  return model.frozen_storage == DType::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace

std::vector<SyntheticDocument> read_documents(const std::string& path) {
  constexpr std::int64_t kLongest = 1 << 24;
  std::vector<SyntheticDocument> documents;
  const std::string text = read_file(path, 1 << 24);
  for (const Line line : Lines(text)) {
    const std::string row(line.text);
    if (row.empty() || row[0] == '#') continue;
    long tokens = 0, trained = 0;
    if (std::sscanf(row.c_str(), "%ld %ld", &tokens, &trained) != 2 || tokens < 2 || tokens > kLongest || trained < 0 ||
        trained >= tokens)
      throw UserError("{}:{}: expected 'TOKENS TRAINED' with 2 ≤ TOKENS and TRAINED < TOKENS, got '{}'", path,
                      line.number, shown(row, 60));
    documents.push_back({tokens, trained});
  }
  if (documents.empty()) throw UserError("{}: contains no documents", path);
  return documents;
}

SyntheticBatch::SyntheticBatch(std::span<const SyntheticDocument> documents, std::int64_t vocab, std::uint64_t seed,
                               bool pairs) {
  Random random(seed, Purpose::init);
  starts_.push_back(0);
  for (const SyntheticDocument& d : documents) {
    auto first = static_cast<std::int64_t>(tokens_.size());
    for (std::int64_t i = 0; i < d.tokens; ++i) {
      tokens_.push_back(
          static_cast<Token>(random.below(static_cast<std::uint64_t>(first + i), static_cast<std::uint64_t>(vocab))));
      positions_.push_back(static_cast<std::int32_t>(i));
    }
    const auto number = static_cast<std::size_t>(std::ssize(starts_) - 1);
    if (pairs) {
      const std::int64_t prompt =
          number % 2 == 0
              ? 0
              : std::min(d.tokens - d.trained, documents[number - 1].tokens - documents[number - 1].trained);
      std::copy_n(tokens_.begin() + starts_[number - number % 2], prompt, tokens_.begin() + first);
      shared_.push_back(static_cast<std::int32_t>(prompt));
    }
    for (std::int64_t i = 0; i < d.tokens; ++i) {
      bool trained = i + 1 < d.tokens && i + 1 >= d.tokens - d.trained;
      labels_.push_back(trained ? tokens_[static_cast<std::size_t>(first + i + 1)] : kIgnore);
    }
    starts_.push_back(static_cast<std::int32_t>(tokens_.size()));
  }
}

SyntheticWeights::SyntheticWeights(const ModelSpec& spec, const ModelSection& model, const AdapterSection& adapter)
    : spec_(spec), model_(model), adapter_(adapter) {}

TensorSource SyntheticWeights::source() {
  if (adapter_.adapter == AdapterKind::none) return {};
  std::map<std::string, WeightName> names;
  for (WeightName& w : weight_names(spec_)) names.try_emplace(w.tensor, w);
  return [this, names = std::move(names)](const std::string& name) -> std::optional<StoredTensor> {
    auto found = names.find(name);
    if (found == names.end()) return std::nullopt;
    auto made = made_.find(name);  // several weights may lie in one tensor
    return made != made_.end() ? made->second : made_[name] = make(found->second);
  };
}

std::size_t SyntheticWeights::bytes() const { return bytes_; }

StoredTensor SyntheticWeights::make(const WeightName& w) {
  StoredTensor out;
  out.shape = w.tensor_shape();
  out.dtype = storage_of(w, model_, adapter_);
  out.bf16_values = model_.frozen_storage == DType::bf16;
  const std::int64_t count = w.tensor_rows * w.cols;
  auto take = [&](std::int64_t bytes) {
    bytes_ += static_cast<std::size_t>(bytes);
    return blocks_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes))).get();
  };
  std::byte* data = take(dtype_bytes(out.dtype, count));
  out.data = data;
  if (w.vector) {
    std::fill_n(reinterpret_cast<float*>(data), count, w.bias ? 0.f : 1 - spec_.norm.offset);
    return out;
  }
  // Whole rows, and whole blocks of NF4: ranges of rows whose values are a multiple of its block.
  constexpr std::int64_t kRows = kernels::kNf4Block;
  const std::int64_t blocks = ceil_div(count, kernels::kNf4Block);
  float* scales = nullptr;
  std::vector<float> nested;  // NF4's scales, until they are quantized, too
  auto take_floats = [&](std::int64_t n) {
    return reinterpret_cast<float*>(take(n * static_cast<std::int64_t>(sizeof(float))));
  };
  if (out.dtype == DType::nf4) nested.resize(static_cast<std::size_t>(blocks)), scales = nested.data();
  else if (out.dtype == DType::int8) out.scales = scales = take_floats(w.tensor_rows);
  const auto stream = static_cast<std::uint64_t>(blocks_.size());
  parallel_ranges(w.tensor_rows, kRows, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t at = first * w.cols, n = (last - first) * w.cols;
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> values(size);
    random_values(stream, static_cast<float>(spec_.init_range), at, values);
    if (out.dtype == DType::nf4)
      kernels::quantize_nf4(
          values, {reinterpret_cast<std::uint8_t*>(data) + at / 2, (size + 1) / 2},
          {scales + at / kernels::kNf4Block, static_cast<std::size_t>(ceil_div(n, kernels::kNf4Block))});
    else if (out.dtype == DType::int8)
      kernels::quantize_int8({values.data(), last - first, w.cols}, {reinterpret_cast<std::int8_t*>(data) + at, size},
                             {scales + first, static_cast<std::size_t>(last - first)});
    else write_floats(out.dtype, values.data(), n, data + dtype_bytes(out.dtype, at));
  });
  if (!nested.empty()) {
    const std::int64_t groups = (blocks - 1) / kernels::kNf4ScaleBlock + 1;
    std::byte* codes = take(blocks);
    float* values = take_floats(1 + groups);
    out.scale_codes = reinterpret_cast<std::uint8_t*>(codes);
    out.scale_blocks = values;
    values[0] = kernels::quantize_scales(nested, {reinterpret_cast<std::uint8_t*>(codes), nested.size()},
                                         {values + 1, static_cast<std::size_t>(groups)});
  }
  return out;
}

}  // namespace dml
