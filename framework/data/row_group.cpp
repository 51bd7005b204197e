#include "data/row_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/shown.h"
#include "prompt/loss_weight.h"
#include "prompt/scalar_column.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr std::size_t kKeptText = 1 << 12, kKeptTokens = 1 << 11;  // of a row

// In a row that is given as tokens, each contiguous trained range counts as a turn.
TrainedEnds trained_ends(std::span<const Token> labels, const std::vector<Token>& ends) {
  TrainedEnds out;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool stretch_ends = i + 1 == labels.size() || labels[i + 1] == kIgnore;
    if (labels[i] == kIgnore || !stretch_ends) continue;
    ++out.trained;
    out.ended += std::find(ends.begin(), ends.end(), labels[i]) != ends.end();
  }
  return out;
}

}  // namespace

void RowGroup::clear() {
  for (RawRow& row : raw)
    if (row.text.capacity() > kKeptText) row.text = std::string();
  for (MadeExample& slot : examples)
    if (slot.example.ids.capacity() > kKeptTokens) slot.example = {};
  rows = made = 0;
  results.clear();
  seconds = {};
}

struct RowWorker::Limits {
  std::int64_t length = 0, least = 0;
  ExcessLength strategy = ExcessLength::drop;
  const char* name = "sequence_len";  // of `length`, for messages
  std::string_view too_long = dropped::kTooLong;

  [[noreturn]] void refuse(const Example& example) const {
    throw UserError("the row has {} tokens, {} is {} (excess_length_strategy: raise)", example.size(), name, length);
  }
};

struct RowWorker::Workspace {
  Workspace(const Tokenizer& tokenizer, PhaseSeconds& seconds) : clock(seconds), assembler(tokenizer, &clock) {}
  PhaseClock clock;
  Assembler assembler;
  Json record;
  std::vector<Rendered> texts;
};

RowWorker::RowWorker(const DataSection& data, const Tokenizer& tokenizer, const std::vector<Token>& ends)
    : data_(data), tokenizer_(tokenizer), ends_(ends) {
  for (Token id : ends) end_texts_.push_back(tokenizer.piece(id));
}

void RowWorker::work(const PlannedDataset& dataset, const RowReader& reader, RowGroup& group) const {
  Workspace workspace(tokenizer_, group.seconds);
  for (std::size_t i = 0; i < group.rows; ++i) work(dataset, reader, group.raw[i], workspace, group);
  workspace.record = nullptr;
  workspace.clock.lap(Phase::json);
}

void RowWorker::work(const PlannedDataset& dataset, const RowReader& reader, const RawRow& raw, Workspace& workspace,
                     RowGroup& group) const {
  Limits limits{data_.sequence_len, std::max<std::int64_t>(2, data_.min_sample_len), data_.excess_length_strategy};
  if (dataset.validation && data_.eval_sequence_len) {
    limits.length = *data_.eval_sequence_len;
    limits.name = "eval_sequence_len";
  } else if (!dataset.validation && data_.completion_len > 0) {
    limits.length -= data_.completion_len;
    limits.name = "sequence_len less trl.max_completion_length";
    limits.too_long = dropped::kNoRoomToAnswer;
  }
  const std::size_t made = group.made;
  RowResult& result = group.results.emplace_back();
  if (raw.empty) {
    result.why_dropped = dropped::kEmptyRow;
    return;
  }
  bool parsed = false;
  try {
    reader.parse(raw, workspace.record);
    parsed = true;
    workspace.clock.lap(Phase::json);
    dataset.strategy->render_into(workspace.texts, workspace.record);
    workspace.clock.lap(Phase::render);
    const bool is_pair = !workspace.texts.empty() && workspace.texts.front().role == DocumentRole::chosen;
    if (is_pair) pair(workspace.texts, limits, workspace, group);
    for (const Rendered& text : workspace.texts) {
      if (result.left_out.empty()) result.left_out = text.left_out;
      result.fields |= text.fields;
    }
    for (const Rendered& text : is_pair ? std::span<const Rendered>() : std::span<const Rendered>(workspace.texts)) {
      const TrainedEnds turns =
          text.segments.empty() ? trained_ends(text.labels, ends_) : trained_ends(text, end_texts_);
      result.turns += turns;
      Example& example = workspace.assembler(text);
      if (text.role != DocumentRole::alone) {
        example.kind = text.role == DocumentRole::desirable ? ExampleKind::desirable : ExampleKind::undesirable;
        if (!fit_answer(example, limits, result)) continue;
        if (has_trained_tokens(example)) keep(example, example.trained(), true, limits, group);
        else result.why_dropped = dropped::kEmptyAnswer;
        continue;
      }
      fit(example, workspace.assembler.trained(), text.chunk, limits, group);
      if (result.why_dropped == dropped::kNothingTrained) result.detail = text.untrained_reason;
    }
    set_numbers(dataset, workspace.record, group, made);
    tell_apart(workspace.record, group, made);
    count_turns_left(group, made);
    result.examples = group.made - made;
    if (result.examples == 0 && result.why_dropped.empty()) result.why_dropped = dropped::kNothingTrained;
  } catch (const UserError& error) {
    group.made = made;
    result.why_dropped = dropped::kBadRow;
    result.detail = parsed ? fmt::format("{}: {}", reader.place(raw), error.what()) : error.what();
  }
  workspace.clock.lap(Phase::mask);
}

