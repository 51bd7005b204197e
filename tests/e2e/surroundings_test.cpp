// Events around a run: its log cannot be written, its base model is modified or truncated meanwhile, a killed command
// left files where this one writes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Around : public Workshop {
 protected:
  /// LoRA over a base of this test's own.
  Keys own_base(int steps) {
    fs::remove_all(at("base"));
    fs::copy(base_directory(), at("base"), fs::copy_options::recursive);
    return tiny_lora() + Keys{{"base_model", at("base")},
                              {"max_steps", std::to_string(steps)},
                              {"save_steps", "10"},
                              {"eval_steps", "1000"}};
  }
  std::string weights() const { return at("base/model.safetensors"); }

  /// Stops a run before step 5 (the sixth), does something to it, and waits for its end.
  template <class F>
  Ended while_stopped(const std::string& recipe, F&& change) {
    StoppedRun run(on_ranks(1, {"train", recipe}), recipe, 1, 5);
    EXPECT_NE(run.rank, 0);
    change();
    run.resume();
    return run.child.wait();
  }
};

TEST_F(Around, ARunSurvivesTheReaderOfItsLog) {
  std::string r = recipe("r.yml", own_base(200));
  Ended e =
      run({"sh", "-c", fmt::format("{{ {} train {} 2>&1; echo $? > {}; }} | head -c 1", dml_path(), r, at("code"))});
  EXPECT_EQ(read_file(at("code")), "0\n");
  EXPECT_TRUE(file_exists(at("out/adapter_model.safetensors")));
}

TEST_F(Around, ARunSurvivesALogOnAFullDisk) {
  std::string r = recipe("r.yml", own_base(20));
  EXPECT_EQ(run({"sh", "-c", fmt::format("exec {} train {} 2>/dev/full", dml_path(), r)}).exit, 0);
  EXPECT_TRUE(file_exists(at("out/adapter_model.safetensors")));
}

// As some daemons start programs: a file that is opened later must not get the number of a standard stream, and with it
// the log.
TEST_F(Around, ClosedStandardStreamsGiveTheirNumbersToNoFile) {
  const std::string r = recipe("r.yml", own_base(20));
  EXPECT_EQ(run({"bash", "-c", fmt::format("exec {} train {} <&- >&- 2>&-", dml_path(), r)}).exit, 0);
  EXPECT_EQ(dml({"ckpt", "verify", at("out")}).exit, 0);
  int lines = 0;
  std::istringstream metrics(read_file(at("out/metrics.jsonl")));
  for (std::string line; std::getline(metrics, line); ++lines) EXPECT_TRUE(Json::accept(line)) << line;
  EXPECT_GE(lines, 20);
}

TEST_F(Around, AClosedOutputEndsTheCommandAsUsual) {
  Ended e = run({"bash", "-c", fmt::format("{} schema | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}", dml_path())});
  EXPECT_TRUE(e.exit == 0 || e.exit == 128 + SIGPIPE) << e.exit;
  EXPECT_EQ(e.err, "");
}

// They are not taken for empty folders, nor a checkpoint for a damaged one that may be replaced.
TEST_F(Around, FoldersThatMayNotBeEnteredAreNamed) {
  const auto program_as_another_user = [&](Words words) {
    if (geteuid() == 0) words.insert(words.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    return run(words);
  };
  const auto as_another_user = [&](Words words) {
    words.insert(words.begin(), dml_path());
    return program_as_another_user(words);
  };
  const auto is_refused = [&](const Words& words, const std::string& why) {
    const Ended e = as_another_user(words);
    EXPECT_EQ(e.exit, 2) << words[0] << ": " << e.err;
    EXPECT_THAT(e.err, HasSubstr("error: " + why)) << words[0];
  };
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  if (as_another_user({"version"}).exit != 0) GTEST_SKIP() << "another user cannot start the program";
  if (program_as_another_user({"ls", folder_}).exit != 0) GTEST_SKIP() << "another user cannot enter " << folder_;
  const std::string r = recipe("r.yml", own_base(20));
  ASSERT_EQ(train(1, r).exit, 0);
  fs::permissions(at("out/checkpoint-20"), fs::perms::none);
  is_refused({"resume", at("out")}, at("out/checkpoint-20: Permission denied"));
  EXPECT_THAT(as_another_user({"ckpt", "ls", at("out")}).out,
              HasSubstr("manifest.json cannot be opened: Permission denied"));
  fs::permissions(at("out"), fs::perms::none);
  for (const Words& words : {Words{"resume", at("out")},
                             {"info", at("out")},
                             {"merge", r, "--output", at("merged")},
                             {"infer", r, "--prompt", "x"},
                             {"evaluate", r},
                             {"report", at("out")}})
    is_refused(words, at("out: Permission denied"));
  for (const char* folder : {"out", "out/checkpoint-20"}) fs::permissions(at(folder), fs::perms::owner_all);
}

TEST_F(Around, ABaseThatIsChangedInPlaceEndsTheRunAtTheNextSave) {
  std::string r = recipe("r.yml", own_base(30));
  Ended e = while_stopped(r, [&] {
    int fd = open(weights().c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(pwrite(fd, "\1", 1, static_cast<off_t>(fs::file_size(weights())) - 5), 1);
    close(fd);
  });
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr(weights()), HasSubstr("changed in place during this run")));
  EXPECT_FALSE(file_exists(at("out/checkpoint-10"))) << "what was computed with it is not saved";
}

