#include "data/inspect.h"

#include <algorithm>
#include <cmath>

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
  return std::ranges::count_if(tokens, [](auto& token) { return token.trained(); });
}

namespace {

// The masked tokens of chosen documents behind the first, which is never predicted.
std::int64_t masked_of_chosen(const Examples& examples) {
  std::int64_t masked = 0;
  for (std::int64_t i = 0; i < examples.size(); ++i) {
    if (examples.kind(i) != ExampleKind::pair || examples.split(i) < 1) continue;
    const auto chosen = examples.labels(i).first(static_cast<std::size_t>(examples.split(i)));
    masked += std::ranges::count(chosen.subspan(1), kIgnore);
  }
  return masked;
}

// The labels of row i as the run trains them.
std::vector<Token> trained_labels(const Examples& examples, std::int64_t i) {
  const auto ids = examples.ids(i), labels = examples.labels(i);
  std::vector<Token> out(labels.begin(), labels.end());
  if (examples.trains_chosen_prompts() && examples.kind(i) == ExampleKind::pair)
    std::copy(ids.begin() + 1, ids.begin() + examples.split(i), out.begin() + 1);
  return out;
}

RowView view_tokens(std::span<const Token> ids, std::span<const Token> labels, const Tokenizer& tokenizer,
                    std::string title) {
  RowView row{std::move(title), {}};
  auto stream = tokenizer.stream(false);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    bool known = ids[k] >= 0 && ids[k] < tokenizer.size();
    const Token label = k == 0 ? kIgnore : labels[k];  // nothing predicts the first token of a document
    row.tokens.push_back({ids[k], label, known ? stream->next(ids[k]) : fmt::format("<{}>", ids[k]),
                          known && tokenizer.is_special(ids[k])});
  }
  if (!row.tokens.empty()) row.tokens.back().text += stream->finish();
  return row;
}

}  // namespace

RowView view_row(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer, std::string title) {
  if (i < 0 || i >= examples.size())
    throw UserError("there is no row {}: they go from 0 to {}", i, examples.size() - 1);
  return view_tokens(examples.ids(i), trained_labels(examples, i), tokenizer, std::move(title));
}

std::vector<RowView> view_documents(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer,
                                    const std::string& title) {
  const ExampleKind kind = examples.kind(i);
  if (kind != ExampleKind::pair)
    return {view_row(examples, i, tokenizer,
                     title + (kind == ExampleKind::desirable     ? ", good"
                              : kind == ExampleKind::undesirable ? ", bad"
                                                                 : ""))};
  const auto ids = examples.ids(i);
  const std::vector<Token> own = trained_labels(examples, i);
  const std::span labels(own);
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

namespace {

// "8 steps in 1.5 epochs": those of num_epochs, or as many as max_steps reaches.
std::string steps_text(const Schedule& schedule) {
  const ScheduleOptions& o = schedule.options();
  const double epochs = o.max_steps > 0 ? schedule.step(schedule.steps() - 1).epochs_done : o.num_epochs;
  const bool part = epochs != std::floor(epochs);
  return fmt::format("{} in {}", counted(schedule.steps(), "step", "steps"),
                     part ? fmt::format("{:.4g} epochs", epochs) : counted(std::llround(epochs), "epoch", "epochs"));
}

// "4 micro-batches", or "up to 4 micro-batches" where a step has fewer.
std::string step_size_text(const Schedule& schedule) {
  const std::int64_t most = schedule.most_micro_batches();
  bool fewer = false;
  for (std::int64_t s = 0; s < schedule.steps() && !fewer; ++s) fewer = schedule.step(s).micro_batches < most;
  return (fewer ? "up to " : "") + counted(most, "micro-batch", "micro-batches");
}

}  // namespace

std::vector<std::string> describe(const Schedule& schedule) {
  const ScheduleOptions& o = schedule.options();
  if (o.micro_batch_tokens > 0)
    return {fmt::format("{}, {} per step", steps_text(schedule), counted(o.step_examples(), "example", "examples")),
            fmt::format("a step has up to {}, each of {} tokens or less, or one example; at most {} tokens",
                        counted(schedule.most_micro_batches(), "micro-batch", "micro-batches"),
                        grouped(o.micro_batch_tokens), grouped(schedule.longest()))};
  const std::string unit = o.packing ? "packed row" : "example";
  const std::int64_t most =
      std::min(o.micro_batch_size, o.packing ? schedule.packed_rows() : schedule.most_documents() / o.documents);
  const std::string rows = most == 1 ? fmt::format("one {}", unit) : fmt::format("{} {}s", grouped(most), unit);
  std::vector<std::string> out;
  out.push_back(fmt::format("{}, {} per step", steps_text(schedule), step_size_text(schedule)));
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
  if (prepared.trains_chosen_prompts)
    out.push_back(fmt::format("the prompts of chosen answers are trained, too: {} more",
                              counted(masked_of_chosen(all), "token", "tokens")));
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
