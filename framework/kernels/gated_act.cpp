#include "kernels/gated_act.h"

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
constexpr std::int64_t kGrain = 8192;
}

void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h) {
  DML_CHECK(gate.size() == up.size() && gate.size() == h.size());
  parallel_ranges(h.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().gated_act(static_cast<int>(act), gate.data + first, up.data + first, last - first, h.data + first);
  });
}

void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up) {
  DML_CHECK(gate.size() == up.size() && gate.size() == dh.size());
  parallel_ranges(dh.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().gated_act_backward(static_cast<int>(act), dh.data + first, gate.data + first, up.data + first,
                               last - first);
  });
}

void activate(Activation act, ConstMat x, Mat y) {
  DML_CHECK(x.size() == y.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate(static_cast<int>(act), x.data + first, last - first, y.data + first);
  });
}

void activate_backward(Activation act, ConstMat dy, Mat x) {
  DML_CHECK(x.size() == dy.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate_backward(static_cast<int>(act), dy.data + first, x.data + first, last - first);
  });
}

}  // namespace dml::kernels
