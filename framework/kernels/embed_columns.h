// Embedding lookup in a transposed table (R, V): the A of an adapter on an embedding.
#pragma once

#include <span>

#include "core/matrix.h"
#include "core/packed_batch.h"

namespace dml::kernels {

/// y[t][r] = table[r][token[t]].
void embed_columns(std::span<const Token> tokens, ConstMat table, Mat y);
/// dtable[r][token[t]] += dy[t][r], in the order of tokens for every element, so deterministic.
void embed_columns_backward(std::span<const Token> tokens, ConstMat dy, Mat dtable);

}  // namespace dml::kernels
