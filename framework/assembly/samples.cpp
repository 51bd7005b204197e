#include "assembly/samples.h"

#include <algorithm>

#include "assembly/answering_model.h"
#include "assembly/companions.h"
#include "core/utf8.h"
#include "generate/generator.h"

namespace dml {
namespace {

std::size_t prompt_length(std::span<const Token> labels, double ratio) {
  auto first = static_cast<std::size_t>(std::ranges::find_if(labels, [](Token label) { return label != kIgnore; }) -
                                        labels.begin());
  if (first > 1) return first;  // a begin token alone is no prompt
  return std::max<std::size_t>(1, static_cast<std::size_t>(ratio * static_cast<double>(labels.size())));
}

// The tokens of example i that are given to the model: they leave room for an answer.
std::span<const Token> prompt_of(const ModelSpec& spec, const Examples& examples, std::int64_t i,
                                 const GenerationSection& section) {
  auto ids = examples.first_document(i);
  const auto longest = static_cast<std::size_t>(std::max<std::int64_t>(1, spec.max_positions - 1));
  return ids.first(std::min({prompt_length(examples.labels(i), section.generation_prompt_ratio), ids.size(), longest}));
}

std::vector<std::vector<Token>> prompts_of(const ModelSpec& spec, const Examples& examples,
                                           const GenerationSection& section) {
  std::vector<std::vector<Token>> prompts;
  for (std::int64_t i = 0; i < std::min(section.num_generation_samples, examples.size()); ++i) {
    const auto prompt = prompt_of(spec, examples, i, section);
    prompts.emplace_back(prompt.begin(), prompt.end());
  }
  return prompts;
}

GenerationOptions options_of(const ModelSpec& spec, const GenerationSection& section) {
  GenerationOptions options = generation_defaults(section);
  options.context = spec.max_positions;
  return options;
}

// The first or last `count` characters on one line, with … where something is missing.
std::string shortened(std::string text, std::size_t count, bool from_end) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  if (starts.size() <= count) return escape_controls(text);
  return escape_controls(from_end ? "…" + text.substr(starts[starts.size() - count + 1])
                                  : text.substr(0, starts[count - 1]) + "…");
}

}  // namespace

std::vector<SampleMetrics> SampleTexts::generate(CausalLm& model, std::int64_t step) const {
  const std::vector<std::vector<Token>> prompts = prompts_of(model.spec, examples_, section_);
  GenerationOptions options = options_of(model.spec, section_);
  options.stop_tokens = stop_tokens(templates_, tokenizer_, model.spec.eos);
  const KeepLength length(model);
  const auto results = Generator(model).run(prompts, options);
  std::vector<SampleMetrics> samples;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto rest = examples_.first_document(static_cast<std::int64_t>(i)).subspan(prompts[i].size());
    samples.push_back({step, tokenizer_.decode(prompts[i]), tokenizer_.decode(rest, true),
                       tokenizer_.decode(results[i].tokens, true)});
  }
  return samples;
}

void SampleTexts::evaluate(const EvaluationContext& context, EvaluationResult& result) {
  {
    const GatheredValues gathered(context.strategy);
    if (context.comm.rank() == 0)
      for (SampleMetrics& s : generate(context.model, context.step)) result.samples.push_back(std::move(s));
  }
  context.comm.barrier();
}

Evaluator::Memory SampleTexts::memory(CausalLm& model, Objective& /*objective*/, int rank) {
  if (rank != 0) return {};
  const KeepLength length(model);
  return Generator(model).measure(prompts_of(model.spec, examples_, section_), options_of(model.spec, section_));
}

std::string sample_line(const SampleMetrics& sample) {
  constexpr std::size_t kPrompt = 40, kAnswer = 70;
  return fmt::format("  {} → {}", shortened(sample.prompt, kPrompt, true), shortened(sample.text, kAnswer, false));
}

}  // namespace dml
