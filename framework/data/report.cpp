#include "data/report.h"

#include <algorithm>

#include "core/error.h"
#include "data/report_text.h"

namespace dml {
namespace {

// "all 450 examples", "430 of 450 examples (95.6 %)"
std::string all_or_share(std::int64_t part, std::int64_t whole, const char* one, const char* many) {
  if (part == whole) return whole == 1 ? fmt::format("the 1 {}", one) : "all " + counted(whole, one, many);
  return fmt::format("{} of {} ({:.1f} %)", grouped(part), counted(whole, one, many), percent(part, whole));
}

std::string histogram(const std::array<std::int64_t, DataReport::kBuckets>& lengths) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int first = 0, last = DataReport::kBuckets - 1;
  while (first < last && lengths[static_cast<std::size_t>(first)] == 0) ++first;
  while (last > first && lengths[static_cast<std::size_t>(last)] == 0) --last;
  std::int64_t most = std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  std::string out;
  for (int i = first; i <= last; ++i) {
    std::int64_t n = lengths[static_cast<std::size_t>(i)];
    out += n == 0 ? "·" : kBars[std::min<std::int64_t>(7, n * 8 / (most + 1))];
  }
  return fmt::format("{} {} {}", std::int64_t{1} << first, out, (std::int64_t{2} << last) - 1);
}

}  // namespace

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n < 0 ? -n : n), out = n < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ' ';
    out += digits[i];
  }
  return out;
}

std::string counted(std::int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(n), n == 1 ? one : many);
}

std::int64_t DataReport::total(std::int64_t DatasetReport::*member) const {
  std::int64_t sum = 0;
  for (auto& dataset : datasets) sum += dataset.*member;
  return sum;
}

std::vector<std::string> DataReport::lines() const {
  std::vector<std::string> out;
  for (auto& d : datasets) {
    out.push_back(fmt::format("{}{}", d.validation ? "test " : "", d.name));
    out.push_back(fmt::format("  {}", d.format));
    for (std::size_t i = 0; i < d.files.size() && i < 5; ++i) out.push_back(fmt::format("  {}", d.files[i]));
    if (d.files.size() > 5) out.push_back(fmt::format("  … and {} more files", d.files.size() - 5));
    out.push_back(fmt::format(
        "  {} → {}, {}, {:.1f} % trained{}", counted(d.rows, "row", "rows"), examples_of(d.examples),
        counted(d.tokens, "token", "tokens"), percent(d.trained, d.tokens),
        d.cut_documents
            ? fmt::format(" ({} split into several rows)", counted(d.cut_documents, "document", "documents"))
            : ""));
    if (d.weight != 1 && !d.validation)
      out.push_back(fmt::format("  weight {:g}: {} in an epoch", d.weight, examples_of(d.used)));
    if (d.pairs > 0)
      out.push_back(fmt::format("  {}; answers have {:.1f} (chosen) and {:.1f} (rejected) trained tokens on average",
                                counted(d.pairs, "pair", "pairs"), mean(d.chosen_tokens, d.pairs),
                                mean(d.rejected_tokens, d.pairs)));
    if (d.desirable + d.undesirable > 0)
      out.push_back(fmt::format("  {} and {}", counted(d.desirable, "good answer", "good answers"),
                                counted(d.undesirable, "bad one", "bad ones")));
    for (auto& [reason, count] : d.dropped) {
      auto shown =
          std::find_if(d.first_dropped.begin(), d.first_dropped.end(), [&](auto& row) { return row.reason == reason; });
      out.push_back(fmt::format("  dropped {}: {}{}", grouped(count), reason,
                                shown == d.first_dropped.end() ? "" : fmt::format(", first {}", shown->place)));
      // Lists the first unreadable rows, which the user does not expect.
      for (auto& row : d.first_dropped)
        if (reason == dropped::kBadRow && row.reason == reason) out.push_back("    " + row.detail);
    }
    if (d.truncated)
      out.push_back(
          fmt::format("  {} ({:.1f} %) truncated", examples_of(d.truncated), percent(d.truncated, d.examples)));
  }
  out.push_back(fmt::format("{} for training, {} for validation; tokens per example: {}", examples_of(train_examples),
                            grouped(validation_examples), histogram(lengths)));
  const std::int64_t expected = total(&DatasetReport::ends_expected), turns = total(&DatasetReport::turns);
  if (expected > 0)
    out.push_back(fmt::format("EOS is trained in {} and {}; {}",
                              all_or_share(total(&DatasetReport::ends_trained), expected, "example", "examples"),
                              all_or_share(total(&DatasetReport::turns_ended), turns, "trained turn", "trained turns"),
                              counted(duplicates, "duplicate", "duplicates")));
  return out;
}

