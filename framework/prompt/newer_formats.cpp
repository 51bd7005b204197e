// Text forms of the chat templates of models from 2025 on: images, audio and documents are omitted.
#include "prompt/tool_formats.h"

namespace dml {

const std::string_view kMistralV7 = R"J(
{%- set preface = "You are Mistral Small 3, a Large Language Model (LLM) created by Mistral AI, a French startup headquartered in Paris.\nYour knowledge base was last updated on 2023-10-01. The current date is " + strftime_now("%Y-%m-%d") + ".\n\nWhen you're not sure about some information, you say that you don't have the information and don't make up anything.\nIf the user's question is not clear, ambiguous, or does not provide enough context for you to accurately answer the question, you do not try to answer it right away and you rather ask the user to clarify their request (e.g. \"What are some good restaurants around me?\" => \"Where are you?\" or \"When is the next flight to Tokyo\" => \"Where do you travel from?\")" -%}
{{- bos_token + '[SYSTEM_PROMPT]' + (words(messages[0].content) if has_system else preface) + '[/SYSTEM_PROMPT]' -}}
{%- for m in rest -%}
  {%- if m.role == 'user' -%}
    {{- '[INST]' + words(m.content) + '[/INST]' -}}
  {%- elif m.role == 'system' -%}
    {{- '[SYSTEM_PROMPT]' + words(m.content) + '[/SYSTEM_PROMPT]' -}}
  {%- elif m.role == 'assistant' -%}
    {{- words(m.content) + eos_token -}}
  {%- else -%}
    {{- raise_exception('mistral_v7_tekken knows the roles system, user and assistant, not ' ~ m.role) -}}
  {%- endif -%}
{%- endfor -%}
)J";

const std::string_view kNemotronH = R"J(
{%- for m in messages -%}
  {%- if m.role not in ['user', 'assistant'] and not (m.role == 'system' and loop.first) -%}
    {{- raise_exception('nemotron_h knows user, assistant and one system message in front, not ' ~ m.role) -}}
  {%- endif -%}
  {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
)J";

/// Tools are listed in the first message after the system message, or, with tools_in_user_message: false, in the system
/// message.
const std::string_view kLlama4 = R"J(
{%- set has_system = messages and messages[0].role == 'system' -%}
{%- set first = 1 if has_system else 0 -%}
{%- set has_tools = tools is defined and tools is not none -%}
{%- set tools_first = has_tools and (tools_in_user_message is not defined or tools_in_user_message) -%}
{{- bos_token -}}
{%- if has_system -%}
  {{- '<|header_start|>system<|header_end|>\n\n' + ('Environment: ipython\n' if has_tools else '') -}}
  {%- if has_tools and not tools_first -%}
    {{- 'You have access to the following functions. To call a function, please respond with JSON for a function call.' + tool_list() -}}
  {%- endif -%}
  {{- words(messages[0].content) | trim + '<|eot|>' -}}
{%- endif -%}
{%- if tools_first and messages | length == first -%}
  {{- raise_exception('llama4 needs a message of the user that the tools can stand in front of') -}}
{%- endif -%}
{%- for m in messages[first:] -%}
  {%- if loop.first and tools_first -%}
    {{- '<|header_start|>user<|header_end|>\n\nGiven the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\n' + tool_list() -}}
    {{- words(m.content) | trim -}}
  {%- elif m.tool_calls -%}
    {{- '<|header_start|>assistant<|header_end|>\n\n<|python_start|>' -}}
    {{- words(m.content) if m.content -}}
    {{- '<|python_end|>' -}}
    {%- for call in m.tool_calls -%}
      {{- '{"name": "' + call.function.name + '", "parameters": ' + call.function.arguments | tojson + '}' -}}
    {%- endfor -%}
  {%- elif m.role in ['tool', 'ipython'] -%}
    {{- '<|header_start|>ipython<|header_end|>\n\n' + m.content | tojson -}}
  {%- else -%}
    {{- '<|header_start|>' + m.role + '<|header_end|>\n\n' -}}
    {{- words(m.content) -}}
  {%- endif -%}
  {{- '<|eot|>' -}}
{%- endfor -%}
{{- '<|header_start|>assistant<|header_end|>\n\n' if add_generation_prompt -}}
)J";

