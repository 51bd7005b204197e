// Every kernel at the relevant shapes, as a fraction of the machine's rate: of the measured sgemm rate × threads for
// products, of the measured copy bandwidth for memory-bound kernels. The cases are those of the tests.
//
//   kernels_bench [--threads=N] --benchmark_filter=REGEX
//
// With --threads=1, CPU time is measured instead of wall time, so other load on the machine matters less.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <deque>

#include "../tests/kernels/kernel_cases.h"
#include "core/parallel.h"
#include "kernels/optimizer_step.h"
#include "kernels/simd/loops.h"

namespace {

using namespace dml;
using namespace dml::kernels;
using namespace dml::kernels::cases;

double sgemm_rate() {
  static const double rate = measured_sgemm_rate() * threads();
  return rate;
}

// Bytes per second of copying a buffer much larger than the caches, counting reads and writes.
double copy_rate() {
  static const double rate = [] {
    std::vector<float> a(std::size_t{96} << 20, 1), b(a.size());
    auto n = static_cast<std::int64_t>(a.size());
    double best = 0;
    for (int i = 0; i < 4; ++i) {
      auto start = std::chrono::steady_clock::now();
      copy({a.data(), 1, n}, {b.data(), 1, n});
      std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      best = std::max(best, 8.0 * static_cast<double>(n) / seconds.count());
    }
    return best;
  }();
  return rate;
}

void report(benchmark::State& state, double flops, double bytes) {
  using benchmark::Counter;
  double rounds = static_cast<double>(state.iterations());
  if (flops > 0) state.counters["of_sgemm"] = Counter(rounds * flops / sgemm_rate(), Counter::kIsRate);
  if (bytes > 0) state.counters["of_copy"] = Counter(rounds * bytes / copy_rate(), Counter::kIsRate);
}

struct Room {
  Arena arena{std::size_t{3} << 30};
  Mats take(const std::vector<Shape>& shapes, std::uint64_t seed) {
    Mats mats;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      mats.push_back(arena.matrix(shapes[i].rows, shapes[i].cols));
      Random random(seed, Purpose::noise, i);
      for (std::int64_t j = 0; j < mats[i].size(); ++j)
        mats[i].data[j] = shapes[i].shift + shapes[i].spread * (random.uniform(static_cast<std::uint64_t>(j)) - 0.5f);
    }
    return mats;
  }
};

void run_case(benchmark::State& state, const Case& c, bool backward) {
  Room room;
  Mats in = room.take(c.inputs, 1), out = room.take(c.outputs, 2), dout = room.take(c.outputs, 3),
       din = room.take(c.inputs, 4);
  c.forward(in, out, room.arena);
  for (auto _ : state) {
    if (backward) c.backward(in, out, dout, din, room.arena);
    else c.forward(in, out, room.arena);
  }
  report(state, backward ? c.backward_flops : c.forward_flops, backward ? c.backward_bytes : c.forward_bytes);
}

// Forward, or only the gradient of the input, with a stored weight, as in a frozen layer.
struct Kind {
  const char* name;
  DType dtype;
  bool bf16_values = false;
};
constexpr Kind kKinds[] = {{"f32", DType::f32},   {"bf16", DType::bf16}, {"f16", DType::f16},
                           {"int8", DType::int8}, {"nf4", DType::nf4},   {"nf4 in bf16", DType::nf4, true}};

void run_frozen(benchmark::State& state, const Kind& kind, std::int64_t t, std::int64_t n, std::int64_t k,
                bool backward) {
  Room room;
  Mats m = room.take({{t, k}, {t, n}, {n, k}, {1, std::max(n, n * k / 64)}}, 1);
  Weight w{kind.dtype, n, k, m[2].data, m[3].data};
  w.bf16_values = kind.bf16_values;
  if (w.dtype == DType::bf16) loops().to_bf16(m[2].data, n * k, m[2].data);  // other halves are any numbers
  for (auto _ : state) {
    if (backward) gemm_nn(m[1], w, m[0], Write::set);
    else gemm_nt(m[0], w, m[1], Write::set);
  }
  double bytes = static_cast<double>(dtype_bytes(w.dtype, n * k));
  report(state, t > 8 ? 2.0 * static_cast<double>(t * n * k) : 0, t <= 8 ? bytes : 0);
}

