#include "pipeline/vocabulary.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/random.h"

namespace dml {
namespace {

bool grows(const WeightName& w) { return w.role == WeightRole::embed || w.role == WeightRole::head; }

// The mean of the first `rows` rows.
std::vector<float> mean_row(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  std::vector<float> mean(static_cast<std::size_t>(cols));
  parallel_ranges(cols, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        sum += static_cast<double>(values[static_cast<std::size_t>(r * cols + c)]);
      mean[static_cast<std::size_t>(c)] = static_cast<float>(sum / static_cast<double>(rows));
    }
  });
  return mean;
}

// The tensor with its new rows, in the type it has.
GrownTensor grown(const TensorView& tensor, const WeightName& w, std::int64_t rows, const ModelSpec& spec, bool mean,
                  std::uint64_t seed, const std::string& directory) {
  std::vector<float> values = tensor.floats(directory);
  const std::int64_t before = w.tensor_rows, cols = w.cols;
  values.resize(static_cast<std::size_t>(rows * cols));
  float* fresh = values.data() + before * cols;
  if (w.bias) {
    std::fill(fresh, values.data() + rows * cols, 0.f);
  } else if (mean) {
    std::vector<float> row = mean_row(values, before, cols);
    for (std::int64_t r = before; r < rows; ++r) std::ranges::copy(row, values.data() + r * cols);
  } else {
    Random random(seed, Purpose::init, Hasher().text(w.tensor).digest64());
    for (std::int64_t i = 0; i < (rows - before) * cols; ++i)
      fresh[i] = random.normal(static_cast<std::uint64_t>(before * cols + i)) * static_cast<float>(spec.init_range);
  }
  GrownTensor out;
  out.shape = {tensor.shape.begin(), tensor.shape.end()};
  out.shape[0] = rows;
  Dtype dtype = dtype_storage(tensor.dtype) ? tensor.dtype : Dtype::f32;
  out.storage = *dtype_storage(dtype);
  out.bytes.resize(values.size() * static_cast<std::size_t>(dtype_bits(dtype)) / 8);
  write_floats(dtype, values.data(), std::ssize(values), out.bytes.data());
  return out;
}

void grow(BaseModel& base, std::int64_t rows, bool mean, std::uint64_t seed) {
  auto all = std::make_shared<std::map<std::string, GrownTensor>>();
  if (base.files)
    for (const WeightName& w : weight_names(base.spec))
      if (const TensorView* tensor = grows(w) ? base.files->find(w.tensor) : nullptr)
        (*all)[w.tensor] = grown(*tensor, w, rows, base.spec, mean, seed, base.directory);
  base.grown = all;
  base.spec.vocab = rows;
  base.config = rewrite_config(base.config, {{"vocab_size", rows}});
}

}  // namespace

void grow_vocabulary(BaseModel& base, std::int64_t tokens, const ModelSection& model, const AdapterSection& adapter,
                     std::int64_t seed) {
  std::int64_t rows = model.resize_token_embeddings_to_32x ? (tokens + 31) / 32 * 32 : tokens, before = base.spec.vocab;
  if (rows <= before) return;
  if (adapter.adapter != AdapterKind::none && tokens > before) {
    std::vector<std::string> wanted{"embed_tokens"}, missing;
    if (!base.spec.tied) wanted.push_back("lm_head");
    for (const WeightName& w : weight_names(base.spec))
      if (w.role == WeightRole::embed) wanted[0] = w.module().substr(w.module().rfind('.') + 1);
    for (const std::string& name : wanted)
      if (std::ranges::none_of(adapter.lora_modules_to_save,
                               [&](auto& saved) { return name.ends_with(saved) || saved.ends_with(name); }))
        missing.push_back(name);
    if (!missing.empty())
      throw UserError(
          "the tokenizer has {} tokens, the model's embedding {} rows: an adapter learns new ones only with "
          "lora_modules_to_save: [{}]; {} missing",
          tokens, before, fmt::join(wanted, ", "), fmt::join(missing, " and "));
  }
  grow(base, rows, model.mean_resizing_embeddings, static_cast<std::uint64_t>(seed));
  log_info("the vocabulary grows from {} to {} rows for {} tokens", before, rows, tokens);
}

void fit_vocabulary(BaseModel& base, const std::vector<std::string>& adapters) {
  std::int64_t rows = base.spec.vocab;
  for (const std::string& text : adapters) {
    std::string path = text.substr(0, file_exists(text) ? text.npos : text.rfind('=')) + "/adapter_model.safetensors";
    if (!file_exists(path)) continue;
    SafetensorsFile file(path);
    for (const WeightName& w : weight_names(base.spec)) {
      const TensorView* saved = grows(w) ? file.find("base_model.model." + w.tensor) : nullptr;
      if (saved && !saved->shape.empty()) rows = std::max(rows, static_cast<std::int64_t>(saved->shape[0]));
    }
  }
  // An adapter that lies about its rows is refused when it is read; no memory is taken for more than a vocabulary's
  // worth.
  constexpr std::int64_t kMost = 1 << 22;
  if (rows > base.spec.vocab && rows <= kMost) grow(base, rows, false, 0);
}

}  // namespace dml
