#include "prompt/tool_formats.h"

namespace dml {

/// Tools, and the system message before the last user turn. "@" is replaced by a space for SentencePiece models and
/// removed for tekken.
const std::string_view kMistralTools = R"J(
{%- macro call_id(id) -%}
  {%- if id is not defined or id | length != 9 -%}
    {{- raise_exception('mistral needs tool call ids of exactly 9 characters') -}}
  {%- endif -%}
  {{- id -}}
{%- endmacro -%}
{%- macro field(key, value) -%}
  {{- '"' + key + '": ' + ('"' + value + '"' if value is string else value | tojson) -}}
{%- endmacro -%}
{%- set seen = namespace(turns=0, last_user=-1) -%}
{%- for m in rest -%}
  {%- set calls = m.tool_calls is defined and m.tool_calls is not none -%}
  {%- if m.role not in ['tool', 'tool_results'] and not calls -%}
    {{- check_turn(m.role, seen.turns) -}}
    {%- set seen.turns = seen.turns + 1 -%}
  {%- endif -%}
  {%- if m.role == 'user' -%}
    {%- set seen.last_user = loop.index0 -%}
  {%- endif -%}
{%- endfor -%}
{{- bos_token -}}
{%- for m in rest -%}
  {%- if m.role == 'user' -%}
    {%- if tools is defined and tools is not none and m == rest[seen.last_user] -%}
      {{- '[AVAILABLE_TOOLS]@[' -}}
      {%- for tool in tools -%}
        {{- '{"type": "function", "function": {' -}}
        {%- for key, value in tool.function.items() if key != 'return' -%}
          {{- field(key, value) + ('' if loop.last else ', ') -}}
        {%- endfor -%}
        {{- '}}' + (']' if loop.last else ', ') -}}
      {%- endfor -%}
      {{- '[/AVAILABLE_TOOLS]' -}}
    {%- endif -%}
    {{- '[INST]@' + (words(messages[0].content) + '\n\n' if loop.last and has_system else '') + words(m.content) + '[/INST]' -}}
  {%- elif m.tool_calls is defined and m.tool_calls is not none -%}
    {{- '[TOOL_CALLS]@[' -}}
    {%- for call in m.tool_calls -%}
      {{- (call.function | tojson)[:-1] + ', "id": "' + call_id(call.id) + '"}' + (']' + eos_token if loop.last else ', ') -}}
    {%- endfor -%}
  {%- elif m.role == 'assistant' -%}
    {{- '@' + words(m.content) | trim + eos_token -}}
  {%- elif m.role in ['tool', 'tool_results'] -%}
    {%- set result = m.content.content if m.content.content is defined else m.content -%}
    {{- '[TOOL_RESULTS]@{"content": ' + result | string + ', "call_id": "' + call_id(m.tool_call_id) + '"}[/TOOL_RESULTS]' -}}
  {%- else -%}
    {{- raise_exception('mistral knows the roles system, user, assistant and tool, not ' ~ m.role) -}}
  {%- endif -%}
{%- endfor -%}
)J";

