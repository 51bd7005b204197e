// Conversations through a chat template: chosen, rendered once, masked from the marks of that render.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prompt/strategy.h"

namespace dml {

/// The template's text and where it comes from ("chatml, built in", "the tokenizer's", "FILE").
struct ChosenTemplate {
  std::string source, origin;
};

/// The dataset's choice, else the recipe's, else the tokenizer's. A chat_template_jinja alone means `jinja`, for a
/// dataset as for the recipe. UserError when there is none.
ChosenTemplate choose_chat_template(const PromptContext& context);

/// UserError when the recipe's chat_template is unknown, whether a dataset uses it or not.
void check_chat_template_name(const PromptContext& context);

/// For `type: chat_template`.
std::unique_ptr<PromptStrategy> make_chat_template(const PromptContext& context);

/// Warnings about a template: an end token that it never writes. One line each, with the setting to add to the recipe.
std::vector<std::string> chat_template_warnings(const PromptContext& context);

/// How many ranges of a rendered example are trained, and how many of these end with a trained end token. A model
/// whose turns do not end so never learns to stop.
struct TrainedEnds {
  int trained = 0, ended = 0;
};
TrainedEnds trained_ends(const Rendered& example, const std::vector<std::string>& end_tokens);

/// Renders a template with these variables (an object), byte for byte. UserError naming the template's origin and line,
/// or `place`, where the variables are from.
std::string render_template(const ChosenTemplate& chosen, const Json& variables, const std::string& place);

}  // namespace dml
