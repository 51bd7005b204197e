#include "data/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// The purposes of an epoch's random streams.
enum : std::uint32_t { kOrder = 0, kBins = 1, kBatches = 2 };

// The same lists in another order.
Lists reordered(const Lists& lists, std::span<const std::int64_t> order) {
  Lists out;
  out.items.reserve(lists.items.size());
  for (std::int64_t i : order) {
    auto items = lists[i];
    out.items.insert(out.items.end(), items.begin(), items.end());
    out.close();
  }
  return out;
}

Lists shuffled(const Lists& lists, const Random& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(lists.size()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order), random);
  return reordered(lists, order);
}

// Joins every `count` consecutive lists; the last result may have fewer.
Lists joined(const Lists& lists, std::int64_t count) {
  Lists out;
  out.items = lists.items;
  for (std::int64_t i = count; i < lists.size(); i += count)
    out.starts.push_back(lists.starts[static_cast<std::size_t>(i)]);
  if (lists.size() > 0) out.starts.push_back(static_cast<std::int64_t>(lists.items.size()));
  return out;
}

// Shuffles lists of equal size except the last, which may be shorter: a step that is smaller than the others stays at
// the end of its epoch.
Lists shuffled_steps(const Lists& steps, const Random& random) {
  const std::int64_t last = steps.size() - 1;
  std::vector<std::int64_t> order(static_cast<std::size_t>(steps.size()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order), random);
  if (last > 0 && steps[last].size() < steps[0].size()) {
    const auto shorter = std::ranges::find(order, last);
    std::rotate(shorter, shorter + 1, order.end());
  }
  return reordered(steps, order);
}

Lists single_lists(std::span<const std::int32_t> order) {
  Lists out;
  out.items.assign(order.begin(), order.end());
  out.starts.resize(order.size() + 1);
  std::iota(out.starts.begin(), out.starts.end(), 0);
  return out;
}

// The examples of every step, in order, as micro-batches of up to micro_batch_tokens.
Lists by_tokens(const Lists& steps, std::span<const std::int32_t> lengths, const ScheduleOptions& o) {
  Lists out;
  for (std::int64_t s = 0; s < steps.size(); ++s) {
    std::int64_t tokens = 0;
    for (std::int32_t example : steps[s]) {
      const std::int64_t length = lengths[static_cast<std::size_t>(example)] + o.completion;
      if (tokens > 0 && tokens + length > o.micro_batch_tokens) out.close(), tokens = 0;
      out.items.push_back(example);
      tokens += length;
    }
    out.close();
  }
  return out;
}

std::vector<std::int32_t> copied(std::span<const std::int32_t> order, std::int64_t copies) {
  std::vector<std::int32_t> out;
  out.reserve(order.size() * static_cast<std::size_t>(copies));
  for (std::int32_t i : order) out.insert(out.end(), static_cast<std::size_t>(copies), i);
  return out;
}

Lists bins_of(std::span<const std::int32_t> order, std::span<const std::int32_t> lengths, const ScheduleOptions& o,
              std::int64_t epoch) {
  if (o.keep_order || o.sequential_packing) return next_fit(order, lengths, o.sequence_len, o.bin_size);
  return shuffled(best_fit(order, lengths, o.sequence_len, o.bin_size, o.group_size),
                  Random(o.seed, Purpose::shuffle, static_cast<std::uint64_t>(epoch), kBins));
}

void add_completions(const TrlSettings& trl, std::int64_t micro_batches_of_rank, ScheduleOptions& o) {
  o.copies = trl.num_generations;
  o.completion = trl.max_completion_length;
  o.rounds = trl.num_iterations;
  o.steps_together = trl.steps_per_generation.value_or(micro_batches_of_rank) / micro_batches_of_rank;
  if (o.micro_batch_size * o.micro_batches_per_step % o.copies != 0)
    throw UserError(
        "a step has {} completions ({} micro-batches of {}), which is not a multiple of trl.num_generations: {}; "
        "choose batch_size, or micro_batch_size and gradient_accumulation_steps, so that it is",
        o.micro_batch_size * o.micro_batches_per_step, o.micro_batches_per_step, o.micro_batch_size, o.copies)
        .about("trl.num_generations");
}

// Tokens of a micro-batch of preferences: matrix products reach their full rate, and memory stays small.
constexpr std::int64_t kPreferenceTokens = 1024;

std::int64_t documents_of(RowKind rows) { return rows == RowKind::pairs ? 2 : 1; }

}  // namespace

