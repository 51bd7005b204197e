#include "assembly/job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "assembly/model_location.h"
#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"

namespace dml {
namespace {

constexpr double kPreparing = 30.0 * 24 * 3600;  // seconds

// The number of processors of the mpirun (or its daemon) that started this rank; 0: not started by one.
int processors_of_launcher() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (!std::getenv("OMPI_COMM_WORLD_SIZE") || sched_getaffinity(getppid(), sizeof set, &set) != 0) return 0;
  return CPU_COUNT(&set);
}

// LoRA does not train the embedding, so the rows of new tokens stay random. The pad token does not matter: it is never
// used.
void warn_of_untrained_tokens(const Recipe& recipe, const Tokenizer& tokenizer) {
  const AdapterSection& adapter = recipe.adapter;
  if (adapter.adapter == AdapterKind::none || adapter.lora_model_dir) return;
  for (auto& module : adapter.lora_modules_to_save)
    for (const char* embedding : {"embed", "wte"})
      if (module.find(embedding) != std::string::npos) return;
  const TokenIndices& indices = adapter.peft_trainable_token_indices;
  auto trained = [&](Token id) {
    auto has = [&](const std::vector<std::int64_t>& ids) { return std::ranges::find(ids, id) != ids.end(); };
    return has(indices.tokens) ||
           std::ranges::any_of(indices.by_module, [&](auto& module) { return has(module.second); });
  };
  std::vector<std::string> names;
  std::vector<Token> ids;
  for (Token id : tokenizer.untrained)
    if (id != tokenizer.pad && !trained(id)) {
      names.push_back(fmt::format("'{}'", tokenizer.piece(id)));
      ids.push_back(id);
    }
  if (names.empty()) return;
  const std::size_t count = names.size(), listed = std::min<std::size_t>(count, 5);
  const std::string rows = fmt::format("[{}]", fmt::join(ids, ", "));
  log_warning(
      "New tokens are untrained, and LoRA does not train embeddings: {}{}; add lora_modules_to_save: [embed_tokens, "
      "lm_head]{}",
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(listed), ", "),
      listed < count ? fmt::format(" and {} more", count - listed) : "",
      count > 16 ? ""
                 : fmt::format(", or peft_trainable_token_indices: {{embed_tokens: {}, lm_head: {}}}", rows, rows));
}

}  // namespace

std::string tokenizer_directory(const ModelSection& model) {
  std::string directory = model_directory(model.tokenizer_config.value_or(model.base_model));
  if (directory.empty())
    throw UserError("no tokenizer: set tokenizer_config to a directory with tokenizer.json or tokenizer.model");
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
  o.metaspace = model.tokenizer_metaspace;
  for (auto& [id, spelling] : model.added_tokens_overrides)
    o.added_tokens.push_back({static_cast<Token>(id), spelling});
  return o;
}

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSection& model) {
  return load_tokenizer(tokenizer_directory(model), tokenizer_overrides(model));
}

Prepared prepare_on_ranks(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm, bool rebuild) {
  auto seed = static_cast<std::uint64_t>(recipe.train.seed);
  // Preparation may take hours on rank 0, so the timeout of the other ranks is raised; a rank that dies still ends the
  // job.
  const double timeout = comm.timeout();
  comm.set_timeout(kPreparing);
  std::optional<Prepared> prepared;
  if (comm.rank() == 0) warn_of_untrained_tokens(recipe, tokenizer);
  if (comm.rank() == 0) prepared = prepare(recipe.data, recipe.templates, seed, tokenizer, {.rebuild = rebuild});
  std::string folder = comm.broadcast_text(prepared ? prepared->folder() : "", 0);
  comm.set_timeout(timeout);
  return prepared ? std::move(*prepared) : Prepared::open(folder);
}

void set_recompute_policy(CausalLm& model, const Recipe& recipe) {
  switch (recipe.train.gradient_checkpointing) {
    case Recompute::none:
      model.recompute = RecomputePolicy::nothing;
      break;
    case Recompute::layer:
      model.recompute = RecomputePolicy::layers;
      break;
    case Recompute::mlp:
      model.recompute = RecomputePolicy::mlp;
      break;
  }
  if (recipe.train.gradient_checkpointing_layers) model.recompute_layers = *recipe.train.gradient_checkpointing_layers;
  bool quantised = recipe.adapter.load_in_4bit || recipe.adapter.load_in_8bit;
  std::optional<DType> storage = recipe.train.activation_storage;
  model.save_rounded = storage == DType::bf16 || (!storage && quantised);
}

void set_precision(Bf16 wanted) {
  const bool bf16 = wanted == Bf16::on || (wanted == Bf16::automatic && kernels::has_fast_bf16());
  kernels::use_precision(bf16 ? DType::bf16 : DType::f32);
  if (bf16 && !kernels::has_fast_bf16())
    log_warning(
        "bf16: true: this processor has no bf16 instructions (AMX or AVX512_BF16); products round to bf16 and run no "
        "faster than float32");
}

void set_up_processor(const TrainSection& train, Comm& comm, std::int64_t chosen) {
  set_precision(train.bf16);
  // Cores that several ranks of a host may use are divided among them; cores of a single rank belong to it.
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  std::string host = comm.host() + '\n';
  int sharers = 0;
  for (const std::string& other :
       comm.all_gather(host + std::string(reinterpret_cast<const char*>(&mine), sizeof mine))) {
    if (!other.starts_with(host) || other.size() != host.size() + sizeof mine) continue;
    cpu_set_t shared;
    std::memcpy(&shared, other.data() + host.size(), sizeof shared);
    CPU_AND(&shared, &shared, &mine);
    sharers += CPU_COUNT(&shared) > 0;
  }
  int cores = available_cores(), fair = std::max(1, cores / std::max(1, sharers));
  if (chosen > 0) fair = static_cast<int>(chosen);
  if (train.threads && *train.threads > available_processors())
    log_warning(
        "threads: {} is more than the {} {} that this rank may use; add --bind-to none to mpirun, or start with dml "
        "launch",
        *train.threads, cores, cores == 1 ? "core" : "cores");
  if (const int own = available_processors();
      !train.threads && chosen == 0 && own * comm.local_size() < processors_of_launcher())
    log_warning(
        "each of the {} ranks on {} is bound to {} of {} processors; add --bind-to none to mpirun, or start with dml "
        "launch",
        comm.local_size(), comm.host(), own, processors_of_launcher());
  set_threads(train.threads.value_or(fair));
  kernels::reserve_blas_memory();
}

}  // namespace dml
