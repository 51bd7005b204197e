// A decoder-only language model: embedding, layers, loss head. Recomputation and sharding are handled in the two loops
// over the layers (forward, backward); hooks tell a distribution strategy when a unit is needed and when its gradient
// is final. Unit 0 is the embedding, 1 … L are the layers, L + 1 is the head.
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
#include "nn/packed_weights.h"
#include "nn/parameter.h"

namespace dml {

/// The activations that backward recomputes: none, gate and up of the MLP, or those of whole layers.
enum class RecomputePolicy { nothing, mlp, layers };

/// Whether a pass includes the adapters or computes the base alone.
enum class Adapters { on, off };

/// Computes a weight of each labeled row in the gradient from the losses of all rows.
class RowWeights {
 public:
  virtual ~RowWeights() = default;
  /// losses (N): −log p of the labels in the order of positions (the outputs of a reward model). Sets weights (N), the
  /// factors of the gradients of these losses.
  virtual void weigh(std::span<const float> losses, std::span<float> weights) = 0;
  /// The denominator of the micro-batch's loss, known after weigh(). The router losses are weighted by it.
  virtual double denominator() const = 0;
  /// Receives the weighted router losses, whose gradients the pass adds.
  virtual void add_router_losses(double sum) = 0;
  /// A buffer (rows) that is set to log Σ p² over the vocabulary of each row before weigh() is called; empty: not
  /// wanted.
  virtual std::span<float> squares(std::size_t /*rows*/) { return {}; }
};

/// The address of a micro-batch's dropout masks.
struct PassSeed {
  std::uint64_t seed = 0, micro_batch = 0;
};

/// Binds values and gradients to placeholder addresses during its lifetime, so that memory can be measured before a
/// strategy binds them: as whole units or, with `in_parts`, as the store's values_in_parts and gradients_in_parts say.
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

/// Bytes that a use of a model takes: of the model's working memory, and in addition to it (caches, logits …).
struct ModelMemory {
  std::size_t working = 0, beside = 0;
};

class CausalLm {
 public:
  ModelSpec spec;
  Embedding embedding;
  std::vector<DecoderLayer> layers;
  LossHead head;
  ParameterStore parameters;
  std::vector<std::vector<float>> owned;         // frozen values that are not views of a file
  std::shared_ptr<const void> backing;           // keeps mapped files alive
  std::map<std::string, StoredOrder> reordered;  // parameters that files store in another order
  RecomputePolicy recompute = RecomputePolicy::nothing;
  std::int64_t recompute_layers =
      std::numeric_limits<std::int64_t>::max();  // `recompute` applies to so many layers from the first on
  SavePolicy saves = {};                         // its dtypes; `recompute` decides about the MLP
  double noise = 0;                              // NEFTune's alpha: see train()
  std::unique_ptr<PackedWeights> packed;         // copies that train() reads; null: none. New values: call begin_step()

  /// The policy of a layer.
  RecomputePolicy recompute_of(std::int64_t layer) const {
    return layer < recompute_layers ? recompute : RecomputePolicy::nothing;
  }

  /// Prepares for documents of up to `length` tokens; call it before the first batch and before longer ones. Throws
  /// UserError if the position embeddings are learned and fewer than `length`.
  void set_length(std::int64_t length);
  std::int64_t length() const { return rope_.length(); }

