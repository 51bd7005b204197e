// The products of adapters in bf16: packed products, whose factors are rounded like those of the layer. Used by
// lora.cpp only. The result of an entry without values is skipped, as are optional results that are empty.
#pragma once

#include "kernels/lora.h"

namespace dml::kernels {

/// Whether large products, and so those of adapters, round their factors to bf16.
bool packs_adapters();

void lora_down_packed(const TaskList<AdapterDown>& adapters);
void lora_up_backward_packed(const TaskList<AdapterUpGradient>& adapters, Arena& scratch);
void lora_down_backward_packed(const TaskList<AdapterDownGradient>& adapters);

}  // namespace dml::kernels
