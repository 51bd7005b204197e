// bench: speed and memory of a recipe's training step, on random tokens.
#include "assembly/hub_files.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "core/size_text.h"
#include "diagnose/bench.h"
#include "diagnose/work_span.h"
#include "kernels/processor.h"
#include "train/progress.h"

namespace dml {
namespace {

struct Bench {
  std::string recipe;
  std::optional<double> masked;
  std::optional<std::string> documents, scaling;
  std::optional<std::int64_t> warmup, steps;
  bool json = false;
  std::vector<Override> overrides;
  Options options{"bench",
                  "bench RECIPE [--masked X | --documents FILE] [--warmup N] [--steps N] [--scaling LIST] [--json] "
                  "[--KEY VALUE …]",
                  {"dml bench recipe.yml", "dml bench recipe.yml --masked 0.75 --steps 10",
                   "mpirun -np 2 dml bench recipe.yml --batch_size 4", "DML_PROFILE=1 dml bench recipe.yml",
                   "dml bench recipe.yml --scaling 4,16,64,128"}};
  Bench() {
    options.about(
        "Runs training steps on random tokens and reports time per step, tokens per second, arithmetic rate and "
        "memory. Nothing is written. DML_PROFILE=1 adds the time of each kind of operation and the share of it that "
        "threads spent waiting.");
    options.positional("RECIPE", recipe,
                       "the recipe; it needs no datasets, and no base_model if it has a model_config");
    options.number("masked", masked, "fraction of every document's tokens that are not trained (0)");
    options.text("documents", documents, "file with the length of each document: lines of 'TOKENS TRAINED'", "FILE");
    options.integer("warmup", warmup, "number of steps before the measurement (2)");
    options.integer("steps", steps, "number of steps to measure (6)");
    options.text(
        "scaling", scaling,
        "predict how efficiently each operation of the step runs on these numbers of threads, from the times of its "
        "tiles, measured with one thread on this machine. Of operations that every layer repeats, "
        "the first few are measured. Memory bandwidth is not part of it",
        "4,16,64");
    options.flag("json", json, "print the result as one JSON object");
    options.take_overrides(overrides);
  }
};

BenchOptions checked(const Bench& b) {
  BenchOptions o;
  o.masked = b.masked.value_or(o.masked);
  o.warmup = b.warmup.value_or(o.warmup);
  o.steps = b.steps.value_or(o.steps);
  if (!(o.masked >= 0 && o.masked < 1)) throw UserError("--masked must be at least 0 and below 1");
  if (b.masked && b.documents) throw UserError("set either --masked or --documents, not both");
  if (o.warmup < 0 || o.warmup > 1'000'000) throw UserError("--warmup must be between 0 and 1000000");
  if (o.steps < 1 || o.steps > 1'000'000) throw UserError("--steps must be between 1 and 1000000");
  if (b.scaling && (b.warmup || b.steps))
    throw UserError("--scaling measures one step for each number of threads; leave out --warmup and --steps");
  if (b.documents) o.documents = read_documents(*b.documents);
  return o;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (auto& line : lines) out += line + "\n";
  return out;
}

bool in_bf16() { return kernels::precision() == DType::bf16; }

std::string json_line(const BenchResult& r) {
  const BenchPhases& p = r.median;
  Json plan = Json::object();
  for (auto& [name, bytes] : r.plan.rows()) plan[name] = bytes;
  return dump(Json{{"step_s", p.step},
                   {"forward_s", p.forward},
                   {"head_s", p.head},
                   {"backward_s", p.backward},
                   {"communication_s", p.communication},
                   {"optimizer_s", p.optimizer},
                   {"processor_s", p.processor},
                   {"tok_s", static_cast<double>(r.tokens) / p.step},
                   {"trained_tok_s", static_cast<double>(r.trained_tokens) / p.step},
                   {"tokens", r.tokens},
                   {"trained_tokens", r.trained_tokens},
                   {"gflop", r.operations * 1e-9},
                   {"sgemm_gflops", r.sgemm * 1e-9},
                   {"product_gflops", r.product * 1e-9},
                   {"fraction", r.fraction},
                   {"parameters", r.parameters},
                   {"trained", r.trained},
                   {"ranks", r.ranks},
                   {"threads", r.threads},
                   {"precision", in_bf16() ? "bf16" : "float32"},
                   {"loss", {r.first_loss, r.last_loss}},
                   {"plan", plan},
                   {"plan_bytes", r.plan.total()},
                   {"peak_bytes", r.peak}}) +
         "\n";
}

std::string table(const BenchResult& r) {
  const BenchPhases& p = r.median;
  std::string out;
  auto line = [&](const char* name, const std::string& value) { out += fmt::format("{:<15} {}\n", name, value); };
  auto phase = [&](const char* name, double seconds) {
    line(name, fmt::format("{:>9.2f} ms  {:>5.1f} %", seconds * 1e3, 100 * seconds / p.step));
  };
  line("model",
       fmt::format("{} parameters, {} trained; {} rank{} × {} thread{}{}",
                   count_text(static_cast<double>(r.parameters)), count_text(static_cast<double>(r.trained)), r.ranks,
                   r.ranks == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s", in_bf16() ? "; bf16 products" : ""));
  line("step", fmt::format("{:>9.2f} ms  {} tokens, {} trained", p.step * 1e3, r.tokens, r.trained_tokens));
  phase("  forward", p.forward);
  phase("  loss head", p.head);
  phase("  backward", p.backward);
  phase("  communication", p.communication);
  phase("  optimizer", p.optimizer);
  line("speed", fmt::format("{} tok/s, {} trained tok/s", count_text(static_cast<double>(r.tokens) / p.step),
                            count_text(static_cast<double>(r.trained_tokens) / p.step)));
  const double rate = r.operations / p.step;
  line("arithmetic",
       fmt::format("{:.1f} GFLOP per step, {:.1f} GFLOP/s = {:.3f} of the measured sgemm rate ({:.1f} GFLOP/s), "
                   "{:.3f} of dml's own large product ({:.1f} GFLOP/s)",
                   r.operations * 1e-9, rate * 1e-9, r.fraction, r.sgemm * 1e-9, rate / r.product, r.product * 1e-9));
  line("memory", fmt::format("predicted {}, peak {}", size_text(r.plan.total()), size_text(r.peak)));
  for (auto& [name, bytes] : r.plan.rows()) line(("  " + name).c_str(), size_text(bytes));
  line("loss", fmt::format("{:.4f} first, {:.4f} last", r.first_loss, r.last_loss));
  return out;
}

std::string json_line(const WorkSpan& measured) {
  const auto row = [&](const WorkSpan::Row& r) {
    Json efficiency = Json::array();
    for (std::size_t i = 0; i < measured.threads.size(); ++i) efficiency.push_back(measured.efficiency(r, i));
    return Json{{"name", r.name}, {"work_s", r.work}, {"seconds", r.seconds}, {"efficiency", std::move(efficiency)}};
  };
  Json operations = Json::array();
  for (const WorkSpan::Row& r : measured.rows) operations.push_back(row(r));
  return dump(Json{
             {"threads", measured.threads}, {"operations", std::move(operations)}, {"total", row(measured.total)}}) +
         "\n";
}

int run_bench(const std::vector<std::string>& words) {
  Bench b;
  b.options.parse(words);
  BenchOptions options = checked(b);
  constexpr int kMaxThreads = 4096;
  const std::vector<int> scaling = b.scaling ? number_list("scaling", *b.scaling, kMaxThreads) : std::vector<int>{};
  return run_on_ranks([&](Comm& comm) {
    RecipeFile file = load_recipe_to_run(b.recipe, b.overrides, RecipeUse::measure, {.rows = false});
    require_files(file, {.rows = false});
    if (comm.rank() == 0) show_notes(file);
    if (!scaling.empty()) {
      if (comm.size() > 1) throw UserError("--scaling runs on one rank; start dml bench without mpirun");
      const WorkSpan measured = work_span(file.recipe, comm, options, scaling);
      print(b.json ? json_line(measured) : joined(measured.table()));
      return 0;
    }
    BenchResult result = bench(file.recipe, comm, options);
    if (comm.rank() != 0) return 0;
    print(b.json ? json_line(result) : table(result));
    if (!result.profile.empty())
      for (auto& line : profile_table(result.profile, result.threads)) log_info("{}", line);
    return 0;
  });
}

}  // namespace

Command bench_command() {
  return {"bench", "measures speed and memory of a training step on random tokens",
          [] { return Bench().options.page(); }, run_bench, Ranks::many};
}

}  // namespace dml
