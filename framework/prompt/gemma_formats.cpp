// Chat templates of Gemma 4 with tools and reasoning: gemma4 and gemma4_unified, and the macros that both use.
#include "prompt/tool_formats.h"

namespace dml {

/// Gemma 4's form of JSON and tool schemas: strings between <|"|>, keys in alphabetical order.
const std::string_view kGemma4Tools = R"J(
{%- macro quoted(text) -%}
  {{- '<|"|>' ~ text ~ '<|"|>' -}}
{%- endmacro -%}
{%- macro quoted_list(items) -%}
  {{- '[' -}}
  {%- for item in items -%}
    {{- ('' if loop.first else ',') + quoted(item) -}}
  {%- endfor -%}
  {{- ']' -}}
{%- endmacro -%}
{%- macro value_of(value, quotes_keys) -%}
  {%- if value is string -%}
    {{- quoted(value) -}}
  {%- elif value is boolean -%}
    {{- 'true' if value else 'false' -}}
  {%- elif value is mapping -%}
    {{- '{' + pairs_of(value, quotes_keys) + '}' -}}
  {%- elif value is sequence -%}
    {{- '[' -}}
    {%- for item in value -%}
      {{- ('' if loop.first else ',') + value_of(item, quotes_keys) -}}
    {%- endfor -%}
    {{- ']' -}}
  {%- else -%}
    {{- value -}}
  {%- endif -%}
{%- endmacro -%}
{%- macro pairs_of(value, quotes_keys) -%}
  {%- for key, inner in value | dictsort -%}
    {{- ('' if loop.first else ',') + (quoted(key) if quotes_keys else key) + ':' + value_of(inner, quotes_keys) -}}
  {%- endfor -%}
{%- endmacro -%}
{%- macro items_of(items) -%}
  {%- for key, inner in items | dictsort if inner is not none -%}
    {{- ('' if loop.first else ',') + key + ':' -}}
    {%- if key == 'properties' -%}
      {{- '{' + (fields_of(inner) if inner is mapping else '') + '}' -}}
    {%- elif key == 'required' -%}
      {{- quoted_list(inner) -}}
    {%- elif key == 'type' -%}
      {{- value_of(inner | upper if inner is string else inner | map('upper') | list, true) -}}
    {%- else -%}
      {{- value_of(inner, true) -}}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro -%}
{%- macro declaration(f) -%}
  {{- 'declaration:' + f.name + '{description:' + quoted(f.description | default('')) -}}
  {%- if f.parameters -%}
    {{- ',parameters:{' -}}
    {{- 'properties:{' + fields_of(f.parameters.properties) + '},' if f.parameters.properties -}}
    {{- 'required:' + quoted_list(f.parameters.required) + ',' if f.parameters.required -}}
    {{- 'type:' + quoted(f.parameters.type | upper) + '}' if f.parameters.type -}}
  {%- endif -%}
  {%- if f.response is defined -%}
    {{- ',response:{' -}}
    {{- 'description:' + quoted(f.response.description) + ',' if f.response.description -}}
    {{- 'type:' + quoted('OBJECT') + '}' if f.response.type | upper == 'OBJECT' -}}
  {%- endif -%}
  {{- '}' -}}
{%- endmacro -%}
{%- macro without_thoughts(text) -%}
  {%- set shown = namespace(text='') -%}
  {%- for part in text.split('<channel|>') -%}
    {%- set shown.text = shown.text + part.split('<|channel>')[0] -%}
  {%- endfor -%}
  {{- shown.text | trim -}}
{%- endmacro -%}
{%- macro calls_of(m) -%}
  {%- for call in m.tool_calls or [] -%}
    {%- set given = call.function.arguments -%}
    {{- '<|tool_call>call:' + call.function.name + '{' + (pairs_of(given, false) if given is mapping else given if given is string else '') + '}<tool_call|>' -}}
  {%- endfor -%}
{%- endmacro -%}
{%- macro response_of(name, response) -%}
  {{- '<|tool_response>response:' + name + '{' -}}
  {{- pairs_of(response, false) if response is mapping else 'value:' + value_of(response, false) -}}
  {{- '}<tool_response|>' -}}
{%- endmacro -%}
{%- macro shown_of(m) -%}
  {%- for part in ([m.content] if m.content is string else (m.content or []) | selectattr('text', 'defined') | map(attribute='text')) -%}
    {{- without_thoughts(part) if m.role == 'assistant' else part | trim -}}
  {%- endfor -%}
{%- endmacro -%}
)J";

