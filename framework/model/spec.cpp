#include "model/spec.h"

#include <cmath>

#include "core/error.h"
#include "model/weight_names.h"

namespace dml {

float ModelSpec::attention_scale(std::int64_t layer) const {
  const double scale = scores.scale > 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(head_dim));
  return static_cast<float>(scores.by_layer ? scale / static_cast<double>(layer + 1) : scale);
}

ModelSpec ModelSpec::with_head(HeadKind kind, std::int64_t outputs) const {
  ModelSpec out = *this;
  out.head = kind;
  out.labels = outputs;
  out.tied = out.bias.head = false;  // these, and the following, apply to logits over the vocabulary only
  out.final_softcap = 0;
  out.logit_scale = 1;
  return out;
}

std::int64_t ModelSpec::rotary_dim(const RopeSpec& kind) const {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * kind.partial);
}

std::int64_t ModelSpec::parameters() const {
  std::int64_t n = 0;
  for (auto& w : weight_names(*this)) n += w.size();
  return n;
}

namespace {

/// Upper bounds that exceed all known models and prevent overflow of products of two sizes.
struct Size {
  const char* what;
  std::int64_t value, least, most;
};

void check_rope(const RopeSpec& rope, const ModelSpec& spec, const std::string& source, Problems& problems) {
  auto bad = [&](bool wrong, const std::string& text) {
    if (wrong) problems.add(fmt::format("{}: {}", source, text));
  };
  bad(!(rope.theta > 1 && rope.theta < 1e15), fmt::format("rope theta must be above 1, is {}", rope.theta));
  const bool share = rope.partial > 0 && rope.partial <= 1;
  bad(!share, fmt::format("the rotary share of a head must be in (0, 1], is {}", rope.partial));
  const std::int64_t rotated = share ? spec.rotary_dim(rope) : 0, pairs = share ? spec.rotary_pairs(rope) : 0;
  bad(share && (rotated == 0 || 2 * pairs > spec.head_dim),
      fmt::format("rotary embedding turns pairs: {} of head_dim {} is not an even number above 0", rotated,
                  spec.head_dim));
  bad(rope.scaling == RopeScaling::dynamic && rotated == 2,
      "rope scaling 'dynamic' has no formula for heads of which 2 elements turn");
  if (rope.scaling == RopeScaling::none) return;
  bad(!(rope.factor >= 1 && rope.factor <= 1e6),
      fmt::format("rope scaling factor must be at least 1, is {}", rope.factor));
  bool needs_original =
      rope.scaling == RopeScaling::llama3 || rope.scaling == RopeScaling::yarn || rope.scaling == RopeScaling::longrope;
  bad(needs_original && rope.original_positions < 1, "rope scaling needs original_max_position_embeddings above 0");
  if (rope.scaling == RopeScaling::llama3)
    bad(!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor),
        fmt::format("llama3 rope scaling needs 0 < low_freq_factor < high_freq_factor, has {} and {}",
                    rope.low_freq_factor, rope.high_freq_factor));
  if (rope.scaling == RopeScaling::yarn)
    bad(!(rope.beta_slow > 0 && rope.beta_fast > rope.beta_slow),
        fmt::format("yarn rope scaling needs 0 < beta_slow < beta_fast, has {} and {}", rope.beta_slow,
                    rope.beta_fast));
  bad(!(rope.attention_factor >= 0 && rope.attention_factor < 1e3),
      fmt::format("rope attention_factor {} is out of range", rope.attention_factor));
  if (rope.scaling == RopeScaling::longrope)
    for (auto* factors : {&rope.long_factor, &rope.short_factor}) {
      const char* name = factors == &rope.long_factor ? "long_factor" : "short_factor";
      bad(share && std::ssize(*factors) != pairs,
          fmt::format("longrope {} must have {} numbers, has {}", name, pairs, factors->size()));
      for (double f : *factors)
        if (!(f > 0 && f < 1e6)) {
          bad(true, fmt::format("longrope {} holds {}", name, f));
          break;
        }
    }
}

void check_experts(const ModelSpec& spec, const std::string& source, Problems& problems) {
  const MoeSpec& m = spec.moe;
  auto bad = [&](bool wrong, const std::string& text) {
    if (wrong) problems.add(fmt::format("{}: {}", source, text));
  };
  constexpr std::int64_t kMaxExperts = 4096, kMaxGroups = 256;
  bad(m.experts < 1 || m.experts > kMaxExperts,
      fmt::format("the number of experts must be 1 to {}, is {}", kMaxExperts, m.experts));
  bad(m.chosen < 1 || m.chosen > m.experts,
      fmt::format("num_experts_per_tok must be 1 to the number of experts, {}, is {}", m.experts, m.chosen));
  bad(m.ffn < 1 || m.ffn > (1 << 20), fmt::format("the width of an expert must be 1 to 1048576, is {}", m.ffn));
  bad(m.shared_ffn < 0 || m.shared_ffn > (1 << 20),
      fmt::format("the width of the shared expert must be 0 to 1048576, is {}", m.shared_ffn));
  const bool groups = m.groups >= 1 && m.groups <= kMaxGroups && m.experts % std::max<std::int64_t>(m.groups, 1) == 0;
  bad(!groups, fmt::format("n_group must divide the {} experts, is {}", m.experts, m.groups));
  bad(m.chosen_groups < 1 || m.chosen_groups > m.groups,
      fmt::format("topk_group must be 1 to n_group, {}, is {}", m.groups, m.chosen_groups));
  if (groups && m.chosen_groups >= 1 && m.chosen_groups <= m.groups) {
    const std::int64_t left = m.experts / m.groups * m.chosen_groups;
    bad(m.chosen <= m.experts && m.chosen > left,
        fmt::format("num_experts_per_tok is {}, but topk_group {} of n_group {} leaves {} experts to choose from",
                    m.chosen, m.chosen_groups, m.groups, left));
  }
  bad(!(std::abs(m.scale) < 1e6) || m.scale == 0, fmt::format("routed_scaling_factor {} is out of range", m.scale));
  bad(!(m.jitter >= 0 && m.jitter < 1),
      fmt::format("router_jitter_noise must be at least 0 and below 1, is {}", m.jitter));
  bad(!(std::abs(m.balance) < 1e6 && std::abs(m.z) < 1e6), "the factors of the router's losses are out of range");
}

