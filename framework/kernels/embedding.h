// Token embedding: y[t] = scale · table[token[t]] (+ position table where the model has one).
#pragma once

#include <span>

#include "core/matrix.h"
#include "core/packed_batch.h"
#include "kernels/weight.h"

namespace dml::kernels {

void embed(std::span<const Token> tokens, const Weight& table, float scale, Mat y, Write mode = Write::set);
/// dtable[token[t]] += scale · dy[t], in token order for every row: deterministic.
void embed_backward(std::span<const Token> tokens, ConstMat dy, float scale, Mat dtable);

/// The same for some rows of a table, from `first` on: tokens that have theirs elsewhere are passed over.
void embed_part(std::span<const Token> tokens, std::int64_t first, ConstMat rows, float scale, Mat y);
void embed_part_backward(std::span<const Token> tokens, std::int64_t first, ConstMat dy, float scale, Mat drows);

}  // namespace dml::kernels
