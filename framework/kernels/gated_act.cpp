#include "kernels/gated_act.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
constexpr std::int64_t kGrain = 8192;
}

void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h) {
  ProfileScope profiled("gated_act");
  DML_CHECK(gate.size() == up.size() && gate.size() == h.size());
  parallel_ranges(h.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().gated_act(static_cast<int>(act), gate.data + first, up.data + first, last - first, h.data + first);
  });
}

void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up) {
  ProfileScope profiled("gated_act_backward");
  DML_CHECK(gate.size() == up.size() && gate.size() == dh.size());
  parallel_ranges(dh.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().gated_act_backward(static_cast<int>(act), dh.data + first, gate.data + first, up.data + first,
                               last - first);
  });
}

void activate(Activation act, ConstMat x, Mat y) {
  ProfileScope profiled("activate");
  DML_CHECK(x.size() == y.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate(static_cast<int>(act), x.data + first, last - first, y.data + first);
  });
}

void activate_backward(Activation act, ConstMat dy, Mat x) {
  ProfileScope profiled("activate_backward");
  DML_CHECK(x.size() == dy.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate_backward(static_cast<int>(act), dy.data + first, x.data + first, last - first);
  });
}

}  // namespace dml::kernels
