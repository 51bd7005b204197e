// dml launch --hostfile for real: two hosts, that is network namespaces joined by a link (tools/two_hosts.sh).
#include <unistd.h>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

class Hosts : public Workshop {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
    if (geteuid() != 0 || on_hosts("true").exit != 0) GTEST_SKIP() << "needs root, ip and tc for two hosts";
  }
  Ended on_hosts(const std::string& line) {
    return run({DML_SOURCE_DIR "/tools/two_hosts.sh", "sh", "-c", line}, {.environment = {"SLOTS=2"}});
  }
  Ended launched(const std::string& command) {
    return on_hosts(dml_path() + " launch --hostfile $DML_HOSTFILE --interface $DML_INTERFACE " + command);
  }
};

TEST_F(Hosts, TrainTogetherByLaunch) {
  Keys keys = tiny_model() + Keys{{"max_steps", "4"}, {"save_strategy", "no"}, {"threads", "1"}};
  ASSERT_EQ(train(1, recipe("one.yml", keys + Keys{{"output_dir", at("one")}})).exit, 0);
  // Unset, hybrid's groups are the ranks of a host.
  for (const char* strategy : {"ddp", "hybrid"}) {
    std::string out = at(strategy);
    Ended e = launched("train " + recipe("hosts.yml", keys + Keys{{"output_dir", out}, {"distribution", strategy}}));
    EXPECT_EQ(e.exit, 0) << e.err;
    EXPECT_NE(e.err.find("mpirun"), e.err.npos) << e.err;
    EXPECT_NE(e.err.find("4 ranks"), e.err.npos) << e.err;
    EXPECT_TRUE(results_in(out) == results_in(at("one"))) << strategy;
  }
}

TEST_F(Hosts, AreExaminedByDoctor) {
  Ended e = launched("doctor");
  EXPECT_EQ(e.exit, 0) << e.out << e.err;
  EXPECT_NE(e.out.find("second"), e.out.npos) << e.out;
}

TEST_F(Hosts, EndTogetherWhenARankOfTheOtherOneDies) {
  Keys keys = tiny_model() + Keys{{"max_steps", "4"}, {"save_strategy", "no"}, {"threads", "1"}};
  std::string path = recipe("dies.yml", keys + Keys{{"output_dir", at("dies")}});
  Ended e = on_hosts(
      "DML_FAULT=rank=3,point=step,kind=kill,step=2 mpirun -x DML_FAULT --hostfile $DML_HOSTFILE --bind-to none " +
      dml_path() + " train " + path);
  EXPECT_NE(e.exit, 0);
  EXPECT_FALSE(e.timed_out);
  EXPECT_TRUE(soon([&] { return processes_with(folder_).empty(); }));
}

}  // namespace
}  // namespace dml::e2e
