// dml infer: answers one prompt, a conversation, or a file of rows.
#include <cmath>

#include "assembly/adapter_argument.h"
#include "cli/answering_options.h"
#include "cli/chat.h"
#include "cli/constraint_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/sampling_limits.h"
#include "pipeline/best_of.h"
#include "pipeline/infer.h"
#include "serve/batch.h"

namespace dml {
namespace {

constexpr std::int64_t kUsualBestOf = 8;

struct Infer {
  AnsweringOptions model;
  std::optional<std::string> prompt, input, output, stop, reward;
  std::optional<std::int64_t> max_new_tokens, top_k, seed, num_beams, best_of;
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty,
      length_penalty;
  std::vector<std::string> adapters;
  ConstraintOptions constraint;
  bool chat = false, greedy = false, raw = false, logprobs = false, resume = false;
  Options options{
      "infer",
      "infer (RECIPE | --base-model DIR) [--adapter DIR] (--prompt TEXT | --input FILE --output FILE | --chat) …",
      {"dml infer recipe.yml --prompt 'What is a cat?'",
       "dml infer recipe.yml --adapter none --prompt 'What is a cat?'   the base model without the adapter",
       "dml infer recipe.yml --chat", "dml infer recipe.yml --input rows.jsonl --output answers.jsonl",
       "dml infer --base-model DIR --adapter outputs/lora --chat    without the recipe",
       "dml infer --base-model DIR --raw --greedy --prompt 'Once upon a time'",
       "dml infer recipe.yml --reward outputs/judge --best-of 8 --prompt 'What is a cat?'   the best of eight answers",
       "dml infer recipe.yml --schema person.json --prompt 'Who wrote Emma?'   the answer is JSON of this schema"}};
  Infer() {
    options.about(
        "Generates text with the model that the recipe trained, or with any model directory: one answer, a "
        "conversation in the terminal, or an answer to every row of a file. Prompts go through the chat template or "
        "prompt format of training unless --raw is given. Answers go to standard output as they are generated.");
    model.add_model_to(options);
    options.texts("adapter", adapters,
                  "an adapter directory, DIR or DIR=WEIGHT; several are added up; none: the base model alone",
                  "DIR|none");
    options.text("prompt", prompt, "answer one prompt");
    options.text("input", input,
                 "answer the rows of a file: {\"prompt\": …}, {\"messages\": …}, rows of the dataset's format, or "
                 "requests in OpenAI's batch format",
                 "FILE");
    options.text("output", output, "the file for the rows of --input, each with \"output\" added", "FILE");
    options.flag("resume", resume,
                 "continue FILE.partial, which an interrupted run with the same options has left, or a complete FILE");
    options.flag("chat", chat, "have a conversation in the terminal; /help lists its commands");
    options.integer(
        "max-new-tokens", max_new_tokens,
        fmt::format("the longest answer in tokens ({}); prompt and answer never exceed the context", kUsualNewTokens));
    options.number("temperature", temperature,
                   fmt::format("sampling temperature ({:g}); 0 is greedy", kUsualTemperature));
    options.integer("top-k", top_k, "sample from the k most likely tokens");
    options.number("top-p", top_p, "sample from the most likely tokens whose probabilities add up to this");
    options.number("min-p", min_p, "drop tokens less likely than this fraction of the most likely one");
    options.number("repetition-penalty", repetition_penalty,
                   "above 1: tokens that already occurred become less likely");
    options.number("presence-penalty", presence_penalty,
                   "subtracted from the logits of tokens that the answer already has");
    options.number("frequency-penalty", frequency_penalty, "the same, times the number of occurrences");
    options.text("stop", stop, "strings that end the answer, separated by commas; '\\,' is a comma, '\\n' a newline");
    constraint.add_to(options);
    options.flag("logprobs", logprobs, "print JSON with each token and its log-probability");
    options.integer("seed", seed, "seed of the sampler (0)");
    options.flag("greedy", greedy, "always take the most likely token");
    options.text("reward", reward, "a reward model: answer with the best of --best-of", "DIR");
    options.integer("best-of", best_of,
                    fmt::format("number of answers to sample, from which --reward chooses ({})", kUsualBestOf));
    options.integer("num-beams", num_beams, "number of beams; above 1: beam search (1)");
    options.number("length-penalty", length_penalty, "beam search: scores are divided by length to this power (1)");
    model.add_precision_to(options);
    options.flag("raw", raw, "use the prompt without a template");
    model.add_threads_to(options);
  }
};

// Splits "a,b\\,c" into "a" and "b,c".
std::vector<std::string> parse_stops(const std::string& text) {
  std::vector<std::string> out{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      out.emplace_back();
    } else if (text[i] == '\\' && i + 1 < text.size() &&
               (text[i + 1] == ',' || text[i + 1] == 'n' || text[i + 1] == '\\')) {
      ++i;
      out.back() += text[i] == 'n' ? '\n' : text[i];
    } else {
      out.back() += text[i];
    }
  }
  for (auto& stop : out)
    if (stop.empty()) throw UserError("--stop: a text in '{}' is empty", text);
  return out;
}

void choose_beams(const Infer& in, GenerationOptions& options) {
  constexpr std::int64_t kMaxBeams = 64;
  options.beams = in.num_beams.value_or(1);
  if (options.beams < 1 || options.beams > kMaxBeams)
    throw UserError("--num-beams: {} is not between 1 and {}", options.beams, kMaxBeams);
  if (in.length_penalty && options.beams == 1) throw UserError("--length-penalty requires --num-beams");
  options.length_penalty = in.length_penalty.value_or(1);
  if (!(std::abs(options.length_penalty) <= 100))
    throw UserError("--length-penalty: {} is not between -100 and 100", options.length_penalty);
  if (options.beams > 1 && (in.temperature || in.top_k || in.top_p || in.min_p || in.repetition_penalty ||
                            in.presence_penalty || in.frequency_penalty))
    throw UserError(
        "--num-beams: beam search takes the likeliest texts; temperature, top-k, top-p, min-p and penalties do not go "
        "with it");
}

// Answers a file in OpenAI's batch format, whose requests have their own sampling settings.
void answer_requests(const Infer& in, const Recipe* recipe, const GenerationOptions& generation) {
  if (in.max_new_tokens || in.top_k || in.seed || in.num_beams || in.temperature || in.top_p || in.min_p ||
      in.repetition_penalty || in.presence_penalty || in.frequency_penalty || in.length_penalty || in.stop ||
      in.greedy || in.raw || in.logprobs || in.reward || in.best_of || in.constraint.any())
    throw UserError(
        "--input: {} holds requests in OpenAI's batch format, whose bodies say how to answer (temperature, max_tokens, "
        "response_format …); leave out these options",
        *in.input);
  if (in.adapters.size() > 1)
    throw UserError(
        "--adapter: requests of a batch choose among several adapters by `model`: dml serve --input FILE --adapter "
        "NAME=DIR …");
  ServedOptions served;
  served.base_model = in.model.base_model, served.cache = generation.cache;
  served.own_result = in.adapters.empty(), served.adapters_first = true;
  if (!in.adapters.empty() && in.adapters[0] != "none") served.adapters = in.adapters;
  for (const std::string& adapter : served.adapters)
    if (const AdapterArgument a(adapter); a.given_weight && file_exists(a.directory))
      throw UserError("--adapter: '{}': weights of adapters are not supported with a batch file", adapter);
  const ServedModels models(recipe, served);
  const BatchCount count = answer_batch(models, *in.input, *in.output, in.resume);
  log_info("{}: {}", *in.output, count.text());
}

// Checks --reward and --best-of, which require sampling; returns the number of answers.
std::int64_t answers_to_choose_from(const Infer& in, const GenerationOptions& generation) {
  constexpr std::int64_t kMax = 1024;
  if (!in.reward && in.best_of) throw UserError("--best-of needs --reward DIR, a reward model that chooses");
  if (!in.reward) return 0;
  const std::int64_t count = in.best_of.value_or(kUsualBestOf);
  if (count < 2 || count > kMax) throw UserError("--best-of: {} is not between 2 and {}", count, kMax);
  if (in.chat) throw UserError("--reward requires --prompt or --input");
  if (generation.sampling.greedy || generation.sampling.temperature == 0 || generation.beams > 1)
    throw UserError("--reward needs answers that differ: leave out --greedy, --num-beams and a temperature of 0");
  return count;
}

bool emit(const std::string& text) {
  print(text);
  return true;
}

void answer_prompt(Assistant& assistant, const std::string& prompt, bool logprobs, BestOf* best) {
  const Json row{{"prompt", prompt}};
  const std::vector<Token> ids = assistant.prompt_ids(row);
  if (!best && !logprobs) {
    assistant.answer(ids, emit);
    print("\n");
    return;
  }
  const Answer answer = best ? best->answers({&row, 1}, {&ids, 1})[0] : assistant.answer(ids);
  if (!logprobs) {
    print(answer.text + "\n");
    log_info("Reward: {:.4f}", answer.reward.value_or(0));
    return;
  }
  Json out{{"output", answer.text}, {"logprobs", assistant.logprobs(answer)}};
  if (answer.reward) out["reward"] = *answer.reward;
  print(dump(out) + "\n");
}

void check_words(const Infer& in) {
  in.model.check("infer");
  if (in.prompt.has_value() + in.input.has_value() + in.chat != 1)
    throw UserError("infer needs exactly one of --prompt, --input, --chat");
  if (in.input && !in.output) throw UserError("--input needs --output FILE");
  if (in.output && !in.input) throw UserError("--output is for the answers to --input FILE");
  if (in.resume && !in.input) throw UserError("--resume requires --input");
  if (in.greedy && (in.temperature.value_or(0) != 0 || in.top_k || in.top_p || in.min_p))
    throw UserError(
        "--greedy takes the most likely token: leave out --temperature, --top-k, --top-p and --min-p, which are for "
        "sampling");
}

// Command-line settings override the recipe's and the model's defaults.
void choose_sampling(const Infer& in, SamplingOptions& s) {
  using Limits = SamplingLimits;
  const auto checked = [](const char* name, double x, SamplingLimit limit) {
    if (!limit.contains(x)) throw UserError("--{}: {} is not between {} and {}", name, x, limit.low, limit.high);
    return x;
  };
  const bool samples = in.temperature || in.top_k || in.top_p || in.min_p;  // asks for sampling
  s.greedy = in.greedy || (s.greedy && !samples);
  s.temperature = checked("temperature", in.temperature.value_or(s.temperature), Limits::kTemperature);
  s.top_k = within("top-k", in.top_k.value_or(s.top_k), 0, Limits::kMaxTopK);
  s.top_p = checked("top-p", in.top_p.value_or(s.top_p), Limits::kTopP);
  s.min_p = checked("min-p", in.min_p.value_or(s.min_p), Limits::kMinP);
  s.repetition_penalty =
      checked("repetition-penalty", in.repetition_penalty.value_or(s.repetition_penalty), Limits::kRepetitionPenalty);
  s.presence_penalty = checked("presence-penalty", in.presence_penalty.value_or(0), Limits::kPenalty);
  s.frequency_penalty = checked("frequency-penalty", in.frequency_penalty.value_or(0), Limits::kPenalty);
  if (in.seed && (*in.seed < 0 || *in.seed == INT64_MAX))  // the largest one stands for all beyond it
    throw UserError("--seed: must be a whole number from 0 to {}", INT64_MAX - 1);
  s.seed = static_cast<std::uint64_t>(in.seed.value_or(0));
}

InferOptions infer_options(const Infer& in, const Recipe* recipe) {
  InferOptions options;
  options.base_model = in.model.base_model;
  options.adapters = in.adapters;
  options.raw = in.raw;
  options.generation = generation_defaults(recipe, answering_model(recipe, in.model.base_model, in.adapters));
  options.long_answers = in.max_new_tokens.has_value();
  options.generation.max_new_tokens =
      within("max-new-tokens", in.max_new_tokens.value_or(options.generation.max_new_tokens), 1,
             SamplingLimits::kMaxNewTokens);
  choose_sampling(in, options.generation.sampling);
  choose_beams(in, options.generation);
  options.generation.cache = in.model.cache();
  options.constraint = in.constraint.automaton(JsonSpace::one);
  if (options.constraint && options.constraint->start() == Automaton::kDead)
    throw UserError("the constraint allows no text at all");
  if (options.constraint && options.generation.beams > 1)
    throw UserError("--num-beams: beam search does not support --schema, --regex, --grammar or --choice");
  if (in.stop) options.stops = parse_stops(*in.stop);
  if (in.logprobs && in.chat) throw UserError("--logprobs requires --prompt or --input");
  return options;
}

int run_infer(const std::vector<std::string>& words) {
  Infer in;
  in.options.parse(words);
  check_words(in);
  const std::optional<RecipeFile> file = in.model.start();
  const Recipe* recipe = file ? &file->recipe : nullptr;
  const InferOptions options = infer_options(in, recipe);
  in.model.set_precision();
  if (in.input)
    require_free_rows(*in.output, {*in.input, in.constraint.schema.value_or(""), in.constraint.grammar.value_or("")},
                      file ? &*file : nullptr);
  if (in.input && is_batch_file(*in.input)) {
    answer_requests(in, recipe, options.generation);
    return 0;
  }
  const std::int64_t choices = answers_to_choose_from(in, options.generation);
  Assistant assistant(recipe, options);
  std::optional<RewardModel> judge;
  std::optional<BestOf> best;
  const std::string cache = (recipe ? recipe->adapter : AdapterSection()).quantized_cache_path;
  if (choices > 0) best.emplace(assistant, judge.emplace(*in.reward, cache), choices);
  BestOf* const chooser = best ? &*best : nullptr;
  if (in.prompt) {
    answer_prompt(assistant, *in.prompt, in.logprobs, chooser);
  } else if (in.input) {
    make_parent_directories(*in.output);
    answer_file(assistant, {*in.input, *in.output, in.resume, in.logprobs, chooser});
  } else {
    assistant.keep_cache();
    chat(assistant);
  }
  log_info("{}", assistant.speed().text());
  return 0;
}

}  // namespace

Command infer_command() {
  return {"infer", "generates text with the trained model or the base", [] { return Infer().options.page(); },
          run_infer};
}

}  // namespace dml
