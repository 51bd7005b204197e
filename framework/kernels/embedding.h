// Token embedding: y[t] = scale · table[token[t]].
#pragma once

#include <span>

#include "core/matrix.h"
#include "core/packed_batch.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// y (T,D) = or += scale · table[token[t]].
void embed(std::span<const Token> tokens, const Weight& table, float scale, Mat y, Write mode = Write::set);
/// dtable[token[t]] += scale · dy[t], in the order of tokens for every row, so deterministic.
void embed_backward(std::span<const Token> tokens, ConstMat dy, float scale, Mat dtable);

/// The same for a part of the table whose first row is row `first` of the whole table; other tokens are skipped.
void embed_part(std::span<const Token> tokens, std::int64_t first, const Weight& rows, float scale, Mat y);
void embed_part_backward(std::span<const Token> tokens, std::int64_t first, ConstMat dy, float scale, Mat drows);

/// Trained rows of a frozen table: token replaced[k] (ascending) has row numbers[k] of `rows` (K,D) instead of the
/// table's. Sets y[t] of these tokens; others are unchanged. The gradient is added to drows in the order of tokens.
void embed_rows(std::span<const Token> tokens, std::span<const std::int32_t> replaced,
                std::span<const std::int32_t> numbers, ConstMat rows, float scale, Mat y);
void embed_rows_backward(std::span<const Token> tokens, std::span<const std::int32_t> replaced,
                         std::span<const std::int32_t> numbers, ConstMat dy, float scale, Mat drows);

}  // namespace dml::kernels
