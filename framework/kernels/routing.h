// The choice of experts for each token and their what weights, and the small losses on that choice. Sources:
// transformers' modeling_mixtral.py, modeling_deepseek_v3.py (groups, correction), Zoph et al. 2022 (z-loss).
//
// The k experts of a token are those of the largest scores; equal scores go to the lower index. They are listed by
// index, so that sums over them have a fixed order. T tokens, E experts, k chosen.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"

namespace dml::kernels {

struct RoutingRule {
  std::int64_t experts = 0, chosen = 1;  // E, k
  bool sigmoid = false;                  // scores are sigmoids of the logits, else their softmax
  bool normalise = true;                 // weights are divided by their sum
  float scale = 1;                       // and then multiplied by this
  std::int64_t groups = 1,
               chosen_groups = 1;     // experts of the best groups alone are chosen; a group counts as its best two
  const float* correction = nullptr;  // (E), added to the scores for the choice, not in the weights
};

struct Routing {
  Mat scores;                       // (T, E)
  Mat weights;                      // (T, k)
  std::span<std::int32_t> experts;  // (T · k), ascending within a token
};

/// Rows of tokens sorted by expert, tokens ascending within one: place p stands for token p / k and the k-th (p mod k)
/// of its experts.
struct Dispatch {
  std::span<std::int32_t> starts;  // (E + 1): the rows of expert e are [starts[e], starts[e + 1])
  std::span<std::int32_t> places;  // (T · k): the place that a row belongs to
  std::span<std::int32_t> rows;    // (T · k): and the row of a place
};

/// logits (T, E).
void route(const RoutingRule& rule, ConstMat logits, Routing out);
/// Sets dlogits (T, E) from the gradients of the weights (T, k).
void route_backward(const RoutingRule& rule, const Routing& routing, ConstMat dweights, Mat dlogits);
void dispatch(const RoutingRule& rule, const Routing& routing, Dispatch out);

/// to[i] = from[token of row first + i].
void gather_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Mat to);
/// to[token] += from[i] for rows [first, first + from.rows), those of one token in rising or falling order.
enum class Order { rising, falling };
void scatter_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Order order, Mat to);
/// x[i] *= weight of row first + i.
void weigh_rows(Mat x, const Dispatch& d, ConstMat weights, std::int64_t first);
/// dweights[place of row first + i] = x[i] · y[i].
void weight_gradients(ConstMat x, ConstMat y, const Dispatch& d, std::int64_t first, Mat dweights);

/// The bias that is added to every row of an expert's output: scale · values.
struct ExpertBias {
  const float *values, scale;
};
/// y[i] += weight of row first + i · bias.
void add_weighed_bias(ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first, Mat y);
/// Its gradients: adds dy[i] · bias to the weights', and scale · weight · dy[i] to dvalues unless it is null.
void weighed_bias_backward(ConstMat dy, ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first,
                           Mat dweights, float* dvalues);

/// y[t] += sigmoid(logits[t]) · x[t], logits (T, 1).
void add_gated_rows(ConstMat logits, ConstMat x, Mat y);
/// Sets dx and dlogits.
void gated_rows_backward(ConstMat dy, ConstMat logits, ConstMat x, Mat dx, Mat dlogits);

/// Sums over tokens that the losses on routing are made of.
struct RoutingSums {
  std::span<double> chosen;       // (E): tokens sent to each expert
  std::span<double> probability;  // (E): softmax of the logits
  double square = 0;              // log of the sum of exponentials, squared
  std::int64_t tokens = 0;
};
void add_routing(ConstMat logits, const Routing& routing, RoutingSums& sums, Arena& scratch);
/// dlogits += gradient of Σ_tokens Σ_e pull[e] · p_e + square · log² Σ exp(logits), p the softmax of the logits.
void add_routing_gradient(ConstMat logits, std::span<const float> pull, float square, Mat dlogits);

}  // namespace dml::kernels
