#include "pipeline/samples.h"

#include <algorithm>

#include "generate/generator.h"
#include "pipeline/infer.h"

namespace dml {
namespace {

std::size_t prompt_length(std::span<const Token> labels, double ratio) {
  auto first = static_cast<std::size_t>(std::ranges::find_if(labels, [](Token label) { return label != kIgnore; }) -
                                        labels.begin());
  if (first > 1) return first;  // a begin token alone is no prompt
  return std::max<std::size_t>(1, static_cast<std::size_t>(ratio * static_cast<double>(labels.size())));
}

}  // namespace

std::vector<Sample> generate_samples(CausalLm& model, const Tokenizer& tokenizer, const Examples& examples,
                                     const GenerationSection& section) {
  const auto count = std::min(section.num_generation_samples, examples.size());
  std::vector<std::vector<Token>> prompts;
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    auto ids = examples.ids(i);
    std::size_t cut = std::min(prompt_length(examples.labels(i), section.generation_prompt_ratio), ids.size());
    prompts.emplace_back(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
    samples.push_back({tokenizer.decode(ids.first(cut)), tokenizer.decode(ids.subspan(cut), true), ""});
  }
  GenerationOptions options = generation_defaults(section);
  options.stop_tokens = model.spec.eos;
  if (tokenizer.eos) options.stop_tokens.push_back(*tokenizer.eos);
  const std::int64_t length = model.length();
  auto results = Generator(model).run(prompts, options);
  model.set_length(length);  // ropes that depend on the length are training's again
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].text = tokenizer.decode(results[i].tokens, true);
  return samples;
}

}  // namespace dml
