#include "data/example.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

void append_segment(const Segment& segment, const Tokenizer& tokenizer, Example& out) {
  std::string text;
  std::vector<ByteRange> literal;                    // what users wrote: special tokens in it stay text
  std::vector<std::pair<std::size_t, bool>> bounds;  // end of each piece, learned
  for (auto& piece : segment.pieces) {
    auto begin = static_cast<std::uint32_t>(text.size());
    text += piece.text;
    if (piece.text.empty()) continue;
    auto end = static_cast<std::uint32_t>(text.size());
    if (!piece.markup && !literal.empty() && literal.back().end == begin)
      literal.back().end = end;
    else if (!piece.markup)
      literal.push_back({begin, end});
    bounds.emplace_back(end, piece.learn);
  }
  if (text.empty() && !segment.add_special) return;

  Encoding encoding = tokenizer.encode(text, {segment.add_special, true, literal});
  DML_CHECK(encoding.offsets.size() == encoding.ids.size(), "the tokenizer gave {} ids and {} offsets",
            encoding.ids.size(), encoding.offsets.size());
  // An eos the tokenizer itself put at the end says nothing about where this text ends.
  while (segment.add_special && tokenizer.adds_eos && tokenizer.eos && !encoding.ids.empty() &&
         encoding.ids.back() == *tokenizer.eos && encoding.offsets.back().begin == encoding.offsets.back().end) {
    encoding.ids.pop_back();
    encoding.offsets.pop_back();
  }
  std::size_t piece = 0, before = 0;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    std::size_t at = encoding.offsets[i].begin;
    if (at < before) piece = 0;
    before = at;
    while (piece + 1 < bounds.size() && at >= bounds[piece].first) ++piece;
    bool learn = !bounds.empty() && bounds[piece].second;
    out.ids.push_back(encoding.ids[i]);
    out.labels.push_back(learn ? encoding.ids[i] : kIgnore);
  }
  if (!segment.end_of_text || text.empty()) return;
  if (!tokenizer.eos) throw UserError("the tokenizer has no eos token; set `special_tokens: {{eos_token: …}}`");
  int there = 0;
  while (there < segment.ends && there < static_cast<int>(out.ids.size()) &&
         out.ids[out.ids.size() - 1 - static_cast<std::size_t>(there)] == *tokenizer.eos)
    ++there;
  for (; there < segment.ends; ++there) {
    out.ids.push_back(*tokenizer.eos);
    out.labels.push_back(segment.learn_end ? *tokenizer.eos : kIgnore);
  }
}

Example slice(const Example& whole, std::int64_t begin, std::int64_t end) {
  return {{whole.ids.begin() + begin, whole.ids.begin() + end},
          {whole.labels.begin() + begin, whole.labels.begin() + end}};
}

}  // namespace

std::int64_t Example::learned() const {
  if (labels.empty()) return 0;
  return std::count_if(labels.begin() + 1, labels.end(), [](Token label) { return label != kIgnore; });
}

Example assemble(const Rendered& rendered, const Tokenizer& tokenizer) {
  Example out;
  if (rendered.segments.empty()) {
    auto check = [&](const std::vector<Token>& ids, const char* what) {
      for (Token id : ids)
        if (id != kIgnore && (id < 0 || id >= tokenizer.size()))
          throw UserError("'{}' holds {}, the tokenizer has {} tokens", what, id, tokenizer.size());
    };
    check(rendered.ids, "input_ids");
    check(rendered.labels, "labels");
    out.ids = rendered.ids;
    out.labels = rendered.labels;
    return out;
  }
  for (auto& segment : rendered.segments) append_segment(segment, tokenizer, out);
  return out;
}

std::vector<Example> cut(Example document, std::int64_t length, std::int64_t least) {
  std::vector<Example> out;
  DML_CHECK(length > 0);
  const std::int64_t size = document.size();
  if (size <= length) {
    out.push_back(std::move(document));
    return out;
  }
  least = std::min(least, length / 2);
  for (std::int64_t begin = 0; begin < size;) {
    std::int64_t end = std::min(begin + length, size);
    if (end < size && size - end < least) end = size - least;
    out.push_back(slice(document, begin, end));
    out.back().goes_on = end < size;
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
      if (end <= begin) break;
      parts.push_back(slice(whole, begin, end));
      i = begin = end;
    } else if (run_ends) {
      end = i;
    }
  }
  return parts;
}

}  // namespace dml
