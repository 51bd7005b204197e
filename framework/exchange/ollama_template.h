// A chat template in ollama's language (Go's text/template; ollama's docs, template.mdx), derived from the Jinja
// template by rendering sample conversations: the text before, between and after the messages.
#pragma once

#include <optional>
#include <string>

namespace dml {

struct OllamaTemplate {
  std::string text;           // of TEMPLATE
  std::string end_of_answer;  // the text after every answer, trimmed; may be empty
};

/// The template that produces the same prompts as `jinja`, without the BOS token `bos`, which ollama adds by itself.
/// Empty if the text around a message depends on more than its role and position, or if `jinja` cannot be rendered.
std::optional<OllamaTemplate> ollama_template(const std::string& jinja, const std::string& bos, const std::string& eos);

}  // namespace dml
