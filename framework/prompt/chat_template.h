// Renders conversations with a chat template: the template is chosen, the conversation rendered once, and the labels
// follow from the marks of that render.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prompt/strategy.h"

namespace dml {

/// A template's text, and its origin for messages ("chatml, built in", "the tokenizer's", "FILE").
struct ChosenTemplate {
  std::string source, origin;
};

/// The template of the dataset, else of the recipe, else of the tokenizer. A chat_template_jinja without chat_template
/// means `jinja`, in both places. UserError when there is none.
ChosenTemplate choose_chat_template(const PromptContext& context);

/// UserError when the recipe's chat_template is unknown, even if no dataset uses it.
void check_chat_template_name(const PromptContext& context);

/// The strategy of `type: chat_template`.
std::unique_ptr<PromptStrategy> make_chat_template(const PromptContext& context);

/// Warnings about a template that never writes an end token, one line each, with the setting to add to the recipe.
std::vector<std::string> chat_template_warnings(const PromptContext& context);

/// The number of trained ranges of a rendered example, and of those that end with a trained end token. A model never
/// learns to stop if turns do not end with one.
struct TrainedEnds {
  int trained = 0, ended = 0;
  TrainedEnds& operator+=(const TrainedEnds& more) {
    trained += more.trained;
    ended += more.ended;
    return *this;
  }
};
TrainedEnds trained_ends(const Rendered& example, const std::vector<std::string>& end_tokens);

/// Renders a template with `variables` (an object), byte for byte. UserError naming the template's origin and line, or
/// `place`, the origin of the variables.
std::string render_template(const ChosenTemplate& chosen, const Json& variables, const std::string& place);

}  // namespace dml
