#include "kernels/simd/loops.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace dml::kernels {

namespace portable {
extern const Loops table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Loops table;
}
namespace avx512 {
extern const Loops table;
}
namespace amx {
const Loops* table();  // null where the system does not give tiles
}
#endif

namespace {

const Loops* loops_of(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (isa == Isa::amx)
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
                   __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("avx512bf16") && loops_of(Isa::avx512)
               ? amx::table()
               : nullptr;
  if (isa == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && loops_of(Isa::avx2)
               ? &avx512::table
               : nullptr;
  if (isa == Isa::avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")
               ? &avx2::table
               : nullptr;
#else
  if (isa != Isa::portable) return nullptr;
#endif
  return &portable::table;
}

constexpr const char* kNames[] = {"portable", "avx2", "avx512", "amx"};

struct FreeAligned {
  void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
};

}  // namespace

Isa best_isa() {
  const char* wanted = std::getenv("DML_ISA");
  for (int i = std::ssize(kNames) - 1; i > 0; --i)
    if (loops_of(static_cast<Isa>(i)) && (!wanted || std::strcmp(wanted, kNames[i]) == 0)) return static_cast<Isa>(i);
  return Isa::portable;
}

namespace {
struct Choice {
  Isa isa = best_isa();
  const Loops* loops = loops_of(isa);
};
Choice& choice() {
  static Choice chosen;
  return chosen;
}
}  // namespace

const Loops& loops() { return *choice().loops; }
Isa isa() { return choice().isa; }
bool use_isa(Isa wanted) {
  const Loops* found = loops_of(wanted);
  if (found) choice().isa = wanted, choice().loops = found;
  return found != nullptr;
}
const char* isa_name() { return kNames[static_cast<int>(isa())]; }

std::span<float> thread_scratch(std::int64_t floats) {
  thread_local std::unique_ptr<float, FreeAligned> block;
  thread_local std::int64_t size = 0;
  if (size < floats) {
    block.reset();
    size = 0;
    block.reset(
        static_cast<float*>(::operator new (static_cast<std::size_t>(floats) * sizeof(float), std::align_val_t{64})));
    size = floats;
  }
  return {block.get(), static_cast<std::size_t>(floats)};
}

}  // namespace dml::kernels
