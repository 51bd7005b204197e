#include "data/inspect.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/utf8.h"

namespace dml {
namespace {

constexpr const char* kGreen = "\033[32m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kInverse = "\033[7m";
constexpr const char* kReset = "\033[0m";

// Shows newlines as a sign, and breaks the line.
std::string visible(std::string_view text, bool one_line) {
  std::string escaped = escape_controls(text), out;
  for (char c : escaped) {
    if (c == '\n') out += one_line ? "⏎" : "⏎\n";
    else out += c;
  }
  return out;
}

}  // namespace

std::int64_t RowView::trained() const {
  return std::count_if(tokens.begin(), tokens.end(), [](auto& token) { return token.trained(); });
}

namespace {

RowView view_tokens(std::span<const Token> ids, std::span<const Token> labels, const Tokenizer& tokenizer,
                    std::string title) {
  RowView row{std::move(title), {}};
  auto stream = tokenizer.stream(false);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    bool known = ids[k] >= 0 && ids[k] < tokenizer.size();
    row.tokens.push_back({ids[k], labels[k], known ? stream->next(ids[k]) : fmt::format("<{}>", ids[k]),
                          known && tokenizer.is_special(ids[k])});
  }
  if (!row.tokens.empty()) row.tokens.back().text += stream->finish();
  return row;
}

}  // namespace

RowView view_row(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer, std::string title) {
  if (i < 0 || i >= examples.size())
    throw UserError("there is no row {}: they go from 0 to {}", i, examples.size() - 1);
  return view_tokens(examples.ids(i), examples.labels(i), tokenizer, std::move(title));
}

std::vector<RowView> view_documents(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer,
                                    const std::string& title) {
  const ExampleKind kind = examples.kind(i);
  if (kind != ExampleKind::pair)
    return {view_row(examples, i, tokenizer,
                     title + (kind == ExampleKind::desirable     ? ", good"
                              : kind == ExampleKind::undesirable ? ", bad"
                                                                 : ""))};
  const auto ids = examples.ids(i), labels = examples.labels(i);
  const auto split = static_cast<std::size_t>(examples.split(i));
  return {view_tokens(ids.first(split), labels.first(split), tokenizer, title + ", chosen"),
          view_tokens(ids.subspan(split), labels.subspan(split), tokenizer, title + ", rejected")};
}

std::vector<std::int64_t> find_rows(const Examples& examples, const Tokenizer& tokenizer, std::string_view text,
                                    std::size_t most) {
  constexpr std::int64_t kBlock = 4096;
  std::vector<std::int64_t> found;
  for (std::int64_t begin = 0; begin < examples.size() && found.size() < most; begin += kBlock) {
    std::vector<char> hit(static_cast<std::size_t>(std::min(kBlock, examples.size() - begin)));
    parallel_ranges(static_cast<std::int64_t>(hit.size()), 64, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k)
        hit[static_cast<std::size_t>(k)] = tokenizer.decode(examples.ids(begin + k)).find(text) != std::string::npos;
    });
    for (std::size_t k = 0; k < hit.size() && found.size() < most; ++k)
      if (hit[k]) found.push_back(begin + static_cast<std::int64_t>(k));
  }
  return found;
}

std::string render_text(const RowView& row, const ViewStyle& style) {
  std::string out = fmt::format("{}: {} tokens, {} trained\n", row.title, row.tokens.size(), row.trained());
  bool open = false;  // inside ⟦…⟧
  for (auto& token : row.tokens) {
    std::string text = visible(token.text, style.ids);
    if (style.ids) text = fmt::format("{}({}, {})", text, token.label, token.id);
    if (style.color) {
      // Colors end before each newline, since pagers reset them per line.
      const std::string begin = fmt::format("{}{}", token.trained() ? kGreen : kDim, token.special ? kInverse : "");
      bool newline = text.ends_with('\n');
      if (newline) text.pop_back();
      if (!text.empty()) out += begin + text + kReset;
      if (newline) out += '\n';
    } else {
      if (token.trained() != open) out += token.trained() ? "⟦" : "⟧";
      open = token.trained();
      out += text;
    }
    if (style.ids) out += ' ';
  }
  if (style.ids && out.ends_with(' ')) out.pop_back();
  if (open) out += "⟧";
  if (!out.ends_with('\n')) out += '\n';
  return out;
}

Json render_json(const RowView& row) {
  Json tokens = Json::array();
  for (auto& token : row.tokens)
    tokens.push_back({{"id", token.id}, {"label", token.label}, {"text", token.text}, {"special", token.special}});
  return {{"title", row.title}, {"trained", row.trained()}, {"tokens", std::move(tokens)}};
}

std::vector<std::string> describe(const Schedule& schedule) {
  const ScheduleOptions& o = schedule.options();
  if (o.micro_batch_tokens > 0)
    return {
        fmt::format("{} in {}, {} per step", counted(schedule.steps(), "step", "steps"),
                    counted(schedule.epochs(), "epoch", "epochs"), counted(o.step_examples(), "example", "examples")),
        fmt::format("a step has up to {}, each of {} tokens or less, or one example; at most {} tokens",
                    counted(schedule.most_micro_batches(), "micro-batch", "micro-batches"),
                    grouped(o.micro_batch_tokens), grouped(schedule.longest()))};
  const std::string unit = o.packing ? "row" : "example";
  const std::string rows =
      o.micro_batch_size == 1 ? fmt::format("one {}", unit) : fmt::format("{} {}s", grouped(o.micro_batch_size), unit);
  std::vector<std::string> out;
  out.push_back(fmt::format("{} in {}, {} per step", counted(schedule.steps(), "step", "steps"),
                            counted(schedule.epochs(), "epoch", "epochs"),
                            counted(o.micro_batches_per_step, "micro-batch", "micro-batches")));
  out.push_back(fmt::format("each micro-batch: {}{}, at most {} tokens", rows,
                            o.packing ? fmt::format(" of {} tokens", grouped(o.sequence_len)) : "",
                            grouped(schedule.longest())));
  if (o.packing) out.push_back(fmt::format("packed rows are {:.1f} % full", 100 * schedule.fill()));
  return out;
}

std::vector<std::string> describe(const Prepared& prepared, const Schedule* schedule) {
  std::vector<std::string> out{prepared.note.empty() ? prepared.folder() : prepared.note};
  if (!prepared.cost.empty()) out.push_back(prepared.cost);
  auto lines = prepared.report().lines();
  out.insert(out.end(), lines.begin(), lines.end());
  Examples all = prepared.all();
  std::vector<std::int32_t> longest;
  for (std::int32_t i = 0; i < all.size(); ++i) longest.push_back(i);
  auto shown = longest.begin() + std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(longest.size()));
  std::partial_sort(longest.begin(), shown, longest.end(), [&](auto a, auto b) {
    return all.length(a) != all.length(b) ? all.length(a) > all.length(b) : a < b;
  });
  std::vector<std::string> named;
  for (auto it = longest.begin(); it != shown; ++it)
    named.push_back(fmt::format("{} ({} tokens)", prepared.place(*it), all.length(*it)));
  out.push_back(fmt::format("longest: {}", fmt::join(named, ", ")));
  if (schedule) {
    auto plan = describe(*schedule);
    out.insert(out.end(), plan.begin(), plan.end());
  }
  for (auto& warning : prepared.report().warnings()) out.push_back("warning: " + warning);
  return out;
}

}  // namespace dml
