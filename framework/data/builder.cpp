#include "data/builder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"
#include "data/arrange.h"
#include "data/prepared_arrays.h"
#include "data/row_block.h"
#include "data/row_filter.h"
#include "data/row_group.h"
#include "data/row_problems.h"
#include "data/row_range.h"
#include "data/tensor_file.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// The fields that a dataset names and that were in no row, each as "key: field".
std::vector<std::string> unused_fields(const DatasetEntry& entry, const SeenFields& seen) {
  std::vector<std::string> out;
  const auto check = [&](const char* key, const std::optional<std::string>& field, bool there) {
    if (field && !there) out.push_back(fmt::format("{}: {}", key, *field));
  };
  check("message_field_training", entry.message_field_training, seen.training);
  check("message_field_training_detail", entry.message_field_training_detail, seen.training_detail);
  check("message_field_weight", entry.message_field_weight, seen.message_weight);
  check("field_weight", entry.field_weight, seen.row_weight);
  return out;
}

// The reading position in the files of a dataset.
struct Cursor {
  RowRange range;
  CheckLimits limits = {};
  std::int64_t number = 0, taken = 0;  // rows seen, rows taken
  std::size_t bytes = 0;               // of rows taken

  bool at_limit() const { return taken >= limits.rows || bytes >= limits.bytes; }
  bool at_end() const { return taken >= range.most || number >= range.end || at_limit(); }
};

class Builder {
 public:
  Builder(const DataSection& data, const Tokenizer& tokenizer, const std::vector<Token>& ends,
          const std::string& folder)
      : data_(data), tokenizer_(tokenizer), worker_(data, tokenizer, ends), arrays_(std::in_place, folder) {}
  // A check: writes nothing; errors of rows go to `problem` instead of being thrown.
  Builder(const DataSection& data, const Tokenizer& tokenizer, const std::vector<Token>& ends,
          const CheckLimits& limits, const ProblemSink& problem)
      : data_(data), tokenizer_(tokenizer), worker_(data, tokenizer, ends), limits_(limits), problem_(problem) {}

  void add(const PlannedDataset& dataset) {
    DatasetReport report;
    report.name = dataset.entry->path;
    report.format = dataset.strategy->description();
    report.validation = dataset.validation;
    report.weight = dataset.entry->weight;
    for (auto& file : dataset.files)
      report.files.push_back(fmt::format("{}: read as {} ({})", file.path, name_of(file.form), file.reason));
    const std::int32_t first = count_;
    const std::int64_t found_before = found_;
    Cursor cursor{rows_of(*dataset.entry, dataset.files), limits_};
    for (auto& file : dataset.files) {
      sources_.push_back(file);
      attempt([&] {
        if (!cursor.at_end()) read_file_rows(dataset, file, cursor, report);
      });
    }
    for (const std::string& line : bad_rows_.take_rest()) problem_({"", "", line});
    report.rows = cursor.taken;
    const SeenFields seen = std::exchange(fields_, {});
    if (!cursor.at_limit()) report.unused_fields = unused_fields(*dataset.entry, seen);
    if (tokenizer_.adds_bos) report.bos = tokenizer_.piece(*tokenizer_.bos);
    if (cursor.at_limit()) partial_.push_back(fmt::format("{}: {}", report.name, counted(report.rows, "row", "rows")));
    try {
      check_rows_used(report, dataset.files.front().path);
    } catch (const UserError& error) {
      if (!problem_) throw;
      if (cursor.at_limit()) doubts_.push_back(error.what());
      else if (found_ == 0 || (report.rows == 0 && found_ == found_before))
        problems_found(error.about(dataset.key + ".path"));
    }
    ranges_.push_back({first, count_, dataset.entry->weight, dataset.validation});
    out_.report.datasets.push_back(std::move(report));
  }

  // The order of the examples. UserError when none are left to train on, or labeled answers are all of one kind.
  Arrangement arranged(const DataReport& report, std::uint64_t seed) const {
    check_examples_left(report, report.total(&DatasetReport::examples));
    Arrangement order = arrange(ranges_, data_, seed);
    check_examples_left(report, std::ssize(order.train));
    check_answer_kinds(report, order.train, kinds_);
    return order;
  }

