#include "pipeline/job.h"

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"

namespace dml {
namespace {

constexpr double kNoHurry = 7 * 86400;   // seconds

}  // namespace

std::string tokenizer_directory(const ModelSection& model) {
  std::string directory = model.tokenizer_config.value_or(model.base_model);
  if (directory.empty()) throw UserError("no tokenizer: set tokenizer_config to a directory with tokenizer.json or tokenizer.model");
  return directory;
}

TokenizerOverrides tokenizer_overrides(const ModelSection& model) {
  TokenizerOverrides o;
  o.bos_token = model.special_tokens.bos_token;
  o.eos_token = model.special_tokens.eos_token;
  o.pad_token = model.special_tokens.pad_token;
  o.unk_token = model.special_tokens.unk_token;
  o.additional_special_tokens = model.special_tokens.additional_special_tokens;
  o.tokens = model.tokens;
  for (auto& [id, spelling] : model.added_tokens_overrides) o.added_tokens.push_back({static_cast<Token>(id), spelling});
  return o;
}

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSection& model) {
  return load_tokenizer(tokenizer_directory(model), tokenizer_overrides(model));
}

Prepared prepare_on_ranks(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm, bool rebuild) {
  auto seed = static_cast<std::uint64_t>(recipe.train.seed);
  if (comm.rank() == 0) {
    Prepared prepared = prepare(recipe.data, recipe.templates, seed, tokenizer, {.rebuild = rebuild});
    comm.broadcast_text(prepared.folder(), 0);
    return prepared;
  }
  // Preparing may take hours; if rank 0 fails meanwhile, it ends the job itself.
  double timeout = comm.timeout();
  comm.set_timeout(kNoHurry);
  std::string folder = comm.broadcast_text("", 0);
  comm.set_timeout(timeout);
  return Prepared::open(folder, false);
}

void set_job_threads(const TrainSection& train, const Comm& comm) {
  int cores = available_cores();
  int fair = std::max(1, cores / std::max(1, comm.local_size()));
  // A rank that is bound has its cores to itself.
  bool bound = cores < static_cast<int>(comm.local_size());
  int count = train.threads.value_or(bound ? cores : fair);
  if (train.threads && *train.threads > cores)
    log_warning("threads: {} on {} {} this rank may use; under mpirun add --bind-to none", *train.threads, cores, cores == 1 ? "core" : "cores");
  set_threads(count);
}

}  // namespace dml
