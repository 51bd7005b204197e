#include "prompt/chat_formats.h"

#include "prompt/tool_formats.h"

namespace dml {
namespace {

/// Macro: a content as text, whether it is a string or a list of parts.
constexpr std::string_view kWords = R"J(
{%- macro words(content) -%}
  {{- content if content is string else content | selectattr('text', 'defined') | map(attribute='text') | join -}}
{%- endmacro -%}
)J";

/// Requires that user and assistant alternate after an optional system message; `rest` are the turns without it.
constexpr std::string_view kTurns = R"J(
{%- set has_system = messages[0].role == 'system' -%}
{%- set rest = messages[1:] if has_system else messages -%}
)J";
constexpr std::string_view kAlternate = R"J(
{%- macro check_turn(role, index) -%}
  {%- if (role == 'user') == (index % 2 == 1) -%}
    {{- raise_exception('user and assistant must take turns, the user first (turn ' ~ (index + 1) ~ ' is ' ~ role ~ ')') -}}
  {%- endif -%}
{%- endmacro -%}
)J";

constexpr std::string_view kChatml = R"J(
{%- for m in messages -%}
  {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
)J";

constexpr std::string_view kLlama3 = R"J(
{%- for m in messages -%}
  {{- bos_token if loop.first -}}
  {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + words(m.content) | trim + '<|eot_id|>' -}}
{%- endfor -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' if add_generation_prompt -}}
)J";

constexpr std::string_view kLlama2 = R"J(
{%- set preface = '<<SYS>>\n' + messages[0].content | trim + '\n<</SYS>>\n\n' if has_system else '' -%}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {%- set said = (preface if loop.first else '') + m.content -%}
  {%- if m.role == 'user' -%}
    {{- bos_token + '[INST] ' + said | trim + ' [/INST]' -}}
  {%- elif m.role == 'assistant' -%}
    {{- ' ' + said | trim + ' ' + eos_token -}}
  {%- endif -%}
{%- endfor -%}
)J";

constexpr std::string_view kMistralV1 = R"J(
{{- bos_token -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {%- if m.role == 'user' -%}
    {{- ' [INST] ' + (words(messages[0].content) + '\n\n' if loop.first and has_system else '') + words(m.content) + ' [/INST]' -}}
  {%- elif m.role == 'assistant' -%}
    {{- ' ' + words(m.content) + eos_token -}}
  {%- else -%}
    {{- raise_exception('mistral_v1 knows the roles system, user and assistant, not ' ~ m.role) -}}
  {%- endif -%}
{%- endfor -%}
)J";

constexpr std::string_view kGemma = R"J(
{%- if has_system -%}
  {{- raise_exception('System role not supported') -}}
{%- endif -%}
{{- bos_token -}}
{%- for m in messages -%}
  {{- check_turn(m.role, loop.index0) -}}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}
  {%- for part in ([m.content] if m.content is string else m.content | selectattr('text', 'defined') | map(attribute='text')) -%}
    {{- part | trim -}}
  {%- endfor -%}
  {{- '<end_of_turn>\n' -}}
{%- endfor -%}
{{- '<start_of_turn>model\n' if add_generation_prompt -}}
)J";

constexpr std::string_view kGemma3 = R"J(
{{- bos_token -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}
  {{- words(messages[0].content) + '\n\n' if loop.first and has_system -}}
  {%- if m.content is string -%}
    {{- m.content | trim -}}
  {%- else -%}
    {%- for part in m.content -%}
      {{- '<start_of_image>' if part.type == 'image' else part.text | trim if part.type == 'text' -}}
    {%- endfor -%}
  {%- endif -%}
  {{- '<end_of_turn>\n' -}}
{%- endfor -%}
{{- '<start_of_turn>model\n' if add_generation_prompt -}}
)J";