/// Reasoning is rendered for the last turn only, and only with skip_think: false. Consecutive tool results are one
/// turn.
const std::string_view kExaone4 = R"J(
{%- macro tool_list() -%}
  {{- '# Available Tools\nYou can use none, one, or multiple of the following tools by calling them as functions to help with the user’s query.\nHere are the tools available to you in JSON format within <tool> and </tool> tags:\n' -}}
  {%- for tool in tools -%}
    {{- '<tool>' + tool | tojson + '</tool>\n' -}}
  {%- endfor -%}
  {{- '\nFor each function call you want to make, return a JSON object with function name and arguments within <tool_call> and </tool_call> tags, like:\n<tool_call>{"name": function_1_name, "arguments": {argument_1_name: argument_1_value, argument_2_name: argument_2_value}}</tool_call>\n<tool_call>{"name": function_2_name, "arguments": {...}}</tool_call>\n...\nNote that if no argument name is specified for a tool, you can just print the argument value directly, without the argument name or JSON formatting.' -}}
{%- endmacro -%}
{%- for m in messages -%}
  {%- if m.role not in ['system', 'user', 'assistant', 'tool'] -%}
    {{- raise_exception('exaone4 knows the roles system, user, assistant and tool, not ' ~ m.role) -}}
  {%- endif -%}
  {%- if loop.first and tools and m.role != 'system' -%}
    {{- '[|system|]\n' + tool_list() + '[|endofturn|]\n' -}}
  {%- endif -%}
  {{- '[|' + m.role + '|]\n' if m.role != 'tool' or loop.first or loop.previtem.role != 'tool' -}}
  {%- if m.role == 'tool' -%}
    {{- '<tool_result>{"result": ' + m.content | tojson + '}</tool_result>' -}}
  {%- elif m.role != 'assistant' -%}
    {{- m.content -}}
    {{- '\n\n' + tool_list() if loop.first and tools and m.role == 'system' -}}
  {%- elif m.content -%}
    {%- set thought = m.reasoning_content or (m.content.split('</think>')[0].strip().removeprefix('<think>').strip() if '</think>' in m.content else '') -%}
    {{- '<think>\n' + (thought if loop.last and thought and skip_think is defined and not skip_think else '') + '\n</think>\n\n' -}}
    {{- m.content.split('</think>')[-1].strip() if '</think>' in m.content else m.content -}}
  {%- endif -%}
  {%- if m.role == 'assistant' and m.tool_calls -%}
    {{- '\n' if m.content else '<think>\n\n</think>\n\n' -}}
    {%- for call in m.tool_calls -%}
      {%- set f = call.function if call.function is defined else call -%}
      {{- ('' if loop.first else '\n') + '<tool_call>{"name": "' + f.name + '", "arguments": ' + (f.arguments if f.arguments is defined else f.parameters) | tojson + '}</tool_call>' -}}
    {%- endfor -%}
  {%- endif -%}
  {{- '\n' if m.role == 'tool' and not loop.last and loop.nextitem.role == 'tool' else '[|endofturn|]\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '[|assistant|]\n<think>\n' + ('' if enable_thinking is defined and enable_thinking is true else '\n</think>\n\n') -}}
{%- endif -%}
)J";

const std::string_view kJamba = R"J(
{%- set has_system = messages and messages[0].role == 'system' -%}
{{- '<|startoftext|><|bom|><|system|> ' + (messages[0].content if has_system else '') -}}
{%- if tools -%}
  {{- ('\n\n' if has_system and messages[0].content else '') + '<tool_definitions>\n# Tools\n\n## Functions' -}}
  {%- for tool in tools -%}
    {{- '\n\n' + (tool.function if tool.type == 'function' else tool) | tojson(indent=2) -}}
  {%- endfor -%}
  {{- '\n</tool_definitions>' -}}
{%- endif -%}
{%- for m in (messages[1:] if has_system else messages) -%}
  {{- '<|eom|><|bom|><|' + m.role + '|> ' + ('(' + m.name + ')' if m.name else '') -}}
  {{- (m.content if m.content is string else m.content | tojson) if m.content else '' -}}
  {%- if m.role == 'assistant' and m.tool_calls -%}
    {{- '<tool_calls>[\n' -}}
    {%- for call in m.tool_calls -%}
      {%- set f = call.function if call.function else call -%}
      {{- '    {"name": "' + f.name + '", "arguments": ' + (f.arguments if f.arguments is string else f.arguments | tojson) + '}' + ('' if loop.last else ',\n') -}}
    {%- endfor -%}
    {{- '\n]</tool_calls>' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|eom|>' -}}
{{- '<|bom|><|assistant|>' if add_generation_prompt is not defined or add_generation_prompt -}}
)J";

}  // namespace dml