TEST_F(Around, ABaseThatIsReplacedEndsTheRunAfterTheNextSave) {
  Keys keys = own_base(30);
  std::string r = recipe("r.yml", keys);
  Ended e = while_stopped(r, [&] {
    fs::copy_file(weights(), at("copy"));
    fs::rename(at("copy"), weights());
  });
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr("was replaced"), HasSubstr("resume from step 10")));
  EXPECT_EQ(dml({"resume", at("out")}).exit, 0);
}

TEST_F(Around, ABaseThatIsOnlyTouchedIsStillTheSame) {
  std::string r = recipe("r.yml", own_base(30));
  Ended e = while_stopped(r, [&] { fs::last_write_time(weights(), fs::file_time_type::clock::now()); });
  EXPECT_EQ(e.exit, 0) << e.err;
}

TEST_F(Around, ABaseThatIsCutShortEndsTheRunWithItsStepsSaved) {
  Keys keys = own_base(30);
  ASSERT_EQ(train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}})).exit, 0);
  for (int ranks : {1, 2}) {
    if (ranks > 1 && !has_mpirun()) continue;
    fs::remove_all(at("out"));
    const std::string bytes = read_file(weights());
    std::string r = recipe("r.yml", keys);
    StoppedRun run(on_ranks(ranks, {"train", r}), r, ranks, 5);
    ASSERT_NE(run.rank, 0);
    fs::resize_file(weights(), 8192);
    run.resume();
    Ended e = run.child.wait(r);
    EXPECT_EQ(e.exit, 5) << e.err;
    EXPECT_THAT(e.err, AllOf(HasSubstr(weights()), HasSubstr("cut short"), HasSubstr("resume from step ")));
    write("base/model.safetensors", bytes);
    Ended resumed = train(1, r, {"--resume", "auto"});
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_THAT(resumed.err, testing::ContainsRegex("Resuming from .*checkpoint-[4-6] "));
    EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
  }
}

TEST_F(Around, LeftoversOfKilledMergesAndConvertsAreRemoved) {
  Child child({"true"});
  const pid_t dead = child.pid();
  child.wait();
  const std::string theirs = at(fmt::format(".merged.tmp-{}-0", dead)),
                    other = at(fmt::format(".other.tmp-{}-0", dead)),
                    living = at(fmt::format(".merged.tmp-{}-0", getpid()));
  ASSERT_EQ(train(1, recipe("r.yml", tiny_lora())).exit, 0);
  for (auto& folder : {theirs, other, living}) fs::create_directory(folder);
  Ended e = dml({"merge", at("r.yml"), "--output", at("merged")});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_FALSE(file_exists(theirs));
  EXPECT_TRUE(file_exists(other)) << "of another command";
  EXPECT_TRUE(file_exists(living)) << "of a process that lives";
  fs::remove_all(living);
  fs::remove_all(at("merged"));
  fs::create_directory(theirs);
  EXPECT_EQ(dml({"convert", base_directory(), "--output", at("merged"), "--dtype", "bf16"}).exit, 0);
  EXPECT_FALSE(file_exists(theirs));
}

}  // namespace
}  // namespace dml::e2e