  DataCheck finish_check(std::uint64_t seed) {
    if (partial_.empty()) attempt([&] { filter_.finish(); });
    DataCheck check{std::move(doubts_), std::move(partial_), std::move(out_.report), {}, {}, found_};
    // A split of some of the rows is not that of all.
    if (!check.partial.empty() || found_ > 0 || !limits_.all_datasets) return check;
    attempt([&] {
      const Arrangement order = arranged(check.report, seed);
      for (std::int32_t i : order.train) check.train_lengths.push_back(lengths_[static_cast<std::size_t>(i)]);
      for (std::int32_t i : order.validation) check.validation_lengths.push_back(lengths_[static_cast<std::size_t>(i)]);
    });
    check.problems = found_;
    return check;
  }

  Built finish(std::uint64_t seed, const std::string& folder) {
    filter_.finish();
    PhaseClock clock(out_.seconds);
    Arrangement order = arranged(out_.report, seed);
    clock.lap(Phase::order);
    auto list = [&](const char* name, const std::vector<std::int32_t>& items) {
      TensorWriter<std::int32_t> writer(fmt::format("{}/{}.safetensors", folder, name), name);
      writer.append(std::span<const std::int32_t>(items));
      out_.files.push_back(writer.finish());
    };
    list("train", order.train);
    list("validation", order.validation);
    for (WrittenFile& file : arrays_->finish()) out_.files.push_back(std::move(file));
    std::sort(out_.files.begin(), out_.files.end(), [](auto& a, auto& b) { return a.name < b.name; });
    clock.lap(Phase::write);
    const Repeats repeats = repeats_in(order, hashes_);
    out_.report.duplicates = repeats.duplicates;
    out_.report.leaked = repeats.leaked;
    out_.report.all_leaked = repeats.all_leaked;
    out_.report.train_examples = static_cast<std::int64_t>(order.train.size());
    out_.report.validation_examples = static_cast<std::int64_t>(order.validation.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i) out_.report.datasets[i].used = uses_of(ranges_[i], order);
    out_.sources = std::move(sources_);
    clock.lap(Phase::order);
    return std::move(out_);
  }

  // Runs a part of the work. In a check, an error does not end the others.
  void attempt(const std::function<void()>& part) {
    try {
      part();
    } catch (const UserError& error) {
      if (!problem_) throw;
      problems_found(error);
    }
  }

 private:
  void problems_found(const UserError& error) {
    for (const Problem& problem : error.problems()) {
      ++found_;
      problem_(problem);
    }
  }

  // In a check, those after the first of a reason are only counted.
  void bad_row(const std::string& place, const std::string& detail) {
    if (problem_ && !bad_rows_.add(place, detail)) ++found_;
    else attempt([&] { throw UserError(detail); });
  }

  void read_file_rows(const PlannedDataset& dataset, const SourceFile& file, Cursor& cursor, DatasetReport& report) {
    RowReader reader(file, true);
    RowBlock *coming = &blocks_[0], *present = &blocks_[1], *done = &blocks_[2];
    for (RowBlock& block : blocks_) block.clear();
    bool more = true;
    do {
      parallel_for(2 + static_cast<std::int64_t>(present->used), [&](std::int64_t i) {
        if (i == 0) check_interruption(), write(reader, *done, report);
        else if (i == 1) more = more && read(reader, cursor, *coming);
        else worker_.work(dataset, reader, present->groups[static_cast<std::size_t>(i - 2)]);
      });
      done->clear();
      std::swap(done, present);
      std::swap(present, coming);
    } while (!present->empty() || !done->empty());
  }

  // Fills a block; false at the end of the file or of the requested rows.
  static bool read(RowReader& reader, Cursor& cursor, RowBlock& block) {
    PhaseClock clock(block.seconds);
    bool more = true;
    try {
      while (more && !block.full()) {
        more = !cursor.at_end() && reader.next(block.slot());
        if (!more) break;
        const bool counts = !block.slot().empty;
        const bool taken = cursor.range.takes(cursor.number);
        cursor.number += counts;
        if (!taken) continue;
        cursor.bytes += block.slot().text.size();
        block.take();
        cursor.taken += counts;
      }
    } catch (const UserError&) {  // errors of earlier rows are reported first
      block.failure = std::current_exception();
      more = false;
    }
    clock.lap(Phase::read);
    return more;
  }

  void write(const RowReader& reader, const RowBlock& block, DatasetReport& report) {
    PhaseClock clock(out_.seconds);
    for (std::size_t i = 0; i < block.used; ++i) {
      write(reader, block.groups[i], report);
      out_.seconds += block.groups[i].seconds;
    }
    out_.seconds += block.seconds;
    clock.lap(Phase::write);
    if (block.failure) std::rethrow_exception(block.failure);
  }

