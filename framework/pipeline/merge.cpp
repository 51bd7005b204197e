#include "pipeline/merge.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "assembly/companions.h"
#include "assembly/job.h"
#include "assembly/model_output.h"
#include "assembly/vocabulary.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/left_over.h"
#include "core/log.h"
#include "core/random.h"
#include "exchange/gguf_export.h"
#include "exchange/modelfile.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

// What the model gives after a few of the first `vocab` tokens, drawn at random: their logits, or of a reward model its
// value at every token.
std::vector<float> some_outputs(CausalLm& model, std::int64_t vocab) {
  const ModelSpec& spec = model.spec;
  const std::int64_t length = std::min<std::int64_t>(16, spec.max_positions);
  Random random(0, Purpose::sample);
  std::vector<Token> tokens;
  for (std::int64_t t = 0; t < length; ++t)
    tokens.push_back(
        static_cast<Token>(random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(vocab))));
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  model.set_length(length);
  if (spec.head != HeadKind::causal_lm) {
    const std::vector<Token> labels(tokens.size(), spec.head == HeadKind::sequence_classification ? 0 : 1);
    const std::vector<std::int32_t> starts{0, static_cast<std::int32_t>(length)};
    std::vector<float> values(tokens.size());
    UnitHooks none;
    model.reserve(model.measure({length, length, 1}, false));
    model.evaluate({tokens, labels, positions, starts}, none, values);
    return values;
  }
  std::vector<float> logits(static_cast<std::size_t>(spec.vocab));
  KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, length);
  SequenceRows rows{&cache, 0, length};
  auto call = [&] { model.generate({tokens, {}, positions, {}}, {&rows, 1}, {logits.data(), 1, spec.vocab}); };
  model.reserve(model.measure_calls(call));
  call();
  logits.resize(static_cast<std::size_t>(vocab));
  return logits;
}

// Checks that the written model gives the same outputs: float32 to rounding, 16-bit types to their precision.
void compare_outputs(CausalLm& model, const std::string& merged, ModelTask task, DType dtype) {
  ModelSection section;
  section.base_model = merged;
  section.task = task;
  auto again = make_inference_model(open_base_model(section), std::nullopt);
  const std::int64_t vocab = model.spec.vocab;  // rows that were added are not the adapter's
  std::vector<float> before = some_outputs(model, vocab), after = some_outputs(*again, vocab);
  double worst = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    double difference = std::abs(static_cast<double>(before[i]) - after[i]);
    worst = std::max(worst, std::isfinite(difference) ? difference : HUGE_VAL);
  }
  auto [low, high] = std::ranges::minmax(before);
  const double share = worst / (static_cast<double>(high) - low), allowed = dtype == DType::f32 ? 1e-4 : 0.1;
  if (!(share <= allowed))
    throw Error(ExitCode::diverged,
                fmt::format("merge not verified: the largest relative output difference is {:.2g}; nothing was written",
                            share));
  log_info("Merge verified: largest relative output difference {:.1e} ({})", share, safetensors_name(dtype));
}

// Merged tensors as float32, one at a time; thread-safe.
class MergedTensors {
 public:
  MergedTensors(CausalLm& model, const NewRows& more) : model_(model), more_(more) {
    for (WeightName& w : weight_names(merged_spec(model))) rows_[w.tensor].push_back(w);
  }
  void open(const GgufTensor& tensor) {
    held_.clear();
    for (const WeightName& w : tensor.sources)
      if (!held_.contains(w.tensor)) held_[w.tensor] = merged_values(model_, rows_.at(w.tensor), more_);
  }
  void read(const WeightName& w, std::int64_t first, std::int64_t count, float* out) const {
    const std::vector<float>& values = held_.at(w.tensor);
    const StoredOrder order = w.order();
    for (std::int64_t i = (w.first_row + first) * w.cols; i < (w.first_row + first + count) * w.cols; ++i)
      *out++ = values[static_cast<std::size_t>(w.reordered() ? order.place(i) : i)];
  }

 private:
  CausalLm& model_;
  NewRows more_;
  std::map<std::string, std::vector<WeightName>> rows_;
  std::map<std::string, std::vector<float>> held_;
};

