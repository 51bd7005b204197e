#include "data/builder.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "data/arrange.h"
#include "data/example.h"
#include "data/near_duplicates.h"
#include "data/prepared.h"
#include "data/records.h"
#include "data/row_range.h"
#include "data/tensor_file.h"
#include "prompt/chat_template.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr std::size_t kBlockRows = 4096, kBlockBytes = std::size_t{4} << 20;
constexpr std::int64_t kGrain = 16;

const char* const kBadRow = "could not be read";
const char* const kTooLong = "longer than sequence_len";
const char* const kTooShort = "shorter than min_sample_len";
const char* const kNothingLearned = "no learned token";
const char* const kDuplicate = "duplicate";
const char* const kNearDuplicate = "near duplicate";

struct Row {
  RawRow raw;
  std::vector<Example> examples;
  std::vector<std::uint64_t> hashes;                  // of the examples
  std::vector<NearDuplicates::Signature> signatures;  // only when near duplicates are to go
  const char* dropped = nullptr;                      // why the row, or a part of it, was left out
  std::string detail;
  std::int64_t truncated = 0;
  LearnedEnds turns;
  bool cut = false;
};

struct Limits {
  std::int64_t length = 0, least = 0;
  ExcessLength strategy = ExcessLength::drop;
};

std::uint64_t hash_of(const Example& example) {
  Hasher hasher;
  hasher.bytes(example.ids.data(), example.ids.size() * sizeof(Token));
  hasher.bytes(example.labels.data(), example.labels.size() * sizeof(Token));
  return hasher.digest64();
}

// Of a row that is tokens already, a turn is what is learned in one stretch.
LearnedEnds learned_ends(const Rendered& row, const std::vector<Token>& ends) {
  LearnedEnds out;
  for (std::size_t i = 0; i < row.labels.size(); ++i) {
    const bool stretch_ends = i + 1 == row.labels.size() || row.labels[i + 1] == kIgnore;
    if (row.labels[i] == kIgnore || !stretch_ends) continue;
    ++out.learned;
    out.ended += std::find(ends.begin(), ends.end(), row.labels[i]) != ends.end();
  }
  return out;
}

void truncate(Example& example, std::int64_t length) {
  example.ids.resize(static_cast<std::size_t>(length));
  example.labels.resize(static_cast<std::size_t>(length));
}

void fit(Example example, bool chunk, const Limits& limits, Row& row) {
  auto keep = [&](Example part) {
    if (part.size() < limits.least) {
      row.dropped = kTooShort;
    } else if (part.learned() == 0) {
      row.dropped = kNothingLearned;
    } else {
      row.hashes.push_back(hash_of(part));
      row.examples.push_back(std::move(part));
    }
  };
  if (example.size() <= limits.length) return keep(std::move(example));
  if (chunk) {
    row.cut = true;
    for (auto& part : cut(std::move(example), limits.length, limits.least)) keep(std::move(part));
    return;
  }
  row.detail = fmt::format("{} tokens", example.size());
  switch (limits.strategy) {
    case ExcessLength::drop:
      row.dropped = kTooLong;
      return;
    case ExcessLength::raise:
      throw UserError("{} tokens, sequence_len is {} (excess_length_strategy: raise)", example.size(), limits.length);
    case ExcessLength::truncate:
      truncate(example, limits.length);
      ++row.truncated;
      return keep(std::move(example));
    case ExcessLength::split_turns: {
      auto parts = split_turns(example, limits.length);
      if (parts.empty()) row.dropped = kTooLong;
      std::int64_t kept = 0;
      for (auto& part : parts) kept += part.size();
      if (!parts.empty() && kept < example.size()) ++row.truncated;
      for (auto& part : parts) keep(std::move(part));
      return;
    }
  }
}

class Builder {
 public:
  Builder(const DataSection& data, const Tokenizer& tokenizer, const std::vector<Token>& ends,
          const std::string& folder)
      : data_(data),
        tokenizer_(tokenizer),
        ends_(ends),
        ids_(folder + "/ids.safetensors", "ids"),
        labels_(folder + "/labels.safetensors", "labels"),
        offsets_(folder + "/offsets.safetensors", "offsets"),
        files_(folder + "/source_file.safetensors", "source_file"),
        lines_(folder + "/source_line.safetensors", "source_line"),
        dropped_(folder + "/dropped.jsonl") {
    for (Token id : ends) end_texts_.push_back(tokenizer.piece(id));
    offsets_.append(std::int64_t{0});
  }