Json to_json(const DataReport& report) {
  Json datasets = Json::array();
  for (auto& d : report.datasets) {
    Json dropped = Json::object(), first = Json::array();
    for (auto& [reason, count] : d.dropped) dropped[reason] = count;
    for (auto& row : d.first_dropped)
      first.push_back({{"place", row.place}, {"reason", row.reason}, {"detail", row.detail}});
    datasets.push_back({{"name", d.name},
                        {"format", d.format},
                        {"files", d.files},
                        {"validation", d.validation},
                        {"rows", d.rows},
                        {"examples", d.examples},
                        {"weight", d.weight},
                        {"used", d.used},
                        {"tokens", d.tokens},
                        {"learned", d.trained},
                        {"ends_expected", d.ends_expected},
                        {"ends_learned", d.ends_trained},
                        {"turns", d.turns},
                        {"turns_ended", d.turns_ended},
                        {"truncated", d.truncated},
                        {"cut_documents", d.cut_documents},
                        {"longest", d.longest},
                        {"fused", d.fused},
                        {"without_bos", d.without_bos},
                        {"two_bos", d.two_bos},
                        {"bos", d.bos},
                        {"pairs", d.pairs},
                        {"chosen_tokens", d.chosen_tokens},
                        {"rejected_tokens", d.rejected_tokens},
                        {"desirable", d.desirable},
                        {"undesirable", d.undesirable},
                        {"dropped", dropped},
                        {"first_dropped", first},
                        {"left_out", d.left_out},
                        {"unused_fields", d.unused_fields}});
  }
  return {{"datasets", datasets},
          {"lengths", report.lengths},
          {"train_examples", report.train_examples},
          {"validation_examples", report.validation_examples},
          {"duplicates", report.duplicates},
          {"leaked", report.leaked},
          {"all_leaked", report.all_leaked}};
}

DataReport report_from_json(const Json& json, const std::string& source) {
  try {
    DataReport r;
    for (auto& j : json.at("datasets")) {
      DatasetReport d;
      d.name = j.at("name");
      d.format = j.at("format");
      d.files = j.at("files").get<std::vector<std::string>>();
      d.validation = j.at("validation");
      d.rows = j.at("rows");
      d.examples = j.at("examples");
      d.tokens = j.at("tokens");
      d.trained = j.at("learned");
      d.ends_expected = j.at("ends_expected");
      d.ends_trained = j.at("ends_learned");
      d.turns = j.at("turns");
      d.turns_ended = j.at("turns_ended");
      d.truncated = j.at("truncated");
      d.cut_documents = j.at("cut_documents");
      d.longest = j.at("longest");
      d.fused = j.at("fused");
      d.without_bos = j.at("without_bos");
      d.two_bos = j.at("two_bos");
      d.bos = j.at("bos");
      d.pairs = j.at("pairs");
      d.chosen_tokens = j.at("chosen_tokens");
      d.rejected_tokens = j.at("rejected_tokens");
      d.desirable = j.at("desirable");
      d.undesirable = j.at("undesirable");
      for (auto& [reason, count] : j.at("dropped").items()) d.dropped[reason] = count.get<std::int64_t>();
      for (auto& row : j.at("first_dropped"))
        d.first_dropped.push_back({row.at("place"), row.at("reason"), row.at("detail")});
      d.weight = j.value("weight", d.weight);  // absent from earlier versions, as those that follow
      d.used = j.value("used", d.examples);
      d.left_out = j.value("left_out", d.left_out);
      d.unused_fields = j.value("unused_fields", d.unused_fields);
      r.datasets.push_back(std::move(d));
    }
    r.lengths = json.at("lengths").get<decltype(r.lengths)>();
    r.train_examples = json.at("train_examples");
    r.validation_examples = json.at("validation_examples");
    r.duplicates = json.at("duplicates");
    r.leaked = json.at("leaked");
    r.all_leaked = json.value("all_leaked", false);
    return r;
  } catch (const Json::exception& error) {
    throw UserError("{}: the report is damaged ({})", source, error.what());
  }
}