ScheduleOptions train_schedule(const DataSection& data, const TrainSection& train, std::int64_t ranks,
                               const TrlSettings* sampling) {
  ScheduleOptions o;
  o.documents = documents_of(data.rows);
  o.sequence_len = data.sequence_len * o.documents;  // every example fits
  o.micro_batch_size = train.micro_batch_size;
  o.micro_batches_per_step = std::max<std::int64_t>(1, train.micro_batches_per_step(ranks));
  o.num_epochs = train.num_epochs;
  o.max_steps = train.max_steps.value_or(0);
  if (data.rows != RowKind::text) o.micro_batch_tokens = std::min(kPreferenceTokens, o.sequence_len);
  else o.packing = data.sample_packing;
  o.keep_order = data.curriculum_sampling;
  o.sequential_packing = data.sample_packing_sequentially;
  o.group_by_length = data.group_by_length;
  o.group_size = data.sample_packing_group_size;
  o.bin_size = data.sample_packing_bin_size;
  o.seed = static_cast<std::uint64_t>(train.seed);
  if (sampling) add_completions(*sampling, train.micro_batches_per_step(1), o);
  return o;
}

ScheduleOptions eval_schedule(const DataSection& data, const TrainSection& train, std::int64_t micro_batches_per_step) {
  ScheduleOptions o;
  o.sequence_len = data.eval_sequence_len.value_or(data.sequence_len);
  if (data.test_datasets.empty())
    o.sequence_len = std::max(o.sequence_len, data.sequence_len);  // rows split off the training data
  o.documents = documents_of(data.rows);
  o.sequence_len *= o.documents;
  o.micro_batch_size = train.eval_batch_size;
  o.micro_batches_per_step = std::max<std::int64_t>(1, micro_batches_per_step);
  o.packing = data.eval_sample_packing;
  o.keep_order = true;
  o.bin_size = data.sample_packing_bin_size;
  return o;
}

Lists plan_epoch(std::span<const std::int32_t> lengths, const ScheduleOptions& o, std::int64_t epoch) {
  const auto key = static_cast<std::uint64_t>(epoch);
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  if (!o.keep_order) shuffle(std::span(order), Random(o.seed, Purpose::shuffle, key, kOrder));
  if (o.packing) return joined(bins_of(order, lengths, o, epoch), o.micro_batch_size);

  const bool by_step = o.micro_batch_tokens > 0;  // groups are steps, else micro-batches
  const std::int64_t together = by_step ? o.step_examples() : o.micro_batch_size;
  if (o.group_by_length && !o.keep_order) {
    const std::size_t window = static_cast<std::size_t>(together) * 50;
    for (std::size_t begin = 0; begin < order.size(); begin += window) {
      auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
      auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + window, order.size()));
      std::stable_sort(first, last, [&](auto a, auto b) {
        return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
      });
    }
    const Lists groups = joined(single_lists(order), together);
    const Random random(o.seed, Purpose::shuffle, key, kBatches);
    return by_step ? by_tokens(shuffled_steps(groups, random), lengths, o) : shuffled(groups, random);
  }
  const Lists groups = joined(single_lists(copied(order, o.copies)), together);
  return by_step ? by_tokens(groups, lengths, o) : groups;
}

Schedule::Schedule(std::vector<std::int32_t> lengths, ScheduleOptions options)
    : lengths_(std::move(lengths)), options_(options) {
  DML_CHECK(!lengths_.empty() && options_.micro_batch_size > 0 && options_.micro_batches_per_step > 0);
  const bool by_steps = options_.max_steps > 0;
  for (std::int64_t e = 0; by_steps ? steps_ < options_.max_steps : static_cast<double>(e) < options_.num_epochs - 1e-9;
       ++e) {
    Epoch epoch = plan_steps(e);
    if (by_steps) {
      epoch.steps = std::min(epoch.steps, options_.max_steps - steps_);
    } else if (double share = options_.num_epochs - static_cast<double>(e); share < 1) {
      epoch.steps = std::max<std::int64_t>(1, std::llround(std::ceil(share * static_cast<double>(epoch.steps) - 1e-9)));
    }
    count(epoch, e == 0);
    steps_ += epoch.steps;
    epochs_.push_back(std::move(epoch));
  }
}

