#include "nn/embedding.h"

#include "kernels/embed_columns.h"
#include "kernels/embedding.h"
#include "kernels/lora.h"

namespace dml {
namespace {

// Calls f for every part of a table, with its rows and the index of the first.
template <class F>
void each_piece(const ParameterRef& table, F piece) {
  for (std::size_t k = 0; k < table.part_count(); ++k) {
    const ParameterRef rows = table.in_part(k);
    piece(rows, (rows.offset - table.offset) / table.cols);
  }
}

}  // namespace

Mat Embedding::plan(std::int64_t tokens, std::int64_t width, Arena& saved) const {
  return norm && trains() ? saved.matrix(tokens, width) : Mat{};
}

void Embedding::forward(Mat y, Mat saved, Pass& pass) const {
  const Mat plain = saved.empty() ? y : saved;
  look_up(plain, pass);
  if (norm) norm.forward(plain, y);
}

void Embedding::look_up(Mat y, Pass& pass) const {
  const PackedBatch& batch = pass.batch;
  if (table.part == 0) kernels::embed(batch.tokens, value(), scale, y);
  else
    each_piece(table, [&](const ParameterRef& rows, std::int64_t first) {
      pass.need(rows, 1);
      kernels::embed_part(batch.tokens, first, rows.weight(), scale, y);
    });
  if (y.rows == 0) return;
  if (trained_tokens && !pass.base_only)
    kernels::embed_rows(batch.tokens, trained_tokens.tokens, trained_tokens.numbers, trained_tokens.rows.value(), scale,
                        y);
  if (lora && !pass.base_only) {
    Arena::Scope scope(pass.arena);
    Mat down = pass.arena.matrix(y.rows, lora->a.rows);
    kernels::embed_columns(batch.tokens, lora->a.value(), down);
    kernels::lora_up(kernels::AdapterUp{down, lora->b.value(), scale * lora->scale, y});
  }
  if (positions) kernels::embed(batch.positions, positions.weight(), 1, y, Write::add);
  else if (frozen_positions) kernels::embed(batch.positions, frozen_positions, 1, y, Write::add);
}

void Embedding::backward(Mat dy, ConstMat saved, Pass& pass) const {
  if (!saved.empty()) norm.backward(dy, saved, dy, Write::set, pass.arena);
  const PackedBatch& batch = pass.batch;
  if (table)
    each_piece(table, [&](const ParameterRef& rows, std::int64_t first) {
      pass.begin_gradient(rows);
      if (Mat d = rows.grad(); !d.empty()) kernels::embed_part_backward(batch.tokens, first, dy, scale, d);
      pass.end_gradient(rows);
    });
  if (dy.rows == 0) return;
  if (Mat d = trained_tokens ? trained_tokens.rows.grad() : Mat{}; !d.empty())
    kernels::embed_rows_backward(batch.tokens, trained_tokens.tokens, trained_tokens.numbers, dy, scale, d);
  if (lora) {
    Arena::Scope scope(pass.arena);
    Mat down = pass.arena.matrix(dy.rows, lora->a.rows), ddown = pass.arena.matrix(dy.rows, lora->a.rows);
    kernels::embed_columns(batch.tokens, lora->a.value(), down);
    kernels::lora_up_backward(
        kernels::AdapterUpGradient{dy, down, lora->b.value(), scale * lora->scale, ddown, lora->b.grad()}, pass.arena);
    if (Mat d = lora->a.grad(); !d.empty()) kernels::embed_columns_backward(batch.tokens, ddown, d);
  }
  if (Mat d = positions ? positions.grad() : Mat{}; !d.empty()) kernels::embed_backward(batch.positions, dy, 1, d);
}

}  // namespace dml
