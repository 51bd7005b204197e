// Text forms of the chat templates of vision models: images are omitted.
#include "prompt/tool_formats.h"

namespace dml {

/// The list of tools in Llama 3.2 and 4.
const std::string_view kLlamaTools = R"J(
{%- macro tool_list() -%}
  {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.\n\n' -}}
  {%- for tool in tools -%}
    {{- tool | tojson(indent=4) + '\n\n' -}}
  {%- endfor -%}
{%- endmacro -%}
)J";

/// Tools are listed in the first message after the system message, or, with tools_in_user_message: false, in the system
/// message.
const std::string_view kLlamaVision = R"J(
{%- set offered = custom_tools if custom_tools is defined else tools if tools is defined else none -%}
{%- set has_tools = offered is not none -%}
{%- set tools = offered -%}
{%- set tools_first = has_tools and (tools_in_user_message is not defined or tools_in_user_message) -%}
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\n\n' + ('Environment: ipython\n' if has_tools else '') -}}
{{- 'Cutting Knowledge Date: December 2023\nToday Date: ' + (date_string if date_string is defined else strftime_now("%d %b %Y")) + '\n\n' -}}
{%- if has_tools and not tools_first -%}
  {{- 'You have access to the following functions. To call a function, please respond with JSON for a function call.' + tool_list() -}}
{%- endif -%}
{{- words(messages[0].content) | trim if has_system -}}
{{- '<|eot_id|>' -}}
{%- if tools_first and not rest -%}
  {{- raise_exception('llama3_2_vision needs a message of the user that the tools can stand in front of') -}}
{%- endif -%}
{%- for m in rest -%}
  {%- if loop.first and tools_first -%}
    {{- '<|start_header_id|>user<|end_header_id|>\n\nGiven the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\n' + tool_list() -}}
    {{- words(m.content) | trim -}}
  {%- elif m.tool_calls is defined -%}
    {%- if m.tool_calls | length != 1 -%}
      {{- raise_exception('llama3_2_vision makes one tool call a message, not ' ~ m.tool_calls | length) -}}
    {%- endif -%}
    {%- set f = m.tool_calls[0].function -%}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + f.name + '", "parameters": ' + f.arguments | tojson + '}' -}}
  {%- elif m.role in ['tool', 'ipython'] -%}
    {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' + m.content | tojson -}}
  {%- else -%}
    {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + words(m.content) -}}
  {%- endif -%}
  {{- '<|eot_id|>' -}}
{%- endfor -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' if add_generation_prompt -}}
)J";

/// Turns have no end token.
const std::string_view kLlava = R"J(
{%- for m in messages -%}
  {{- m.role | upper + ': ' if m.role != 'system' -}}
  {{- words(m.content) + ' ' -}}
{%- endfor -%}
{{- 'ASSISTANT:' if add_generation_prompt -}}
)J";

/// The system message precedes the user's message if that is the last one.
const std::string_view kPixtral = R"J(
{{- bos_token -}}
{%- for m in rest -%}
  {{- check_turn(m.role, loop.index0) -}}
  {%- if m.role == 'user' -%}
    {{- '[INST]' + (words(messages[0].content) + '\n\n' if loop.last and has_system else '') + words(m.content) + '[/INST]' -}}
  {%- elif m.role == 'assistant' -%}
    {{- words(m.content) + eos_token -}}
  {%- else -%}
    {{- raise_exception('pixtral knows the roles system, user and assistant, not ' ~ m.role) -}}
  {%- endif -%}
{%- endfor -%}
)J";

const std::string_view kQwenVision = R"J(
{%- for m in messages -%}
  {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' if loop.first and m.role != 'system' -}}
  {{- '<|im_start|>' + m.role + '\n' + words(m.content) + '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
)J";

}  // namespace dml
