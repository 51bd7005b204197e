// A chat template in ollama's language (Go's text/template; ollama's docs, template.mdx), derived from the Jinja
// template by rendering sample conversations: the texts that stand before, between and behind the messages.
#pragma once

#include <optional>
#include <string>

namespace dml {

struct OllamaTemplate {
  std::string text;           // of TEMPLATE
  std::string end_of_answer;  // what the template writes behind an answer, without white space; may be empty
};

/// The template that gives the same prompts as `jinja`, without `bos`, which ollama adds by itself. Empty if there is
/// none: where a text depends on more than the role and the place of its message, or the template cannot be rendered.
std::optional<OllamaTemplate> ollama_template(const std::string& jinja, const std::string& bos, const std::string& eos);

}  // namespace dml
