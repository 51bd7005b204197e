// A decoder-only language model: embedding, layers, loss head. Recomputation and sharding act in two visible loops over
// the layers (forward, backward); hooks tell a distribution strategy when a unit is needed and when its gradient is
// final. Unit 0 is the embedding, 1 … L the layers, L + 1 the head.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "model/rope_tables.h"
#include "model/spec.h"
#include "model/trimmed_batch.h"
#include "model/weight_names.h"
#include "nn/decoder_layer.h"
#include "nn/embedding.h"
#include "nn/hooks.h"
#include "nn/loss_head.h"
#include "nn/parameter.h"

namespace dml {

/// Which activations backward recomputes instead of reading them: none, gate and up of the MLP, or whole layers.
enum class RecomputePolicy { nothing, mlp, layers };

/// Whether a pass includes the adapters or computes the base alone.
enum class Adapters { on, off };

/// Computes the weight of each labelled row in the gradient.
class RowWeights {
 public:
  virtual ~RowWeights() = default;
  /// losses (N): −log p of the labels (of a reward model: the outputs), in the order of their positions; writes weights
  /// (N), factors of the gradients of these losses.
  virtual void weigh(std::span<const float> losses, std::span<float> weights) = 0;
  /// A buffer of `rows` floats for log Σ p² of each row, p over the vocabulary, which is filled before weigh() is
  /// called; empty: not wanted.
  virtual std::span<float> squares(std::size_t /*rows*/) { return {}; }
};

/// Numbers that address the dropout masks of a micro-batch.
struct PassSeed {
  std::uint64_t seed = 0, micro_batch = 0;
};

/// Values and gradients count as bound while this lives, so that memory can be measured before they are: whole, or with
/// `in_parts` as the strategy that is going to bind them has announced.
class PlaceholderBinding {
 public:
  PlaceholderBinding(ParameterStore& parameters, bool in_parts);
  ~PlaceholderBinding();
  PlaceholderBinding(const PlaceholderBinding&) = delete;
  PlaceholderBinding& operator=(const PlaceholderBinding&) = delete;

 private:
  ParameterStore& parameters_;
  std::vector<Unit> really_;
};

class CausalLm {
 public:
  ModelSpec spec;
  Embedding embedding;
  std::vector<DecoderLayer> layers;
  LossHead head;
  ParameterStore parameters;
  std::vector<std::vector<float>> owned;         // frozen values that are not used straight from a file
  std::shared_ptr<const void> backing;           // keeps mapped files alive
  std::map<std::string, StoredOrder> reordered;  // parameters whose files hold them in another order
  RecomputePolicy recompute = RecomputePolicy::nothing;
  std::int64_t recompute_layers = std::numeric_limits<std::int64_t>::max();  // the first ones, which `recompute` is for
  bool save_rounded = false;                                                 // activations are saved in bfloat16
  double noise = 0;                                                          // NEFTune's alpha: see train()

  /// The policy of a layer: `recompute` for the first `recompute_layers`, nothing for the others.
  RecomputePolicy recompute_of(std::int64_t layer) const {
    return layer < recompute_layers ? recompute : RecomputePolicy::nothing;
  }

  /// Positions up to `length` must be computable; call before the first batch and when longer ones come. UserError
  /// where the position embeddings are learned and there are fewer than `length`.
  void set_length(std::int64_t length);
  std::int64_t length() const { return rope_.length(); }

