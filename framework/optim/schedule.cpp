#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"

namespace dml {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr const char* kSource = "lr_scheduler_kwargs";

double argument(const ScheduleSettings& s, const char* key, double fallback) {
  return json_number(s.kwargs, key, fallback, kSource);
}

void check_range(const ScheduleSettings& s, const ScheduleArgument& range) {
  if (range.checked_later) return;
  const double value = argument(s, range.name.c_str(), 1);
  if (value > 0 ? value <= range.most : value == 0 && !range.above_zero) return;
  const bool bounded = range.most < std::numeric_limits<double>::max();
  throw UserError("{}: {} must be {}{}, is {:g}", kSource, range.name, range.above_zero ? "above 0" : "at least 0",
                  bounded ? fmt::format(" and at most {:g}", range.most) : "", value);
}

double half_cosine(double p) { return 0.5 * (1 + std::cos(kPi * p)); }
double above(double floor, double factor) { return floor + (1 - floor) * factor; }

/// The minimum learning rate ÷ the peak, from any of the keys that set it.
double floor_of(const ScheduleSettings& s) {
  if (s.kwargs.contains("min_lr")) {
    for (const char* other : {"min_lr_rate", "min_lr_ratio"})
      if (s.kwargs.contains(other)) throw UserError("{}: set either min_lr or {}, not both", kSource, other);
    const double rate = argument(s, "min_lr", 0);
    if (rate > s.peak)
      throw UserError("{}: min_lr must be at least 0 and at most learning_rate, which is {:g}, is {:g}", kSource,
                      s.peak, rate);
    return rate / s.peak;
  }
  return argument(s, "min_lr_rate", argument(s, "min_lr_ratio", s.min_lr_ratio.value_or(0)));
}

double constant(const ScheduleSettings&, const SchedulePosition&) { return 1; }
double linear(const ScheduleSettings&, const SchedulePosition& at) { return 1 - at.p(); }

double cosine(const ScheduleSettings& s, const SchedulePosition& at) {
  SchedulePosition place = at;
  if (s.constant_lr_ratio) {
    place.steps = std::floor(at.steps * *s.constant_lr_ratio);
    place.step = std::min(at.step, place.steps);
  }
  return above(floor_of(s), std::max(0.0, half_cosine(2 * argument(s, "num_cycles", 0.5) * place.p())));
}

double cosine_with_min_lr(const ScheduleSettings& s, const SchedulePosition& at) {
  if (!s.kwargs.contains("min_lr") && !s.kwargs.contains("min_lr_rate") && !s.min_lr_ratio)
    throw UserError(
        "{}: cosine_with_min_lr needs min_lr, at least 0 and at most learning_rate, which is {:g}, or min_lr_rate, "
        "at least 0 and at most 1",
        kSource, s.peak);
  return cosine(s, at);
}

double cosine_with_restarts(const ScheduleSettings& s, const SchedulePosition& at) {
  double p = at.p();
  return p >= 1 ? 0 : half_cosine(std::fmod(p * argument(s, "num_cycles", 1), 1.0));
}

double polynomial(const ScheduleSettings& s, const SchedulePosition& at) {
  const double end = argument(s, "lr_end", 1e-7);
  if (end >= s.peak)
    throw UserError("{}: lr_end must be at least 0 and below learning_rate, which is {:g}, is {:g}{}", kSource, s.peak,
                    end, s.kwargs.contains("lr_end") ? "" : " unless it is set");
  return above(end / s.peak, std::pow(std::max(0.0, 1 - at.p()), argument(s, "power", 1)));
}

double inverse_sqrt(const ScheduleSettings& s, const SchedulePosition& at) {
  double timescale = argument(s, "timescale", at.warmup > 0 ? at.warmup : 10000);
  return 1 / std::sqrt((at.step + timescale - at.warmup) / timescale);
}

double warmup_stable_decay(const ScheduleSettings& s, const SchedulePosition& at) {
  double decay = argument(s, "num_decay_steps", std::floor(0.1 * at.steps));
  double stable = argument(s, "num_stable_steps", at.steps - at.warmup - decay);
  double into = at.step - at.warmup - stable;
  if (into < 0) return 1;
  double p = decay > 0 ? std::min(1.0, into / decay) : 1;
  std::string type = json_string(s.kwargs, "decay_type", "cosine", kSource);
  double factor = type == "linear"   ? 1 - p
                  : type == "cosine" ? half_cosine(2 * argument(s, "num_cycles", 0.5) * p)
                  : type == "1-sqrt"
                      ? 1 - std::sqrt(p)
                      : throw UserError("{}: decay_type must be linear, cosine or 1-sqrt, is '{}'", kSource, type);
  return p >= 1 ? floor_of(s) : above(floor_of(s), factor);
}

// Chen et al., "REX: Revisiting Budgeted Training with an Improved Schedule", 2021.
double rex(const ScheduleSettings& s, const SchedulePosition& at) {
  double left = std::max(0.0, 1 - at.p());
  return above(floor_of(s), left / (0.1 + 0.9 * left));
}

// Smith & Topin, "Super-convergence", 2018, in PyTorch's two phases: from peak/div_factor up to the peak, and down to
// the initial rate ÷ final_div_factor.
double one_cycle(const ScheduleSettings& s, const SchedulePosition& at) {
  double low = 1 / argument(s, "div_factor", 25), end = low / argument(s, "final_div_factor", 1e4);
  double top = argument(s, "pct_start", at.warmup / at.steps) * at.steps - 1, last = at.steps - 1;
  std::string strategy = json_string(s.kwargs, "anneal_strategy", "cos", kSource);
  if (strategy != "cos" && strategy != "linear")
    throw UserError("{}: anneal_strategy must be cos or linear, is '{}'", kSource, strategy);
  auto between = [&](double from, double to, double p) {
    return strategy == "cos" ? to + (from - to) * half_cosine(p) : from + (to - from) * p;
  };
  if (at.step <= top) return between(low, 1, top > 0 ? at.step / top : 1);
  return between(1, end, last > top ? std::min(1.0, (at.step - top) / (last - top)) : 1);
}

}  // namespace

