#include "serve/openai_request.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/closest.h"
#include "core/error.h"
#include "core/sampling_limits.h"
#include "core/shown.h"
#include "core/text.h"
#include "serve/messages.h"

namespace dml {
namespace {

constexpr std::size_t kMaxStops = 16, kMaxPrompts = 2048, kMaxChoices = 1024;
constexpr std::size_t kMaxStopTokens = 256, kMaxBiases = 4096;  // every choice keeps a copy
constexpr std::int64_t kMaxTokens = SamplingLimits::kMaxNewTokens, kCompletionTokens = 16;

// Fields that clients send for other servers and that have no effect here.
const std::vector<std::string>& ignored() {
  static const std::vector<std::string> names{"user",
                                              "metadata",
                                              "store",
                                              "service_tier",
                                              "prediction",
                                              "safety_identifier",
                                              "prompt_cache_key",
                                              "prompt_cache_retention",
                                              "verbosity",
                                              "skip_special_tokens",
                                              "spaces_between_special_tokens",
                                              "cache_prompt"};
  return names;
}

Token token_of(Fields& f, const std::string& name, const Json& value, std::int64_t vocab) {
  if (!value.is_number_integer() || value < 0 || value >= vocab)
    f.wrong(name, fmt::format("holds {}, which is not a token id (0 to {})", shown(dump(value), 40), vocab - 1));
  return value.get<Token>();
}

std::uint64_t fresh_seed() {
  static std::atomic<std::uint64_t> count{
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
  return count.fetch_add(0x9E3779B97F4A7C15u);
}

// Whether the answer begins inside the reasoning: the template has opened it, or the message that is continued has.
bool begins_in_reasoning(const Segment& prompt, const AnswerFormat::ChatOptions& options, const Json& messages) {
  if (options.answer) return trim(prompt.text).ends_with("<think>");
  if (!options.continue_final_message) return false;
  const std::string text = content_text(messages.back());
  const std::string_view message = trim(text);
  return message.starts_with("<think>") && message.find("</think>") == message.npos;
}

}  // namespace

std::size_t RequestReader::model_of(Fields& f, std::string& name) const {
  const auto asked = f.text("model");
  name = asked.value_or(models_.list()[0].name);
  if (const auto found = models_.find(name)) return *found;
  std::vector<std::string> names;
  for (const ServedModel& m : models_.list()) names.push_back(m.name);
  throw ApiError{404, fmt::format("the model '{}' does not exist{}", shown(name, 100), did_you_mean(name, names)),
                 "model", "model_not_found"};
}

void RequestReader::check_prompt(std::size_t model, const std::vector<Token>& prompt, std::int64_t answer,
                                 const std::string& param) const {
  const std::int64_t context = models_.engine_options().context, size = std::ssize(prompt);
  if (size + std::min<std::int64_t>(answer, 1) > context)
    throw ApiError{400,
                   fmt::format("the prompt has {} tokens; the context is {} tokens{}", size, context,
                               answer > 0 && size == context ? ", which leaves no room for an answer" : ""),
                   param, "context_length_exceeded"};
  const std::int64_t vocabulary = models_.vocabulary(model);
  const auto unknown = std::ranges::find_if(prompt, [&](Token id) { return id >= vocabulary; });
  if (unknown == prompt.end()) return;
  std::string text =
      fmt::format("token '{}' has id {}, but the model {} has {} tokens", models_.format().tokenizer().piece(*unknown),
                  *unknown, models_.list()[model].name, vocabulary);
  for (std::size_t other = 0; other < models_.list().size(); ++other)
    if (models_.vocabulary(other) > *unknown) {
      text += fmt::format("; the model {} has it", models_.list()[other].name);
      break;
    }
  throw ApiError::invalid(param, text);
}

// Reads `prompt`: a string, or a list of strings, of ids, or of lists of ids.
std::vector<std::vector<Token>> RequestReader::token_lists(Fields& f, const std::string& name, std::size_t model,
                                                           std::vector<std::string>* texts) const {
  const Json* value = f.find(name);
  if (!value) f.wrong(name, "is missing");
  const std::int64_t vocab = models_.vocabulary(model);
  std::vector<std::vector<Token>> out;
  auto text = [&](const Json& item) {
    try {
      out.push_back(models_.format().text_ids(item.get<std::string>(), true));
    } catch (const UserError& e) {
      throw ApiError::invalid(f.path(name), e.what());
    }
    if (texts) texts->push_back(item.get<std::string>());
  };
  auto ids = [&](const Json& list) {
    std::vector<Token> tokens;
    for (const Json& id : list) tokens.push_back(token_of(f, name, id, vocab));
    if (tokens.empty()) f.wrong(name, "holds a prompt without tokens");
    if (texts) texts->push_back(models_.format().tokenizer().decode(tokens));
    out.push_back(std::move(tokens));
  };
  if (value->is_string()) {
    text(*value);
  } else if (value->is_array() && !value->empty() && (*value)[0].is_number()) {
    ids(*value);
  } else if (value->is_array() && !value->empty()) {
    if (value->size() > kMaxPrompts)
      f.wrong(name, fmt::format("has {} entries, may have {}", value->size(), kMaxPrompts));
    for (const Json& item : *value)
      if (item.is_string()) text(item);
      else if (item.is_array()) ids(item);
      else f.wrong(name, "must hold strings or lists of token ids");
  } else {
    f.wrong(name, "must be a string, a list of strings, or token ids");
  }
  return out;
}

void RequestReader::sampling(Fields& f, Asked& asked) const {
  SamplingOptions& s = asked.engine.sampling;
  s = models_.defaults().sampling;
  const bool warm = f.has("temperature");
  s.temperature = f.number("temperature", s.temperature, 0, 2);
  if (warm) s.greedy = s.temperature == 0;
  s.top_p = f.number("top_p", s.top_p, 0, 1);
  if (f.has("top_p") && s.top_p == 0) f.wrong("top_p", "must be above 0");
  s.top_k = f.integer("top_k", s.top_k, -1, SamplingLimits::kMaxTopK);
  if (s.top_k < 0) s.top_k = 0;
  s.min_p = f.number("min_p", s.min_p, 0, 1);
  for (const char* spelling : {"repetition_penalty", "repeat_penalty"}) {
    constexpr SamplingLimit kLimit = SamplingLimits::kRepetitionPenalty;
    s.repetition_penalty = f.number(spelling, s.repetition_penalty, kLimit.low, kLimit.high);
  }
  s.presence_penalty = f.number("presence_penalty", 0, -2, 2);
  s.frequency_penalty = f.number("frequency_penalty", 0, -2, 2);
  s.seed = f.has("seed") ? static_cast<std::uint64_t>(f.integer("seed", 0, std::numeric_limits<std::int64_t>::min(),
                                                                std::numeric_limits<std::int64_t>::max()))
                         : fresh_seed();
  const std::int64_t vocab = models_.vocabulary(asked.model);
  if (const Json* bias = f.find("logit_bias")) {
    if (!bias->is_object()) f.wrong("logit_bias", fmt::format("must be an object, is {}", bias->type_name()));
    if (bias->size() > kMaxBiases)
      f.wrong("logit_bias", fmt::format("has {} tokens, may have {}", bias->size(), kMaxBiases));
    for (auto& [id, value] : bias->items()) {
      Token token = -1;
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token);
      if (error != std::errc() || end != id.data() + id.size() || token < 0 || token >= vocab)
        f.wrong("logit_bias",
                fmt::format("has the key '{}', which is not a token id (0 to {})", shown(id, 40), vocab - 1));
      if (!value.is_number() || !(std::abs(value.get<double>()) <= 100))
        f.wrong("logit_bias", fmt::format("of token {} must be a number from -100 to 100", token));
      const auto x = value.get<float>();
      s.bias.push_back({token, x == -100 ? -std::numeric_limits<float>::infinity() : x});
    }
  }
  asked.n = static_cast<int>(f.integer("n", 1, 1, 128));
  asked.stops = f.texts("stop", kMaxStops);
  asked.include_stop = f.flag("include_stop_str_in_output", false);
  asked.engine.stop_tokens = models_.format().stop_tokens();
  if (const Json* ids = f.find("stop_token_ids")) {
    if (!ids->is_array()) f.wrong("stop_token_ids", "must be a list of token ids");
    if (ids->size() > kMaxStopTokens)
      f.wrong("stop_token_ids", fmt::format("has {} entries, may have {}", ids->size(), kMaxStopTokens));
    for (const Json& id : *ids) asked.engine.stop_tokens.push_back(token_of(f, "stop_token_ids", id, vocab));
  }
  asked.stream = f.flag("stream", false);
  if (const Json* how = f.find("stream_options")) {
    if (!asked.stream) f.wrong("stream_options", "requires stream: true");
    Fields options(*how, "stream_options.");
    asked.include_usage = options.flag("include_usage", false);
    options.flag("continuous_usage_stats", false);
    options.flag("include_obfuscation", false);
    options.refuse_others({});
  }
}

void RequestReader::finish(Asked& asked, std::int64_t tokens, const std::string& param) const {
  for (const auto& prompt : asked.prompts) check_prompt(asked.model, prompt, tokens, param);
  if (const std::size_t choices = asked.prompts.size() * static_cast<std::size_t>(asked.n); choices > kMaxChoices)
    throw ApiError::invalid("n", fmt::format("'n' is {} for each of {} prompts; a request may ask for {} answers",
                                             asked.n, asked.prompts.size(), kMaxChoices));
  asked.context = models_.engine_options().context;
  asked.engine.max_new_tokens = tokens;
  asked.engine.model = asked.model;
  asked.engine.sampling.top_logprobs = asked.top_logprobs;
}

Asked RequestReader::completion(const Json& body) const {
  Fields f(body);
  Asked asked;
  asked.continued = true;
  asked.model = model_of(f, asked.model_name);
  asked.prompts = token_lists(f, "prompt", asked.model, &asked.texts);
  sampling(f, asked);
  const std::int64_t tokens =
      f.integer("max_completion_tokens", f.integer("max_tokens", kCompletionTokens, 0, kMaxTokens), 0, kMaxTokens);
  asked.echo = f.flag("echo", false);
  if (f.has("logprobs")) {
    asked.logprobs = true;
    asked.top_logprobs = static_cast<int>(f.integer("logprobs", 0, 0, 20));
  }
  asked.engine.report_prompt = asked.echo && asked.logprobs;
  asked.engine.constraint = token_constraint(constraint(f), {}, asked);
  if (f.integer("best_of", asked.n, 1, kMaxChoices) != asked.n)
    f.wrong("best_of", "must equal n: all answers are returned");
  if (!f.text("suffix").value_or("").empty()) f.wrong("suffix", "is not supported");
  f.refuse_others(ignored());
  finish(asked, tokens, "prompt");
  return asked;
}

RequestReader::ChatPrompt RequestReader::chat_prompt(Fields& f) const {
  if (models_.format().chat_template().empty())
    throw ApiError::invalid("messages",
                            "this model has no chat template; use /v1/completions, or start dml serve with "
                            "--chat-template NAME (dml list chat_templates)");
  ChatPrompt out;
  out.row = {{"messages", read_messages(f, models_.format().chat_template())}};
  if (const Json* kwargs = f.find("chat_template_kwargs")) {
    if (!kwargs->is_object())
      f.wrong("chat_template_kwargs", fmt::format("must be an object, is {}", kwargs->type_name()));
    out.options.kwargs = *kwargs;
  }
  if (const auto effort = f.text("reasoning_effort")) {
    static const std::vector<std::string> kEfforts{"none", "minimal", "low", "medium", "high", "xhigh"};
    if (std::ranges::find(kEfforts, *effort) == kEfforts.end())
      f.wrong("reasoning_effort",
              fmt::format("is '{}', must be one of {}", shown(*effort, 40), fmt::join(kEfforts, ", ")));
    out.options.kwargs["reasoning_effort"] = *effort;
    if (!out.options.kwargs.contains("enable_thinking")) out.options.kwargs["enable_thinking"] = *effort != "none";
  }
  out.tools = read_tools(f, tool_style(models_.format().chat_template()));
  if (!out.tools.list.is_null()) out.row["tools"] = out.tools.list;
  out.options.continue_final_message = f.flag("continue_final_message", false);
  out.options.answer = f.flag("add_generation_prompt", !out.options.continue_final_message);
  if (out.options.continue_final_message && out.options.answer)
    f.wrong("continue_final_message", "and add_generation_prompt cannot both be true");
  if (out.options.continue_final_message && out.row["messages"].back()["role"] != "assistant")
    f.wrong("continue_final_message", "needs a last message of the assistant");
  return out;
}

Asked RequestReader::chat(const Json& body) const {
  Fields f(body);
  Asked asked;
  asked.chat = true;
  asked.model = model_of(f, asked.model_name);
  const ChatPrompt prompt = chat_prompt(f);
  asked.continued = prompt.options.continue_final_message;
  sampling(f, asked);
  const std::int64_t usual = models_.defaults().max_new_tokens > 0 ? models_.defaults().max_new_tokens : kMaxTokens;
  const std::int64_t tokens =
      f.integer("max_completion_tokens", f.integer("max_tokens", usual, 0, kMaxTokens), 0, kMaxTokens);
  asked.logprobs = f.flag("logprobs", false);
  asked.top_logprobs = static_cast<int>(f.integer("top_logprobs", 0, 0, 20));
  if (asked.top_logprobs > 0 && !asked.logprobs) f.wrong("top_logprobs", "requires logprobs: true");
  if (const Json* kinds = f.find("modalities"); kinds && *kinds != Json::array({"text"}))
    f.wrong("modalities", "must be [\"text\"]");
  AnswerConstraint answer = constraint(f);
  f.refuse_others(ignored());
  if (prompt.tools.required && answer.on_text()) answer = {};  // the reply has no text
  if (prompt.tools.required && answer.make)
    f.wrong("tool_choice", "cannot stand beside another constraint of the answer");
  asked.prompts = {chat_ids(prompt, answer, asked)};
  asked.engine.constraint = token_constraint(answer, prompt.tools, asked);
  finish(asked, tokens, "messages");
  return asked;
}

// Reads the prompt into tokens, and chooses the format of the reply.
std::vector<Token> RequestReader::chat_ids(const ChatPrompt& prompt, const AnswerConstraint& answer,
                                           Asked& asked) const {
  const AnswerFormat& format = models_.format();
  try {
    Rendered rendered = format.chat(prompt.row, prompt.options);
    Segment& last = rendered.segments.back();
    const std::string& source = format.chat_template();
    asked.reply.tools = prompt.tools.parse ? tool_style(source) : ToolStyle::none;
    asked.reply.reasoning = source.find("</think>") != source.npos;
    asked.reply.inside_reasoning =
        asked.reply.reasoning && begins_in_reasoning(last, prompt.options, prompt.row["messages"]);
    asked.one_call = prompt.tools.one;
    const auto tag = format.tokenizer().find("<tool_call>");
    asked.specials = asked.reply.tools == ToolStyle::mistral || asked.reply.tools == ToolStyle::llama ||
                     (asked.reply.tools == ToolStyle::hermes && tag && format.tokenizer().is_special(*tag));
    asked.reply.either = answer.on_text();
    if ((answer.make || prompt.tools.required) && asked.reply.inside_reasoning) {  // both follow it
      last.add_markup("\n</think>\n\n");
      asked.reply.reasoning = asked.reply.inside_reasoning = false;
    }
    if (prompt.tools.required) {
      if (!prompt.tools.opened.empty()) last.add_markup(prompt.tools.opened);
      asked.reply.reasoning = asked.reply.inside_reasoning = false;
      asked.reply.inside_call = true;
    }
    return format.ids_of(rendered);
  } catch (const UserError& e) {
    throw ApiError::invalid("messages", e.what());
  }
}

std::vector<Token> RequestReader::chat_tokens(Fields& f) const {
  Asked asked;
  return chat_ids(chat_prompt(f), {}, asked);
}

std::string RequestReader::apply_template(const Json& body) const {
  Fields f(body);
  std::string name;
  model_of(f, name);
  const ChatPrompt prompt = chat_prompt(f);
  f.refuse_others(ignored());
  try {
    return models_.format().chat(prompt.row, prompt.options).text();
  } catch (const UserError& e) {
    throw ApiError::invalid("messages", e.what());
  }
}

RequestReader::Embedding RequestReader::embedding(const Json& body) const {
  Fields f(body);
  Embedding out;
  out.model = model_of(f, out.model_name);
  out.inputs = token_lists(f, "input", out.model, nullptr);
  for (const auto& input : out.inputs) check_prompt(out.model, input, 0, "input");
  const std::string format = f.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") f.wrong("encoding_format", "must be float or base64");
  out.base64 = format == "base64";
  if (f.has("dimensions") && f.integer("dimensions", 0, 1, 1 << 20) != models_.spec().hidden)
    f.wrong("dimensions", fmt::format("must be {}, the width of this model", models_.spec().hidden));
  f.refuse_others({"user"});
  return out;
}

}  // namespace dml