/// Tools, calls and results in Qwen's templates; shared by both.
const std::string_view kQwenTools = R"J(
{%- macro tool_list() -%}
  {{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>' -}}
  {%- for tool in tools -%}
    {{- '\n' + tool | tojson -}}
  {%- endfor -%}
  {{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>' -}}
{%- endmacro -%}
{%- macro tool_call(call) -%}
  {%- set f = call.function if call.function else call -%}
  {{- '<tool_call>\n{"name": "' + f.name + '", "arguments": ' + (f.arguments if f.arguments is string else f.arguments | tojson) + '}\n</tool_call>' -}}
{%- endmacro -%}
{%- macro tool_result(m, first, last) -%}
  {{- '<|im_start|>user' if first -}}
  {{- '\n<tool_response>\n' + words(m.content) + '\n</tool_response>' -}}
  {{- '<|im_end|>\n' if last -}}
{%- endmacro -%}
)J";

const std::string_view kQwen25 = R"J(
{%- set has_system = messages[0].role == 'system' -%}
{%- set preface = messages[0].content if has_system else 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' -%}
{{- '<|im_start|>system\n' + preface + ('\n\n' + tool_list() if tools else '') + '<|im_end|>\n' -}}
{%- for m in messages -%}
  {%- if m.role == 'tool' -%}
    {{- tool_result(m, loop.first or loop.previtem.role != 'tool', loop.last or loop.nextitem.role != 'tool') -}}
  {%- elif m.role == 'assistant' and m.tool_calls -%}
    {{- '<|im_start|>assistant' + ('\n' + m.content if m.content else '') -}}
    {%- for call in m.tool_calls -%}
      {{- '\n' + tool_call(call) -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif m.role in ['user', 'assistant'] or (m.role == 'system' and not loop.first) -%}
    {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
)J";

/// Reasoning of turns before the last question is omitted; the last turn always has a place for its reasoning.
const std::string_view kQwen3 = R"J(
{%- set has_system = messages[0].role == 'system' -%}
{%- if tools -%}
  {{- '<|im_start|>system\n' + (words(messages[0].content) + '\n\n' if has_system else '') + tool_list() + '<|im_end|>\n' -}}
{%- elif has_system -%}
  {{- '<|im_start|>system\n' + words(messages[0].content) + '<|im_end|>\n' -}}
{%- endif -%}
{%- set last = namespace(query=messages | length - 1, turn=messages | length - 1) -%}
{%- if real_last_index is defined and real_last_index is not none -%}
  {%- set last.turn = real_last_index -%}
{%- endif -%}
{%- for m in messages | reverse -%}
  {%- if m.role == 'user' and not (m.content is string and m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) -%}
    {%- set last.query = loop.revindex0 -%}
    {%- break -%}
  {%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
  {%- if m.role == 'user' or (m.role == 'system' and not loop.first) -%}
    {{- '<|im_start|>' + m.role + '\n' + words(m.content) + '<|im_end|>\n' -}}
  {%- elif m.role == 'tool' -%}
    {{- tool_result(m, loop.first or loop.previtem.role != 'tool', loop.last or loop.nextitem.role != 'tool') -}}
  {%- elif m.role == 'assistant' -%}
    {%- set said = '' if m.content is none else words(m.content) -%}
    {%- set thought = m.reasoning_content if m.reasoning_content is string else '' -%}
    {%- if m.reasoning_content is not string and '</think>' in said -%}
      {%- set thought = said.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}
      {%- set said = said.split('</think>')[-1].lstrip('\n') -%}
    {%- endif -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if loop.index0 > last.query and (loop.index0 == last.turn or thought) -%}
      {{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + said.lstrip('\n') -}}
    {%- else -%}
      {{- said -}}
    {%- endif -%}
    {%- for call in m.tool_calls or [] -%}
      {{- ('\n' if said or not loop.first else '') + tool_call(call) -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n<think>\n\n' + ('</think>\n\n' if enable_thinking is defined and enable_thinking is false else '') -}}
{%- endif -%}
)J";

/// All system messages come first; tool calls are fenced JSON; the answer to a tool's output follows it without a new
/// header.
const std::string_view kDeepseekV3 = R"J(
{{- bos_token + messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | join('\n\n') -}}
{%- for m in messages -%}
  {%- set behind_tool = loop.previtem is defined and loop.previtem.role == 'tool' -%}
  {%- if m.role == 'user' -%}
    {{- '<｜User｜>' + m.content -}}
  {%- elif m.role == 'assistant' -%}
    {{- '' if behind_tool else '<｜Assistant｜>' -}}
    {{- m.content or '' -}}
    {%- if m.tool_calls -%}
      {{- '<｜tool▁calls▁begin｜>' -}}
      {%- for call in m.tool_calls -%}
        {%- set given = call.function.arguments -%}
        {{- ('' if loop.first else '\n') + '<｜tool▁call▁begin｜>' + (call.type or 'function') + '<｜tool▁sep｜>' + call.function.name -}}
        {{- '\n```json\n' + (given if given is string else given | tojson) + '\n```<｜tool▁call▁end｜>' -}}
      {%- endfor -%}
      {{- '<｜tool▁calls▁end｜>' -}}
    {%- endif -%}
    {{- eos_token -}}
  {%- elif m.role == 'tool' -%}
    {{- '\n' if behind_tool else '<｜tool▁outputs▁begin｜>' -}}
    {{- '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' -}}
    {{- '<｜tool▁outputs▁end｜>' if loop.last or loop.nextitem.role != 'tool' -}}
  {%- endif -%}
{%- endfor -%}
{{- '<｜Assistant｜>' if add_generation_prompt and (not messages or messages[-1].role != 'tool') -}}
)J";

const std::string_view kFalconH1 = R"J(
{{- bos_token -}}
{%- set preface = messages[0].content if messages[0].role == 'system' -%}
{%- if tools -%}
  {{- '<|im_start|>system\n' -}}
  {{- preface + '\n\n' if preface is defined -}}
  {{- "You are a function calling AI model. You are provided with function signature within <tools> </tools> XML tags. You may call one or more functions to assist with the user query. Don't make assumptions about what values to plug into functions.\n<tools>\n" -}}
  {%- for tool in tools -%}
    {{- '[' + tool | tojson + ']' -}}
  {%- endfor -%}
  {{- "\n</tools>\nFor each function call, return a json object with function name and arguments within <tool_call> </tool_call> tags with the following schema:\n<tool_call>\n{'arguments': <args-dict>, 'name': <function-name>}\n</tool_call>\n" -}}
{%- elif preface is defined -%}
  {{- '<|im_start|>system\n' + preface + '<|im_end|>\n' -}}
{%- endif -%}
{%- for m in messages if m.role != 'system' -%}
  {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
)J";

}  // namespace dml