// Sets the weight and margin of the row in all of its examples; examples of weight 0 are dropped.
void RowWorker::set_numbers(const PlannedDataset& dataset, const Json& record, RowGroup& group,
                            std::size_t made) const {
  const DatasetEntry& entry = *dataset.entry;
  double weight = 1, margin = 0;
  const auto column = [&](const std::string& name) {
    const auto found = record.find(name);
    return found == record.end() ? Json() : scalar_column(*found);
  };
  if (entry.field_weight)
    if (const Json value = column(*entry.field_weight); !value.is_null()) {
      weight = loss_weight(value, *entry.field_weight);
      group.results.back().fields.row_weight = true;
    }
  if (data_.rows == RowKind::pairs)
    if (const Json value = column(entry.field_margin); !value.is_null()) {
      if (!value.is_number() || !std::isfinite(value.get<double>()))
        throw UserError("'{}' must be a number, is {}", entry.field_margin, shown(dump(value), 60));
      margin = value.get<double>();
    }
  for (std::size_t i = made; i < group.made; ++i) {
    group.examples[i].example.weight = static_cast<float>(weight);
    group.examples[i].example.margin = static_cast<float>(margin);
  }
  if (weight > 0 || group.made == made) return;
  group.made = made;
  group.results.back().why_dropped = dropped::kWeightZero;
}

// Rows of equal tokens are no duplicates if they differ in label, weight or margin, or, as prompts, in what rewards
// read.
void RowWorker::tell_apart(const Json& record, RowGroup& group, std::size_t made) const {
  std::string judged;
  if (data_.rows == RowKind::prompts)
    for (const char* field : {"expected", "choices", "answer", "regex", "schema"})
      if (const auto found = record.find(field); found != record.end()) judged += dump(*found) + "\n";
  for (std::size_t i = made; i < group.made; ++i) {
    MadeExample& m = group.examples[i];
    const std::array<float, 3> numbers{static_cast<float>(m.example.kind), m.example.weight, m.example.margin};
    const std::uint64_t differs = hash64(numbers.data(), sizeof numbers, hash64(judged.data(), judged.size()));
    m.hash ^= differs;
    if (data_.dataset_near_deduplication)
      for (std::uint32_t& minimum : m.signature) minimum ^= static_cast<std::uint32_t>(differs);
  }
}

// The turns of a row that was cut to length are those that its tokens still have.
void RowWorker::count_turns_left(RowGroup& group, std::size_t made) const {
  const std::span own = std::span(group.examples).subspan(made, group.made - made);
  if (std::ranges::none_of(own, [](const MadeExample& m) { return m.example.truncated; })) return;
  TrainedEnds& turns = group.results.back().turns = {};
  for (const MadeExample& m : own) turns += trained_ends(m.example.labels, ends_);
}