// Checks the lists with an entry per layer, and the end tokens.
void check_lists(const ModelSpec& spec, const std::string& source, Problems& problems) {
  auto bad = [&](bool wrong, const std::string& text) {
    if (wrong) problems.add(fmt::format("{}: {}", source, text));
  };
  bad(!spec.windows.empty() && static_cast<std::int64_t>(spec.windows.size()) != spec.layers,
      fmt::format("{} attention windows for {} layers", spec.windows.size(), spec.layers));
  bad(!spec.without_rope.empty() && static_cast<std::int64_t>(spec.without_rope.size()) != spec.layers,
      fmt::format("{} layers with or without rope for {} layers", spec.without_rope.size(), spec.layers));
  for (auto w : spec.windows)
    if (w < 0) {
      bad(true, fmt::format("an attention window of {}", w));
      break;
    }
  bad(spec.eos.size() > 256, fmt::format("{} eos ids, the limit is 256", spec.eos.size()));
  for (Token id : spec.eos)
    if (id < 0 || id >= spec.vocab) {
      bad(true, fmt::format("eos id {} is outside the vocabulary of {}", id, spec.vocab));
      break;
    }
}

}  // namespace

void ModelSpec::check(const std::string& source) const {
  Problems problems;
  auto bad = [&](bool wrong, const std::string& text) {
    if (wrong) problems.add(fmt::format("{}: {}", source, text));
  };
  const Size sizes[] = {
      {"vocabulary size", vocab, 1, 1 << 22},
      {"hidden size", hidden, 1, 1 << 18},
      {"intermediate size", ffn, 1, 1 << 20},
      {"number of layers", layers, 1, 2048},
      {"number of attention heads", heads, 1, 8192},
      {"number of key/value heads", kv_heads, 1, 8192},
      {"number of positions", max_positions, 1, std::int64_t{1} << 30},
  };
  for (auto& s : sizes)
    bad(s.value < s.least || s.value > s.most,
        fmt::format("{} must be {} to {}, is {}", s.what, s.least, s.most, s.value));
  problems.raise();
  // Checked last, since by default it follows from the others.
  bad(head_dim < 1 || head_dim > 8192, fmt::format("head_dim must be 1 to 8192, is {}", head_dim));
  problems.raise();

  bad(heads % kv_heads != 0,
      fmt::format("{} attention heads cannot be shared out among {} key/value heads", heads, kv_heads));
  bad(heads * head_dim > (1 << 20), fmt::format("{} heads of {} are too wide", heads, head_dim));
  bad(!(norm.eps > 0 && norm.eps < 0.1),
      fmt::format("the norms' epsilon must be above 0 and below 0.1, is {}", norm.eps));
  bad(!(scores.scale >= 0 && scores.scale < 1e3), fmt::format("query scale {} is out of range", scores.scale));
  bad(!(scores.softcap >= 0 && scores.softcap < 1e6),
      fmt::format("attention soft-cap {} is out of range", scores.softcap));
  bad(!(scores.clip >= 0 && scores.clip < 1e6), fmt::format("clip_qkv {} is out of range", scores.clip));
  bad(!(final_softcap >= 0 && final_softcap < 1e6), fmt::format("final soft-cap {} is out of range", final_softcap));
  bad(!(embedding_scale > 0 && embedding_scale < 1e6),
      fmt::format("embedding scale {} is out of range", embedding_scale));
  bad(!(residual.scale > 0 && residual.scale < 1e6) || !(logit_scale > 0 && logit_scale < 1e6 + 1),
      fmt::format("residual scale {} or logit scale {} is out of range", residual.scale, logit_scale));
  bad(activation == kernels::Activation::xielu && gated,
      "the activation 'xielu' is for an MLP without a gate, as apertus has");
  bad(!(init_range > 0 && init_range <= 10),
      fmt::format("initializer_range must be above 0 and at most 10, is {}", init_range));
  if (positions == Positions::rope) {
    check_rope(rope, *this, source, problems);
    if (rope_local) check_rope(*rope_local, *this, source, problems);
  }
  const LatentSpec& l = latent;
  for (auto [name, value] : {std::pair{"q_lora_rank", l.q_rank},
                             {"kv_lora_rank", l.kv_rank},
                             {"qk_nope_head_dim", l.nope},
                             {"qk_rope_head_dim", l.rope},
                             {"v_head_dim", l.value}})
    bad(latent && (value < (name == std::string_view("q_lora_rank") ? 0 : 1) || value > (1 << 16)),
        fmt::format("{} must be 1 to 65536, is {}", name, value));
  if (moe.experts != 0) check_experts(*this, source, problems);
  check_lists(*this, source, problems);
  bad(bos < -1 || bos >= vocab, fmt::format("bos id {} is outside the vocabulary of {}", bos, vocab));
  problems.raise();
}

}  // namespace dml