  // In the order of the rows.
  void write(const RowReader& reader, const RowGroup& group, DatasetReport& report) {
    auto made = group.examples.begin();
    for (std::size_t r = 0; r < group.rows; ++r) {
      const RowResult& row = group.results[r];
      if (row.why_dropped == dropped::kBadRow && data_.on_bad_row == BadRow::error)
        bad_row(reader.place(group.raw[r]), row.detail);
      if (!row.why_dropped.empty()) drop(reader, group.raw[r], row.why_dropped, row.detail, report);
      report.cut_documents += row.cut;
      if (!row.left_out.empty()) ++report.left_out[row.left_out];
      fields_ |= row.fields;
      const std::int32_t before = count_;
      for (auto end = made + static_cast<std::ptrdiff_t>(row.examples); made != end; ++made) {
        if (const auto refusal = filter_.refuses(*made, sources_, group.raw[r].line, report.validation))
          drop(reader, group.raw[r], refusal->reason, refusal->detail, report);
        else keep(*made, group.raw[r].line, report);
      }
      if (count_ == before) continue;
      report.turns += row.turns.trained;
      report.turns_ended += row.turns.ended;
    }
  }

  void keep(const MadeExample& made, std::int64_t line, DatasetReport& report) {
    if (count_ == INT32_MAX) throw UserError("more than {} examples", INT32_MAX);
    const Example& example = made.example;
    if (arrays_) arrays_->append(example, static_cast<std::int32_t>(sources_.size() - 1), line);
    else lengths_.push_back(static_cast<std::int32_t>(example.size()));
    hashes_.push_back(made.hash);
    kinds_.push_back(example.kind);
    ++count_;
    ++report.examples;
    report.tokens += example.size();
    report.longest = std::max(report.longest, example.size());
    report.trained += made.trained;
    if (example.kind == ExampleKind::pair) {
      ++report.pairs;
      report.rejected_tokens += made.rejected_trained;
      report.chosen_tokens += made.trained - made.rejected_trained;
    }
    report.desirable += example.kind == ExampleKind::desirable;
    report.undesirable += example.kind == ExampleKind::undesirable;
    const int bucket = std::bit_width(static_cast<std::uint64_t>(example.size())) - 1;
    ++out_.report.lengths[static_cast<std::size_t>(std::min(DataReport::kBuckets - 1, bucket))];
    const bool ends = !example.continues && data_.rows != RowKind::steps;  // labels of steps do not end a text
    report.ends_expected += ends;
    report.ends_trained += ends && made.ends_trained;
    report.fused += example.fused;
    report.truncated += example.truncated;
    report.without_bos += made.bos == 0;
    report.two_bos += made.bos > 1;
  }

  void drop(const RowReader& reader, const RawRow& row, std::string_view reason, const std::string& detail,
            DatasetReport& report) {
    DroppedRow shown{reader.place(row), std::string(reason), detail};
    ++report.dropped[shown.reason];
    if (arrays_)
      arrays_->drop(dump(Json{{"place", shown.place}, {"reason", shown.reason}, {"detail", shown.detail}}) + "\n");
    if (limits_.dropped) (*limits_.dropped)(shown);
    if (report.first_dropped.size() < DatasetReport::kShown) report.first_dropped.push_back(std::move(shown));
  }

  const DataSection& data_;
  const Tokenizer& tokenizer_;
  RowWorker worker_;
  std::array<RowBlock, 3> blocks_;
  std::optional<PreparedArrays> arrays_;  // none in a check
  CheckLimits limits_;
  ProblemSink problem_;
  std::int64_t found_ = 0;
  RowProblems bad_rows_{limits_.same_problem};  // of the dataset that is being read
  std::vector<std::string> doubts_, partial_;
  std::vector<SourceFile> sources_;
  std::vector<DatasetRange> ranges_;
  std::vector<std::int32_t> lengths_;  // in a check
  std::vector<std::uint64_t> hashes_;
  std::vector<ExampleKind> kinds_;
  SeenFields fields_;  // of the dataset that is being read
  RowFilter filter_{data_};
  std::int32_t count_ = 0;
  Built out_;
};

}  // namespace

DataCheck check_rows(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                     const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                     const CheckLimits& limits, const ProblemSink& problem) {
  Builder builder(data, tokenizer, ends, limits, problem);
  for (auto& dataset : datasets) builder.attempt([&] { builder.add(dataset); });
  return builder.finish_check(seed);
}

Built build_arrays(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                   const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                   const std::string& folder) {
  Builder builder(data, tokenizer, ends, folder);
  for (auto& dataset : datasets) builder.add(dataset);
  return builder.finish(seed, folder);
}

}  // namespace dml