namespace {

// The place of the first dropped row, with the reason in detail.
std::string first_place(const DatasetReport& dataset) {
  if (dataset.first_dropped.empty()) return "";
  const DroppedRow& row = dataset.first_dropped.front();
  return row.place + (row.detail.empty() ? "" : fmt::format(" ({})", row.detail));
}

// "20 no trained tokens, 3 duplicate"
std::string reasons_text(const std::map<std::string, std::int64_t>& dropped) {
  std::vector<std::string> counts;
  for (auto& [reason, rows] : dropped) counts.push_back(fmt::format("{} {}", rows, reason));
  return fmt::format("{}", fmt::join(counts, ", "));
}

}  // namespace

void check_rows_used(const DatasetReport& dataset, const std::string& file) {
  if (dataset.rows == 0) throw UserError("{}: no rows", file);
  const std::string first = first_place(dataset);
  // A dataset without new rows may be the purpose of deduplication: it is no warning.
  auto count = [&](std::string_view reason) {
    const auto found = dataset.dropped.find(std::string(reason));
    return found == dataset.dropped.end() ? 0 : found->second;
  };
  if (dataset.examples == 0 &&
      count(dropped::kDuplicate) + count(dropped::kNearDuplicate) + count(dropped::kByScore) < dataset.rows)
    throw UserError("{}: all {} rows were dropped ({}); the first: {}", dataset.name, dataset.rows,
                    reasons_text(dataset.dropped), first);
  if (const std::int64_t untrained = count(dropped::kNothingTrained); untrained * 2 > dataset.rows)
    throw UserError(
        "{}: {} of {} rows have no trained tokens; check type, roles_to_train and the labels; the first: {}",
        dataset.name, untrained, dataset.rows, first);
}

void check_examples_left(const DataReport& report, std::int64_t examples) {
  if (examples > 0) return;
  std::map<std::string, std::int64_t> counts;
  std::int64_t all = 0;
  std::string first, weights;
  for (const DatasetReport& dataset : report.datasets) {
    if (dataset.validation) continue;
    if (dataset.weight < 1 && dataset.examples > 0)
      weights +=
          fmt::format("; {} of {} times weight {:g} is none", grouped(dataset.examples), dataset.name, dataset.weight);
    if (first.empty()) first = first_place(dataset);
    for (auto& [reason, rows] : dataset.dropped) counts[reason] += rows, all += rows;
  }
  throw UserError("no examples are left to train on{}{}",
                  all == 0 ? "" : fmt::format(": {} dropped ({}); the first: {}", all, reasons_text(counts), first),
                  weights);
}

void check_answer_kinds(const DataReport& report, std::span<const std::int32_t> train,
                        std::span<const ExampleKind> kinds) {
  auto kind = [&](std::int32_t example) { return kinds[static_cast<std::size_t>(example)]; };
  const ExampleKind first = kind(train.front());
  if (first != ExampleKind::desirable && first != ExampleKind::undesirable) return;
  if (std::ranges::any_of(train, [&](std::int32_t example) { return kind(example) != first; })) return;
  std::vector<std::string> names;
  for (const DatasetReport& dataset : report.datasets)
    if (!dataset.validation) names.push_back(dataset.name);
  const bool good = first == ExampleKind::desirable;
  throw UserError("{}{}none of the answers is {} (label: {}); kto needs both kinds", fmt::join(names, ", "),
                  names.empty() ? "" : ": ", good ? "bad" : "good", !good)
      .about("datasets");
}

}  // namespace dml