const std::string_view kGemma4Fields = R"J(
{%- macro fields_of(properties) -%}
  {%- for key, p in properties | dictsort if key not in ['description', 'type', 'properties', 'required', 'nullable'] -%}
    {%- set type = p.type | upper -%}
    {%- set parts = [] -%}
    {%- if p.description -%}
      {%- set parts = parts + ['description:' + quoted(p.description)] -%}
    {%- endif -%}
    {%- if p.nullable -%}
      {%- set parts = parts + ['nullable:true'] -%}
    {%- endif -%}
    {%- if type == 'STRING' and p.enum -%}
      {%- set parts = parts + ['enum:' + value_of(p.enum, true)] -%}
    {%- endif -%}
    {{- ('' if loop.first else ',') + key + ':{' + parts | join(',') -}}
    {%- if type == 'OBJECT' -%}
      {{- ',properties:{' + fields_of(p.properties if p.properties is mapping else p) + '}' -}}
      {{- ',required:' + quoted_list(p.required) if p.required -}}
    {%- elif type == 'ARRAY' and p['items'] is mapping and p['items'] -%}
      {{- ',items:{' + items_of(p['items']) + '}' -}}
    {%- endif -%}
    {{- (',' if parts else '') + 'type:' + quoted(type) + '}' -}}
  {%- endfor -%}
{%- endmacro -%}
)J";

