#include "data/loader.h"

#include <algorithm>
#include <numeric>

namespace dml {
namespace {

// The position of a document's first trained token.
std::size_t answer_of(std::span<const Token> labels) {
  return static_cast<std::size_t>(std::ranges::find_if(labels, [](Token t) { return t != kIgnore; }) - labels.begin());
}

}  // namespace

void Loader::Buffers::reserve(std::int64_t most_tokens, std::int64_t documents) {
  tokens.reserve(static_cast<std::size_t>(most_tokens));
  labels.reserve(static_cast<std::size_t>(most_tokens));
  positions.reserve(static_cast<std::size_t>(most_tokens));
  starts.reserve(static_cast<std::size_t>(documents) + 1);
}

void Loader::Buffers::clear() {
  tokens.clear();
  labels.clear();
  positions.clear();
  starts.assign(1, 0);
  groups.clear();
  weights.clear();
  shared.clear();
}

void Loader::Buffers::append(std::span<const Token> ids, std::span<const Token> document_labels, DocumentGroup group,
                             LabelRule rule) {
  const std::size_t begin = tokens.size();
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  switch (rule) {
    case LabelRule::next_token:
      labels.insert(labels.end(), document_labels.begin() + 1, document_labels.end());
      labels.push_back(kIgnore);
      break;
    case LabelRule::classes:
      labels.insert(labels.end(), document_labels.begin(), document_labels.end());
      break;
    case LabelRule::text_end:
      labels.resize(labels.size() + ids.size() - 1, kIgnore);
      labels.push_back(0);
      break;
  }
  positions.resize(begin + ids.size());
  std::iota(positions.begin() + static_cast<std::ptrdiff_t>(begin), positions.end(), 0);
  starts.push_back(static_cast<std::int32_t>(tokens.size()));
  if (group.role != DocumentRole::alone) groups.push_back(group);
}

Loader::Loader(const Examples& examples, const Schedule& schedule, LoaderOptions options)
    : examples_(examples), schedule_(schedule), options_(options), weighted_(examples.weighted()) {
  const std::int64_t documents = schedule.most_documents();
  buffers_.reserve(schedule.longest(), documents);
  if (weighted_) buffers_.weights.reserve(static_cast<std::size_t>(schedule.longest()));
  if (options_.mismatched) plan_steps();
  if (options_.mismatched) mismatched_.reserve(longest_mismatched_, documents);
}

PackedBatch Loader::load(std::int64_t global_step, std::int64_t m) {
  PackedBatch batch = load(schedule_.examples(global_step, m));
  for (std::int64_t k = 0; k < m; ++k) batch.first_group += std::ssize(schedule_.examples(global_step, k));
  if (options_.mismatched) {
    load_mismatched(global_step, m);
    mismatched_batch_ = mismatched_.batch();
    batch.mismatched = &mismatched_batch_;
  }
  return batch;
}

PackedBatch Loader::load(std::span<const std::int32_t> chosen) {
  buffers_.clear();
  std::int32_t group = 0;
  for (std::int32_t i : chosen) append_documents(i, group++);
  return buffers_.batch();
}

void Loader::append_documents(std::int32_t example, std::int32_t group) {
  auto ids = examples_.ids(example), labels = examples_.labels(example);
  if (ids.empty()) return;
  const ExampleKind kind = examples_.kind(example);
  if (kind == ExampleKind::document) {
    buffers_.append(ids, labels, {}, options_.labels);
    if (weighted_) append_weights(example);
    return;
  }
  std::int32_t common = 0;  // tokens of the shorter answer
  auto append = [&](std::span<const Token> some, std::span<const Token> own, DocumentRole role, std::int64_t document) {
    DocumentGroup g{role, group, static_cast<std::int32_t>(answer_of(own)) - 1};
    g.weight = static_cast<double>(examples_.weight(example));
    g.margin = static_cast<double>(examples_.margin(example));
    if (options_.ld_alpha != 1) g.tail = g.completion + common, g.tail_weight = options_.ld_alpha;
    if (options_.references && !options_.references->answers.empty())
      g.reference = options_.references->answer(examples_.stored(example), document);
    if (examples_.trains_chosen_prompts() && role == DocumentRole::chosen) own = some;
    buffers_.append(some, own, g, options_.labels);
  };
  if (kind != ExampleKind::pair)
    return append(ids, labels, kind == ExampleKind::desirable ? DocumentRole::desirable : DocumentRole::undesirable, 0);
  const auto split = static_cast<std::size_t>(examples_.split(example));
  auto answer = [&](std::span<const Token> own) { return static_cast<std::int32_t>(own.size() - answer_of(own)); };
  common = std::min(answer(labels.first(split)), answer(labels.subspan(split)));
  append(ids.first(split), labels.first(split), DocumentRole::chosen, 0);
  append(ids.subspan(split), labels.subspan(split), DocumentRole::rejected, 1);
  if (!options_.share_prompts) return;
  const auto seam = std::ranges::mismatch(ids.first(split), ids.subspan(split)).in1;
  buffers_.shared.insert(buffers_.shared.end(), {0, static_cast<std::int32_t>(seam - ids.begin())});
}

// Appends weights shifted like labels: each label has the weight of its token.
void Loader::append_weights(std::int32_t example) {
  const std::span<const float> own = examples_.weights(example);
  const std::size_t shift = options_.labels == LabelRule::next_token ? 1 : 0;
  for (std::int64_t t = 0; t < examples_.length(example); ++t) {
    const std::size_t at = std::min(static_cast<std::size_t>(t) + shift, own.empty() ? 0 : own.size() - 1);
    buffers_.weights.push_back(examples_.weight(example) * (own.empty() ? 1 : own[at]));
  }
}

void Loader::plan_steps() {
  first_of_step_.assign(1, 0);
  for (std::int64_t s = 0; s < schedule_.steps(); ++s) {
    std::int64_t count = 0;
    for (std::int64_t m = 0; m < schedule_.step(s).micro_batches; ++m) {
      const auto chosen = schedule_.examples(s, m);
      count += std::ssize(chosen);
      std::int64_t tokens = 0;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        mismatch(chosen[i], previous_in_step(s, m, i));
        tokens += std::ssize(scratch_ids_);
      }
      longest_mismatched_ = std::max(longest_mismatched_, tokens);
    }
    first_of_step_.push_back(first_of_step_.back() + count);
  }
}

