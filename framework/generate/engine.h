// Continuous batching: many requests on one model. A step reads a part of the waiting prompts and generates one token
// of every running answer, so a long prompt does not stall the others. Requests may be submitted, end or be canceled
// between any two steps.
//
// The answer to a request depends on the request alone: not on other requests in the batch or their adapters, the
// contents of the prefix cache, the chunks in which its prompt was read, or drafted tokens. Prompts are computed by
// packed products and answers by dot products (CausalLm::generate), so only rows of prompts are shared; generated
// tokens are computed again when they become part of a prompt.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "constraint/token_mask.h"
#include "generate/prefix_cache.h"
#include "generate/sampler.h"
#include "model/causal_lm.h"

namespace dml {

enum class StopReason { token, length, caller, failure };

/// Statistics of generation. An answer's first token is computed with its prompt; the new tokens are those after it.
struct GenerationSpeed {
  std::int64_t prompt_tokens = 0, new_tokens = 0;
  std::int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  std::int64_t generated = 0;      // number of tokens of all answers
  std::int64_t drafted = 0;        // number of the new tokens that were drafted
  double prompt_seconds = 0, new_seconds = 0;

  GenerationSpeed& operator+=(const GenerationSpeed& more);
  /// "Prompt: 12 tokens (8 of them in the cache), 0.10 s. Generated: 30 tokens at 15.2 tokens/s"
  std::string text() const;
};

struct EngineOptions {
  std::size_t slots = 16;         // requests that run at a time; others wait
  std::int64_t context = 0;       // maximum number of tokens of prompt and answer together
  std::int64_t cache_tokens = 0;  // capacity of the cache of keys and values, in tokens
  DType cache = DType::f32;       // dtype of keys and values: f32, bf16 or int8
  std::int64_t reading = 512;     // maximum number of prompt tokens read per step
  std::int64_t reports = 0;       // maximum number of prompt tokens per step with reported log-probabilities
  std::int64_t drafts = 0;        // maximum number of tokens drafted per step where a constraint permits only one text
  bool fair =
      true;  // while answers run, spend no more time on prompts than on answers; else read as much as possible per step
};

using RequestId = std::uint64_t;

struct EngineRequest {
  std::vector<Token> prompt = {};  // not empty
  std::size_t model = 0;           // index into the engine's models
  std::int64_t max_new_tokens = 256;
  SamplingOptions sampling = {};
  std::uint64_t number = 0;                          // distinguishes the samples of one seed
  std::vector<Token> stop_tokens = {};               // end the answer; not included in it
  std::shared_ptr<TokenConstraint> constraint = {};  // restricts the answer; null: no restriction
  bool report_prompt = false;                        // report log-probabilities of the prompt's tokens
  bool embedding = false;                            // return the mean of the last hidden states instead of an answer
};

struct EngineEvent {
  enum class Kind { read, token, end };
  RequestId id = 0;
  Kind kind = Kind::token;
  Sampler::Choice choice{};                // token; end: the stop token, if one ended the answer
  std::int64_t cached = 0;                 // read: prompt tokens found in the prefix cache
  std::vector<Sampler::Choice> prompt{};   // read, with report_prompt: one per prompt token except the first
  std::vector<float> embedding{};          // end, of an embedding request
  StopReason reason = StopReason::length;  // end
  std::exception_ptr failure{};            // end: why the request could not be answered
};

/// A model, or an adapter on it (CausalLm::attach_adapter); rows of adapters of one base are computed together.
struct EngineModel {
  CausalLm* base;
  std::int32_t adapter;

  EngineModel(CausalLm* model, std::int32_t number = -1) : base(model), adapter(number) {}
};

class Engine {
 public:
  static constexpr std::int64_t kUsualDrafts = 8;

  /// The models have the same architecture, except for the number of tokens, and outlive the engine. Allocates all
  /// memory.
  Engine(std::vector<EngineModel> models, const EngineOptions& options);
  ~Engine();

  /// Queues a request. UserError when it can never fit, or has a token that its model does not have.
  RequestId submit(EngineRequest request);
  /// Cancels a request; it has no further events.
  void cancel(RequestId id);
  /// Reads parts of prompts and generates one token of each running answer. The events are valid until the next call.
  std::span<const EngineEvent> step();

  /// Clears the prefix cache after the models' values changed. Requires that no request is in progress.
  void forget();

  bool busy() const { return !sequences_.empty(); }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Fraction of the KV cache that running requests hold.
  double cache_usage() const;
  const GenerationSpeed& speed() const { return speed_; }
  /// Returns speed() and resets it.
  GenerationSpeed take_speed() { return std::exchange(speed_, {}); }
  const EngineOptions& options() const { return options_; }

  using Memory = ModelMemory;
  /// What the engine needs; beside the model's working memory: keys, values and logits. The model's values are not
  /// needed.
  static Memory measure(CausalLm& model, const EngineOptions& options);

 private:
  struct Sequence;

  void admit();
  void read_fairly(bool beside_answers);
  std::int64_t read_some(std::int64_t budget);
  std::vector<Sequence*> readable();
  bool must_wait(const Sequence& s) const;
  struct Part {
    Sequence* sequence;
    std::int64_t tokens;
  };
  std::vector<Part> parts(std::vector<Sequence*> candidates, std::int64_t budget) const;
  void read(std::span<const Part> parts);
  void finish_part(Sequence& s, std::int64_t tokens, std::int64_t outputs, std::int64_t row);
  struct Written {
    RequestId id;
    Sequence* sequence;
    std::int64_t row;
    std::vector<Token> draft;  // of the rows after that one
  };
  std::vector<Token> draft(const Sequence& s, std::int64_t most) const;
  void write(std::span<Sequence* const> which);
  void take_written(std::vector<Written> written);
  /// Samples the next token of each sequence; rows[i] is the row of its logits.
  void take_tokens(std::span<Sequence* const> which, std::span<const std::int64_t> rows);
  void take(Sequence& s, Sampler::Choice choice);
  void reserve(Sequence& s, std::int64_t tokens);
  void end(Sequence& s, StopReason reason, std::exception_ptr failure = {}, Sampler::Choice last = {});
  void leave(Sequence& s);
  std::uint64_t root_of(const Sequence& s);
  const EngineModel& model_of(const Sequence& s) const;
  std::int64_t vocabulary_of(const Sequence& s) const { return model_of(s).base->spec.vocab; }
  /// Row `i` of the last call, which computed sequences of the same base as `s`.
  std::span<float> row(const Sequence& s, std::int64_t i) {
    const std::int64_t vocabulary = vocabulary_of(s);
    return {logits_.data() + i * vocabulary, static_cast<std::size_t>(vocabulary)};
  }

  std::vector<EngineModel> models_;
  std::vector<CausalLm*> bases_;
  std::size_t first_to_read_ = 0;  // modulo the number of bases
  EngineOptions options_;
  KvPool pool_;
  PrefixCache prefixes_;
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;   // in order of admission
  std::int64_t reserved_pages_ = 0;  // pages reserved for running requests
  std::map<std::pair<std::size_t, std::int64_t>, std::uint64_t> roots_;
  RequestId last_id_ = 0;
  std::vector<float> logits_, states_;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<SequenceRows> rows_;
  std::vector<EngineEvent> events_;
  GenerationSpeed speed_;
  double write_seconds_ = 0;  // duration of the last generation phase
  double fair_reading_ = 32;  // number of prompt tokens that take about write_seconds_
  double owed_seconds_ = 0;   // generation time due before more prompt tokens are read
};

}  // namespace dml