Registry<ScheduleShape>& schedules() {
  const ScheduleArgument num_cycles{"num_cycles"}, min_lr{"min_lr"}, min_lr_ratio{"min_lr_ratio", 1};
  const auto later = [](const char* name) { return ScheduleArgument{.name = name, .checked_later = true}; };
  static Registry<ScheduleShape> registry(
      "learning rate schedule",
      {{"cosine",
        "half a cosine down to zero, or to cosine_min_lr_ratio",
        {cosine, {num_cycles}, {kQuadraticWarmup, kMinLrRatio, kConstantLrRatio}}},
       {"linear", "straight down to zero", {linear}},
       {"constant",
        "the peak; warmup only where the recipe asks for it",
        {.factor = constant, .warmup_on_request = true}},
       {"constant_with_warmup", "the peak, after a warmup", {constant}},
       {"cosine_with_restarts", "num_cycles cosines, each from the peak", {cosine_with_restarts, {num_cycles}}},
       {"cosine_with_min_lr",
        "half a cosine down to min_lr or min_lr_rate",
        {cosine_with_min_lr, {num_cycles, min_lr, {"min_lr_rate", 1}}, {kMinLrRatio, kConstantLrRatio}}},
       {"polynomial", "(1 − p)^power down to lr_end", {polynomial, {{"power"}, {"lr_end"}}}},
       {"inverse_sqrt",
        "one over the square root of the step",
        {inverse_sqrt, {{.name = "timescale", .above_zero = true}}}},
       {"warmup_stable_decay",
        "the peak, then a decay over the last num_decay_steps (a tenth)",
        {.factor = warmup_stable_decay,
         .kwargs = {{"num_decay_steps"}, {"num_stable_steps"}, later("decay_type"), min_lr_ratio, num_cycles},
         .warmup_from_floor = true}},
       {"reduce_lr_on_plateau",
        "the peak, multiplied by factor when the metric has not improved for more than patience evaluations",
        {constant,  // see train/plateau.h
         {later("mode"), later("factor"), later("patience"), later("threshold"), later("threshold_mode"),
          later("cooldown"), min_lr, later("eps")}}},
       {"rex", "reflected exponential: slow at first, steep at the end", {rex, {min_lr, min_lr_ratio}, {kMinLrRatio}}},
       {"one_cycle",
        "up from a low rate and down to a lower one",
        {.factor = one_cycle,
         .kwargs = {{"pct_start", 1},
                    {.name = "div_factor", .above_zero = true},
                    {.name = "final_div_factor", .above_zero = true},
                    later("anneal_strategy")},
         .own_warmup = true}}});
  return registry;
}

