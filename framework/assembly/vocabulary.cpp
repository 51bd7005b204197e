#include "assembly/vocabulary.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "assembly/adapter_argument.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/random.h"
#include "model/low_rank_init.h"

namespace dml {
namespace {

constexpr std::int64_t kMaxRows = 1 << 22;  // limit before memory is allocated

bool grows(const WeightName& w, const ModelSpec& spec) {
  return w.role == WeightRole::embed || (w.role == WeightRole::head && spec.head == HeadKind::causal_lm);
}

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
ResizedTensor resized(const TensorView& tensor, const WeightName& w, const ModelSpec& spec, const NewRows& more,
                      const std::string& directory) {
  std::vector<float> values = tensor.floats(directory);
  append_rows(values, w, spec, more);
  ResizedTensor out;
  out.shape = {tensor.shape.begin(), tensor.shape.end()};
  out.shape[0] = more.rows;
  out.dtype = is_plain_float(tensor.dtype) ? tensor.dtype : DType::f32;
  out.bytes.resize(static_cast<std::size_t>(dtype_bytes(out.dtype, std::ssize(values))));
  write_floats(out.dtype, values.data(), std::ssize(values), out.bytes.data());
  return out;
}

// `given`: tensors whose rows are known.
void grow(BaseModel& base, const NewRows& more, std::map<std::string, ResizedTensor> given = {}) {
  auto all = std::make_shared<std::map<std::string, ResizedTensor>>(std::move(given));
  if (base.files)
    for (const WeightName& w : weight_names(base.spec))
      if (const TensorView* tensor =
              grows(w, base.spec) && !all->contains(w.tensor) ? base.files->find(w.tensor) : nullptr)
        (*all)[w.tensor] = resized(*tensor, w, base.spec, more, base.directory);
  base.resized = all;
  base.spec.vocab = more.rows;
  base.config = rewrite_config(base.config, {{"vocab_size", more.rows}});
}

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Which of embedding and head an adapter trains for all tokens from `first` on.
struct EmbeddingAndHead {
  bool embedding = false, head = false;
};

EmbeddingAndHead trained_for_new_tokens(const AdapterConfig& config, const ModelSpec& spec, std::int64_t first,
                                        std::int64_t last) {
  ModelSpec resized = spec;
  resized.vocab = last;
  const AdapterPlan plan = plan_adapter(config, resized, "the recipe");
  auto trains = [&](const WeightName& w) {
    const bool follows = w.role == WeightRole::head && spec.tied && !plan.unties_head;
    if (plan.saves(w, spec) || plan.adapted(w.module())) return true;
    const TrainedRows* rows = plan.rows_of(follows ? WeightRole::embed : w.role);
    for (std::int64_t token = first; rows && token < last; ++token)
      if (std::ranges::find(rows->tokens, token) == rows->tokens.end()) return false;
    return rows != nullptr;
  };
  const std::vector<WeightName> ends = embedding_and_head(spec);
  return {trains(ends[0]), trains(ends[1])};
}

// `rows_alone`: whether the rows alone can be trained, as they cannot where the adapter has the embedding otherwise.
std::string advice(const ModelSpec& spec, std::int64_t first, std::int64_t last, bool rows_alone) {
  const std::vector<WeightName> ends = embedding_and_head(spec);
  const bool no_head = spec.head != HeadKind::causal_lm;  // that of a reward model has no rows of tokens
  const std::string embedding = last_part(ends[0].module()), head = last_part(ends[1].module());
  const std::string modules = no_head ? fmt::format("[{}]", embedding) : fmt::format("[{}, {}]", embedding, head);
  if (!rows_alone || last - first > 16) return fmt::format("lora_modules_to_save: {}", modules);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(last - first));
  std::iota(tokens.begin(), tokens.end(), first);
  const std::string rows = fmt::format("[{}]", fmt::join(tokens, ", "));
  return fmt::format("lora_modules_to_save: {}, or peft_trainable_token_indices: {}", modules,
                     spec.tied || no_head ? rows : fmt::format("{{{}: {}, {}: {}}}", embedding, rows, head, rows));
}

// The base's embedding and head as an adapter's file has them, where it does and they are not the files'.
void take_base_ends(const std::string& directory, const BaseModel& base, const ModelSpec& spec,
                    std::map<std::string, ResizedTensor>& resized) {
  const std::string path = directory + "/adapter_model.safetensors";
  if (!file_exists(path) || !base.files) return;
  const SafetensorsFile file(path);
  const AdapterConfig config = read_adapter_config_of(directory, spec.model_type);
  const AdapterPlan plan = plan_adapter(config, spec, directory + "/adapter_config.json");
  const std::vector<WeightName> ends = embedding_and_head(spec);
  for (const WeightName& w : ends) {
    const bool head = w.role == WeightRole::head;
    if (head && spec.tied && !plan.unties_head) continue;
    const std::string stem = "base_model.model." + w.module();
    const TensorView* t = file.find(stem + ".original_module.weight");
    if (!t) t = file.find(stem + ".token_adapter.base_layer.weight");
    // Adapters that start from the base leave the rest of it there, and take it out again.
    if (!t && !starts_from_base(config.init)) t = file.find(stem + ".base_layer.weight");
    if (!t && !plan.saves(w, spec)) t = file.find(stem + ".weight");
    if (!t || !is_readable_float(t->dtype) || t->shape.size() != 2 || t->shape[0] != spec.vocab ||
        t->shape[1] != w.cols)
      continue;  // what does not fit is refused when the adapter is read
    const std::string& own = head && spec.tied ? ends[0].tensor : w.tensor;
    if (const TensorView* stored = base.files->find(own);
        stored && std::ranges::equal(stored->shape, t->shape) && t->floats(path) == stored->floats(base.directory))
      continue;
    ResizedTensor tensor;
    tensor.shape = {t->shape.begin(), t->shape.end()};
    const DType dtype = is_plain_float(t->dtype) ? t->dtype : DType::f32;
    tensor.dtype = dtype;
    if (dtype == t->dtype) {
      tensor.bytes.assign(t->bytes.begin(), t->bytes.end());
    } else {
      const std::vector<float> values = t->floats(path);
      tensor.bytes.resize(values.size() * sizeof(float));
      write_floats(dtype, values.data(), std::ssize(values), tensor.bytes.data());
    }
    if (auto embedding = resized.find(own);
        head && spec.tied && embedding != resized.end() && embedding->second.bytes == tensor.bytes)
      continue;
    const auto [known, fresh] = resized.try_emplace(w.tensor, std::move(tensor));
    if (!fresh && known->second.bytes != tensor.bytes)
      throw UserError("{}: its base values of '{}' differ from those of an earlier adapter; the two cannot be combined",
                      directory, w.tensor);
  }
}

}  // namespace