// Plans the micro-batches of epoch e and cuts them into steps; every micro-batch is used.
Schedule::Epoch Schedule::plan_steps(std::int64_t e) {
  Epoch epoch;
  epoch.first_step = steps_;
  // With keep_order all epochs are the same.
  if (planned_ < 0 || !options_.keep_order) plan_ = plan_epoch(lengths_, options_, e);
  planned_ = e;
  epoch.micro_batches = plan_.size();
  for (std::int64_t m = 0; m < epoch.micro_batches; ++m) {
    const std::int64_t place = options_.micro_batch_tokens > 0 ? plan_.starts[static_cast<std::size_t>(m)] : m;
    const std::int64_t of_step =
        options_.micro_batch_tokens > 0 ? options_.step_examples() : options_.micro_batches_per_step;
    if (place % of_step == 0) epoch.first_of_step.push_back(m);
  }
  epoch.different = std::ssize(epoch.first_of_step);
  epoch.first_of_step.push_back(epoch.micro_batches);
  epoch.steps = epoch.different * options_.rounds;
  return epoch;
}

// Adds the used steps of the planned epoch to the totals.
void Schedule::count(const Epoch& epoch, bool first) {
  const std::size_t taken = static_cast<std::size_t>(std::min(epoch.different, epoch.steps));
  const std::int64_t used = epoch.first_of_step[taken];
  for (std::size_t s = 0; s < taken; ++s)
    most_micro_batches_ = std::max(most_micro_batches_, epoch.first_of_step[s + 1] - epoch.first_of_step[s]);
  std::int64_t tokens = 0;
  for (std::int64_t m = 0; m < epoch.micro_batches; ++m) {
    std::int64_t size = 0;
    for (std::int32_t example : plan_[m]) size += lengths_[static_cast<std::size_t>(example)] + options_.completion;
    tokens += size;
    if (m >= used) continue;
    longest_ = std::max(longest_, size);
    most_documents_ = std::max(most_documents_, static_cast<std::int64_t>(plan_[m].size()) * options_.documents);
    tokens_ += size * options_.rounds;
  }
  if (first && options_.packing) {
    std::vector<std::int32_t> order(lengths_.size());
    std::iota(order.begin(), order.end(), 0);
    if (!options_.keep_order) shuffle(std::span(order), Random(options_.seed, Purpose::shuffle, 0, kOrder));
    packed_rows_ = bins_of(order, lengths_, options_, 0).size();
    fill_ = static_cast<double>(tokens) / static_cast<double>(packed_rows_ * options_.sequence_len);
  }
}

// The size of the steps before step s of an epoch: in micro-batches, or in examples where micro-batches differ in size.
std::int64_t Schedule::part_before(const Epoch& epoch, std::int64_t s) const {
  if (options_.micro_batch_tokens == 0) return epoch.first_of_step[static_cast<std::size_t>(s)];
  return std::min(s * options_.step_examples(), static_cast<std::int64_t>(lengths_.size()) * options_.copies);
}

Schedule::Step Schedule::step(std::int64_t global_step) const {
  DML_CHECK(global_step >= 0 && global_step < steps_, "step {} of {}", global_step, steps_);
  auto after = std::upper_bound(epochs_.begin(), epochs_.end(), global_step,
                                [](std::int64_t s, const Epoch& epoch) { return s < epoch.first_step; });
  const Epoch& epoch = *(after - 1);
  Step step;
  step.epoch = (after - 1) - epochs_.begin();
  // Steps whose completions are generated together are made in order, once per round.
  const std::int64_t place = global_step - epoch.first_step, together = options_.steps_together;
  const std::int64_t before = place / (together * options_.rounds) * together;  // steps generated earlier
  const std::int64_t size = std::min(together, epoch.different - before), within = place - before * options_.rounds;
  step.number = before + within % size;
  step.round = within / size;
  step.first_together = epoch.first_step + before * options_.rounds;
  step.last_together = std::min(step.first_together + size * options_.rounds, epoch.first_step + epoch.steps);
  auto first = [&](std::int64_t s) { return epoch.first_of_step[static_cast<std::size_t>(s)]; };
  step.first_micro_batch = first(step.number);
  step.micro_batches = first(step.number + 1) - step.first_micro_batch;
  auto part = [&](std::int64_t s) { return part_before(epoch, s); };
  const std::int64_t done = part(before) * options_.rounds + step.round * (part(before + size) - part(before)) +
                            part(step.number + 1) - part(before);
  step.epochs_done = static_cast<double>(step.epoch) +
                     static_cast<double>(done) / static_cast<double>(part(epoch.different) * options_.rounds);
  return step;
}

std::span<const std::int32_t> Schedule::examples(std::int64_t global_step, std::int64_t m) const {
  Step at = step(global_step);
  DML_CHECK(m >= 0 && m < at.micro_batches, "micro-batch {} of {}", m, at.micro_batches);
  if (planned_ != at.epoch && !options_.keep_order) plan_ = plan_epoch(lengths_, options_, at.epoch);
  planned_ = at.epoch;
  return plan_[at.first_micro_batch + m];
}

}  // namespace dml
