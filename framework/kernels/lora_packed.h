// The products of adapters in bf16: packed products, whose factors are rounded like those of the layer. Each function
// computes what the function of lora.h with the same name does. Used by lora.cpp only.
#pragma once

#include "kernels/lora.h"

namespace dml::kernels {

/// Whether the precision in use is bf16, so that adapters use these functions.
bool packs_adapters();

void lora_down_packed(const TaskList<AdapterDown>& adapters);
void lora_up_backward_packed(const TaskList<AdapterUpGradient>& adapters, Arena& scratch);
void lora_down_backward_packed(const TaskList<AdapterDownGradient>& adapters);

}  // namespace dml::kernels
