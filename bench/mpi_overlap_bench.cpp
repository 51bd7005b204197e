// How much of an exchange between ranks is hidden by a computation that makes no MPI call:
//
//     mpirun -np 2 build/release/bench/mpi_overlap_bench [megabytes] [MPI options before the program: --mca btl
//     self,tcp]
//
// Prints the times of the exchange alone, of the computation alone, and of both together; hidden: the fraction of the
// shorter one that overlapped.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/parallel.h"
#include "dist/comm.h"

namespace {

double seconds_of(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Arithmetic on a cache-sized buffer, like a GEMM.
void compute(std::vector<float>& x, int rounds) {
  for (int r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < x.size(); i += 16)
      for (std::size_t k = 0; k < 16; ++k) x[i + k] = x[i + k] * 0.999f + 0.001f;
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<long>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  auto comm = dml::make_comm();
  auto ranks = static_cast<std::size_t>(comm->size());
  std::size_t bytes = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100) << 20;
  std::vector<std::byte> sent(bytes), received(bytes);
  std::vector<float> x(4096, 1);
  std::size_t each = bytes / std::max<std::size_t>(1, ranks - 1);
  auto exchange = [&] {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    for (std::size_t r = 0, at = 0; r < ranks; ++r) {
      if (r == static_cast<std::size_t>(comm->rank())) continue;
      send[r] = std::span(sent).subspan(at, each);
      receive[r] = std::span(received).subspan(at, each);
      at += each;
    }
    return comm->exchange(send, receive);
  };
  exchange()->wait();  // first touch
  int rounds = 1000;
  double once = seconds_of([&] { compute(x, rounds); });
  rounds = static_cast<int>(rounds * std::max(0.2, 2 * seconds_of([&] { exchange()->wait(); })) / once);
  rounds = static_cast<int>(comm->max(rounds));
  std::vector<double> alone, computing, together, waited;
  for (int turn = 0; turn < 7; ++turn) {
    comm->barrier();
    alone.push_back(seconds_of([&] { exchange()->wait(); }));
    comm->barrier();
    computing.push_back(seconds_of([&] { compute(x, rounds); }));
    comm->barrier();
    together.push_back(seconds_of([&] {
      auto pending = exchange();
      compute(x, rounds);
      waited.push_back(seconds_of([&] { pending->wait(); }));
    }));
  }
  double a = median(alone), c = median(computing), t = median(together), w = median(waited);
  if (comm->rank() == 0)
    std::printf(
        "%zu MB: exchange %.1f ms (%.2f GB/s each way), computation %.1f ms, together %.1f ms (wait %.1f ms): %.0f %% "
        "hidden\n",
        bytes >> 20, a * 1e3, static_cast<double>(bytes) / a / 1e9, c * 1e3, t * 1e3, w * 1e3,
        100 * (a + c - t) / std::min(a, c));
}