  void add(const PlannedDataset& dataset) {
    DatasetReport report;
    report.name = dataset.entry->path;
    report.format = dataset.strategy->description();
    report.validation = dataset.validation;
    for (auto& file : dataset.files)
      report.files.push_back(fmt::format("{}: {}, because {}", file.path, name_of(file.form), file.reason));
    const std::int32_t first = count_;
    const RowRange range = rows_of(*dataset.entry, dataset.files);
    std::int64_t number = 0;
    for (auto& file : dataset.files) {
      sources_.push_back(file.path);
      if (number < range.end) read_file_rows(dataset, file, range, number, report);
    }
    finish_dataset(dataset, report);
    ranges_.push_back({first, count_, dataset.entry->weight, dataset.validation});
    out_.report.datasets.push_back(std::move(report));
  }

  Built finish(std::uint64_t seed, const std::string& folder) {
    Arrangement order = arrange(ranges_, data_, seed);
    if (order.train.empty()) throw UserError("there is nothing to train on: no example was kept");
    auto list = [&](const char* name, const std::vector<std::int32_t>& items) {
      TensorWriter<std::int32_t> writer(fmt::format("{}/{}.safetensors", folder, name), name);
      writer.append(std::span<const std::int32_t>(items));
      writer.finish();
    };
    list("train", order.train);
    list("validation", order.validation);
    ids_.finish();
    labels_.finish();
    offsets_.finish();
    files_.finish();
    lines_.finish();
    dropped_.commit();
    count_repeats(order);
    out_.report.train_examples = static_cast<std::int64_t>(order.train.size());
    out_.report.validation_examples = static_cast<std::int64_t>(order.validation.size());
    out_.sources = std::move(sources_);
    return std::move(out_);
  }

