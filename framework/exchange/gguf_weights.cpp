#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "exchange/gguf_families.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_tensors.h"
#include "kernels/quant_ggml.h"

namespace dml {
namespace {

// Allocated memory, besides views of the mapped file.
using OwnBytes = std::vector<std::byte>;

// The owner of the memory that the views refer to.
struct Backing {
  std::shared_ptr<const GgufFile> file;
  std::list<std::string> names;
  std::list<std::vector<std::int64_t>> shapes;
  std::list<OwnBytes> copies;
};

class Mapper {
 public:
  Mapper(std::shared_ptr<const GgufFile> file, const ModelSpec& spec) : spec_(spec) {
    own_->file = std::move(file);
    const GgufTensorView* experts = own_->file->find("blk.0.ffn_gate_exps.weight");
    if (spec_.moe.layout == ExpertLayout::transposed && experts && is_mxfp4(*experts))
      spec_.moe.layout = ExpertLayout::mxfp4;
  }

  ModelFiles map() {
    const GgufFile& file = *own_->file;
    const GgufFamily& family = gguf_family(spec_.model_type, file.path());
    std::map<std::string_view, bool> used;
    for (const GgufTensor& t : gguf_tensors(spec_, family)) {
      const GgufTensorView* stored = file.find(t.name);
      if (!stored && t.sources.size() == 1 && t.sources[0].role == WeightRole::kv) add_latent(t.sources[0], used);
      if (!stored) continue;  // the model's checks report it by its name in Hugging Face's model
      used[stored->name] = true;
      if (!t.sources.empty()) add(t, *stored);
    }
    add_xielu(file);
    for (const GgufTensorView& t : file.tensors())
      if (!used.contains(t.name))
        log_warning("{}: tensor '{}' {} is not used", file.path(), t.name, shape_text(t.shape));
    std::ranges::sort(views_, {}, &TensorView::name);
    return ModelFiles(file.path(), std::move(views_), {file.path()}, own_);
  }

 private:
  static bool is_mxfp4(const GgufTensorView& t) { return t.type->name == "mxfp4"; }

  void add(const GgufTensor& plan, const GgufTensorView& stored) {
    if (plan.sources[0].coded && is_mxfp4(stored)) return gather_codes(plan, stored);
    if (!stored.type->dtype) {
      std::vector<std::string_view> names;
      for (const GgmlType& type : ggml_types())
        if (type.dtype) names.push_back(type.name);
      throw UserError("{}: tensor '{}' is {}; dml reads {}", own_->file->path(), stored.name, stored.type->name,
                      fmt::join(names, ", "));
    }
    const WeightName& first = plan.sources[0];
    const bool one = std::ranges::all_of(plan.sources, [&](const WeightName& w) { return w.tensor == first.tensor; });
    if (stored.shape != plan.shape)
      throw UserError("{}: tensor '{}' is {}, its keys ask for {}", own_->file->path(), stored.name,
                      shape_text(stored.shape), shape_text(plan.shape));
    if (first.experts > 0) return gather(plan, stored);
    if (plan.offset != 0 || first.transposed) return add_values(plan, stored);
    std::span<const std::byte> data = stored.data;
    if (plan.order) data = reordered(plan, stored);
    if (one) return add_view(first, stored, data);
    const std::size_t each = data.size() / plan.sources.size();  // one norm per head
    for (std::size_t i = 0; i < plan.sources.size(); ++i)
      add_view(plan.sources[i], stored, data.subspan(i * each, each));
  }

  void add_view(const WeightName& w, const GgufTensorView& stored, std::span<const std::byte> data) {
    own_->names.push_back(w.tensor);
    own_->shapes.push_back(w.tensor_shape());
    views_.push_back({own_->names.back(), *stored.type->dtype, own_->shapes.back(), data});
  }

  // Copies rows in Hugging Face's order, in their stored type.
  std::span<const std::byte> reordered(const GgufTensor& plan, const GgufTensorView& stored) {
    const std::int64_t rows = plan.rows();
    const auto row = static_cast<std::size_t>(stored.bytes() / rows);
    OwnBytes& copy = own_->copies.emplace_back(stored.data.size());
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(copy.data() + static_cast<std::size_t>(plan.order.source(r)) * row,
                  stored.data.data() + static_cast<std::size_t>(r) * row, row);
    release_pages(stored.data);
    return copy;
  }

