// Routing in a mixture of experts: the choice of experts for each token, their weights, and the auxiliary losses.
// Sources: transformers' modeling_mixtral.py, modeling_deepseek_v3.py (groups, correction), Zoph et al. 2022 (z-loss).
//
// The k experts of a token are those with the largest scores; the lower index wins ties. They are listed by index, so
// that sums over them have a fixed order. T tokens, E experts, k chosen.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"

namespace dml::kernels {

struct RoutingRule {
  std::int64_t experts = 0, chosen = 1;  // E, k
  bool sigmoid = false;                  // scores are the sigmoid of the logits, otherwise their softmax
  bool normalize = true;                 // divide weights by their sum
  float scale = 1;                       // then multiply them by this
  std::int64_t groups = 1,
               chosen_groups = 1;  // choose experts of the best groups only; a group's score is the sum of its best two
  const float* correction = nullptr;  // (E), added to the scores for the choice but not in the weights
};

struct Routing {
  Mat scores;                       // (T, E)
  Mat weights;                      // (T, k)
  std::span<std::int32_t> experts;  // (T · k), ascending within a token
};

/// Tokens sorted by expert, ascending within an expert. Slot p is expert number p mod k of token p / k.
struct Dispatch {
  std::span<std::int32_t> starts;  // (E + 1): the rows of expert e are [starts[e], starts[e + 1])
  std::span<std::int32_t> slots;   // (T · k): the slot of a row
  std::span<std::int32_t> rows;    // (T · k): the row of a slot
};

/// Sets `out` from logits (T, E).
void route(const RoutingRule& rule, ConstMat logits, Routing out);
/// Sets dlogits (T, E) from dweights (T, k).
void route_backward(const RoutingRule& rule, const Routing& routing, ConstMat dweights, Mat dlogits);
/// Sorts the tokens by expert.
void dispatch(const RoutingRule& rule, const Routing& routing, Dispatch out);

/// to[i] = from[token of row first + i].
void gather_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Mat to);
/// to[token] += from[i] for rows [first, first + from.rows); rows of one token are added in ascending or descending
/// order.
enum class Order { ascending, descending };
void scatter_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Order order, Mat to);
/// x[i] *= weight of row first + i.
void apply_row_weights(Mat x, const Dispatch& d, ConstMat weights, std::int64_t first);
/// dweights[slot of row first + i] = x[i] · y[i].
void weight_gradients(ConstMat x, ConstMat y, const Dispatch& d, std::int64_t first, Mat dweights);

/// The bias that is added to every row of an expert's output: scale · values.
struct ExpertBias {
  const float *values, scale;
};
/// y[i] += weight of row first + i · bias.
void add_weighted_bias(ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first, Mat y);
/// Its gradients: adds dy[i] · bias to dweights, and scale · weight · dy[i] to dvalues unless it is null.
void weighted_bias_backward(ConstMat dy, ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first,
                            Mat dweights, float* dvalues);

/// y[t] += sigmoid(logits[t]) · x[t], with logits (T, 1).
void add_gated_rows(ConstMat logits, ConstMat x, Mat y);
/// Sets dx and dlogits.
void gated_rows_backward(ConstMat dy, ConstMat logits, ConstMat x, Mat dx, Mat dlogits);

/// The sums over tokens from which the auxiliary losses are computed.
struct RoutingSums {
  std::span<double> chosen;       // (E): the number of tokens routed to each expert
  std::span<double> probability;  // (E): sum of the softmax of the logits
  double square = 0;              // sum of log² Σ exp(logits)
  std::int64_t tokens = 0;
};
void add_routing(ConstMat logits, const Routing& routing, RoutingSums& sums, Arena& scratch);
/// dlogits (T, E) += the gradient of Σ_tokens (Σ_e dprobability[e] · p_e + square · log² Σ exp(logits)), p the softmax
/// of the logits.
void add_routing_gradient(ConstMat logits, std::span<const float> dprobability, float square, Mat dlogits);

}  // namespace dml::kernels