std::int64_t warmup_length(const ScheduleSettings& s) {
  auto steps = static_cast<double>(s.steps);
  if (s.warmup_steps) return *s.warmup_steps;
  if (s.warmup_ratio) return static_cast<std::int64_t>(*s.warmup_ratio * steps);
  if (schedules().at(s.name).make.warmup_on_request) return 0;
  return std::min<std::int64_t>(static_cast<std::int64_t>(0.03 * steps), 100);
}

LearningRate::LearningRate(ScheduleSettings settings)
    : settings_(std::move(settings)), shape_(schedules().at(settings_.name).make), warmup_(warmup_length(settings_)) {
  const auto reads = [&](const char* key) { return std::ranges::find(shape_.keys, key) != shape_.keys.end(); };
  settings_.quadratic_warmup &= reads(kQuadraticWarmup);
  // Axolotl's schedule with a quadratic warmup has neither.
  if (settings_.quadratic_warmup || !reads(kMinLrRatio)) settings_.min_lr_ratio.reset();
  if (settings_.quadratic_warmup || !reads(kConstantLrRatio)) settings_.constant_lr_ratio.reset();
  for (auto& [key, value] : settings_.kwargs.items()) {
    const auto known = std::ranges::find(shape_.kwargs, key, &ScheduleArgument::name);
    if (known == shape_.kwargs.end()) {
      std::vector<std::string> names;
      for (const ScheduleArgument& a : shape_.kwargs) names.push_back(a.name);
      throw UserError("{}: '{}' is not an argument of {}{}", kSource, key, settings_.name, did_you_mean(key, names));
    }
    check_range(settings_, *known);
  }
  if (warmup_ < 0) throw UserError("warmup_steps must not be negative, is {}", warmup_);
  at(std::max(warmup_, settings_.steps - 1));  // reports arguments of a wrong type before the run
}

double LearningRate::restart_factor(std::int64_t step) const {
  const std::int64_t n = settings_.restart_steps;
  if (n == 0) return 1;
  const std::int64_t behind = step % n, before = n - behind;
  double factor = 1;
  if (step >= n && behind < settings_.restart_warmup)
    factor = static_cast<double>(behind + 1) / static_cast<double>(settings_.restart_warmup);
  if (before < settings_.restart_anneal)
    factor *= static_cast<double>(before) / static_cast<double>(settings_.restart_anneal);
  return factor;
}

double LearningRate::smooth(std::int64_t step) const {
  auto s = static_cast<double>(step), w = static_cast<double>(warmup_);
  if (step < warmup_ && !shape_.own_warmup) {
    double rise = (s + 1) / w;
    const double floor = shape_.warmup_from_floor ? floor_of(settings_) : 0;
    return settings_.peak * above(floor, settings_.quadratic_warmup ? rise * rise : rise);
  }
  return settings_.peak * shape_.factor(settings_, {s, w, static_cast<double>(settings_.steps)});
}

}  // namespace dml