  // Gathers experts that Hugging Face stacks in one tensor while llama.cpp has separate gate and up tensors. Rows are
  // copied in their stored type; tensors of (in, out) must have an element type.
  void gather(const GgufTensor& plan, const GgufTensorView& stored) {
    const WeightName& first = plan.sources[0];
    const bool by_value = first.reordered();
    if (by_value && stored.type->values > 1)
      throw UserError("{}: tensor '{}' is {}; a {} is read from f32, f16 and bf16", own_->file->path(), stored.name,
                      stored.type->name, spec_.model_type);
    const std::int64_t rows = plan.rows();
    const auto row = static_cast<std::size_t>(stored.bytes() / rows),
               element = static_cast<std::size_t>(stored.type->bytes);
    auto [place, is_new] = stacks_.try_emplace(first.tensor, nullptr);
    if (is_new) {
      place->second = &own_->copies.emplace_back(row * static_cast<std::size_t>(first.tensor_rows));
      add_view(first, stored, *place->second);
    }
    std::byte* to = place->second->data();
    const std::byte* from = stored.data.data();
    const StoredOrder order = first.order();
    for (const WeightName& w : plan.sources)
      for (std::int64_t r = 0; r < w.rows; ++r, from += row)
        if (!by_value) std::memcpy(to + static_cast<std::size_t>(w.first_row + r) * row, from, row);
        else
          for (std::int64_t c = 0; c < w.cols; ++c)
            std::memcpy(to + static_cast<std::size_t>(order.place((w.first_row + r) * w.cols + c)) * element,
                        from + static_cast<std::size_t>(c) * element, element);
    release_pages(stored.data);
  }

  // Converts blocks of a scale and 32 codes, the second half in the high nibbles, to separate scales and codes with
  // adjacent values in a byte.
  void gather_codes(const GgufTensor& plan, const GgufTensorView& stored) {
    constexpr std::size_t kBlock = 17, kCodes = 16;
    const WeightName& first = plan.sources[0];
    if (stored.shape != plan.shape)
      throw UserError("{}: tensor '{}' is {}, its keys ask for {}", own_->file->path(), stored.name,
                      shape_text(stored.shape), shape_text(plan.shape));
    const auto blocks = static_cast<std::size_t>(first.cols / 32),
               all = static_cast<std::size_t>(first.tensor_rows) * blocks;
    OwnBytes& codes = coded(first.tensor, first.tensor_shape(), all * kCodes);
    std::vector<std::int64_t> shape = first.tensor_shape();
    shape.pop_back();
    OwnBytes& scales = coded(first.mxfp4_scales(), shape, all);
    const std::byte* from = stored.data.data();
    const StoredOrder order = first.order();
    for (const WeightName& w : plan.sources)
      for (std::int64_t r = 0; r < w.rows; ++r) {
        auto at = static_cast<std::size_t>(order.place((w.first_row + r) * w.cols) / w.cols) * blocks;
        for (std::size_t b = 0; b < blocks; ++b, ++at, from += kBlock) {
          scales[at] = from[0];
          auto code = [&](std::size_t i) {
            return i < kCodes ? from[1 + i] & std::byte{15} : from[1 + i - kCodes] >> 4;
          };
          for (std::size_t i = 0; i < kCodes; ++i) codes[at * kCodes + i] = code(2 * i) | code(2 * i + 1) << 4;
        }
      }
    release_pages(stored.data);
  }
  OwnBytes& coded(const std::string& name, std::vector<std::int64_t> shape, std::size_t size) {
    auto [place, is_new] = stacks_.try_emplace(name, nullptr);
    if (!is_new) return *place->second;
    place->second = &own_->copies.emplace_back(size);
    own_->names.push_back(name);
    own_->shapes.push_back(std::move(shape));
    views_.push_back({own_->names.back(), DType::u8, own_->shapes.back(), *place->second});
    return *place->second;
  }

