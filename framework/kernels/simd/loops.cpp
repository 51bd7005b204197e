#include "kernels/simd/loops.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/error.h"

namespace dml::kernels {

namespace portable {
extern const Loops table;
extern const ProductLoops products, products_bf16;
}  // namespace portable
#if defined(__x86_64__)
namespace avx2 {
extern const Loops table;
const Loops* table_bf16();  // for the precision of bf16
extern const ProductLoops products, products_bf16;
}  // namespace avx2
namespace avx512 {
extern const Loops table;
extern const ProductLoops products, products_bf16;
}  // namespace avx512
namespace avx512_bf16 {
const Loops* table();  // for the precision of bf16
extern const ProductLoops products_bf16;
}  // namespace avx512_bf16
namespace amx {
const Loops* table();       // null if the system does not provide tiles
const Loops* table_bf16();  // for the precision of bf16
extern const ProductLoops products, products_bf16;
}  // namespace amx
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
  if (isa == Isa::avx512_bf16) return __builtin_cpu_supports("avx512bf16") ? loops_of(Isa::avx512) : nullptr;
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

// The products for each precision, whether those of bf16 are the faster ones, and the loops with products of few rows
// in bf16, if there are.
struct Products {
  const ProductLoops *f32, *bf16;
  bool fast_bf16;
  const Loops* loops_bf16 = nullptr;
};
Products products_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return {&amx::products, &amx::products_bf16, true, amx::table_bf16()};
  if (isa == Isa::avx512_bf16) return {&avx512::products, &avx512_bf16::products_bf16, true, avx512_bf16::table()};
  if (isa == Isa::avx512) return {&avx512::products, &avx512::products_bf16, false};
  if (isa == Isa::avx2) return {&avx2::products, &avx2::products_bf16, false, avx2::table_bf16()};
#endif
  return {&portable::products, &portable::products_bf16, false};
}

constexpr const char* kNames[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

bool chosen_by_default([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_bf16) return !__builtin_cpu_is("intel");
#endif
  return true;
}

struct Free {
  void operator()(float* p) const { std::free(p); }
};

}  // namespace

Isa best_isa() {
  const char* wanted = std::getenv("DML_ISA");
  if (wanted && !*wanted) wanted = nullptr;
  std::vector<const char*> names;
  for (int i = std::ssize(kNames) - 1; i >= 0; --i) {
    const auto each = static_cast<Isa>(i);
    if (!loops_of(each)) continue;
    if (wanted ? std::strcmp(wanted, kNames[i]) == 0 : chosen_by_default(each)) return each;
    names.push_back(kNames[i]);
  }
  throw UserError("DML_ISA: '{}' is not an instruction set of this machine; choose from {}", wanted,
                  fmt::join(names, ", "));
}

namespace {
struct Choice {
  Isa isa = best_isa();
  const Loops* loops = loops_of(isa);
  Products products = products_of(isa);
  DType precision = DType::f32, few_rows_precision = DType::f32;
  const Loops* loops_in_use = loops;
  const ProductLoops* product_loops = products.f32;

  void choose(Isa wanted, const Loops* found) {
    isa = wanted, loops = found, products = products_of(wanted);
    choose(precision, few_rows_precision);
  }
  void choose(DType large, DType few_rows) {
    precision = large, few_rows_precision = few_rows;
    product_loops = large == DType::bf16 ? products.bf16 : products.f32;
    loops_in_use = few_rows == DType::bf16 && products.loops_bf16 ? products.loops_bf16 : loops;
  }
};
Choice& choice() {
  static Choice chosen;
  return chosen;
}
}  // namespace

const Loops& loops() { return *choice().loops_in_use; }
Isa isa() { return choice().isa; }
bool use_isa(Isa wanted) {
  const Loops* found = loops_of(wanted);
  if (found) choice().choose(wanted, found);
  return found != nullptr;
}
const ProductLoops& product_loops() { return *choice().product_loops; }
DType precision() { return choice().precision; }
DType few_rows_precision() { return choice().few_rows_precision; }
void use_precision(DType large, DType few_rows) { choice().choose(large, few_rows); }
bool has_fast_bf16() { return choice().products.fast_bf16; }
bool has_few_rows_in_bf16() { return choice().products.loops_bf16 != nullptr; }
const char* isa_name() { return kNames[static_cast<int>(isa())]; }

namespace {
// Uses huge pages: the second-level cache is indexed by physical addresses, and scattered small pages conflict in some
// of its sets.
class Scratch {
 public:
  std::span<float> take(std::int64_t floats) {
    constexpr std::size_t kLine = 64, kLargePage = std::size_t{2} << 20;
    if (size_ < floats) {
      block_.reset();
      size_ = 0;
      std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
      const std::size_t unit = bytes > kLargePage / 4 ? kLargePage : kLine;
      bytes = (bytes + unit - 1) / unit * unit;
      block_.reset(static_cast<float*>(std::aligned_alloc(unit, bytes)));
      if (!block_) throw std::bad_alloc();
      if (unit == kLargePage) madvise(block_.get(), bytes, MADV_HUGEPAGE);
      size_ = static_cast<std::int64_t>(bytes / sizeof(float));
    }
    return {block_.get(), static_cast<std::size_t>(floats)};
  }

 private:
  std::unique_ptr<float, Free> block_;
  std::int64_t size_ = 0;
};
}  // namespace

std::span<float> thread_scratch(std::int64_t floats) {
  thread_local Scratch scratch;
  return scratch.take(floats);
}

std::span<float> shared_scratch(std::int64_t floats) {
  thread_local Scratch scratch;
  return scratch.take(floats);
}

}  // namespace dml::kernels