std::int32_t Loader::previous_in_step(std::int64_t global_step, std::int64_t m, std::size_t index) const {
  if (index > 0) return schedule_.examples(global_step, m)[index - 1];
  const std::int64_t batches = schedule_.step(global_step).micro_batches;
  return schedule_.examples(global_step, m > 0 ? m - 1 : batches - 1).back();
}

void Loader::mismatch(std::int32_t prompt, std::int32_t answer) {
  auto before = examples_.ids(prompt).first(answer_of(examples_.labels(prompt)));
  auto from = answer_of(examples_.labels(answer));
  auto ids = examples_.ids(answer).subspan(from), labels = examples_.labels(answer).subspan(from);
  scratch_ids_.assign(before.begin(), before.end());
  scratch_ids_.insert(scratch_ids_.end(), ids.begin(), ids.end());
  scratch_labels_.assign(before.size(), kIgnore);
  scratch_labels_.insert(scratch_labels_.end(), labels.begin(), labels.end());
  const auto most = std::min(scratch_ids_.size(), static_cast<std::size_t>(options_.most_tokens));
  scratch_ids_.resize(most);
  scratch_labels_.resize(most);
}

void Loader::load_mismatched(std::int64_t global_step, std::int64_t m) {
  mismatched_.clear();
  const auto chosen = schedule_.examples(global_step, m);
  std::int64_t number = first_of_step_[static_cast<std::size_t>(global_step)];
  for (std::int64_t k = 0; k < m; ++k) number += std::ssize(schedule_.examples(global_step, k));
  for (std::size_t i = 0; i < chosen.size(); ++i, ++number) {
    mismatch(chosen[i], previous_in_step(global_step, m, i));
    DocumentGroup g{DocumentRole::desirable, static_cast<std::int32_t>(i),
                    static_cast<std::int32_t>(answer_of(scratch_labels_)) - 1};
    if (options_.mismatched_references && !options_.mismatched_references->empty())
      g.reference = (*options_.mismatched_references)[static_cast<std::size_t>(number)];
    mismatched_.append(scratch_ids_, scratch_labels_, g, LabelRule::next_token);
  }
}

}  // namespace dml
