#include "evaluate/likelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dml {
namespace {

constexpr std::size_t kTokensTogether = 512;  // tokens of continuations computed in one call

/// A batch to which documents are appended.
struct Batch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};

  void add(std::span<const Token> inputs, std::span<const Token> wanted, std::size_t position) {
    tokens.insert(tokens.end(), inputs.begin(), inputs.end());
    labels.insert(labels.end(), wanted.begin(), wanted.end());
    for (std::size_t i = 0; i < inputs.size(); ++i) positions.push_back(static_cast<std::int32_t>(position + i));
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
};

void reserve(CausalLm& model, std::size_t bytes) {
  if (model.reserved() < bytes) model.reserve(bytes);
}

/// The last part of a context that leaves room for a continuation.
std::span<const Token> fitting(std::span<const Token> context, std::size_t continuation, std::size_t most) {
  const std::size_t room = continuation > most ? 1 : most + 1 - continuation;
  return context.last(std::min(context.size(), room));
}

/// The last most + 1 tokens of both.
std::vector<Token> joined(std::span<const Token> context, std::span<const Token> continuation, std::size_t most) {
  std::vector<Token> tokens(context.begin(), context.end());
  tokens.insert(tokens.end(), continuation.begin(), continuation.end());
  if (tokens.size() > most + 1) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(most + 1));
  return tokens;
}

}  // namespace

double Likelihoods::plain(std::span<const Token> tokens, std::size_t first) {
  const std::span<const Token> inputs = tokens.first(tokens.size() - 1);
  std::vector<Token> labels(inputs.size(), kIgnore);
  for (std::size_t i = first; i < tokens.size(); ++i) labels[i - 1] = tokens[i];
  Batch batch;
  batch.add(inputs, labels, 0);
  model_.set_length(std::max(model_.length(), static_cast<std::int64_t>(inputs.size())));
  reserve(model_, model_.measure(batch.view(), false));
  std::vector<float> losses(tokens.size() - first);
  UnitHooks none;
  model_.evaluate(batch.view(), none, losses);
  return -std::accumulate(losses.begin(), losses.end(), 0.0);
}

void Likelihoods::behind(const KvCache& cache, Token last, std::span<const std::vector<Token>> continuations,
                         std::vector<double>& out) {
  const ModelSpec& spec = model_.spec;
  const auto length = static_cast<std::size_t>(cache.length());
  for (std::size_t first = 0, end = 0; first < continuations.size(); first = end) {
    Batch batch;
    std::vector<KvCache> caches;
    std::vector<SequenceRows> sequences;
    while (end < continuations.size() &&
           (end == first || batch.tokens.size() + continuations[end].size() <= kTokensTogether)) {
      const std::vector<Token>& c = continuations[end++];
      std::vector<Token> inputs{last};
      inputs.insert(inputs.end(), c.begin(), c.end() - 1);
      batch.add(inputs, c, length);
      caches.emplace_back(spec.layers, spec.kv_heads, spec.head_dim, static_cast<std::int64_t>(length + c.size()));
      caches.back().copy(cache, 0);
    }
    for (std::size_t i = 0; i < caches.size(); ++i)
      sequences.push_back({&caches[i], batch.starts[i], batch.starts[i + 1] - batch.starts[i]});
    std::vector<float> losses(batch.tokens.size());
    reserve(model_, model_.measure_calls([&] { model_.continue_losses(batch.view(), sequences, losses); },
                                         DryRun::Sizes::exact));
    model_.continue_losses(batch.view(), sequences, losses);
    for (std::size_t i = 0; i < caches.size(); ++i)
      out.push_back(-std::accumulate(losses.begin() + batch.starts[i], losses.begin() + batch.starts[i + 1], 0.0));
  }
}

