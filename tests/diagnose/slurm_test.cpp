// The job script of dml launch --submit slurm. tests/ops/slurm.sh runs one in a real Slurm.
#include "diagnose/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const LaunchHost kHost{.cores = 8, .program = "/opt/my dml"};

LaunchRequest request_of(std::vector<std::string> command) {
  LaunchRequest request;
  request.command = std::move(command);
  return request;
}

TEST(SlurmScript, OfATrainingIsRequeuedAndResumes) {
  SlurmRequest slurm;
  slurm.time = "1-12:30";
  slurm.nodes = 4;
  slurm.ranks_per_node = 2;
  slurm.partition = "long";
  LaunchRequest request = request_of({"train", "my runs/a.yml", "--lora_r", "8"});
  request.threads = 16;
  EXPECT_EQ(slurm_script(slurm, request, kHost),
            "#!/bin/bash\n"
            "#SBATCH --job-name=train-a\n"
            "#SBATCH --nodes=4\n"
            "#SBATCH --ntasks-per-node=2\n"
            "#SBATCH --cpus-per-task=16\n"
            "#SBATCH --time=1-12:30\n"
            "#SBATCH --partition=long\n"
            "#SBATCH --output=train-a-%j.log\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --requeue\n"
            "#SBATCH --signal=USR2@120\n"
            "\n"
            "threads=16\n"
            "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=\"$threads\" --cpu-bind=cores \\\n"
            "  '/opt/my dml' train 'my runs/a.yml' --lora_r 8 --resume auto --threads \"$threads\"\n"
            "code=$?\n"
            "\n"
            "# 75: saved and stopped, 120 seconds before the time was up. The job goes back to the queue and resumes "
            "from that "
            "checkpoint.\n"
            "# A job that makes room for another is requeued by Slurm itself, which counts as a restart.\n"
            "restarts=$(scontrol show job \"$SLURM_JOB_ID\" | sed -n 's/.*Restarts=\\([0-9]*\\).*/\\1/p')\n"
            "if [ $code -eq 75 ] && [ \"$restarts\" = \"${SLURM_RESTART_COUNT:-0}\" ]; then\n"
            "  scontrol requeue \"$SLURM_JOB_ID\"\n"
            "fi\n"
            "exit $code\n");
}

TEST(SlurmScript, DividesTheCoresOfANodeAndKeepsTheUsersResumeOption) {
  SlurmRequest slurm;
  slurm.ranks_per_node = 4;
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"train", "a.yml", "--resume=out/checkpoint-5"},
        std::vector<std::string>{"train", "--resume", "out/checkpoint-5", "a.yml"}})
    EXPECT_THAT(slurm_script(slurm, request_of(given), kHost),
                AllOf(HasSubstr("#SBATCH --exclusive\n"), HasSubstr("SLURM_CPUS_ON_NODE / 4"),
                      HasSubstr("resume=out/checkpoint-5  # of the first start\n"
                                "[ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] && resume=auto\n"),
                      HasSubstr("train a.yml --resume \"$resume\" --threads")));
  EXPECT_THAT(slurm_script(slurm, request_of({"evaluate", "a.yml"}), kHost),
              AllOf(Not(HasSubstr("requeue")), Not(HasSubstr("--resume"))));
}

TEST(SlurmScript, OfAResumedRunIsRequeuedAndContinuesFromItsNewestCheckpoint) {
  EXPECT_THAT(slurm_script({}, request_of({"resume", "out/run", "--max_steps", "9"}), kHost),
              AllOf(HasSubstr("#SBATCH --requeue\n#SBATCH --signal=USR2@120\n"), Not(HasSubstr("resume=")),
                    HasSubstr("dml' resume out/run --max_steps 9 --threads"), HasSubstr("scontrol requeue")));
  for (const char* checkpoint : {"out/run/checkpoint-5", "out/run/checkpoint-5/"})
    EXPECT_THAT(
        slurm_script({}, request_of({"resume", checkpoint, "--max_steps", "9"}), kHost),
        AllOf(HasSubstr(fmt::format("resume={}  # of the first start\n", checkpoint)),
              HasSubstr("-gt 0 ] && resume=out/run\n"), HasSubstr("dml' resume \"$resume\" --max_steps 9 --threads")));
}

TEST(SlurmScript, RefusesWhatSlurmWouldMisread) {
  const auto error_of = [](auto&& change) -> std::string {
    SlurmRequest slurm;
    LaunchRequest request = request_of({"train", "a.yml"});
    change(slurm, request);
    try {
      slurm_script(slurm, request, kHost);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* good : {"90", "1:30", "12:00:00", "2-0", "2-12:30:10"})
    EXPECT_EQ(error_of([&](SlurmRequest& s, LaunchRequest&) { s.time = good; }), "") << good;
  for (const char* bad : {"", "2h", "1:3", "12:00:00:00", "-5", "1\n#SBATCH --x"})
    EXPECT_THAT(error_of([&](SlurmRequest& s, LaunchRequest&) { s.time = bad; }),
                HasSubstr("expected minutes, HH:MM:SS"))
        << bad;
  EXPECT_THAT(error_of([](SlurmRequest& s, LaunchRequest& r) { s.nodes = 0, r.ranks = 2; }),
              AllOf(HasSubstr("--nodes 0: expected 1 to"), HasSubstr("-n does not work with --submit")));
  EXPECT_THAT(error_of([](SlurmRequest& s, LaunchRequest&) { s.partition = "a b"; }),
              HasSubstr("not a name of a partition"));
}

}  // namespace
}  // namespace dml