NewRows rows_for(std::int64_t tokens, const ModelSection& model, std::int64_t seed) {
  return {model.resize_token_embeddings_to_32x ? (tokens + 31) / 32 * 32 : tokens, model.mean_resizing_embeddings,
          static_cast<std::uint64_t>(seed)};
}

void append_rows(std::vector<float>& values, const WeightName& w, const ModelSpec& spec, const NewRows& more) {
  const std::int64_t before = w.tensor_rows, cols = w.cols, rows = more.rows;
  if (!grows(w, spec) || rows <= before) return;
  values.resize(static_cast<std::size_t>(rows * cols));
  float* fresh = values.data() + before * cols;
  if (w.bias) {
    std::fill(fresh, values.data() + rows * cols, 0.f);
  } else if (more.mean) {
    const std::vector<float> row = mean_row(values, before, cols);
    for (std::int64_t r = before; r < rows; ++r) std::ranges::copy(row, values.data() + r * cols);
  } else {
    const Random random(more.seed, Purpose::init, Hasher().text(w.tensor).digest64());
    random.normals(static_cast<std::uint64_t>(before * cols),
                   std::span(fresh, static_cast<std::size_t>((rows - before) * cols)),
                   static_cast<float>(spec.init_range));
  }
}

std::int64_t tokens_with_rows(const Tokenizer& tokenizer, const AdapterSection& adapter) {
  const std::int64_t tokens = tokenizer.size();
  const bool new_pad = tokenizer.pad && *tokenizer.pad + 1 == tokens && tokenizer.pad != tokenizer.eos &&
                       std::ranges::find(tokenizer.untrained, *tokenizer.pad) != tokenizer.untrained.end();
  return tokens - (new_pad && adapter.adapter != AdapterKind::none);
}

