// Non-owning 2-D views (rows × cols) of activations and weights, row-major and dense.
#pragma once

#include <cstdint>
#include <span>

namespace dml {

template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0, cols = 0;

  T* row(std::int64_t i) const { return data + i * cols; }
  std::int64_t size() const { return rows * cols; }
  bool empty() const { return data == nullptr || rows == 0; }
  std::span<T> flat() const { return {data, static_cast<std::size_t>(size())}; }
  /// Rows [first, first + count).
  MatrixView slice(std::int64_t first, std::int64_t count) const { return {row(first), count, cols}; }
  operator MatrixView<const T>() const { return {data, rows, cols}; }
};

using Mat = MatrixView<float>;
using ConstMat = MatrixView<const float>;

/// Whether a kernel overwrites its output or adds to it.
enum class Write { set, add };

}  // namespace dml
