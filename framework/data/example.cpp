#include "data/example.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"
#include "core/hash.h"

namespace dml {

std::int64_t Example::trained() const {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnore;
  return count;
}

Example& Assembler::operator()(const Rendered& rendered) {
  out_.continues = out_.fused = out_.truncated = false;
  out_.weight = 1;
  out_.weights.clear();
  out_.kind = ExampleKind::document;
  out_.ids.clear();
  out_.labels.clear();
  trained_ = 0;
  if (rendered.segments.empty()) take_tokens(rendered);
  std::size_t first = 0;
  for (auto& segment : rendered.segments) {
    const std::size_t before = out_.labels.size();
    append(segment);
    if (segment.label != kIgnore) label_last(before, segment.label);
    if (&segment == &rendered.segments.front()) first = out_.ids.size();
  }
  if (rendered.most_after > 0) cut(first + static_cast<std::size_t>(rendered.most_after));
  if (!out_.labels.empty()) trained_ -= out_.labels.front() != kIgnore;
  return out_;
}

void Assembler::cut(std::size_t length) {
  if (length >= out_.ids.size()) return;
  trained_ -= std::count_if(out_.labels.begin() + static_cast<std::ptrdiff_t>(length), out_.labels.end(),
                            [](Token t) { return t != kIgnore; });
  out_.truncate(static_cast<std::int64_t>(length));
}

void Assembler::take_tokens(const Rendered& rendered) {
  auto check = [&](const std::vector<Token>& ids, const char* what) {
    for (Token id : ids)
      if (id != kIgnore && (id < 0 || id >= tokenizer_.size()))
        throw UserError("'{}' holds {}, the tokenizer has {} tokens", what, id, tokenizer_.size());
  };
  check(rendered.ids, "input_ids");
  check(rendered.labels, "labels");
  out_.ids = rendered.ids;
  out_.labels = rendered.labels;
  trained_ = std::count_if(out_.labels.begin(), out_.labels.end(), [](Token t) { return t != kIgnore; });
}

// Of the labels from `first` on, keeps only the last, and sets it to `label`.
void Assembler::label_last(std::size_t first, Token label) {
  const bool trained = first < out_.labels.size() && out_.labels.back() != kIgnore;
  for (std::size_t i = first; i < out_.labels.size(); ++i)
    trained_ -= std::exchange(out_.labels[i], kIgnore) != kIgnore;
  if (!trained) return;
  out_.labels.back() = label;
  ++trained_;
}

void Assembler::append(const Segment& segment) {
  literal_.clear();
  bounds_.clear();
  std::uint32_t begin = 0;
  for (auto& span : segment.spans) {
    const auto end = static_cast<std::uint32_t>(span.end);
    if (begin == end) continue;
    if (!span.markup && !literal_.empty() && literal_.back().end == begin) literal_.back().end = end;
    else if (!span.markup) literal_.push_back({begin, end});
    if (!bounds_.empty() && bounds_.back().trained == span.trained && bounds_.back().weight == span.weight)
      bounds_.back().end = end;
    else bounds_.push_back({end, span.trained, span.weight});
    begin = end;
  }
  if (segment.text.empty() && !segment.add_special) return;

  if (clock_) clock_->lap(Phase::mask);
  tokenizer_.encode_into(encoding_, segment.text, {segment.add_special, true, literal_});
  if (clock_) clock_->lap(Phase::tokenize);
  DML_CHECK(encoding_.offsets.size() == encoding_.ids.size(), "the tokenizer gave {} ids and {} offsets",
            encoding_.ids.size(), encoding_.offsets.size());
  // An EOS that the tokenizer appends does not mark the end of this text.
  while (segment.add_special && tokenizer_.adds_eos && tokenizer_.eos && !encoding_.ids.empty() &&
         encoding_.ids.back() == *tokenizer_.eos && encoding_.offsets.back().begin == encoding_.offsets.back().end) {
    encoding_.ids.pop_back();
    encoding_.offsets.pop_back();
  }
  append_tokens(segment.text);
  if (segment.end_of_text && !segment.text.empty()) append_end(segment);
}

// Offsets never decrease, so the tokens of consecutive pieces with one label are contiguous.
void Assembler::append_tokens(const std::string& text) {
  out_.ids.insert(out_.ids.end(), encoding_.ids.begin(), encoding_.ids.end());
  auto token = encoding_.ids.begin();
  for (std::size_t b = 0; b < bounds_.size() && token != encoding_.ids.end(); ++b) {
    auto end = encoding_.ids.end();
    if (b + 1 < bounds_.size()) {
      auto from = encoding_.offsets.begin() + (token - encoding_.ids.begin());
      auto behind = std::partition_point(from, encoding_.offsets.end(),
                                         [&](const ByteRange& at) { return at.begin < bounds_[b].end; });
      // " We" after "[/INST] ": the space is the template's, the word is not.
      auto word = [&] { return text.find_first_not_of(' ', behind[-1].begin); };
      while (behind != from && word() >= bounds_[b].end && word() < behind[-1].end) --behind;
      end = encoding_.ids.begin() + (behind - encoding_.offsets.begin());
      out_.fused |= !bounds_[b].trained && behind != from && behind[-1].end > bounds_[b].end;
    }
    if (bounds_[b].trained) trained_ += end - token;
    if (bounds_[b].weight != 1 || !out_.weights.empty()) {
      out_.weights.resize(out_.labels.size(), 1);
      out_.weights.resize(out_.labels.size() + static_cast<std::size_t>(end - token), bounds_[b].weight);
    }
    if (bounds_[b].trained) out_.labels.insert(out_.labels.end(), token, end);
    else out_.labels.insert(out_.labels.end(), static_cast<std::size_t>(end - token), kIgnore);
    token = end;
  }
  out_.labels.resize(out_.ids.size(), kIgnore);  // no pieces: a BOS alone
  if (!out_.weights.empty()) out_.weights.resize(out_.ids.size(), 1);
}

void Assembler::append_end(const Segment& segment) {
  if (!tokenizer_.eos) throw UserError("the tokenizer has no eos token; set `special_tokens: {eos_token: …}`");
  int there = 0;
  while (there < segment.ends && there < static_cast<int>(out_.ids.size()) &&
         out_.ids[out_.ids.size() - 1 - static_cast<std::size_t>(there)] == *tokenizer_.eos)
    ++there;
  for (; there < segment.ends; ++there) {
    trained_ += segment.end_trained;
    out_.ids.push_back(*tokenizer_.eos);
    out_.labels.push_back(segment.end_trained ? *tokenizer_.eos : kIgnore);
    if (!out_.weights.empty()) out_.weights.push_back(1);
  }
}

Example joined(Example&& chosen, const Example& rejected) {
  Example out = std::move(chosen);
  out.kind = ExampleKind::pair;
  out.split = static_cast<std::int32_t>(out.size());
  out.fused |= rejected.fused;
  out.truncated |= rejected.truncated;
  out.ids.insert(out.ids.end(), rejected.ids.begin(), rejected.ids.end());
  out.labels.insert(out.labels.end(), rejected.labels.begin(), rejected.labels.end());
  if (out.split < out.size())
    out.labels[static_cast<std::size_t>(out.split)] = kIgnore;  // the first token of a document is never predicted
  return out;
}

std::uint64_t hash_of_example(std::span<const Token> ids, std::span<const Token> labels) {
  return hash64(ids.data(), ids.size_bytes()) ^ std::rotl(hash64(labels.data(), labels.size_bytes()), 1);
}

std::string digest_of_example(std::span<const Token> ids, std::span<const Token> labels) {
  return fmt::format("{:016x}", hash_of_example(ids, labels));
}

Example assemble(const Rendered& rendered, const Tokenizer& tokenizer) {
  return std::move(Assembler(tokenizer)(rendered));
}

Example slice(const Example& whole, std::int64_t begin, std::int64_t end) {
  Example out{{whole.ids.begin() + begin, whole.ids.begin() + end},
              {whole.labels.begin() + begin, whole.labels.begin() + end}};
  if (!whole.weights.empty()) out.weights.assign(whole.weights.begin() + begin, whole.weights.begin() + end);
  return out;
}

std::vector<Example> cut(const Example& document, std::int64_t length, std::int64_t least) {
  std::vector<Example> out;
  DML_CHECK(length > 0);
  const std::int64_t size = document.size();
  if (size <= length) return {document};
  least = std::min(least, length / 2);
  for (std::int64_t begin = 0; begin < size;) {
    std::int64_t end = std::min(begin + length, size);
    if (end < size && size - end < least) end = size - least;
    out.push_back(slice(document, begin, end));
    out.back().continues = end < size;
    begin = end;
  }
  return out;
}

std::vector<Example> split_turns(const Example& whole, std::int64_t length) {
  std::vector<Example> parts;
  std::int64_t begin = 0, end = 0;
  for (std::int64_t i = 0; i <= whole.size(); ++i) {
    bool run_ends = i > begin && whole.labels[static_cast<std::size_t>(i - 1)] != kIgnore &&
                    (i == whole.size() || whole.labels[static_cast<std::size_t>(i)] == kIgnore);
    if (i - begin > length || i == whole.size()) {
      if (run_ends && i - begin <= length) end = i;
      if (end > begin) {
        parts.push_back(slice(whole, begin, end));
      } else {  // the next trained run does not fit with what is before it: both are left out
        while (end < whole.size() && whole.labels[static_cast<std::size_t>(end)] == kIgnore) ++end;
        while (end < whole.size() && whole.labels[static_cast<std::size_t>(end)] != kIgnore) ++end;
      }
      i = begin = end;
    } else if (run_ends) {
      end = i;
    }
  }
  return parts;
}

}  // namespace dml
