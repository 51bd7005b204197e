// dml launch, dml doctor, dml ckpt: operating jobs.
#include <set>

#include "assembly/hub_files.h"
#include "cli/launching.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "cli/train_words.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/size_text.h"
#include "diagnose/autotune.h"
#include "diagnose/doctor.h"
#include "diagnose/launch.h"
#include "diagnose/slurm.h"
#include "pipeline/checkpoints.h"
#include "pipeline/output_folder.h"
#include "pipeline/own_ranks.h"
#include "pipeline/run_record.h"
#include "recipe/keys.h"

namespace dml {
namespace {

// ---- launch

struct Launch {
  LaunchRequest request;
  SlurmRequest slurm;
  std::optional<std::string> submit;  // name of the scheduler
  std::optional<std::int64_t> nodes, ranks_per_node;
  bool dry_run = false, autotune = false;
  Options options{
      "launch",
      "launch [-n N | --autotune | --hostfile FILE [-n N] | --submit slurm [--nodes N] [--ranks-per-node N] "
      "[--time T] [--partition NAME] [--account NAME]] [--threads N] [--interface NAME] [--dry-run] COMMAND RECIPE …",
      {"dml launch -n 2 train recipe.yml                  two ranks on this host",
       "dml launch --hostfile hosts train recipe.yml       one rank per slot of the file",
       "dml launch -n 2 --dry-run train recipe.yml         print the mpirun command line",
       "dml launch --autotune train recipe.yml             the fastest number of ranks and threads here",
       "dml launch --submit slurm --nodes 4 --time 12:00:00 train recipe.yml   a job that resumes when it "
       "is requeued"}};
  Launch() {
    options.about(
        "Composes the mpirun command line for this machine or the hosts of a file, with the cores shared among the "
        "ranks, prints it and runs it. On one machine, dml train starts ranks by itself where they are faster.");
    options.integer("ranks", request.ranks,
                    "number of ranks; also -n N. Default: for training without --threads the estimated fastest number, "
                    "otherwise as many as there are cores for; with a hostfile, one rank per slot");
    for (const char* word : {"-n", "-np"}) options.alias(word, "ranks");
    options.flag("autotune", autotune,
                 "measure the recipe's step with every number of ranks that divides the cores of this host (the others "
                 "become threads), and start the run with the fastest");
    options.text("hostfile", request.hostfile, "one line per host: NAME slots=RANKS", "FILE");
    options.integer("threads", request.threads, "threads per rank. Default: the host's cores, shared among its ranks");
    options.text("interface", request.interface, "with a hostfile: network interface between the hosts, such as eth0",
                 "NAME");
    options.choice(
        "submit", submit, {"slurm"},
        "a batch system (slurm): write a job script to COMMAND-RECIPE.slurm in this directory and submit it. "
        "With train and resume, it saves before its time limit or when preempted, is requeued, and "
        "resumes");
    options.integer("nodes", nodes, "with --submit: number of hosts. Default: 1");
    options.integer("ranks-per-node", ranks_per_node, "with --submit: ranks on each. Default: 1");
    options.text("time", slurm.time, "with --submit: time limit of the job, as minutes, HH:MM:SS or DAYS-HH:MM:SS",
                 "TIME");
    options.text("partition", slurm.partition, "with --submit: partition (queue) of the job", "NAME");
    options.text("account", slurm.account, "with --submit: account that the job is charged to", "NAME");
    options.flag("dry-run", dry_run, "print the command line or job script without starting anything");
  }
  /// Parses the options before COMMAND, which belong to dml launch.
  void parse(const std::vector<std::string>& words) {
    const auto command = words.begin() + static_cast<std::ptrdiff_t>(options.leading(words));
    options.parse({words.begin(), command});
    request.command.assign(command, words.end());
  }
  /// Its own options as arguments, for resuming a run.
  std::vector<std::string> own_words() const {
    std::vector<std::string> out;
    if (request.ranks) out.insert(out.end(), {"-n", std::to_string(*request.ranks)});
    if (request.hostfile) out.insert(out.end(), {"--hostfile", *request.hostfile});
    if (request.threads) out.insert(out.end(), {"--threads", std::to_string(*request.threads)});
    if (request.interface) out.insert(out.end(), {"--interface", *request.interface});
    return out;
  }
};

CommandPage launch_page() {
  CommandPage page = Launch().options.page();
  page.words.push_back({"COMMAND RECIPE …", "", "the command to run on every rank, with its arguments"});
  page.runs_command = true;
  return page;
}

// Writes the script and passes it to sbatch, which prints the job number.
int submit(Launch& l) {
  l.slurm.nodes = l.nodes.value_or(1);
  l.slurm.ranks_per_node = l.ranks_per_node.value_or(1);
  const std::string script = slurm_script(l.slurm, l.request, this_host());
  if (l.dry_run) {
    print(script);
    return 0;
  }
  const std::string path = slurm_name(l.request) + ".slurm";
  write_file(path, script);
  log_info("sbatch {}", path);
  return run_launcher({"sbatch", path}, false);
}

RecipeFile recipe_of_training(const std::vector<std::string>& command, RecipeUse use) {
  TrainWords train;
  train.options.parse({command.begin() + 1, command.end()});
  return load_recipe(train.recipe, train.overrides, use);
}

// Measures layouts and requests the fastest one. Without batch_size, a step has enough micro-batches for any number of
// ranks.
void autotune(LaunchRequest& request) {
  for (const auto& [option, given] : {std::pair{"-n", request.ranks.has_value()},
                                      {"--threads", request.threads.has_value()},
                                      {"--hostfile", request.hostfile.has_value()}})
    if (given) throw UserError("launch: --autotune chooses the number of ranks and threads; leave out {}", option);
  bench_arguments(request.command);  // UserError unless it is a training
  const LaunchHost host = this_host();
  const TrainSection train = recipe_of_training(request.command, RecipeUse::measure).recipe.train;
  if (!train.batch_size)
    log_info("The recipe has no batch_size: with N ranks a step has N times as many micro-batches");
  const LayoutRate best = fastest_layout(request, host, train.batch_size ? train.micro_batches_per_step(1) : host.cores,
                                         [](const LayoutRate& rate) { log_info("{}", rate.text()); });
  request.ranks = best.layout.ranks;
  request.threads = best.layout.threads;
  log_info("Fastest: {} (dml launch -n {} --threads {})", best.text(), best.layout.ranks, best.layout.threads);
}

// Requests the fastest number of ranks by the model of diagnose/layout.h.
void propose_ranks(LaunchRequest& request) {
  const Topology host = own_host();
  if (host.cores < kFewCores || request.ranks || request.threads || request.hostfile) return;
  RecipeFile file = recipe_of_training(request.command, RecipeUse::train);
  download_missing_files(file);
  require_files(file);
  const LayoutChoice choice = launched_layout_of(file, host);
  if (!choice.why.empty()) log_info("{} ({}); -n sets their number", choice.layout.text(), choice.why);
  request.ranks = choice.layout.ranks;
}

// Refuses options of dml launch among the words of the command, unless it or the recipe has one of the same name.
void refuse_launch_options(const Command& command, const std::vector<std::string>& words) {
  auto names_of = [](const CommandPage& page) {
    std::set<std::string> out;
    for (const CommandOption& option : page.options) out.insert(option.name);
    return out;
  };
  std::set<std::string> theirs = names_of(command.page());
  for (const std::string& key : keys()) theirs.insert("--" + key);
  std::set<std::string> refused{"-n", "-np"};
  for (const std::string& name : names_of(Launch().options.page()))
    if (!theirs.contains(name)) refused.insert(name);
  for (const std::string& word : words)
    if (const std::string name = word.substr(0, word.find('=')); refused.contains(name))
      throw UserError("launch: {} is an option of dml launch and must come before the command: dml launch {} … {} …",
                      name, name, command.name);
}

// Finds here, once, what every rank would refuse.
void check_command(const Launch& l) {
  const LaunchRequest& request = l.request;
  if (request.command.empty()) return;
  std::vector<std::string> names;
  for (const Command& c : commands()) names.push_back(c.name);
  const std::string& what = request.command[0];
  const auto command = std::ranges::find(commands(), what, &Command::name);
  if (command == commands().end()) throw UserError("launch: unknown command '{}'{}", what, did_you_mean(what, names));
  refuse_launch_options(*command, request.command);
  const bool several = l.submit ? l.nodes.value_or(1) > 1 || l.ranks_per_node.value_or(1) > 1 : request.ranks != 1;
  if (command->ranks == Ranks::one && several)
    throw UserError("launch: dml {} runs in one process; {}", what,
                    l.submit ? "leave out --nodes and --ranks-per-node" : "start it without dml launch");
  if (what == "train" && !request.hostfile) recipe_of_training(request.command, RecipeUse::train);
}

int launch(const std::vector<std::string>& words) {
  Launch l;
  l.parse(words);
  check_command(l);
  if (l.autotune && l.submit) throw UserError("launch: --autotune measures on this host; leave out --submit");
  if (l.request.interface && !l.request.hostfile)
    throw UserError("launch: --interface requires --hostfile FILE: it is the network between its hosts");
  if (l.autotune) autotune(l.request);
  if (l.submit) return submit(l);
  for (const auto& [option, given] : {std::pair{"nodes", l.nodes.has_value()},
                                      {"ranks-per-node", l.ranks_per_node.has_value()},
                                      {"time", l.slurm.time.has_value()},
                                      {"partition", l.slurm.partition.has_value()},
                                      {"account", l.slurm.account.has_value()}})
    if (given) throw UserError("launch: --{} needs --submit slurm", option);
  const std::string what = l.request.command.empty() ? "" : l.request.command[0];
  if (what == "train") propose_ranks(l.request);
  std::vector<std::string> line = line_of_ranks(l.request);
  if (l.dry_run) {
    print(shell_text(line) + "\n");
    return 0;
  }
  log_info("{}", shell_text(line));
  export_launch_options(l.own_words());
  if (l.request.hostfile) line.insert(line.begin() + 1, {"-x", kLaunchVariable});
  return run_ranks(l.request, line, is_training(l.request.command));
}

// ---- doctor

struct Doctor {
  std::string recipe;
  std::vector<Override> overrides;
  Options options{"doctor",
                  "doctor [RECIPE]",
                  {"dml doctor                       this host",
                   "dml doctor recipe.yml            and whether this recipe can run on it",
                   "mpirun -np 4 dml doctor          all ranks, and the network between them"}};
  Doctor() {
    options.about(
        "Examines what affects a run: processor, cores, memory, OpenBLAS, MPI, disks; under mpirun also "
        "binding, clocks and the network between ranks. Exits with 2 when something would make a run fail.");
    options.positional("RECIPE", recipe, "also examine the threads, output_dir and data folder of this recipe", false);
    options.take_overrides(overrides);
  }
};

int doctor(const std::vector<std::string>& words) {
  Doctor d;
  d.options.parse(words);
  if (d.recipe.empty()) require_no_keys(d.overrides, "this host alone");
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
  Options options{
      "ckpt",
      "ckpt ls|verify|rm DIR [STEP | earlier-N | earlier] [--force]",
      {"dml ckpt ls outputs/run             step, losses, size, valid or the reason why not",
       "dml ckpt verify outputs/run         compares every byte with the manifests; exit code 2 for damage",
       "dml ckpt rm outputs/run 300         the checkpoint of step 300",
       "dml ckpt rm outputs/run earlier     all earlier runs that were moved aside (earlier-1: the first)"}};
  Ckpt() {
    options.about(
        "Works on the checkpoints of a run: ls lists them with their losses and whether they are complete, verify "
        "compares every byte with the digests in their manifests, rm removes one.");
    options.positional("ls|verify|rm", action, "list, verify or remove");
    options.positional("DIR", directory, "an output directory; ls and verify: also a checkpoint");
    options.positional("STEP", step_word, "only this checkpoint; rm: also earlier-N or earlier", false);
    options.flag("force", force, "rm: also the newest valid checkpoint");
  }
};

std::string loss_text(const std::optional<double>& loss) { return loss ? fmt::format("{:.4f}", *loss) : "-"; }

int ckpt(const std::vector<std::string>& words) {
  Ckpt c;
  c.options.parse(words);
  std::optional<std::int64_t> step;
  if (c.action == "rm" && c.step_word.starts_with("earlier")) {
    remove_earlier_runs(c.directory, c.step_word);
    return 0;
  }
  if (!c.step_word.empty()) {
    if (c.step_word.find_first_not_of("0123456789") != c.step_word.npos || c.step_word.size() > 18)
      throw UserError("ckpt: '{}' is not a step; expected a number", c.step_word);
    step = std::stoll(c.step_word);
  }
  if (c.action == "rm") {
    remove_checkpoint_of_step(c.directory, step, c.force);
    return 0;
  }
  if (c.action != "ls" && c.action != "verify")
    throw UserError("ckpt: unknown action '{}'; choose from ls, verify, rm", c.action);
  if (c.force) throw UserError("ckpt: --force is for rm");
  auto rows = checkpoint_rows(c.directory, c.action == "verify", step);
  if (rows.empty() && c.action == "verify") throw UserError("{}: there are no checkpoints to verify", c.directory);
  if (rows.empty()) log_info("No checkpoints in {}", c.directory);
  bool damaged = false;
  if (!rows.empty())
    print(fmt::format("{:>8}  {:>9}  {:>9}  {:>9}  {:<11}  {}\n", "step", "loss", "eval loss", "size", "", "state"));
  for (const CheckpointRow& row : rows) {
    damaged |= !row.problem.empty();
    print(fmt::format(
        "{:>8}  {:>9}  {:>9}  {:>9}  {:<11}  {}\n", row.step < 0 ? "-" : std::to_string(row.step), loss_text(row.loss),
        loss_text(row.eval_loss), size_text(row.bytes),
        fmt::format("{}{}{}", row.latest ? "latest" : "", row.latest && row.best ? " " : "", row.best ? "best" : ""),
        row.problem.empty() ? (c.action == "verify" ? "valid: contents agree" : "valid") : row.problem));
  }
  for (const EarlierRun& r : earlier_runs(c.directory))
    print(fmt::format("earlier run {}: {} checkpoint{}, {}\n", r.path, r.checkpoints, r.checkpoints == 1 ? "" : "s",
                      size_text(r.bytes)));
  return c.action == "verify" && damaged ? static_cast<int>(ExitCode::user) : 0;
}

}  // namespace

Command launch_command() {
  return {"launch", "starts several ranks: composes and runs the mpirun command line", launch_page, launch};
}
Command doctor_command() {
  return {"doctor", "examines this host, or all hosts under mpirun", [] { return Doctor().options.page(); }, doctor,
          Ranks::many};
}
Command ckpt_command() {
  return {"ckpt", "lists, verifies and removes checkpoints", [] { return Ckpt().options.page(); }, ckpt};
}

}  // namespace dml