  /// Forward and backward of one micro-batch. Returns the sum of the losses of its labels and adds the gradients of
  /// this sum to the bound gradients. With `noise`, U(−1, 1) · noise / √(L·D) is added to every embedding, L being the
  /// number of tokens of its document (NEFTune, Jain et al. 2023). With `weights`, the gradients are those of the
  /// weighted sum; the returned sum is not weighted. With `extra`, the gradients include its terms. The router losses
  /// are part of the returned sum, but with `weights` or `extra` they are added there, as the terms of `extra` are.
  double train(const PackedBatch& batch, PassSeed seed, UnitHooks& hooks, RowWeights* weights = nullptr,
               kernels::ExtraLoss* extra = nullptr);
  /// Forward only. Returns the sum of the losses of the labels. Unless empty, row_losses (N) is set to the loss and
  /// row_squares (N) to log Σ p² of each labeled position, in order.
  double evaluate(const PackedBatch& batch, UnitHooks& hooks, std::span<float> row_losses = {},
                  Adapters adapters = Adapters::on, std::span<float> row_squares = {});
  /// Appends new rows to the caches of sequences and sets logits (Σ SequenceRows::outputs, V) of the last new rows of
  /// every sequence. Cached keys keep their rope angles; with dynamic NTK scaling these depend on the length of the
  /// text at that time, as in transformers.
  ///
  /// Prefill (several rows of a sequence) uses packed products, decoding (one row per sequence) dots; `rows` selects
  /// the method, by_count by the number of rows. The bits of a row depend only on its text, so a text may be prefilled
  /// in chunks of any length, together with any other sequences.
  void generate(const PackedBatch& batch, std::span<const SequenceRows> sequences, Mat logits,
                kernels::RowMethod rows = kernels::RowMethod::by_count) {
    outputs_of(batch, sequences, rows, logits, {});
  }
  /// Like generate(), but sets states (outputs, D), the outputs of the last layer after the final norm, instead of
  /// logits.
  void embed(const PackedBatch& batch, std::span<const SequenceRows> sequences, Mat states) {
    outputs_of(batch, sequences, kernels::RowMethod::packed, {}, states);
  }
  /// Attaches the adapter of `other`, a model with the same frozen weights, so that rows of generate() and embed() can
  /// use it: returns its number for SequenceRows::adapter. Unset if the models differ in more than adapters of linear
  /// layers (except experts), embedding and head. `other` must outlive this model.
  std::optional<std::int32_t> attach_adapter(CausalLm& other);
  /// Losses of continuations: the rows of each sequence continue its cache and are appended to it. Sets row_losses (N)
  /// to the loss of each labeled row, in order.
  void continue_losses(const PackedBatch& batch, std::span<const SequenceRows> sequences, std::span<float> row_losses);
  /// Whether the cache of a sequence that grows from `from` to `to` tokens must be recomputed: when longrope switches
  /// to its long factors, since the cached keys were rotated with the short ones.
  bool cache_expires(std::int64_t from, std::int64_t to) const;
  /// An identifier of the rope angles of a sequence of `length` tokens. Sequences with equal identifiers may share
  /// cached prefixes.
  std::int64_t angles_of(std::int64_t length) const;

  /// The shape of a micro-batch, for measure().
  struct Shape {
    std::int64_t tokens = 0, trained = 0, documents = 1;
    bool weighted = false;  // train() is called with weights
    bool smoothed = false;  // … with label smoothing
    bool shared = false;    // documents share prefixes (PackedBatch::shared)
    bool squared = false;   // log Σ p² is wanted
  };
  /// Bytes of working memory, measured by a dry run: an upper bound for every micro-batch with at most this many
  /// tokens, trained tokens and documents, whichever of its tokens are trained.
  std::size_t measure(Shape shape, bool backward);
  /// Bytes of working memory for this micro-batch only.
  std::size_t measure(const PackedBatch& batch, bool backward);
  /// Bytes of working memory of `calls` on this model, which run with kernels switched off: an upper bound for these
  /// and all smaller calls or, with Sizes::exact, the memory of these calls only.
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
  /// The linear layers of all decoder layers.
  std::vector<Linear*> layer_linears();
  /// The lowest layer that backward must reach: −1 is the embedding, L none.
  std::int64_t lowest_trained() const;

 private:
  void outputs_of(const PackedBatch& batch, std::span<const SequenceRows> sequences, kernels::RowMethod rows,
                  Mat logits, Mat states);
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

  struct AttachedModel {
    const Embedding* embedding;  // null: that of this model
    const LossHead* head;
  };
  std::vector<AttachedModel> attached_;
  RopeTables rope_;
  Arena arena_;
  std::vector<SavedActivation>
      inputs_;  // per layer, in the arena; the vectors are members so that a step allocates nothing
  std::vector<DecoderLayer::Saved> saved_;
};

/// Restores the model's sequence length, if one was set, in the destructor: the memory of steps was measured with it.
class KeepLength {
 public:
  explicit KeepLength(CausalLm& model) : model_(model), length_(model.length()) {}
  ~KeepLength() {
    if (length_ > 0) model_.set_length(length_);
  }
  KeepLength(const KeepLength&) = delete;
  KeepLength& operator=(const KeepLength&) = delete;

 private:
  CausalLm& model_;
  std::int64_t length_;
};

}  // namespace dml
