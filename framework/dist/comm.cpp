// The collectives of Comm, all built on exchange(), and the Comm of a single rank.
#include "dist/comm.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/host_name.h"

namespace dml {
namespace {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T value_of(const std::string& bytes) {
  T value;
  DML_CHECK(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

class Done : public Pending {
 public:
  void wait() override {}
  bool test() override { return true; }
};

class SelfComm : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string host() const override { return host_name(); }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation) override {
    DML_CHECK(send.size() == 1 && receive.size() == 1 && send[0].size() == receive[0].size());
    if (!send[0].empty()) std::memmove(receive[0].data(), send[0].data(), send[0].size());
    return std::make_unique<Done>();
  }
  void abort(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }
};

}  // namespace

void Comm::broadcast(std::span<std::byte> data, int root) {
  // Binomial tree with ranks counted from the root: in the round of distance d, each rank below d sends to rank + d.
  int ranks = size(), me = (rank() - root + ranks) % ranks;
  for (int distance = 1; distance < ranks; distance *= 2) {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    if (me < distance && me + distance < ranks) send[(me + distance + root) % ranks] = data;
    if (me >= distance && me < 2 * distance) receive[(me - distance + root) % ranks] = data;
    exchange(std::move(send), std::move(receive), {"broadcast"})->wait();
  }
}

void Comm::barrier() {
  // Dissemination barrier: after the round of distance d, a rank knows that the 2d ranks before it have arrived.
  int ranks = size();
  std::byte mine{}, other{};
  for (int distance = 1; distance < ranks; distance *= 2) {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    send[(rank() + distance) % ranks] = {&mine, 1};
    receive[(rank() - distance + ranks) % ranks] = {&other, 1};
    exchange(std::move(send), std::move(receive), {"barrier"})->wait();
  }
}

std::vector<std::string> Comm::all_gather(const std::string& mine) {
  auto ranks = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
  std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  std::vector<std::string> parts(ranks);
  std::vector<std::span<const std::byte>> send(ranks, std::as_bytes(std::span(&length, 1)));
  std::vector<std::span<std::byte>> receive(ranks);
  for (std::size_t r = 0; r < ranks; ++r) receive[r] = std::as_writable_bytes(std::span(&lengths[r], 1));
  exchange(send, receive, {"all_gather of lengths"})->wait();
  for (std::size_t r = 0; r < ranks; ++r) {
    parts[r].resize(lengths[r]);
    send[r] = r == me ? std::span<const std::byte>{} : std::as_bytes(std::span(mine));
    receive[r] = r == me ? std::span<std::byte>{} : std::as_writable_bytes(std::span(parts[r]));
  }
  parts[me] = mine;
  exchange(std::move(send), std::move(receive), {"all_gather"})->wait();
  return parts;
}

double Comm::sum(double mine) {
  double total = 0;
  for (auto& part : all_gather(bytes_of(mine))) total += value_of<double>(part);
  return total;
}

void Comm::sum(std::span<double> values) {
  const std::vector<std::string> parts =
      all_gather({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  std::ranges::fill(values, 0.0);
  std::vector<double> theirs(values.size());
  for (const std::string& part : parts) {
    DML_CHECK(part.size() == values.size_bytes());
    if (!part.empty()) std::memcpy(theirs.data(), part.data(), part.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
  }
}

std::int64_t Comm::sum(std::int64_t mine) {
  std::int64_t total = 0;
  for (auto& part : all_gather(bytes_of(mine))) total += value_of<std::int64_t>(part);
  return total;
}

std::int64_t Comm::max(std::int64_t mine) {
  std::int64_t largest = mine;
  for (auto& part : all_gather(bytes_of(mine))) largest = std::max(largest, value_of<std::int64_t>(part));
  return largest;
}

std::string Comm::broadcast_text(const std::string& text, int root) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

std::unique_ptr<Comm> make_self_comm() { return std::make_unique<SelfComm>(); }

}  // namespace dml