ModelSpec spec_with_rows(ModelSpec spec, std::int64_t tokens) {
  spec.vocab = std::max(spec.vocab, tokens);
  return spec;
}

void check_resize(const BaseModel& base, std::int64_t tokens, const AdapterSection& adapter) {
  const std::int64_t before = base.spec.vocab;
  if (!adapter.creates_adapter() || tokens <= before) return;
  const EmbeddingAndHead trained =
      trained_for_new_tokens(adapter_config(adapter, base.directory), base.spec, before, tokens);
  const bool by_row = !adapter.peft_trainable_token_indices.empty();
  if (!trained.embedding || (!trained.head && !base.spec.tied && !by_row))
    throw UserError(
        "the tokenizer has {} tokens, the model {} rows, and this adapter does not train the {} rows of the new "
        "tokens: add {}",
        tokens, before, trained.embedding ? "head's" : "embedding's",
        advice(base.spec, before, tokens, !trained.embedding));
}

void resize_vocabulary(BaseModel& base, std::int64_t tokens, const ModelSection& model, const AdapterSection& adapter,
                       std::int64_t seed) {
  if (adapter.starts_from_adapter()) {
    // An adapter to start from defines its tokens and holds their rows.
    fit_vocabulary(base, {*adapter.lora_model_dir});
    if (tokens > base.spec.vocab)
      throw UserError(
          "the tokenizer has {} tokens, the adapter {} and its base have {} rows: new tokens need a fresh adapter",
          tokens, *adapter.lora_model_dir, base.spec.vocab);
    return;
  }
  const NewRows more = rows_for(tokens, model, seed);
  const std::int64_t before = base.spec.vocab;
  if (more.rows <= before) return;
  check_resize(base, tokens, adapter);
  if (adapter.adapter != AdapterKind::none && tokens > before && base.spec.head == HeadKind::causal_lm &&
      !trained_for_new_tokens(adapter_config(adapter, base.directory), base.spec, before, tokens).head)
    log_warning(
        "The head's rows of the new tokens keep random values: the model reads these tokens, but does not learn to "
        "write them; add {}",
        advice(base.spec, before, tokens, !adapter.peft_trainable_token_indices.empty()));
  grow(base, more);
  log_info("Vocabulary resized from {} to {} rows for {} tokens", before, more.rows, tokens);
}

void append_missing_rows(BaseModel& base, std::int64_t tokens, const ModelSection& model, std::int64_t seed) {
  if (tokens > base.spec.vocab) grow(base, rows_for(tokens, model, seed));
}

void fit_vocabulary(BaseModel& base, const std::vector<std::string>& adapters) {
  std::vector<std::string> directories;
  std::int64_t rows = base.spec.vocab;
  for (const std::string& text : adapters) {
    directories.push_back(AdapterArgument(text).directory);
    rows = std::max(rows, vocabulary_of(directories.back(), base.spec));
  }
  // A wrong row count is an error when the adapter is read.
  if (rows > kMaxRows) return;
  ModelSpec spec = base.spec;
  spec.vocab = rows;
  std::map<std::string, ResizedTensor> ends;
  for (const std::string& directory : directories) take_base_ends(directory, base, spec, ends);
  if (rows > base.spec.vocab) grow(base, {rows}, std::move(ends));
  else if (!ends.empty()) base.resized = std::make_shared<const std::map<std::string, ResizedTensor>>(std::move(ends));
}

void fit_vocabulary(BaseModel& base, const AdapterSection& adapter) {
  if (adapter.adapter == AdapterKind::none) return;
  if (adapter.lora_model_dir) return fit_vocabulary(base, std::vector<std::string>{*adapter.lora_model_dir});
  std::int64_t rows = base.spec.vocab;
  for (std::int64_t token : adapter.peft_trainable_token_indices.tokens) rows = std::max(rows, token + 1);
  for (auto& [module, tokens] : adapter.peft_trainable_token_indices.by_module)
    for (std::int64_t token : tokens) rows = std::max(rows, token + 1);
  if (rows > base.spec.vocab && rows <= kMaxRows) grow(base, {rows});
}

}  // namespace dml
