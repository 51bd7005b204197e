// The table of model families, in groups of similar ones. A new family is a row in one of them.
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

/// The multipliers of Granite, dense or with experts: of the embedding, the blocks' outputs, the scores, and the
/// divisor of the logits.
void granite_multipliers(ConfigFields& config, ModelSpec& spec);

FamilyGroup llama_families();   // Llama and families that differ from it in a few switches
FamilyGroup qwen_families();    // Qwen; OLMo and EXAONE, which normalize after the blocks
FamilyGroup gemma_families();   // Gemma
FamilyGroup phi_families();     // Phi, GLM
FamilyGroup cohere_families();  // Command; StableLM, Nemotron, StarCoder 2: LayerNorm
FamilyGroup expert_families();  // mixtures of experts
FamilyGroup gpt_families();     // GPT-2, GPT-NeoX, Falcon, BLOOM, MPT

/// The part of fit_to_files() that determines how the files store experts.
void fit_expert_layout(ModelSpec& spec, const ModelFiles& files);

}  // namespace dml
