// A Comm that counts what its rank sends to others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"

namespace dml {

class CountingComm : public Comm {
 public:
  explicit CountingComm(Comm& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int local_rank() const override { return inner_.local_rank(); }
  int local_size() const override { return inner_.local_size(); }
  std::string host() const override { return inner_.host(); }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation operation) override {
    for (int r = 0; r < size(); ++r)
      if (r != rank()) sent += static_cast<std::int64_t>(send[static_cast<std::size_t>(r)].size());
    return inner_.exchange(std::move(send), std::move(receive), operation);
  }
  void abort(int code) override { inner_.abort(code); }
  std::int64_t sent = 0;

 private:
  Comm& inner_;
};

}  // namespace dml