void RowWorker::pair(const std::vector<Rendered>& texts, const Limits& limits, Workspace& workspace,
                     RowGroup& group) const {
  DML_CHECK(texts.size() == 2 && texts[1].role == DocumentRole::rejected);
  RowResult& result = group.results.back();
  Example answers[2];
  for (std::size_t i = 0; i < 2; ++i) {
    result.turns += trained_ends(texts[i], end_texts_);
    answers[i] = workspace.assembler(texts[i]);
  }
  const bool equal = answers[0].ids == answers[1].ids;
  for (Example& answer : answers)
    if (!fit_answer(answer, limits, result)) return;
  if (answers[0].ids == answers[1].ids) {
    result.why_dropped = equal ? dropped::kEqualAnswers : dropped::kEqualOnceCut;
    return;
  }
  for (const Example& answer : answers)
    if (!has_trained_tokens(answer)) {
      result.why_dropped = dropped::kEmptyAnswer;
      result.detail = &answer == answers ? "the chosen answer is empty" : "the rejected answer is empty";
      return;
    }
  const std::int64_t rejected = answers[1].trained();
  Example both = joined(std::move(answers[0]), answers[1]);
  keep(both, both.trained(), true, limits, group);
  if (result.why_dropped.empty()) group.examples[group.made - 1].rejected_trained = rejected;
}

// Whether an answer has text: one without would train nothing, or its end token alone.
bool RowWorker::has_trained_tokens(const Example& answer) const {
  return std::ranges::any_of(answer.labels,
                             [&](Token t) { return t != kIgnore && std::ranges::find(ends_, t) == ends_.end(); });
}

bool RowWorker::fit_answer(Example& example, const Limits& limits, RowResult& result) const {
  if (example.size() <= limits.length) return true;
  result.detail = fmt::format("{} tokens", example.size());
  if (limits.strategy == ExcessLength::raise) limits.refuse(example);
  if (limits.strategy != ExcessLength::truncate) {
    result.why_dropped = limits.too_long;
    return false;
  }
  example.truncated = true;
  example.truncate(limits.length);
  if (example.trained() > 0) return true;
  result.why_dropped = dropped::kPromptTooLong;
  return false;
}

void RowWorker::keep(Example& example, std::int64_t trained, bool begins, const Limits& limits, RowGroup& group) const {
  RowResult& result = group.results.back();
  if (example.size() < limits.least) {
    result.why_dropped = dropped::kTooShort;
    return;
  }
  const bool asks = data_.rows == RowKind::prompts;  // prompts: the trained tokens will be generated
  if (trained == 0 && !asks) {
    result.why_dropped = dropped::kNothingTrained;
    return;
  }
  if (group.made == group.examples.size()) group.examples.emplace_back();
  MadeExample& made = group.examples[group.made++];
  std::swap(made.example, example);
  made.trained = trained;
  made.rejected_trained = 0;
  made.bos = -1;
  if (tokenizer_.bos && begins) {
    const auto& ids = made.example.ids;
    made.bos = static_cast<int>(std::find_if(ids.begin(), ids.end(), [&](Token t) { return t != *tokenizer_.bos; }) -
                                ids.begin());
  }
  made.hash = hash_of_example(made.example.ids, made.example.labels);
  const auto& labels = made.example.labels;
  auto last = std::find_if(labels.rbegin(), labels.rend(), [](Token t) { return t != kIgnore; });
  made.ends_trained = last != labels.rend() && std::find(ends_.begin(), ends_.end(), *last) != ends_.end();
  made.example.continues |= asks;
  if (data_.dataset_near_deduplication) made.signature = NearDuplicates::signature(made.example.ids);
}

void RowWorker::fit(Example& example, std::int64_t trained, bool chunk, const Limits& limits, RowGroup& group) const {
  if (example.size() <= limits.length) return keep(example, trained, true, limits, group);
  RowResult& result = group.results.back();
  if (chunk) {
    result.cut = true;
    auto parts = cut(example, limits.length, limits.least);
    for (auto& part : parts) keep(part, part.trained(), &part == parts.data(), limits, group);
    return;
  }
  result.detail = fmt::format("{} tokens", example.size());
  switch (limits.strategy) {
    case ExcessLength::drop:
      result.why_dropped = limits.too_long;
      return;
    case ExcessLength::raise:
      limits.refuse(example);
    case ExcessLength::truncate:
      example.truncated = true;
      example.truncate(limits.length);
      return keep(example, example.trained(), true, limits, group);
    case ExcessLength::split_turns: {
      auto parts = split_turns(example, limits.length);
      if (parts.empty()) result.why_dropped = limits.too_long;
      std::int64_t kept = 0;
      for (auto& part : parts) kept += part.trained();
      if (!parts.empty()) parts.back().truncated = kept < example.trained();
      for (auto& part : parts) keep(part, part.trained(), &part == parts.data(), limits, group);
      return;
    }
  }
}

}  // namespace dml
