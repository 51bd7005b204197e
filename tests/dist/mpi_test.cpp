// Tests under a real mpirun: a Mpi test starts this program again on several ranks with one MpiRank test as the body.
// The MpiRank tests are skipped outside mpirun, the Mpi tests where there is none.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "dist/agreement.h"
#include "dist/toy_model.h"

namespace dml {
namespace {

struct Job {
  int code = -1;
  std::string output;
};

// For sanitizers: Open MPI leaks at its end, and only the ob1 layer over shared memory is free of data races.
Job under_mpirun(int ranks, const std::string& body) {
  std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 mpirun -np {} "
      "--oversubscribe --bind-to none --mca btl self,vader --mca pml ob1 --mca mpi_yield_when_idle 1 $(readlink "
      "/proc/$PPID/exe) "
      "--gtest_filter=MpiRank.{} 2>&1 < /dev/null",
      ranks, body);
  Job job;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return job;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) job.output += buffer.data();
  int status = pclose(pipe);
  job.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return job;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define NEEDS_MPIRUN() \
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "no mpirun here"
#define NEEDS_RANKS() \
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) GTEST_SKIP() << "runs under mpirun, started by the Mpi tests"

// Handles an error as the program does: prints it and terminates all ranks.
void run_rank(const std::function<void(Comm&)>& body) {
  auto comm = make_comm();
  try {
    body(*comm);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    comm->abort(static_cast<int>(error.code()));
  }
}

TEST(MpiRank, Collectives) {
  NEEDS_RANKS();
  run_rank([](Comm& comm) {
    ASSERT_GT(comm.size(), 1);
    EXPECT_EQ(comm.local_size(), comm.size());
    EXPECT_EQ(comm.sum(std::int64_t{comm.rank()}), comm.size() * (comm.size() - 1) / 2);
    EXPECT_EQ(comm.max(comm.rank()), comm.size() - 1);
    std::string long_text(3 << 20, static_cast<char>('a' + comm.rank()));
    auto texts = comm.all_gather(long_text);
    for (int r = 0; r < comm.size(); ++r)
      EXPECT_EQ(texts[static_cast<std::size_t>(r)], std::string(3 << 20, static_cast<char>('a' + r)));
    EXPECT_EQ(comm.broadcast_text(comm.rank() == 1 ? "one" : "", 1), "one");
    check_agreement(comm, {{"recipe", "x"}});
  });
}

TEST(MpiRank, Strategies) {
  NEEDS_RANKS();
  run_rank([](Comm& comm) {
    auto self = make_self_comm();
    for (std::int64_t total : {4, 6}) {
      Outcome reference = train_toy(*self, "none", total);
      for (auto& row : strategies().rows()) {
        if (row.name == "none") continue;
        Outcome outcome = train_toy(comm, row.name, total, nullptr, {.shard_size = 2});
        EXPECT_EQ(outcome.values, reference.values) << row.name;
        EXPECT_EQ(outcome.norms, reference.norms) << row.name;
      }
    }
  });
}

TEST(MpiRank, OneSleeps) {
  NEEDS_RANKS();
  run_rank([](Comm& comm) {
    comm.set_timeout(0.3);
    comm.set_step(12);
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(250));  // the other one ends it
    comm.barrier();
  });
}

TEST(MpiRank, SizesDiffer) {
  NEEDS_RANKS();
  run_rank([](Comm& comm) {
    comm.set_timeout(250);
    std::vector<std::byte> mine(comm.rank() == 0 ? 8 : 4), other(mine.size());
    std::vector<std::span<const std::byte>> send(2);
    std::vector<std::span<std::byte>> receive(2);
    send[static_cast<std::size_t>(1 - comm.rank())] = mine;
    receive[static_cast<std::size_t>(1 - comm.rank())] = other;
    comm.exchange(send, receive, {"exchange of gradients"})->wait();
  });
}

TEST(MpiRank, OneFailsWithoutAbort) {
  NEEDS_RANKS();
  try {
    auto comm = make_comm();
    if (comm->rank() == 1) throw UserError("no such file");
    comm->barrier();
  } catch (const Error& error) {
    std::exit(static_cast<int>(error.code()));
  }
}

TEST(MpiRank, SettingsDiffer) {
  NEEDS_RANKS();
  run_rank([](Comm& comm) { check_agreement(comm, {{"data", fmt::format("data of {}", comm.rank() == 1)}}); });
}

TEST(Mpi, CollectivesWork) {
  NEEDS_MPIRUN();
  for (int ranks : {2, 4}) {
    Job job = under_mpirun(ranks, "Collectives");
    EXPECT_EQ(job.code, 0) << job.output;
  }
}

TEST(Mpi, StrategiesGiveTheBitsOfOneRank) {
  NEEDS_MPIRUN();
  for (int ranks : {2, 4}) {
    Job job = under_mpirun(ranks, "Strategies");
    EXPECT_EQ(job.code, 0) << job.output;
  }
}

TEST(Mpi, ARankThatHangsEndsTheJobAtTheDeadline) {
  NEEDS_MPIRUN();
  Job job = under_mpirun(2, "OneSleeps");
  EXPECT_EQ(job.code, 6) << job.output;
  EXPECT_TRUE(holds(job.output, "rank 0 on ") &&
              holds(job.output, "barrier of 2 bytes (step 12): not complete after 0.3 s; waiting for rank 1"))
      << job.output;
}

TEST(Mpi, RanksInDifferentOperationsAreFound) {
  NEEDS_MPIRUN();
  Job job = under_mpirun(2, "SizesDiffer");
  EXPECT_EQ(job.code, 6) << job.output;
  EXPECT_TRUE(holds(job.output, "exchange of gradients")) << job.output;
}

TEST(Mpi, ARankThatFailsEndsTheJobWithItsCode) {
  NEEDS_MPIRUN();
  Job job = under_mpirun(2, "OneFailsWithoutAbort");
  EXPECT_EQ(job.code, 2) << job.output;
}

TEST(Mpi, DisagreementIsShownAsATable) {
  NEEDS_MPIRUN();
  Job job = under_mpirun(4, "SettingsDiffer");
  EXPECT_EQ(job.code, 6) << job.output;
  EXPECT_TRUE(holds(job.output, "disagree on data")) << job.output;
}

}  // namespace
}  // namespace dml
