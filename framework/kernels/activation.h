// The activations of MLPs.
#pragma once

namespace dml::kernels {

/// clamped_silu is for gates only: (up + 1) · gate · σ(1.702 · gate), gate clamped to at most 7 and up to ±7 (gpt-oss).
enum class Activation { silu, gelu, gelu_tanh, relu, relu2, quick_gelu, tanh, xielu, clamped_silu };

}  // namespace dml::kernels
