// Chat templates of IBM's Granite: dense models (3.2 and later) and mixtures of experts (3.0, 3.1).
#include "prompt/tool_formats.h"

namespace dml {

/// The default system message, and the turns. `controls` requests citations or hallucination checks of documents, in
/// the header of the answer.
const std::string_view kGraniteWords = R"J(
{%- set has_controls = controls is defined and controls -%}
{%- set preface = 'Knowledge Cutoff Date: April 2024.\nToday\'s Date: ' + strftime_now("%B %d, %Y") + '.\nYou are Granite, developed by IBM.' -%}
{%- set from_documents = 'Write the response to the user\'s input by strictly aligning with the facts in the provided documents. If the information needed to answer the question is not available in the documents, inform the user that the question cannot be answered based on the available data.' -%}
{%- macro turn(role, text) -%}
  {{- '<|start_of_role|>' + role + '<|end_of_role|>' + text + '<|end_of_text|>\n' -}}
{%- endmacro -%}
{%- macro turns() -%}
  {%- for m in rest -%}
    {{- turn(m.role, m.content) -}}
  {%- endfor -%}
  {%- if rest and add_generation_prompt -%}
    {{- '<|start_of_role|>assistant' + (' ' + controls | tojson if has_controls else '') + '<|end_of_role|>' -}}
  {%- endif -%}
{%- endmacro -%}
{%- macro asked(cite, doubt) -%}
  {{- cite if has_controls and documents and 'citations' in controls -}}
  {{- doubt if has_controls and documents and 'hallucinations' in controls -}}
{%- endmacro -%}
)J";

const std::string_view kGranite = R"J(
{%- set offered = available_tools if available_tools is defined and available_tools else tools -%}
{%- set tool_words = ' You are a helpful assistant with access to the following tools. When a tool is required to answer the user\'s query, respond only with <|tool_call|> followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user that you do not have the ability to fulfill the request.' -%}
{%- set thinking_words = ' You are a helpful AI assistant.\nRespond to every user query in a comprehensive and detailed way. You can write down your thoughts and reasoning process before responding. In the thought process, engage in a comprehensive cycle of analysis, summarization, exploration, reassessment, reflection, backtracing, and iteration to develop well-considered thinking process. In the response section, based on various attempts, explorations, and reflections from the thoughts section, systematically present the final solution that you deem correct. The response should summarize the thought process. Write your thoughts between <think></think> and write your response between <response></response> for each user query.' -%}
{%- macro usual() -%}
  {{- preface -}}
  {%- if offered -%}
    {{- tool_words + ('\n' + from_documents if documents else '') -}}
  {%- elif documents -%}
    {{- ' ' + from_documents -}}
  {%- else -%}
    {{- thinking_words if thinking is defined and thinking else ' You are a helpful AI assistant.' -}}
  {%- endif -%}
  {{- asked('\nUse the symbols <|start_of_cite|> and <|end_of_cite|> to indicate when a fact comes from a document in the search result, e.g <|start_of_cite|> {document_id: 1}my fact <|end_of_cite|> for a fact from document 1. Afterwards, list all the citations with their corresponding documents in an ordered list.', '\nFinally, after the response is written, include a numbered list of sentences from the response with a corresponding risk value that are hallucinated and not based in the documents.') -}}
{%- endmacro -%}
{{- turn('system', messages[0].content if has_system else usual()) -}}
{{- turn('available_tools', offered | tojson(indent=4)) if offered -}}
{%- for document in documents or [] -%}
  {{- turn('document {"document_id": "' ~ document.doc_id ~ '"}', '\n' ~ document.text) -}}
{%- endfor -%}
{{- turns() -}}
)J";

const std::string_view kGraniteMoe = R"J(
{%- set tool_words = ' You are a helpful AI assistant with access to the following tools. When a tool is required to answer the user\'s query, respond with <|tool_call|> followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user that you do not have the ability to fulfill the request.' -%}
{%- macro usual() -%}
  {{- preface -}}
  {%- if tools -%}
    {{- tool_words + ('\n\n' + from_documents if documents else '') -}}
  {%- else -%}
    {{- ' ' + (from_documents if documents else 'You are a helpful AI assistant.') -}}
  {%- endif -%}
  {{- asked('\n\nIn your response, use the symbols <co> and </co> to indicate when a fact comes from a document in the search result, e.g <co>0</co> for a fact from document 0. Afterwards, list all the citations with their corresponding documents in an ordered list.', '\n\nFinally, after the response is written, include a numbered list of sentences from the response that are potentially hallucinated and not based in the documents.') -}}
{%- endmacro -%}
{{- turn('system', messages[0].content if has_system else usual()) -}}
{{- turn('tools', tools | tojson(indent=4)) if tools -}}
{%- if documents -%}
  {{- '<|start_of_role|>documents<|end_of_role|>' -}}
  {%- for document in documents -%}
    {{- 'Document ' ~ loop.index0 ~ '\n' ~ document.text ~ ('' if loop.last else '\n\n') -}}
  {%- endfor -%}
  {{- '<|end_of_text|>\n' -}}
{%- endif -%}
{{- turns() -}}
)J";

}  // namespace dml