void merge_to_gguf(const RecipeFile& file, const BaseModel& base, const Tokenizer& tokenizer, CausalLm& model,
                   const NewRows& more, const std::string& type, const std::string& output) {
  ModelSpec spec = merged_spec(model, more);
  const Companions companions(file, tokenizer, base);
  spec.eos = companions.stop_tokens();
  remove_left_over_of(output);
  remove_left_over_of(output + ".parts");
  const DirectoryWriter beside(output +
                               ".parts");  // temporary: never renamed; its files are read while the output is written
  companions.write(beside.path());
  MergedTensors tensors(model, more);
  const GgufFileType& stored = gguf_file_type(type.empty() ? std::string(ggml_type(base.dtype()).name) : type);
  const std::string name = std::filesystem::path(output).stem();
  log_gguf(output, stored,
           write_gguf({name, beside.path(), spec, stored,
                       [&](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
                         tensors.read(w, first, count, out);
                       },
                       [&](const GgufTensor& t) { tensors.open(t); }, "the model of " + file.path},
                      output));
  write_modelfile(output, beside.path());
}

// Rows for the tokens that the adapter has none for: a new pad token, or tokens of a recipe other than the adapter's.
NewRows rows_of_all_tokens(const Tokenizer& tokenizer, const Recipe& recipe, std::int64_t rows) {
  const std::int64_t tokens = tokenizer.size();
  if (tokens <= rows) return {};
  const NewRows more = rows_for(tokens, recipe.model, recipe.train.seed);
  const std::int64_t needed = tokens_with_rows(tokenizer, recipe.adapter);
  log_info("Vocabulary resized from {} to {} rows for {} tokens", rows, more.rows, tokens);
  if (needed > rows) log_warning("{} new tokens have no row in the adapter: they are untrained", needed - rows);
  return more;
}

// What a quantized base means for the merge, and which keys merge into the original weights instead, where there are
// such.
void report_quantized(const BaseModel& base, const AdapterSection& adapter) {
  if (!base.quantized) return;
  std::string advice;
  if (!is_bitsandbytes_config(base.config, base.directory))
    advice = fmt::format("; to merge it into the original weights, set {}{}",
                         adapter.adapter == AdapterKind::qlora ? "adapter: lora and " : "",
                         adapter.load_in_4bit ? "load_in_4bit: false" : "load_in_8bit: false");
  log_info("The adapter is merged into the {} values that it was trained on{}", base.quantized->scheme_name(), advice);
}

void check_output(const std::string& output, bool file) {
  const bool free = !std::filesystem::exists(output) ||
                    (!file && std::filesystem::is_directory(output) && std::filesystem::is_empty(output));
  if (!free) throw UserError("--output: {} exists; choose a new {}", output, file ? "file" : "directory");
}

}  // namespace

void merge(const RecipeFile& file, std::vector<std::string> adapters, const std::string& output,
           const std::optional<std::string>& gguf) {
  const Recipe& recipe = file.recipe;
  if (recipe.adapter.makes_model() && adapters.empty())
    throw UserError("this recipe trains the whole model; there is no adapter to merge");
  if (adapters.empty()) adapters = {recipe.train.output_dir};
  check_output(output, gguf.has_value());
  if (real_path(output) == real_path(recipe.model.base_model))
    throw UserError("--output: {} is the base model", output);
  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  fit_vocabulary(base, adapters);
  report_quantized(base, recipe.adapter);
  const auto tokenizer = open_tokenizer(recipe.model);
  auto model = make_inference_model(base, std::nullopt, adapters);
  const NewRows more = rows_of_all_tokens(*tokenizer, recipe, base.spec.vocab);
  if (gguf) return merge_to_gguf(file, base, *tokenizer, *model, more, *gguf, output);
  remove_left_over_of(output);
  DirectoryWriter out(output);
  write_merged_directory(out.path(), base, *model, base.dtype(), more);
  Companions(file, *tokenizer, base).write(out.path());
  compare_outputs(*model, out.path(), recipe.model.task, base.dtype());
  if (!out.commit()) throw UserError("--output: {} was created by another process", output);
}

}  // namespace dml
