#include "train/objective/completions.h"

#include <charconv>
#include <cstring>
#include <span>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

constexpr const char* kFirstStep = "first_step";  // in the metadata

// The columns of tensor "completions", which has one row per completion. The other tensors hold the values of all
// completions one after the other.
enum : std::size_t { kStep, kTokens, kPromptTokens, kEnded, kOldLogps, kColumns };

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, const char* name, DType dtype) {
  const TensorView& tensor = file.at(name);
  if (tensor.dtype != dtype) throw UserError("{}: tensor '{}' must be {}", file.path(), name, safetensors_name(dtype));
  std::vector<T> out(static_cast<std::size_t>(tensor.size()));
  if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

// Takes the next `count` values; `whole` becomes false when there are fewer.
template <class T>
std::vector<T> taken(std::span<const T>& rest, std::int64_t count, bool& whole) {
  if (count < 0 || count > std::ssize(rest)) {
    whole = false;
    return {};
  }
  const auto values = rest.first(static_cast<std::size_t>(count));
  rest = rest.subspan(values.size());
  return {values.begin(), values.end()};
}

bool plausible(const Completion& c) {
  return c.prompt >= 0 && c.size() >= 0 && (c.old_logps.empty() || std::ssize(c.old_logps) == c.size());
}

std::int64_t first_step(const SafetensorsFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    std::int64_t step = -1;
    if (key == kFirstStep && std::from_chars(value.data(), value.data() + value.size(), step).ec == std::errc())
      return step;
  }
  return -1;
}

}  // namespace

std::string completions_file(const std::string& checkpoint) { return path_in(checkpoint, "completions.safetensors"); }

void write_completions(const std::string& path, const SampledSteps& sampled) {
  std::vector<std::int64_t> rows;
  std::vector<Token> tokens;
  std::vector<double> advantages, old_logps;
  for (std::size_t s = 0; s < sampled.steps.size(); ++s)
    for (const Completion& c : sampled.steps[s]) {
      rows.insert(rows.end(),
                  {static_cast<std::int64_t>(s), std::ssize(c.text), c.prompt, c.ended, std::ssize(c.old_logps)});
      tokens.insert(tokens.end(), c.text.begin(), c.text.end());
      advantages.push_back(c.advantage);
      old_logps.insert(old_logps.end(), c.old_logps.begin(), c.old_logps.end());
    }
  const std::int64_t count = std::ssize(advantages);
  SafetensorsWriter writer(path,
                           {{"completions", DType::i64, {count, static_cast<std::int64_t>(kColumns)}},
                            {"advantages", DType::f64, {count}},
                            {"old_logps", DType::f64, {std::ssize(old_logps)}},
                            {"tokens", DType::i32, {std::ssize(tokens)}}},
                           {{kFirstStep, std::to_string(sampled.first)}});
  for (const TensorInfo& info : writer.tensors()) {
    const void* data = info.name == "completions"  ? static_cast<const void*>(rows.data())
                       : info.name == "advantages" ? static_cast<const void*>(advantages.data())
                       : info.name == "old_logps"  ? static_cast<const void*>(old_logps.data())
                                                   : static_cast<const void*>(tokens.data());
    writer.append(data, info.bytes());
  }
  writer.commit();
}

SampledSteps read_completions(const std::string& path) {
  const SafetensorsFile file(path);
  const auto rows = values_of<std::int64_t>(file, "completions", DType::i64);
  const auto tokens = values_of<Token>(file, "tokens", DType::i32);
  const auto advantages = values_of<double>(file, "advantages", DType::f64),
             old_logps = values_of<double>(file, "old_logps", DType::f64);
  SampledSteps out{first_step(file), {}};
  bool whole = out.first >= 0 && rows.size() == advantages.size() * kColumns;
  std::span<const Token> text(tokens);
  std::span<const double> logps(old_logps);
  for (std::size_t i = 0; whole && i < advantages.size(); ++i) {
    const std::span<const std::int64_t> row = std::span(rows).subspan(i * kColumns, kColumns);
    if (row[kStep] == std::ssize(out.steps)) out.steps.emplace_back();
    Completion c{taken(text, row[kTokens], whole), static_cast<std::int32_t>(row[kPromptTokens]), row[kEnded] != 0,
                 advantages[i], taken(logps, row[kOldLogps], whole)};
    whole = whole && row[kStep] + 1 == std::ssize(out.steps) && plausible(c);
    if (whole) out.steps.back().push_back(std::move(c));
  }
  if (!whole || !text.empty() || !logps.empty()) throw UserError("{}: the completions are damaged", path);
  return out;
}

SampledSteps completions_in(const Json& state, const std::string& source) {
  SampledSteps out;
  try {
    for (const Json& list : state.at("steps")) {
      auto& step = out.steps.emplace_back();
      for (const Json& c : list)
        step.push_back({c.at(0).get<std::vector<Token>>(), c.at(1).get<std::int32_t>(), c.at(2).get<bool>(),
                        c.at(3).get<double>(), c.at(4).get<std::vector<double>>()});
    }
    out.first = state.at("sampled_at").get<std::int64_t>();
  } catch (const Json::exception& e) {
    throw UserError("{}: the completions of the step are damaged: {}", source, e.what());
  }
  for (const auto& step : out.steps)
    for (const Completion& c : step)
      if (!plausible(c)) throw UserError("{}: the completions of the step are damaged", source);
  return out;
}

}  // namespace dml