std::deque<Case> table() {
  std::deque<Case> list;
  for (auto [t, n, k] : {std::array<std::int64_t, 3>{512, 2048, 2048},
                         {512, 256, 2048},
                         {512, 5632, 2048},
                         {512, 2048, 5632},
                         {1024, 2048, 2048},
                         {512, 768, 768},
                         {512, 2048, 768},
                         {512, 768, 2048},
                         {2048, 768, 768},
                         {2048, 256, 256},
                         {2048, 512, 256},
                         {2048, 256, 512}})
    list.push_back(linear(t, n, k));
  for (std::int64_t r : {4, 8, 16, 32, 64, 128}) list.push_back(lora(512, 2048, 2048, r));
  list.push_back(lora(512, 256, 2048, 16));
  list.push_back(lora(512, 5632, 2048, 16));
  list.push_back(lora(1024, 768, 768, 16));
  list.push_back(rms(512, 2048));
  list.push_back(rms(2048, 256));
  list.push_back(layer(512, 2048));
  list.push_back(gated(Activation::silu, 512, 5632));
  list.push_back(gated(Activation::gelu, 512, 5632));
  list.push_back(gated(Activation::gelu_tanh, 512, 5632));
  list.push_back(rotary(512, 32, 64, 64));
  using Lengths = std::vector<std::int64_t>;
  list.push_back(attend({.heads = 32, .kv_heads = 4, .head_dim = 64}, {512, 512}));
  list.push_back(attend({.heads = 12, .kv_heads = 12, .head_dim = 64}, {512, 512}));
  list.push_back(attend({.heads = 4, .kv_heads = 4, .head_dim = 64}, {512, 512, 512, 512}));
  list.push_back(attend({.heads = 4, .kv_heads = 4, .head_dim = 64}, {8192}));
  list.push_back(attend({.heads = 32, .kv_heads = 8, .head_dim = 128, .window = 1024}, {4096}));
  list.push_back(attend({.heads = 12, .kv_heads = 12, .head_dim = 64}, Lengths(16, 64)));
  list.push_back(attend({.heads = 12, .kv_heads = 12, .head_dim = 64}, Lengths(10, 100)));
  list.push_back(loss(512, 2048, 32000, 0, false));
  list.push_back(loss(512, 768, 32000, 0, false));
  list.push_back(loss(1024, 768, 32000));
  list.push_back(loss(2048, 256, 50257));
  return list;
}

void run_adamw(benchmark::State& state) {
  std::int64_t n = 32 << 20;
  Room room;
  Mats m = room.take({{1, n}, {1, n}, {1, n, 0, 0}, {1, n, 0, 0}}, 1);
  for (auto _ : state)
    adamw({1e-4f, 0.9f, 0.999f, 1e-8f, 0.01f, 0.5f, 0.5f, 1}, m[0].flat(), m[1].flat(), m[2].flat(), m[3].flat());
  report(state, 0, 28.0 * static_cast<double>(n));
}

void run_dropout(benchmark::State& state) {
  Room room;
  Mats m = room.take({{512, 2048}}, 1);
  for (auto _ : state) dropout(m[0], 0.05f, Random(1, Purpose::dropout), m[0]);
  report(state, 0, 8.0 * 512 * 2048);
}

void run_embedding(benchmark::State& state, bool backward) {
  Room room;
  Mats m = room.take({{2048, 256}, {50257, 256}}, 1);
  std::vector<Token> tokens(2048);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i * 7919 % 50257);
  for (auto _ : state) {
    if (backward) embed_backward(tokens, m[0], 1, m[1]);
    else embed(tokens, weight_of(m[1]), 1, m[0]);
  }
  report(state, 0, (backward ? 12.0 : 8.0) * 2048 * 256);
}

void run_decode(benchmark::State& state, AttentionShape shape, std::int64_t length) {
  Room room;
  std::int64_t wide = shape.heads * shape.head_dim, narrow = shape.kv_heads * shape.head_dim;
  Mats m = room.take({{1, wide}, {length, narrow}, {length, narrow}, {1, wide}}, 1);
  auto cached = [&](Mat x) {
    return CachedRows{DType::f32, length, shape.kv_heads, shape.head_dim, reinterpret_cast<std::byte*>(x.data),
                      nullptr};
  };
  CachedQuery query{m[0].data, cached(m[1]), cached(m[2]), m[3].data};
  for (auto _ : state) attention_decode(shape, {&query, 1}, room.arena);
  report(state, 0, 8.0 * static_cast<double>(length * narrow));
}

template <class F>
void add(const std::string& name, F run) {
  auto* registered = benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond);
  if (threads() > 1) registered->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string text = argv[i]; text.starts_with("--threads=")) set_threads(std::stoi(text.substr(10)));
  static const std::deque<Case> cases = table();
  for (const Case& c : cases) {
    add("forward " + c.name, [&c](benchmark::State& s) { run_case(s, c, false); });
    add("backward " + c.name, [&c](benchmark::State& s) { run_case(s, c, true); });
  }
  for (const Kind& kind : kKinds)
    for (auto [t, n, k] : {std::array<std::int64_t, 3>{512, 2048, 2048},
                           {512, 768, 2048},
                           {1024, 768, 768},
                           {1024, 2048, 768},
                           {1024, 768, 2048},
                           {1, 2048, 2048},
                           {1, 32000, 2048},
                           {8, 2048, 2048}})
      for (bool backward : {false, true}) {
        if (t <= 8 && backward) continue;
        add(fmt::format("frozen {} {} T={} N={} K={}", kind.name, backward ? "dx" : "y", t, n, k),
            [=, &kind](benchmark::State& s) { run_frozen(s, kind, t, n, k, backward); });
      }
  add("adamw", run_adamw);
  add("dropout", run_dropout);
  add("embedding", [](benchmark::State& s) { run_embedding(s, false); });
  add("embedding backward", [](benchmark::State& s) { run_embedding(s, true); });
  add("decode H=32/8 E=128 length 4096",
      [](benchmark::State& s) { run_decode(s, {.heads = 32, .kv_heads = 8, .head_dim = 128}, 4096); });
  fmt::print("sgemm {:.1f} GFLOP/s x threads, copy {:.1f} GB/s, {} threads, {}\n", sgemm_rate() * 1e-9,
             copy_rate() * 1e-9, threads(), blas_description());
  benchmark::RunSpecifiedBenchmarks();
}