/// Reasoning between <|channel> and <channel|> is removed from history. The model continues its turn after tool results
/// (tool_responses of its message).
const std::string_view kGemma4 = R"J(
{%- set thinks = enable_thinking is defined and enable_thinking -%}
{%- set has_system = messages[0].role in ['system', 'developer'] -%}
{{- bos_token -}}
{%- if thinks or has_system or tools -%}
  {{- '<|turn>system\n' + ('<|think|>' if thinks else '') -}}
  {{- words(messages[0].content) | trim if has_system -}}
  {%- for tool in tools or [] -%}
    {{- '<|tool>' + declaration(tool.function) | trim + '<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}
{%- for m in (messages[1:] if has_system else messages) -%}
  {{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}
  {{- calls_of(m) -}}
  {%- for answer in m.tool_responses or [] -%}
    {{- response_of(answer.name | default('unknown'), answer.response) -}}
  {%- endfor -%}
  {{- shown_of(m) -}}
  {{- '<turn|>\n' if m.content or not m.tool_responses -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|turn>model\n' if not messages[-1].tool_responses -}}
  {{- '' if thinks else '<|channel>thought\n<channel|>' -}}
{%- endif -%}
)J";

/// Every part of a property is separated by a comma; a property may have the name of a keyword.
const std::string_view kGemma4UnifiedFields = R"J(
{%- macro fields_of(properties, of_object=false) -%}
  {%- for key, p in properties | dictsort if not of_object or key not in ['description', 'type', 'properties', 'required', 'nullable'] -%}
    {%- set type = p.type | upper -%}
    {%- set parts = [] -%}
    {%- if p.description -%}
      {%- set parts = parts + ['description:' + quoted(p.description)] -%}
    {%- endif -%}
    {%- if type == 'STRING' and p.enum -%}
      {%- set parts = parts + ['enum:' + value_of(p.enum, true)] -%}
    {%- elif type == 'ARRAY' and p['items'] is mapping and p['items'] -%}
      {%- set parts = parts + ['items:{' + items_of(p['items']) + '}'] -%}
    {%- endif -%}
    {%- if p.nullable -%}
      {%- set parts = parts + ['nullable:true'] -%}
    {%- endif -%}
    {%- if type == 'OBJECT' -%}
      {%- set parts = parts + ['properties:{' + (fields_of(p.properties) if p.properties is mapping else fields_of(p, true)) + '}'] -%}
      {%- if p.required -%}
        {%- set parts = parts + ['required:' + quoted_list(p.required)] -%}
      {%- endif -%}
    {%- endif -%}
    {{- ('' if loop.first else ',') + key + ':{' + (parts + ['type:' + quoted(type)]) | join(',') + '}' -}}
  {%- endfor -%}
{%- endmacro -%}
)J";

/// Messages of the role tool, which follow the calls, are written into the model's turn.
const std::string_view kGemma4Unified = R"J(
{%- set thinks = enable_thinking is defined and enable_thinking -%}
{%- set has_system = messages[0].role in ['system', 'developer'] -%}
{%- set rest = messages[1:] if has_system else messages -%}
{%- set state = namespace(last_user=-1, role='', waits=false, answered=false, ended=false, name='') -%}
{{- bos_token -}}
{%- if thinks or has_system or tools -%}
  {{- '<|turn>system\n' + ('<|think|>\n' if thinks else '') -}}
  {%- if has_system and messages[0].content is string -%}
    {{- messages[0].content | trim -}}
  {%- elif has_system -%}
    {%- for part in messages[0].content or [] -%}
      {{- part.text | trim + ' ' -}}
    {%- endfor -%}
  {%- endif -%}
  {%- for tool in tools or [] -%}
    {{- '<|tool>' + declaration(tool.function) | trim + '<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}
{%- for m in rest -%}
  {%- if m.role == 'user' -%}
    {%- set state.last_user = loop.index0 -%}
  {%- endif -%}
{%- endfor -%}
{%- for m in rest -%}
  {%- if m.role != 'tool' -%}
    {{- '' if m.role == 'assistant' and state.role == 'assistant' else '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}
    {%- set thought = m.reasoning or m.reasoning_content -%}
    {{- '<|channel>thought\n' + thought + '\n<channel|>' if thought and m.tool_calls and loop.index0 > state.last_user -}}
    {{- calls_of(m) -}}
    {%- set state.role = m.role -%}
    {%- set state.waits = m.tool_calls or m.tool_responses -%}
    {%- set state.answered = false -%}
    {%- if m.tool_responses -%}
      {%- for answer in m.tool_responses -%}
        {{- response_of(answer.name | default('unknown'), answer.response) -}}
      {%- endfor -%}
      {%- set state.answered = true -%}
    {%- elif m.tool_calls -%}
      {%- set state.ended = false -%}
      {%- for next in rest[loop.index:] -%}
        {%- set state.ended = state.ended or next.role != 'tool' -%}
        {%- if not state.ended -%}
          {%- set state.name = next.name | default('unknown') -%}
          {%- for call in m.tool_calls -%}
            {%- if call.id == next.tool_call_id -%}
              {%- set state.name = call.function.name -%}
            {%- endif -%}
          {%- endfor -%}
          {%- set of_parts = next.content is sequence and next.content is not string and next.content is not mapping -%}
          {{- response_of(state.name, words(next.content) if of_parts else next.content) -}}
          {%- set state.answered = true -%}
        {%- endif -%}
      {%- endfor -%}
    {%- endif -%}
    {{- shown_of(m) -}}
    {{- '<|tool_response>' if m.tool_calls and not state.answered else '<turn|>\n' if not state.answered or shown_of(m) | trim else '' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not state.waits -%}
  {{- '<|turn>model\n' + ('' if thinks else '<|channel>thought\n<channel|>') -}}
{%- endif -%}
)J";

}  // namespace dml
