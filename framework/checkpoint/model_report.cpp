#include "checkpoint/model_report.h"

#include <algorithm>
#include <set>

#include "checkpoint/finite.h"
#include "core/error.h"
#include "core/log.h"
#include "core/shown.h"
#include "kernels/weight.h"
#include "model/adapter_plan.h"
#include "model/weight_names.h"

namespace dml {
namespace {

constexpr std::size_t kMaxLinesShown = 12;

/// Whether a tensor is a table that older files contain and that follows from the config: rotary frequencies, causal
/// masks.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

/// The error for a tensor of another shape. For the most common mistake it names the rows and vocab_size instead of two
/// shapes.
std::string misshapen(const WeightName& w, const TensorView& t) {
  auto wanted = w.tensor_shape();
  std::string text =
      fmt::format("tensor '{}' is {}, config.json asks for {}", w.tensor, shape_text(t.shape), shape_text(wanted));
  if (w.role == WeightRole::embed && t.shape.size() == 2 && t.shape[1] == wanted[1])
    text += fmt::format(" (vocab_size is {})", wanted[0]);
  return text;
}

// Checks an mxfp4 tensor: its codes and its power-of-two scales.
void check_mxfp4(const ModelFiles& files, const WeightName& w, const TensorView& codes,
                 std::set<const TensorView*>& used, std::vector<std::string>& errors) {
  const TensorView* scales = files.find(w.mxfp4_scales());
  std::vector<std::int64_t> wanted = w.tensor_shape();
  wanted.pop_back();
  if (scales) used.insert(scales);
  if (codes.dtype != DType::u8)
    errors.push_back(fmt::format("tensor '{}' is {}, expected U8", w.tensor, safetensors_name(codes.dtype)));
  else if (w.cols % kernels::kMxfp4Block != 0)
    errors.push_back(fmt::format("tensor '{}': rows of {} are not a multiple of the block size {}", w.tensor, w.cols,
                                 kernels::kMxfp4Block));
  else if (!scales) errors.push_back(fmt::format("tensor '{}' is missing", w.mxfp4_scales()));
  else if (scales->dtype != DType::u8 || !std::ranges::equal(scales->shape, wanted))
    errors.push_back(fmt::format("tensor '{}' is {} {}, expected U8 {}", w.mxfp4_scales(),
                                 safetensors_name(scales->dtype), shape_text(scales->shape), shape_text(wanted)));
}

// A router decides which experts are computed, so its few values are checked when the model is opened.
void check_router(const TensorView& t, std::vector<std::string>& errors) {
  if (const std::int64_t bad = first_not_finite(t.dtype, t.bytes); bad >= 0)
    errors.push_back(fmt::format("tensor '{}' is NaN or infinite at {}", t.name, place_in(t, bad)));
}

}  // namespace

ModelReport report_weights(const ModelFiles& files, const ModelSpec& spec) {
  ModelReport out;
  std::set<const TensorView*> used;
  for (auto& w : weight_names(spec)) {
    if (w.first_row > 0) continue;  // a fused tensor is checked once
    const TensorView* t = files.find(w.tensor);
    if (!t && is_new_head(w, spec)) continue;
    if (!t) {
      out.errors.push_back(fmt::format("tensor '{}' is missing", w.tensor));
      continue;
    }
    used.insert(t);
    if (!std::ranges::equal(t->shape, w.tensor_shape())) out.errors.push_back(misshapen(w, *t));
    else if (w.coded) check_mxfp4(files, w, *t, used, out.errors);
    else if (!t->readable())
      out.errors.push_back(
          fmt::format("tensor '{}' is {}, expected F32, BF16, F16 or F64", w.tensor, safetensors_name(t->dtype)));
    else if (w.role == WeightRole::router || w.role == WeightRole::router_correction) check_router(*t, out.errors);
  }
  if (spec.head != HeadKind::causal_lm)
    for (const char* part : {".weight", ".bias"})
      if (const TensorView* head = files.find(std::string(spec.naming->head) + part)) used.insert(head);
  const std::vector<WeightName> ends = embedding_and_head(spec);
  if (const TensorView* head = spec.tied ? files.find(ends[1].tensor) : nullptr) {
    used.insert(head);
    const TensorView* embed = files.find(ends[0].tensor);
    if (embed && !std::ranges::equal(head->bytes, embed->bytes))
      out.warnings.push_back(fmt::format(
          "'{}' differs from the embedding, but tie_word_embeddings is true: the embedding is used", head->name));
  }
  for (auto& t : files.tensors())
    if (!used.contains(&t) && !is_derived(t.name))
      out.warnings.push_back(fmt::format("tensor '{}' {} is not used", shown(t.name, 160), shape_text(t.shape)));
  return out;
}

void require_weights(const ModelFiles& files, const ModelSpec& spec) {
  ModelReport report = report_weights(files, spec);
  auto shorten = [&](const std::vector<std::string>& lines, auto add) {
    for (std::size_t i = 0; i < std::min(lines.size(), kMaxLinesShown); ++i)
      add(fmt::format("{}: {}", files.directory(), lines[i]));
    if (lines.size() > kMaxLinesShown)
      add(fmt::format("{}: … and {} more", files.directory(), lines.size() - kMaxLinesShown));
  };
  Problems problems;
  shorten(report.errors, [&](std::string line) { problems.add(std::move(line)); });
  problems.raise();
  shorten(report.warnings, [](const std::string& line) { log_warning("{}", line); });
}

}  // namespace dml