constexpr std::string_view kPhi3 = R"J(
{{- bos_token -}}
{%- for m in messages -%}
  {%- if m.role in ['system', 'user'] -%}
    {{- '<|' + m.role + '|>\n' + m.content + '<|end|>\n' -}}
    {{- '<|assistant|>\n' if m.role == 'user' -}}
  {%- elif m.role == 'assistant' -%}
    {{- m.content + '<|end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
)J";

constexpr std::string_view kPhi35 = R"J(
{%- for m in messages -%}
  {%- if m.role in ['user', 'assistant'] or (m.role == 'system' and m.content) -%}
    {{- '<|' + m.role + '|>\n' + m.content + '<|end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}}
)J";

/// The system text is that of Phi-4-reasoning's training.
constexpr std::string_view kPhi4 = R"J(
{%- set preface = 'You are Phi, a language model trained by Microsoft to help users. Your role as an assistant involves thoroughly exploring questions through a systematic thinking process before providing the final precise and accurate solutions. This requires engaging in a comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, backtracing, and iteration to develop well-considered thinking process. Please structure your response into two main sections: Thought and Solution using the specified format: <think> {Thought section} </think> {Solution section}. In the Thought section, detail your reasoning process in steps. Each step should include detailed considerations such as analysing questions, summarizing relevant findings, brainstorming new ideas, verifying the accuracy of the current steps, refining any errors, and revisiting previous steps. In the Solution section, based on various attempts, explorations, and reflections from the Thought section, systematically present the final solution that you deem correct. The Solution section should be logical, accurate, and concise and detail necessary steps needed to reach the conclusion. Now, try to solve the following question through the above guidelines:' -%}
{%- set has_system = messages and messages[0].role == 'system' -%}
{{- '<|im_start|>system<|im_sep|>' + (messages[0].content if has_system else preface) + '<|im_end|>' -}}
{%- for m in (messages[1:] if has_system else messages) -%}
  {%- if m.role in ['user', 'assistant'] -%}
    {{- '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|im_start|>assistant<|im_sep|>' if add_generation_prompt -}}
)J";

constexpr std::string_view kDeepseekV2 = R"J(
{{- bos_token -}}
{%- for m in messages -%}
  {%- if m.role == 'user' -%}
    {{- '<｜User｜>' + m.content -}}
  {%- elif m.role == 'assistant' -%}
    {{- '<｜Assistant｜>' + m.content + eos_token -}}
  {%- elif m.role == 'system' -%}
    {{- m.content + '\n\n' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<｜Assistant｜>' if add_generation_prompt -}}
)J";

constexpr std::string_view kAlpaca = R"J(
{{- bos_token -}}
{%- for m in messages -%}
  {%- if m.role == 'system' and loop.first -%}
    {{- m.content -}}
  {%- elif m.role == 'user' -%}
    {{- '### Instruction:\n' + m.content -}}
  {%- elif m.role == 'assistant' -%}
    {{- '### Response:\n' + m.content + eos_token -}}
  {%- endif -%}
  {{- '' if loop.last else '\n\n' -}}
{%- endfor -%}
{{- '\n\n### Response:\n' if add_generation_prompt -}}
)J";

constexpr std::string_view kMetharme = R"J(
{%- set role_play = 'Enter RP mode. You shall reply to the user while staying in character. Your responses must be detailed, creative, immersive, and drive the scenario forward.' -%}
{{- bos_token + '<|system|>' + (messages[0].content if has_system else role_play) -}}
{%- for m in rest -%}
  {%- if m.role in ['user', 'assistant'] -%}
    {{- ('<|user|>' if m.role == 'user' else '<|model|>') + m.content.strip() -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|model|>' if add_generation_prompt else eos_token -}}
)J";

constexpr std::string_view kCohere = R"J(
{{- bos_token -}}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + messages[0].content + '<|END_OF_TURN_TOKEN|>' if has_system -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {%- if m.role in ['user', 'assistant'] -%}
    {{- '<|START_OF_TURN_TOKEN|>' + ('<|USER_TOKEN|>' if m.role == 'user' else '<|CHATBOT_TOKEN|>') + m.content.strip() + '<|END_OF_TURN_TOKEN|>' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' if add_generation_prompt -}}
)J";

constexpr std::string_view kExaone = R"J(
{%- for m in messages -%}
  {{- '[|system|][|endofturn|]\n' if loop.first and m.role != 'system' -}}
  {{- '[|' + m.role + '|]' + m.content + ('\n' if m.role == 'user' else '[|endofturn|]\n') -}}
{%- endfor -%}
{{- '[|assistant|]' if add_generation_prompt -}}
)J";

constexpr std::string_view kFalcon = R"J(
{{- messages[0].content | trim if has_system -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {{- '\n\n' + m.role | capitalize + ': ' + m.content.replace('\r\n', '\n').replace('\n\n', '\n') | trim -}}
{%- endfor -%}
{{- '\n\nAssistant:' if add_generation_prompt -}}
)J";

constexpr std::string_view kOpenchat = R"J(
{{- bos_token + (messages[0].content | trim + '<|end_of_turn|>' if has_system else '') -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {{- 'GPT4 Correct ' + m.role | capitalize + ': ' + m.content + '<|end_of_turn|>' -}}
{%- endfor -%}
{{- 'GPT4 Correct Assistant:' if add_generation_prompt -}}
)J";

constexpr std::string_view kVicuna = R"J(
{{- bos_token + (messages[0].content | trim + '\n\n' if has_system else '') -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {%- if m.role == 'user' -%}
    {{- 'USER: ' + m.content | trim + '\n' -}}
  {%- elif m.role == 'assistant' -%}
    {{- 'ASSISTANT: ' + m.content | trim + eos_token + '\n' -}}
  {%- endif -%}
{%- endfor -%}
{{- 'ASSISTANT:' if add_generation_prompt -}}
)J";

constexpr std::string_view kZephyr = R"J(
{%- for m in messages -%}
  {{- check_turn(m.role, loop.index0 - (1 if has_system else 0)) if m.role != 'system' or not loop.first -}}
  {{- '<|' + m.role + '|>\n' + m.content | trim + eos_token + '\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt -}}
)J";

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (auto p : parts) {
    while (p.starts_with('\n')) p.remove_prefix(1);
    out += p;
  }
  return out;
}

std::string mistral(std::string_view blank) {
  std::string out;
  for (char c : kMistralTools) c == '@' ? void(out += blank) : void(out += c);
  return joined({kWords, kTurns, kAlternate, out});
}

}  // namespace

const std::vector<ChatFormat>& chat_formats() {
  static const std::vector<ChatFormat> formats = {
      {"chatml", "ChatML, used by many models: <|im_start|>role, content, <|im_end|>", joined({kChatml}), "<|im_end|>"},
      {"llama3", "Llama 3", joined({kWords, kLlama3}), "<|eot_id|>"},
      {"llama4", "Llama 4, with tools", joined({kWords, kLlamaTools, kLlama4}), "<|eot|>"},
      {"llama3_2_vision", "Llama 3.2 with vision: its text form, with tools and today's date",
       joined({kWords, kTurns, kLlamaTools, kLlamaVision}), "<|eot_id|>"},
      {"llama2", "Llama 2 chat: [INST], <<SYS>>", joined({kTurns, kAlternate, kLlama2}), ""},
      {"mistral_v1", "Mistral 7B v0.1, Mixtral", joined({kWords, kTurns, kAlternate, kMistralV1}), ""},
      {"mistral_v2v3", "Mistral 7B v0.2 and v0.3, with tools", mistral(" "), ""},
      {"mistral_v3_tekken", "Mistral Nemo and later, with tools", mistral(""), ""},
      {"mistral_v7_tekken", "Mistral Small 3; without a system message it names today's date",
       joined({kWords, kTurns, kMistralV7}), ""},
      {"pixtral", "Pixtral: its text form", joined({kWords, kTurns, kAlternate, kPixtral}), ""},
      {"gemma", "Gemma and Gemma 2, without a system role", joined({kTurns, kAlternate, kGemma}), "<end_of_turn>"},
      {"gemma3", "Gemma 3: system text in the first user message", joined({kWords, kTurns, kAlternate, kGemma3}),
       "<end_of_turn>"},
      {"gemma3n", "Gemma 3n: as Gemma 3", joined({kWords, kTurns, kAlternate, kGemma3}), "<end_of_turn>"},
      {"gemma4", "Gemma 4, with tools and reasoning", joined({kWords, kGemma4Tools, kGemma4Fields, kGemma4}),
       "<turn|>"},
      {"gemma4_unified", "Gemma 4 (unified), with tools and reasoning; tool responses are part of the model's turn",
       joined({kWords, kGemma4Tools, kGemma4UnifiedFields, kGemma4Unified}), "<turn|>"},
      {"phi_3", "Phi-3", joined({kPhi3}), "<|end|>"},
      {"phi_35", "Phi-3.5", joined({kPhi35}), "<|end|>"},
      {"phi_4", "Phi-4-reasoning", joined({kPhi4}), "<|im_end|>"},
      {"qwen_25", "Qwen 2.5, with tools", joined({kWords, kQwenTools, kQwen25}), "<|im_end|>"},
      {"qwen2_vl", "Qwen2-VL: its text form", joined({kWords, kQwenVision}), "<|im_end|>"},
      {"qwen3", "Qwen 3, with tools and reasoning", joined({kWords, kQwenTools, kQwen3}), "<|im_end|>"},
      {"qwen3_5", "Qwen 3.5: as Qwen 3", joined({kWords, kQwenTools, kQwen3}), "<|im_end|>"},
      {"deepseek_v2", "DeepSeek V2", joined({kDeepseekV2}), ""},
      {"deepseek_v3", "DeepSeek V3, with tools", joined({kDeepseekV3}), ""},
      {"alpaca", "Alpaca: ### Instruction: and ### Response:", joined({kAlpaca}), ""},
      {"metharme", "Pygmalion's <|system|>, <|user|>, <|model|>", joined({kTurns, kMetharme}), ""},
      {"cohere", "Command R", joined({kTurns, kAlternate, kCohere}), "<|END_OF_TURN_TOKEN|>"},
      {"aya", "Aya: as Command R", joined({kTurns, kAlternate, kCohere}), "<|END_OF_TURN_TOKEN|>"},
      {"command_a", "Command A, with its preamble, without tools", joined({kWords, kCommandAWords, kCommandA}),
       "<|END_OF_TURN_TOKEN|>"},
      {"command_a_tool_use", "Command A with tools, and documents", joined({kWords, kCommandAWords, kCommandATools}),
       "<|END_OF_TURN_TOKEN|>"},
      {"command_a_rag", "Command A with documents (chat_template_kwargs)",
       joined({"{%- set tools = [] -%}\n", kWords, kCommandAWords, kCommandATools}), "<|END_OF_TURN_TOKEN|>"},
      {"granite", "Granite 3.2 and later, with tools, documents and thinking",
       joined({kTurns, kGraniteWords, kGranite}), "<|end_of_text|>"},
      {"granitemoe", "Granite 3 with experts, with tools and documents", joined({kTurns, kGraniteWords, kGraniteMoe}),
       "<|end_of_text|>"},
      {"exaone", "EXAONE 3", joined({kExaone}), "[|endofturn|]"},
      {"exaone4", "EXAONE 4, with tools and reasoning", joined({kExaone4}), "[|endofturn|]"},
      {"jamba", "Jamba 1.5, with tools", joined({kJamba}), "<|eom|>"},
      {"nemotron_h", "Nemotron H: ChatML with strict roles", joined({kNemotronH}), "<|im_end|>"},
      {"nemotron", "Nemotron: as Nemotron H", joined({kNemotronH}), "<|im_end|>"},
      {"falcon_h1", "Falcon H1, with tools", joined({kFalconH1}), "<|im_end|>"},
      {"falcon", "Falcon instruct: User: and Assistant:", joined({kTurns, kAlternate, kFalcon}), ""},
      {"openchat", "OpenChat 3.5", joined({kTurns, kAlternate, kOpenchat}), "<|end_of_turn|>"},
      {"vicuna", "USER: and ASSISTANT:", joined({kTurns, kAlternate, kVicuna}), ""},
      {"llava", "LLaVA: its text form, USER: and ASSISTANT:", joined({kWords, kLlava}), ""},
      {"zephyr", "<|role|>, content, EOS", joined({kTurns, kAlternate, kZephyr}), ""},
  };
  return formats;
}

std::vector<std::string> chat_format_names() {
  std::vector<std::string> names;
  for (const ChatFormat& f : chat_formats()) names.push_back(f.name);
  return names;
}

const ChatFormat* find_chat_format(std::string_view name) {
  for (auto& f : chat_formats())
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace dml