std::vector<double> Likelihoods::of(std::span<const Token> context, std::span<const std::vector<Token>> continuations) {
  const auto most = static_cast<std::size_t>(model_.spec.max_positions);
  std::size_t longest = 0;
  for (const auto& c : continuations) longest = std::max(longest, c.size());
  std::vector<double> out;
  const auto total = static_cast<std::int64_t>(context.size() + longest) - 1;
  const bool shared = context.size() > 1 && continuations.size() > 1 && total <= model_.spec.max_positions &&
                      !model_.cache_expires(static_cast<std::int64_t>(context.size()) - 1, total);
  if (!shared) {
    for (const auto& c : continuations) {
      const std::vector<Token> tokens = joined(fitting(context, c.size(), most), c, most);
      out.push_back(plain(tokens, tokens.size() - std::min(c.size(), tokens.size() - 1)));
    }
    return out;
  }
  const ModelSpec& spec = model_.spec;
  const std::span<const Token> read = context.first(context.size() - 1);
  model_.set_length(std::max(model_.length(), total));
  KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, std::ssize(read));
  Batch batch;
  batch.add(read, std::vector<Token>(read.size(), kIgnore), 0);
  std::vector<float> logits(static_cast<std::size_t>(spec.vocab));
  const SequenceRows rows{&cache, 0, std::ssize(read)};
  const Mat to{logits.data(), 1, spec.vocab};
  reserve(model_, model_.measure_calls([&] { model_.generate(batch.view(), {&rows, 1}, to); }, DryRun::Sizes::exact));
  model_.generate(batch.view(), {&rows, 1}, to);
  behind(cache, context.back(), continuations, out);
  return out;
}

Likelihoods::Greedy Likelihoods::greedy(std::span<const Token> context, std::span<const Token> continuation) {
  const ModelSpec& spec = model_.spec;
  const auto most = static_cast<std::size_t>(spec.max_positions);
  const std::vector<Token> tokens = joined(fitting(context, continuation.size(), most), continuation, most);
  const std::size_t asked = std::min(continuation.size(), tokens.size() - 1);
  const std::span<const Token> inputs = std::span(tokens).first(tokens.size() - 1);
  model_.set_length(std::max(model_.length(), std::ssize(inputs)));
  KvCache cache(spec.layers, spec.kv_heads, spec.head_dim, std::ssize(inputs));
  Batch batch;
  batch.add(inputs, std::vector<Token>(inputs.size(), kIgnore), 0);
  std::vector<float> logits(asked * static_cast<std::size_t>(spec.vocab));
  const SequenceRows rows{&cache, 0, std::ssize(inputs), static_cast<std::int64_t>(asked)};
  const Mat to{logits.data(), static_cast<std::int64_t>(asked), spec.vocab};
  const auto call = [&] { model_.generate(batch.view(), {&rows, 1}, to, kernels::RowMethod::packed); };
  reserve(model_, model_.measure_calls(call, DryRun::Sizes::exact));
  call();
  Greedy out;
  for (std::size_t i = 0; i < asked; ++i) {
    const std::span<const float> row(to.row(static_cast<std::int64_t>(i)), static_cast<std::size_t>(spec.vocab));
    const auto top = std::ranges::max_element(row);
    const auto label = static_cast<std::size_t>(tokens[tokens.size() - asked + i]);
    double sum = 0;
    for (float x : row) sum += std::exp(static_cast<double>(x) - static_cast<double>(*top));
    out.log_likelihood += static_cast<double>(row[label]) - static_cast<double>(*top) - std::log(sum);
    out.is_greedy = out.is_greedy && top - row.begin() == static_cast<std::ptrdiff_t>(label);
  }
  return out;
}

double Likelihoods::rolling(std::span<const Token> text, Token prefix) {
  const auto window = static_cast<std::size_t>(model_.spec.max_positions);
  std::vector<Token> all{prefix};
  all.insert(all.end(), text.begin(), text.end());
  double sum = 0;
  for (std::size_t done = 1; done < all.size();) {
    const std::size_t end = std::min(all.size(), done + window), begin = end > window + 1 ? end - window - 1 : 0;
    sum += plain(std::span<const Token>(all).subspan(begin, end - begin), done - begin);
    done = end;
  }
  return sum;
}

}  // namespace dml
