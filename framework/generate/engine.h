// Many requests on one model at a time. A step reads a part of the prompts that wait and writes one token of every
// answer under way, so a long prompt does not stop the others; a request may come, end or be cancelled between any two
// steps.
//
// The answer to a request depends on the request alone: not on other requests in the batch and their adapters, nor on
// what the cache knew of its prompt, nor on the parts in which that was read, nor on what was written ahead. Prompts
// are read by packed products and answers written by dots (CausalLm::generate), so only rows that were read are shared;
// what an answer wrote is read again when it becomes part of a prompt.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "constraint/token_mask.h"
#include "generate/prefix_cache.h"
#include "generate/sampler.h"
#include "model/causal_lm.h"

namespace dml {

enum class StopReason { token, length, caller, failure };

/// Statistics of generation so far. An answer's first token comes with its prompt; the new ones are those after it.
struct GenerationSpeed {
  std::int64_t prompt_tokens = 0, new_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompts, those that needed no reading
  std::int64_t generated = 0;      // tokens of all answers
  std::int64_t drafted = 0;        // of the new ones, those that were written ahead
  double prompt_seconds = 0, new_seconds = 0;

  GenerationSpeed& operator+=(const GenerationSpeed& more);
};

struct EngineOptions {
  std::size_t slots = 16;         // requests that are answered at a time; the others wait
  std::int64_t context = 0;       // most tokens of prompt and answer together
  std::int64_t cache_tokens = 0;  // capacity of the cache of keys and values, in tokens
  DType cache = DType::f32;       // of keys and values: f32, bf16 or int8
  std::int64_t reading = 512;     // most tokens of prompts in a step
  std::int64_t reports = 0;       // most tokens of a prompt per step whose log-probabilities are reported
  std::int64_t drafts = 0;        // most tokens in a step that are written ahead where constraints leave one text only
  bool fair = true;  // while answers are written, reading takes no longer than writing; else each step reads all it can
};

using RequestId = std::uint64_t;

struct EngineRequest {
  std::vector<Token> prompt = {};  // not empty
  std::size_t model = 0;           // of the engine's models
  std::int64_t max_new_tokens = 256;
  SamplingOptions sampling = {};
  std::uint64_t number = 0;                          // samples of one seed differ in their numbers
  std::vector<Token> stop_tokens = {};               // end the answer; not part of it
  std::shared_ptr<TokenConstraint> constraint = {};  // what the answer must be; null: anything
  bool report_prompt = false;                        // log-probabilities of the prompt's tokens are wanted
  bool embedding = false;                            // the mean of the last hidden states is wanted, and no answer
};

struct EngineEvent {
  enum class Kind { read, token, end };
  RequestId id = 0;
  Kind kind = Kind::token;
  Sampler::Choice choice{};                // token; end by a stop token: that one
  std::int64_t cached = 0;                 // read: tokens of the prompt that needed no reading
  std::vector<Sampler::Choice> prompt{};   // read, with report_prompt: of every token but the first
  std::vector<float> embedding{};          // end of such a request
  StopReason reason = StopReason::length;  // end
  std::exception_ptr failure{};            // end: why the request could not be answered
};

/// A model, or an adapter on it (CausalLm::adopt): rows of one base are computed together.
struct EngineModel {
  CausalLm* base;
  std::int32_t adapter;

  EngineModel(CausalLm* model, std::int32_t number = -1) : base(model), adapter(number) {}
};

class Engine {
 public:
  static constexpr std::int64_t kUsualDrafts = 8;

  /// The models share their architecture; they outlive the engine. Takes all memory now.
  Engine(std::vector<EngineModel> models, const EngineOptions& options);
  ~Engine();

  /// UserError where the request can never fit.
  RequestId submit(EngineRequest request);
  /// No further events of this request.
  void cancel(RequestId id);
  /// Reads parts of prompts and writes a token of each answer. The events are valid until the next call.
  std::span<const EngineEvent> step();

  /// The models' values have changed: nothing that was read before is known any more. No request is under way.
  void forget();

  bool busy() const { return !sequences_.empty(); }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Share of the cache's memory that requests under way hold.
  double cache_usage() const;
  const GenerationSpeed& speed() const { return speed_; }
  /// Returns speed() and resets it.
  GenerationSpeed take_speed() { return std::exchange(speed_, {}); }
  const EngineOptions& options() const { return options_; }

  /// Bytes that the engine needs. Values of the model need not exist yet.
  struct Memory {
    std::size_t working = 0;  // of a model's working memory
    std::size_t caches = 0;   // keys, values and logits beside it
  };
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
  /// The next token of each, from the row of logits of the same place.
  void take_tokens(std::span<Sequence* const> which, std::span<const std::int64_t> rows);
  void take(Sequence& s, Sampler::Choice choice);
  void reserve(Sequence& s, std::int64_t tokens);
  void end(Sequence& s, StopReason reason, std::exception_ptr failure = {}, Sampler::Choice last = {});
  void leave(Sequence& s);
  std::uint64_t root_of(const Sequence& s);
  std::span<float> row(std::int64_t i) {
    return std::span(logits_).subspan(static_cast<std::size_t>(i * vocab_), static_cast<std::size_t>(vocab_));
  }

  const EngineModel& model_of(const Sequence& s) const;

  std::vector<EngineModel> models_;
  std::vector<CausalLm*> bases_;
  EngineOptions options_;
  std::int64_t vocab_;
  KvPool pool_;
  PrefixCache prefixes_;
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in the order in which they were admitted
  std::int64_t promised_ = 0;       // pages that those may come to hold
  std::map<std::pair<std::size_t, std::int64_t>, std::uint64_t> roots_;
  RequestId last_id_ = 0;
  std::vector<float> logits_, states_;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<SequenceRows> rows_;
  std::vector<EngineEvent> events_;
  GenerationSpeed speed_;
  double write_seconds_ = 0;  // of the last step's writing
  double fair_reading_ = 32;  // tokens that are read in about that time, or more
  double owed_seconds_ = 0;   // of writing, before more is read beside it
};

}  // namespace dml
