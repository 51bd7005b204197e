// launch, doctor, ckpt: what running a job needs besides training.
#include <cstdio>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/checkpoints.h"
#include "pipeline/doctor.h"
#include "pipeline/launch.h"
#include "pipeline/progress.h"

namespace dml {
namespace {

// ---- launch

struct Launch {
  LaunchRequest request;
  bool dry_run = false;
  Options options{"launch",
                  "launch [-n N | --hostfile F [-n N]] [--threads T] [--interface IF] [--dry-run] COMMAND RECIPE …",
                  {"dml launch -n 2 train recipe.yml                  two ranks on this host",
                   "dml launch --hostfile hosts train recipe.yml       as many as the file has slots",
                   "dml launch -n 2 --dry-run train recipe.yml        only show the mpirun line"}};
  Launch() {
    options.integer("ranks", request.ranks,
                    "how many ranks; also -n N. Without: one per core, or the slots of the hostfile");
    options.text("hostfile", request.hostfile, "one line a host: NAME slots=RANKS");
    options.integer("threads", request.threads,
                    "threads of each rank; without: the host's cores shared among its ranks");
    options.text("interface", request.interface, "network interface between the hosts, like eth0");
    options.flag("dry-run", dry_run, "print the line and start nothing");
  }
  /// The words before the command are ours.
  void parse(const std::vector<std::string>& words) {
    std::vector<std::string> own;
    std::size_t i = 0;
    for (; i < words.size() && words[i].starts_with("-"); ++i) {
      std::string word = words[i] == "-n" || words[i] == "-np" ? "--ranks" : words[i];
      own.push_back(word);
      if (word != "--dry-run" && word.find('=') == word.npos && i + 1 < words.size()) own.push_back(words[++i]);
    }
    options.parse(own);
    request.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  }
};

int launch(const std::vector<std::string>& words) {
  Launch l;
  l.parse(words);
  std::vector<std::string> line = launch_line(l.request, this_host());
  if (l.dry_run) {
    print(shell_text(line) + "\n");
    return 0;
  }
  log_info("{}", shell_text(line));
  become(line);
}

// ---- doctor

struct Doctor {
  std::string recipe;
  std::vector<Override> overrides;
  Options options{
      "doctor",
      "doctor [RECIPE]",
      {"dml doctor                       this host", "dml doctor recipe.yml            and whether this recipe fits it",
       "mpirun -np 4 dml doctor          all ranks, and what lies between them"}};
  Doctor() {
    options.positional("RECIPE", recipe, "a recipe: its threads, output_dir and data folder are looked at, too", false);
    options.take_overrides(overrides);
  }
};

int doctor(const std::vector<std::string>& words) {
  Doctor d;
  d.options.parse(words);
  return run_on_ranks([&](Comm& comm) {
    std::optional<RecipeFile> file;
    if (!d.recipe.empty()) file = load_recipe(d.recipe, d.overrides);
    Diagnosis diagnosis = examine(comm, file ? &file->recipe : nullptr);
    if (comm.rank() == 0) print(diagnosis.text());
    return static_cast<int>(diagnosis.healthy() ? ExitCode::ok : ExitCode::user);
  });
}

// ---- ckpt

struct Ckpt {
  std::string action, directory;
  std::string step_word;
  bool force = false;
  Options options{"ckpt",
                  "ckpt ls|verify|rm DIR [STEP] [--force]",
                  {"dml ckpt ls outputs/run             step, losses, size, valid or why not",
                   "dml ckpt verify outputs/run         every byte against the manifests; 2 when one is damaged",
                   "dml ckpt rm outputs/run 300"}};
  Ckpt() {
    options.positional("ls|verify|rm", action, "what to do");
    options.positional("DIR", directory, "an output directory");
    options.positional("STEP", step_word, "only this checkpoint", false);
    options.flag("force", force, "rm: even the newest valid one");
  }
};

std::string size_text(std::uint64_t bytes) {
  return bytes < 10'000'000 ? fmt::format("{:.0f} kB", static_cast<double>(bytes) / 1e3) : memory_text(bytes);
}

std::string loss_text(const std::optional<double>& loss) { return loss ? fmt::format("{:.4f}", *loss) : "-"; }

int ckpt(const std::vector<std::string>& words) {
  Ckpt c;
  c.options.parse(words);
  std::optional<std::int64_t> step;
  if (!c.step_word.empty()) {
    if (c.step_word.find_first_not_of("0123456789") != c.step_word.npos || c.step_word.size() > 18)
      throw UserError("ckpt: '{}' is no step; expected a number", c.step_word);
    step = std::stoll(c.step_word);
  }
  if (c.action == "rm") {
    if (!step) throw UserError("ckpt rm needs a step: dml ckpt rm {} STEP", c.directory);
    remove_checkpoint_of_step(c.directory, *step, c.force);
    return 0;
  }
  if (c.action != "ls" && c.action != "verify") throw UserError("ckpt: '{}'; choose from ls, verify, rm", c.action);
  auto rows = checkpoint_rows(c.directory, c.action == "verify", step);
  if (rows.empty()) log_info("{}: no checkpoints", c.directory);
  bool damaged = false;
  if (!rows.empty())
    print(fmt::format("{:>8}  {:>9}  {:>9}  {:>9}  {:<11}  {}\n", "step", "loss", "eval loss", "size", "", "state"));
  for (const CheckpointRow& row : rows) {
    damaged |= !row.problem.empty();
    print(fmt::format(
        "{:>8}  {:>9}  {:>9}  {:>9}  {:<11}  {}\n", row.step, loss_text(row.loss), loss_text(row.eval_loss),
        size_text(row.bytes),
        fmt::format("{}{}{}", row.latest ? "latest" : "", row.latest && row.best ? " " : "", row.best ? "best" : ""),
        row.problem.empty() ? (c.action == "verify" ? "valid: contents agree" : "valid") : row.problem));
  }
  return c.action == "verify" && damaged ? static_cast<int>(ExitCode::user) : 0;
}

}  // namespace

Command launch_command() {
  return {"launch", "starts ranks: composes the right mpirun line", [] { return Launch().options.page(); }, launch};
}
Command doctor_command() {
  return {"doctor", "looks at this host, or under mpirun at all of them", [] { return Doctor().options.page(); },
          doctor};
}
Command ckpt_command() {
  return {"ckpt", "lists, verifies and removes checkpoints", [] { return Ckpt().options.page(); }, ckpt};
}

}  // namespace dml
