// The table of families, in groups of relatives: a new family is a row in one of them.
#pragma once

#include <vector>

#include "checkpoint/config_fields.h"
#include "checkpoint/model_config.h"

namespace dml {

using FamilyGroup = std::vector<Family>;

/// LayerNorm with weight and bias.
inline void layer_norm(ModelSpec& spec) {
  spec.norm.kind = NormKind::layer;
  spec.norm.bias = true;
}

FamilyGroup llama_families();   // Llama and what differs from it in a few switches
FamilyGroup qwen_families();    // Qwen; OLMo and EXAONE, whose norms stand after the blocks
FamilyGroup gemma_families();   // Gemma
FamilyGroup phi_families();     // Phi, GLM
FamilyGroup cohere_families();  // Command; StableLM, Nemotron, StarCoder 2: LayerNorm
FamilyGroup expert_families();  // those with mixtures of experts
FamilyGroup gpt_families();     // GPT-2, GPT-NeoX, Falcon, BLOOM, MPT

/// Of fit_to_files(): how the files hold experts.
void fit_expert_layout(ModelSpec& spec, const ModelFiles& files);

}  // namespace dml