 private:
  void read_file_rows(const PlannedDataset& dataset, const SourceFile& file, const RowRange& range,
                      std::int64_t& number, DatasetReport& report) {
    RowReader reader(file);
    std::vector<Row> block;
    bool more = true;
    while (more) {
      block.clear();
      std::size_t bytes = 0;
      while (block.size() < kBlockRows && bytes < kBlockBytes) {
        if (report.rows == range.most || number >= range.end) {
          more = false;
          break;
        }
        Row row;
        if (!reader.next(row.raw)) {
          more = false;
          break;
        }
        std::int64_t n = number++;
        if (!range.takes(n)) continue;
        bytes += row.raw.text.size();
        ++report.rows;
        block.push_back(std::move(row));
      }
      parallel_ranges(static_cast<std::int64_t>(block.size()), kGrain, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) work(dataset, reader, block[static_cast<std::size_t>(i)]);
      });
      for (auto& row : block) write(reader, row, report);
    }
    if (report.rows == range.most) number = range.end;
  }

  // One row, on any thread.
  void work(const PlannedDataset& dataset, const RowReader& reader, Row& row) const {
    Limits limits{data_.sequence_len, std::max<std::int64_t>(2, data_.min_sample_len), data_.excess_length_strategy};
    if (dataset.validation) limits.length = data_.eval_sequence_len.value_or(data_.sequence_len);
    std::string place;
    try {
      Json record = reader.parse(row.raw);
      place = reader.place(row.raw) + ": ";
      for (auto& rendered : dataset.strategy->render(record)) {
        const LearnedEnds turns =
            rendered.segments.empty() ? learned_ends(rendered, ends_) : learned_ends(rendered, end_texts_);
        row.turns.learned += turns.learned;
        row.turns.ended += turns.ended;
        fit(assemble(rendered, tokenizer_), rendered.chunk, limits, row);
      }
      if (row.examples.empty() && !row.dropped) row.dropped = kNothingLearned;
      if (data_.dataset_near_deduplication)
        for (auto& example : row.examples) row.signatures.push_back(NearDuplicates::signature(example.ids));
    } catch (const UserError& error) {
      row.examples.clear();
      row.hashes.clear();
      row.dropped = kBadRow;
      row.detail = place + error.what();
    }
    row.raw.text = std::string();
  }

  // In the order of the rows.
  void write(const RowReader& reader, Row& row, DatasetReport& report) {
    if (row.dropped == kBadRow && data_.on_bad_row == BadRow::error) throw UserError(row.detail);
    if (row.dropped) drop(reader, row, row.dropped, report);
    if (!row.examples.empty()) {
      report.turns += row.turns.learned;
      report.turns_ended += row.turns.ended;
    }
    report.truncated += row.truncated;
    report.cut_documents += row.cut;
    for (std::size_t i = 0; i < row.examples.size(); ++i) {
      const Example& example = row.examples[i];
      const char* again = nullptr;
      if (data_.dataset_exact_deduplication && !seen_.insert(row.hashes[i]).second)
        again = kDuplicate;
      else if (data_.dataset_near_deduplication && near_.seen(row.signatures[i]))
        again = kNearDuplicate;
      if (again) {
        row.detail.clear();
        drop(reader, row, again, report);
        continue;
      }
      if (count_ == INT32_MAX) throw UserError("more than {} examples", INT32_MAX);
      ids_.append(std::span<const Token>(example.ids));
      labels_.append(std::span<const Token>(example.labels));
      offset_ += example.size();
      offsets_.append(offset_);
      files_.append(static_cast<std::int32_t>(sources_.size() - 1));
      lines_.append(row.raw.line);
      hashes_.push_back(row.hashes[i]);
      ++count_;

      ++report.examples;
      report.tokens += example.size();
      report.longest = std::max(report.longest, example.size());
      report.learned += example.learned();
      auto bucket =
          std::min<int>(DataReport::kBuckets - 1, std::bit_width(static_cast<std::uint64_t>(example.size())) - 1);
      ++out_.report.lengths[static_cast<std::size_t>(bucket)];
      if (!example.goes_on) {
        ++report.ends_expected;
        auto last = std::find_if(example.labels.rbegin(), example.labels.rend(), [](Token t) { return t != kIgnore; });
        report.ends_learned +=
            last != example.labels.rend() && std::find(ends_.begin(), ends_.end(), *last) != ends_.end();
      }
    }
  }

  void drop(const RowReader& reader, const Row& row, const char* reason, DatasetReport& report) {
    ++report.dropped[reason];
    DroppedRow shown{reader.place(row.raw), reason, row.detail};
    dropped_.write(dump(Json{{"place", shown.place}, {"reason", shown.reason}, {"detail", shown.detail}}) + "\n");
    if (report.first_dropped.size() < DatasetReport::kShown) report.first_dropped.push_back(std::move(shown));
  }

  void finish_dataset(const PlannedDataset& dataset, const DatasetReport& report) const {
    if (report.rows == 0) throw UserError("{}: no rows", dataset.files.front().path);
    std::string first = report.first_dropped.empty() ? "" : report.first_dropped.front().place;
    if (!report.first_dropped.empty() && !report.first_dropped.front().detail.empty())
      first += fmt::format(" ({})", report.first_dropped.front().detail);
    if (report.examples == 0) {
      std::vector<std::string> counts;
      for (auto& [reason, count] : report.dropped) counts.push_back(fmt::format("{} {}", count, reason));
      throw UserError("{}: all {} rows were dropped: {}; the first: {}", report.name, report.rows,
                      fmt::join(counts, ", "), first);
    }
    auto empty = report.dropped.find(kNothingLearned);
    if (empty != report.dropped.end() && empty->second * 2 > report.rows)
      throw UserError(
          "{}: {} of {} rows have no learned token; check `type`, roles_to_train and the labels; the first: {}",
          report.name, empty->second, report.rows, first);
  }

  void count_repeats(const Arrangement& order) {
    auto sorted = hashes_;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 1; i < sorted.size(); ++i) out_.report.duplicates += sorted[i] == sorted[i - 1];
    if (order.validation.empty()) return;
    sorted.clear();
    for (std::int32_t i : order.train) sorted.push_back(hashes_[static_cast<std::size_t>(i)]);
    std::sort(sorted.begin(), sorted.end());
    for (std::int32_t i : order.validation)
      out_.report.leaked += std::binary_search(sorted.begin(), sorted.end(), hashes_[static_cast<std::size_t>(i)]);
  }

  const DataSection& data_;
  const Tokenizer& tokenizer_;
  const std::vector<Token>& ends_;
  std::vector<std::string> end_texts_;
  TensorWriter<Token> ids_, labels_;
  TensorWriter<std::int64_t> offsets_;
  TensorWriter<std::int32_t> files_;
  TensorWriter<std::int64_t> lines_;
  FileWriter dropped_;
  std::vector<std::string> sources_;
  std::vector<DatasetRange> ranges_;
  std::vector<std::uint64_t> hashes_;
  std::unordered_set<std::uint64_t> seen_;
  NearDuplicates near_;
  std::int64_t offset_ = 0;
  std::int32_t count_ = 0;
  Built out_;
};

}  // namespace

Built build_arrays(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                   const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                   const std::string& folder) {
  Builder builder(data, tokenizer, ends, folder);
  for (auto& dataset : datasets) builder.add(dataset);
  return builder.finish(seed, folder);
}

}  // namespace dml
