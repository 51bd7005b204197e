// The activations of MLPs.
#pragma once

namespace dml::kernels {

enum class Activation { silu, gelu, gelu_tanh, relu, relu2, quick_gelu, tanh, xielu, clamped_silu };

}  // namespace dml::kernels