  // Restores DeepSeek's projection of the keys and values of every head, which current files store as two tensors:
  // transposed keys, and values.
  void add_latent(const WeightName& w, std::map<std::string_view, bool>& used) {
    const LatentSpec& l = spec_.latent;
    const std::string prefix = fmt::format("blk.{}.", w.layer);
    const GgufTensorView *keys = own_->file->find(prefix + "attn_k_b.weight"),
                         *of = own_->file->find(prefix + "attn_v_b.weight");
    if (!keys || !of) return;
    const std::vector<std::int64_t> k_shape{spec_.heads, l.kv_rank, l.nope}, v_shape{spec_.heads, l.value, l.kv_rank};
    for (auto [t, shape] : {std::pair{keys, &k_shape}, {of, &v_shape}}) {
      if (t->shape != *shape || !t->type->dtype)
        throw UserError("{}: tensor '{}' is {} {}, its keys ask for {}", own_->file->path(), t->name, t->type->name,
                        shape_text(t->shape), shape_text(*shape));
      used[t->name] = true;
    }
    std::vector<float> k(static_cast<std::size_t>(keys->elements())), v(static_cast<std::size_t>(of->elements()));
    const std::int64_t k_rows = spec_.heads * l.kv_rank, v_rows = spec_.heads * l.value;
    kernels::unpack({*keys->type->dtype, k_rows, l.nope, keys->data.data()}, 0, k_rows, 0, l.nope, k.data());
    kernels::unpack({*of->type->dtype, v_rows, l.kv_rank, of->data.data()}, 0, v_rows, 0, l.kv_rank, v.data());
    OwnBytes& copy = own_->copies.emplace_back(static_cast<std::size_t>(w.size()) * sizeof(float));
    auto* out = reinterpret_cast<float*>(copy.data());
    for (std::int64_t h = 0; h < spec_.heads; ++h) {
      for (std::int64_t i = 0; i < l.nope; ++i)
        for (std::int64_t j = 0; j < l.kv_rank; ++j)
          *out++ = k[static_cast<std::size_t>((h * l.kv_rank + j) * l.nope + i)];
      out = std::copy_n(v.begin() + h * l.value * l.kv_rank, l.value * l.kv_rank, out);
    }
    own_->names.push_back(w.tensor);
    own_->shapes.push_back(w.tensor_shape());
    views_.push_back({own_->names.back(), DType::f32, own_->shapes.back(), copy});
  }

  void add_xielu(const GgufFile& file) {
    if (spec_.activation != kernels::Activation::xielu) return;
    for (const WeightName& w : weight_names(spec_)) {
      const char* key = xielu_key(w.role);
      if (!key) continue;
      const GgufValue* values = file.metadata().find(key);
      const bool numbers = values && !values->is_text() && !values->is_array_of_texts();
      if (!numbers || (values->count() != 1 && std::cmp_less_equal(values->count(), w.layer)))
        throw UserError("{}: key '{}' must hold a number for each of {} layers", file.path(), key, spec_.layers);
      OwnBytes& copy = own_->copies.emplace_back(sizeof(float));
      const auto x = static_cast<float>(values->number(values->count() == 1 ? 0 : static_cast<std::size_t>(w.layer)));
      std::memcpy(copy.data(), &x, sizeof x);
      own_->names.push_back(w.tensor);
      own_->shapes.push_back(w.tensor_shape());
      views_.push_back({own_->names.back(), DType::f32, own_->shapes.back(), copy});
    }
  }

  // Converts values that differ from the file's: subtracts the 1 that was added to Gemma's norms, transposes.
  void add_values(const GgufTensor& plan, const GgufTensorView& stored) {
    const std::int64_t rows = plan.rows(), cols = plan.cols();
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    kernels::unpack({*stored.type->dtype, rows, cols, stored.data.data()}, 0, rows, 0, cols, values.data());
    OwnBytes& copy = own_->copies.emplace_back(values.size() * sizeof(float));
    auto* out = reinterpret_cast<float*>(copy.data());
    const bool turn = plan.sources[0].transposed;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        out[turn ? c * rows + r : r * cols + c] = values[static_cast<std::size_t>(r * cols + c)] - plan.offset;
    own_->names.push_back(plan.sources[0].tensor);
    own_->shapes.push_back(plan.sources[0].tensor_shape());
    views_.push_back({own_->names.back(), DType::f32, own_->shapes.back(), copy});
  }

  ModelSpec spec_;
  std::shared_ptr<Backing> own_ = std::make_shared<Backing>();
  std::map<std::string, OwnBytes*> stacks_;  // filled from several tensors of the file
  std::vector<TensorView> views_;
};

}  // namespace

ModelFiles gguf_weights(std::shared_ptr<const GgufFile> file, const ModelSpec& spec) {
  return Mapper(std::move(file), spec).map();
}

}  // namespace dml
