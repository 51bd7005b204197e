#include "assembly/job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "assembly/model_location.h"
#include "core/affinity.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "hub/cache.h"
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

// The ranks of this host that may run on some of this rank's processors, itself included.
struct Sharers {
  int ranks = 0, index = 0;  // this rank is the index-th of them
  bool alike = true;         // all may run on exactly the same processors
};

Sharers sharers_of(Comm& comm) {
  const std::vector<int>& mine = process_processors();
  const std::string host = comm.host() + '\n';
  const std::string own = host + std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(mine[0]));
  const std::vector<std::string> all = comm.all_gather(own);
  Sharers out;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].starts_with(host)) continue;
    std::vector<int> other((all[r].size() - host.size()) / sizeof(mine[0])), common;
    if (!other.empty()) std::memcpy(other.data(), all[r].data() + host.size(), all[r].size() - host.size());
    std::ranges::set_intersection(mine, other, std::back_inserter(common));
    if (common.empty() && static_cast<int>(r) != comm.rank()) continue;
    if (static_cast<int>(r) == comm.rank()) out.index = out.ranks;
    ++out.ranks;
    out.alike = out.alike && all[r] == own;
  }
  return out;
}

// Whether a module or a pattern names the embedding, which the model's families call embed_tokens, wte ….
bool names_embedding(const std::string& module) {
  return module.find("embed") != std::string::npos || module.find("wte") != std::string::npos;
}

// LoRA does not train the embedding unless the recipe names it, so the rows of new tokens stay random. The pad token
// does not matter: it is never used.
void warn_of_untrained_tokens(const Recipe& recipe, const Tokenizer& tokenizer) {
  const AdapterSection& adapter = recipe.adapter;
  if (!adapter.creates_adapter()) return;
  if (std::ranges::any_of(adapter.lora_modules_to_save, names_embedding) ||
      std::ranges::any_of(adapter.lora_target_modules.names, names_embedding) ||
      names_embedding(adapter.lora_target_modules.regex))
    return;
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

// Rank 0's list of texts without NUL, on every rank.
std::vector<std::string> broadcast_list(Comm& comm, const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text.append(item).push_back('\0');
  text = comm.broadcast_text(text, 0);
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size(); at += out.back().size() + 1) out.emplace_back(text.c_str() + at);
  return out;
}

}  // namespace

std::string tokenizer_directory(const ModelSection& model) {
  const std::string name = model.tokenizer_config.value_or(model.base_model);
  require_parts(name, {.config = false, .weights = false});
  std::string directory = model_directory(name);
  if (!directory.empty() && missing_path(directory))
    throw UserError("{}: no such directory{}", directory, missing_advice(HubKind::model, directory));
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
  const RowOrigins known = prepared ? prepared->origins() : RowOrigins{};
  const RowOrigins origins{broadcast_list(comm, known.datasets), broadcast_list(comm, known.files)};
  Prepared out = prepared ? std::move(*prepared) : Prepared::open(folder);
  if (comm.rank() != 0) out.relocate(origins);
  out.trains_chosen_prompts = recipe.preference.rl == Rl::orpo;  // as in TRL
  return out;
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
  model.saves = save_policy(recipe);
}

SavePolicy save_policy(const Recipe& recipe) {
  const bool quantized = recipe.adapter.load_in_4bit || recipe.adapter.load_in_8bit;
  const std::optional<DType> chosen = recipe.train.activation_storage;
  const DType storage = chosen.value_or(quantized ? DType::bf16 : DType::f32);
  // Products in bf16 round most of these values anyway. Measured losses (bench/precision.sh, bench/LOG.md): an adapter
  // learns as well with them; with full fine-tuning the difference from float32 grows.
  const bool rounds = !chosen && kernels::precision() == DType::bf16 && recipe.adapter.adapter != AdapterKind::none;
  return {.norm_inputs = storage, .intermediates = rounds ? DType::bf16 : storage};
}

void set_precision(Bf16 wanted) {
  const bool bf16 = wanted == Bf16::on || (wanted == Bf16::automatic && kernels::has_fast_bf16());
  kernels::use_precision(bf16 ? DType::bf16 : DType::f32);
  if (bf16 && !kernels::has_fast_bf16())
    log_warning(
        "bf16: true: this processor multiplies large matrices no faster in bf16 than in float32, unlike those with AMX "
        "and AMD's with AVX512_BF16; set bf16: auto, which uses float32 here");
}

void set_generation_precision(Bf16 wanted) {
  set_precision(wanted);
  if (wanted == Bf16::automatic && kernels::has_few_rows_in_bf16())
    kernels::use_precision(kernels::precision(), DType::bf16);
}

const char* generation_precision_text() {
  if (kernels::precision() == DType::bf16) return ", bf16 products";
  return kernels::few_rows_precision() == DType::bf16 ? ", 16-bit products for generated tokens" : "";
}

RankThreads threads_of_rank(const TrainSection& train, Comm& comm, std::int64_t chosen) {
  const Sharers sharers = sharers_of(comm);
  RankThreads out;
  out.count = std::max(1, available_cores() / sharers.ranks);
  if (chosen > 0) out.count = static_cast<int>(chosen);
  out.count = train.threads.value_or(out.count);
  if (!sharers.alike) out.placement.text = "not bound: ranks share some of their processors";
  else
    out.placement = place_threads(this_topology(), {.threads = out.count,
                                                    .affinity = train.thread_affinity,
                                                    .ranks = sharers.ranks,
                                                    .rank = sharers.index,
                                                    .quota = available_cores()});
  return out;
}

void set_up_processor(const TrainSection& train, Comm& comm, std::int64_t chosen) {
  set_precision(train.bf16);
  if (const int cores = available_cores(); train.threads && *train.threads > available_processors())
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
  RankThreads threads = threads_of_rank(train, comm, chosen);
  log_debug("{} threads a rank: {}", threads.count, threads.placement.text);
  apply_placement(threads.count, std::move(threads.placement));
  kernels::reserve_blas_memory();
}

}  // namespace dml