  /// Forward and backward of one micro-batch: returns the sum of its label losses; gradients of that sum are added to
  /// whatever the units' grad pointers are bound to. With `noise`, every embedding gets U(−1, 1) · noise / √(L·D)
  /// added, L the tokens of its document (NEFTune, Jain et al. 2023). With `weights`, the gradients are those of the
  /// weighted sum; the returned sum is not weighted. With `extra`, its losses have a part in the gradients, and their
  /// sum is added to it; the returned sum is without them.
  double train(const PackedBatch& batch, PassSeed seed, UnitHooks& hooks, RowWeights* weights = nullptr,
               kernels::ExtraLoss* extra = nullptr);
  /// Sum of label losses; row_losses, unless empty, holds one loss per labelled position in order, row_squares log Σ p²
  /// there.
  double evaluate(const PackedBatch& batch, UnitHooks& hooks, std::span<float> row_losses = {},
                  Adapters adapters = Adapters::on, std::span<float> row_squares = {});
  /// Logits (sum of SequenceRows::outputs, V) after the last new rows of every sequence; fills their caches. Keys keep
  /// the angles they were cached with; with a dynamic NTK rope those are of the length the text had then, as in
  /// transformers.
  ///
  /// Rows that read a text are packed products, rows that write one (a token for each sequence) are dots; `rows` says
  /// which, by_count: they read where a sequence has more than one. A row's bits depend on its text and on that alone,
  /// so a text may be read in parts of any length, together with any other sequences.
  void generate(const PackedBatch& batch, std::span<const SequenceRows> sequences, Mat logits,
                kernels::Rows rows = kernels::Rows::by_count) {
    outputs_of(batch, sequences, rows, logits, {});
  }
  /// Like generate(), but returns the outputs of the last layer after the final norm, states (outputs, D), instead of
  /// logits.
  void embed(const PackedBatch& batch, std::span<const SequenceRows> sequences, Mat states) {
    outputs_of(batch, sequences, kernels::Rows::packed, {}, states);
  }
  /// Lets rows of generate() and embed() be another model's on the same frozen weights, a base's adapter: the number
  /// that their SequenceRows::adapter names it by. Nothing where the two differ in more than adapters of linear layers
  /// outside of experts, embedding and head. `other` outlives this.
  std::optional<std::int32_t> adopt(CausalLm& other);
  /// Losses of continuations: the rows of each sequence follow what its cache holds, and are cached as well. row_losses
  /// holds one loss per labelled row, in order.
  void continue_losses(const PackedBatch& batch, std::span<const SequenceRows> sequences, std::span<float> row_losses);
  /// Whether the cache of a sequence that grows from `from` to `to` tokens must be recomputed: where longrope switches
  /// to its long factors, the cached keys were rotated with the short ones.
  bool cache_expires(std::int64_t from, std::int64_t to) const;
  /// A number that is equal for sequences with the same angles at the same positions, whose common beginnings may share
  /// a cache.
  std::int64_t angles_of(std::int64_t length) const;

  /// Bytes of working memory, found by a dry run of the call, which touches no memory: an upper bound for every
  /// micro-batch with at most these numbers of tokens, trained tokens and documents, whichever of its tokens are
  /// trained.
  struct Shape {
    std::int64_t tokens = 0, trained = 0, documents = 1;
    bool weighted = false;  // train() is given weights
    bool smoothed = false;  // … and label smoothing
    bool shared = false;    // documents have beginnings in common (PackedBatch::shared)
    bool squared = false;   // log Σ p² is wanted
  };
  std::size_t measure(Shape shape, bool backward);
  /// Bytes of working memory for this micro-batch alone.
  std::size_t measure(const PackedBatch& batch, bool backward);
  /// Bytes of working memory that `calls` on this model take, run with kernels switched off: an upper bound for these
  /// calls and for smaller ones, or with Sizes::exact the memory of these calls alone.
  template <class F>
  std::size_t measure_calls(F&& calls, DryRun::Sizes sizes = DryRun::Sizes::bound) {
    DryRun dry(sizes);
    Arena real = std::exchange(arena_, Arena::measuring());
    calls();
    return std::exchange(arena_, std::move(real)).high_water();
  }
  /// Allocates the working memory of all later calls.
  void reserve(std::size_t bytes) { arena_ = Arena(bytes); }
  std::size_t reserved() const { return arena_.capacity(); }
  /// The lowest layer that a gradient must reach: −1 the embedding, L none.
  std::int64_t lowest_trained() const;

 private:
  void outputs_of(const PackedBatch& batch, std::span<const SequenceRows> sequences, kernels::Rows rows, Mat logits,
                  Mat states);
  const Embedding* embedding_of(const AdapterRows& rows) const;
  const LossHead* head_of(const AdapterRows& rows) const;
  void embed_rows(Mat x, const Pass& pass);
  void end_rows(ConstMat x, std::span<const AdapterRows> groups, Mat logits, Mat states);
  struct PassOptions {
    bool backward = false;
    PassSeed seed = {};
    RowWeights* weights = nullptr;
    kernels::ExtraLoss* extra = nullptr;
    std::span<float> row_losses = {}, row_squares = {};
    Adapters adapters = Adapters::on;
  };
  double run_pass(const PackedBatch& batch, UnitHooks& hooks, const PassOptions& how);
  struct PassPlan;
  Trim trim_of(bool backward) const;
  void plan_saved(const PassPlan& plan);
  void forward_layers(const PassPlan& plan, const PackedBatch& given, Mat embedded, Mat dx, Mat top, Pass& pass);
  void backward_layers(const PassPlan& plan, Mat d, Mat dx, Mat embedded, Pass& pass);
  void finish_unit(int unit, UnitHooks& hooks);
  double head_loss(ConstMat x, std::span<const Token> labels, Mat d, Pass& pass, const PassOptions& how);

  struct Adopted {
    const Embedding* embedding;  // null: as this model's
    const LossHead* head;
  };
  std::vector<Adopted> adopted_;
  RopeTables rope_;
  Arena arena_;
  std::vector<SavedActivation> inputs_;  // per layer, into the arena: lists kept so that a step allocates nothing
  std::vector<DecoderLayer::Saved> saved_;
};

}  // namespace dml
