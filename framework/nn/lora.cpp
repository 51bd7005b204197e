#include "nn/lora.h"

#include "kernels/elementwise.h"
#include "kernels/lora.h"

namespace dml {
namespace {

using kernels::TaskList;

void drop(const AdaptedRows& r, ConstMat from, Mat to, const Pass& pass) {
  const Random mask(pass.seed, Purpose::dropout, pass.micro_batch, r.lora->stream);
  kernels::dropout(from.slice(r.row, r.rows), r.lora->dropout, mask, to.slice(r.row, r.rows), r.first_row * from.cols);
}

// Calls f for every adapter with dropout.
template <class F>
void each_dropped(const TaskList<AdaptedRows>& adapters, const Pass& pass, F f) {
  for (std::int64_t i = 0; i < adapters.size(); ++i)
    if (const AdaptedRows r = adapters[i]; has_dropout(*r.lora, pass)) f(r);
}

// A scratch matrix for the rows of adapters with dropout; empty if there are none.
Mat room_for_dropped(const TaskList<AdaptedRows>& adapters, ConstMat like, Pass& pass) {
  bool any = false;
  each_dropped(adapters, pass, [&](const AdaptedRows&) { any = true; });
  return any ? pass.arena.matrix(like.rows, like.cols) : Mat{};
}

// Computes x̃ for the adapters with dropout.
Mat dropped_input(const TaskList<AdaptedRows>& adapters, ConstMat x, Pass& pass) {
  Mat dropped = room_for_dropped(adapters, x, pass);
  each_dropped(adapters, pass, [&](const AdaptedRows& r) { drop(r, x, dropped, pass); });
  return dropped;
}

ConstMat rows_of(const AdaptedRows& r, ConstMat x, ConstMat dropped, const Pass& pass) {
  return (has_dropout(*r.lora, pass) ? dropped : x).slice(r.row, r.rows);
}

}  // namespace

void adapter_down(const TaskList<AdaptedRows>& adapters, ConstMat x, Pass& pass) {
  Arena::Scope scope(pass.arena);
  const ConstMat dropped = dropped_input(adapters, x, pass);
  auto product = [&](std::int64_t i) {
    const AdaptedRows r = adapters[i];
    if (r.rows == 0) return kernels::AdapterDown{};
    return kernels::AdapterDown{rows_of(r, x, dropped, pass), r.lora->a.value(), r.down};
  };
  kernels::lora_down({adapters.size(), product}, pass.arena, pass.rows);
}

void adapter_down_backward(const TaskList<AdaptedRows>& adapters, ConstMat x, Mat dx, Pass& pass) {
  Arena::Scope scope(pass.arena);
  const ConstMat dropped = dropped_input(adapters, x, pass);
  const Mat masked = dx.empty() ? Mat{} : room_for_dropped(adapters, dx, pass);  // gradients of x̃
  if (masked.data) kernels::fill(masked.flat(), 0);
  auto gradient = [&](std::int64_t i) {
    const AdaptedRows r = adapters[i];
    if (r.rows == 0) return kernels::AdapterDownGradient{};
    const Mat to = has_dropout(*r.lora, pass) ? masked : dx;
    return kernels::AdapterDownGradient{r.down, rows_of(r, x, dropped, pass), r.lora->a.value(),
                                        dx.empty() ? Mat{} : to.slice(r.row, r.rows), r.lora->a.grad()};
  };
  kernels::lora_down_backward({adapters.size(), gradient}, pass.arena);
  if (!masked.data) return;
  each_dropped(adapters, pass, [&](const AdaptedRows& r) {
    drop(r, masked, masked, pass);
    kernels::add_scaled(masked.slice(r.row, r.rows), 1, dx.slice(r.row, r.rows));
  });
}

}  // namespace dml
