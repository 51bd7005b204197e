// Rows that are already tokenized. Nothing is added and no template is applied.
#include "core/shown.h"
#include "prompt/layout.h"
#include "prompt/strategies.h"

namespace dml {
namespace {

std::vector<Token> integers(const Json& record, const char* column, std::int64_t least) {
  std::vector<Token> out;
  for (auto& value : list_column(record, column)) {
    if (!value.is_number_integer())
      throw UserError("'{}' must be a list of whole numbers, has {}", column, shown(dump(value), 60));
    bool fits =
        value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT32_MAX : value.get<std::int64_t>() >= least;
    if (!fits) throw UserError("'{}' has {}, must be {} to {}", column, dump(value), least, INT32_MAX);
    out.push_back(static_cast<Token>(value.get<std::int64_t>()));
  }
  return out;
}

class PreTokenized : public PromptStrategy {
 public:
  std::vector<Rendered> render(const Json& record) const override {
    Rendered out;
    out.ids = integers(record, "input_ids", 0);
    out.labels = record.contains("labels") ? integers(record, "labels", kIgnore) : out.ids;
    std::vector<Token> mask =
        record.contains("attention_mask") ? integers(record, "attention_mask", 0) : std::vector<Token>();
    if (out.labels.size() != out.ids.size())
      throw UserError("'labels' has {} entries, 'input_ids' has {}", out.labels.size(), out.ids.size());
    if (!mask.empty() && mask.size() != out.ids.size())
      throw UserError("'attention_mask' has {} entries, 'input_ids' has {}", mask.size(), out.ids.size());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < out.ids.size(); ++i) {
      if (out.labels[i] < 0 && out.labels[i] != kIgnore)
        throw UserError("'labels' has {}; a label is the token id or {} (not trained)", out.labels[i], kIgnore);
      if (!mask.empty() && mask[i] == 0) continue;
      out.ids[kept] = out.ids[i];
      out.labels[kept++] = out.labels[i];
    }
    out.ids.resize(kept);
    out.labels.resize(kept);
    return single(std::move(out));
  }

  Rendered prompt(const Json& record) const override {
    Rendered out;
    if (record.contains("input_ids")) {
      out = std::move(render(record).front());
      std::size_t end = 0;
      while (end < out.ids.size() && out.labels[end] == kIgnore) ++end;
      if (end > 0) out.ids.resize(end);
      out.labels.resize(out.ids.size());
      return out;
    }
    Segment segment;
    segment.add_read(text_column(record, "prompt"));
    segment.add_special = true;
    out.segments.push_back(std::move(segment));
    return out;
  }
  std::string fingerprint() const override { return "pre-tokenized 1"; }
  std::string description() const override { return "rows are tokens already; labels are taken as they are"; }
};

}  // namespace

std::unique_ptr<PromptStrategy> make_pre_tokenized(const PromptContext&) { return std::make_unique<PreTokenized>(); }

}  // namespace dml
