// What the tests of GGUF files share: models as llama.cpp has them, their files, and what of a spec a file holds.
#pragma once

#include <cmath>
#include <string>

#include "checkpoint/model_config.h"
#include "exchange/gguf_export.h"

namespace dml {

// llama.cpp's Gemma has the scale of scores and the windows of the published models; the goldens have others.
inline ModelSpec as_published(ModelSpec s) {
  if (s.model_type != "gemma2" && s.model_type != "gemma3_text") return s;
  s.scores.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  s.windows.clear();
  for (std::int64_t l = 0; l < s.layers; ++l)
    s.windows.push_back((s.model_type == "gemma2" ? l % 2 == 0 : (l + 1) % 6 != 0) ? 8 : 0);
  return s;
}

/// The model of a folder as a file of a type.
inline void write_published(const std::string& directory, const std::string& type, const std::string& path) {
  const ModelSpec spec = as_published(read_model_spec(directory));
  const ModelFiles files(directory);
  write_gguf({"name", directory, spec, gguf_file_type(type), rows_of_files(files)}, path);
}

// What a GGUF file does not hold, or says in another way.
inline ModelSpec comparable(ModelSpec s) {
  if (s.model_type == "mistral") s.model_type = "llama", s.windows.clear();
  if (s.model_type.starts_with("qwen")) s.windows.clear();
  s.init_range = 0;
  s.bos = s.pad = -1, s.eos.clear();
  s.scores.scale = 0;
  s.embedding_scale = std::round(s.embedding_scale * 16) / 16;  // of a model in bf16 it is rounded to bf16
  for (RopeSpec* r : {&s.rope, s.rope_local ? &*s.rope_local : nullptr}) {
    if (!r) continue;
    r->factor = static_cast<float>(r->factor), r->theta = static_cast<float>(r->theta);
    for (auto* list : {&r->long_factor, &r->short_factor})
      for (double& x : *list) x = static_cast<float>(x);
    if (r->scaling == RopeScaling::longrope) r->factor = r->attention_factor = 0;
  }
  s.norm.eps = static_cast<float>(s.norm.eps);
  return s;
}

}  // namespace dml
