// dml template: renders one conversation with a chat template, byte for byte as in training.
#include "assembly/model_location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "data/prepare.h"
#include "jinja/template.h"
#include "prompt/chat_formats.h"
#include "prompt/chat_template.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr JsonLimits kOneConversation{.bytes = std::size_t{4} << 20};

struct Template {
  std::optional<std::string> model, path, messages, context;
  bool generation_prompt = false, masks = false;
  Options options{"template",
                  "template [--model DIR] [--template FILE|NAME] (--messages FILE | --context FILE) "
                  "[--add-generation-prompt] [--masks]",
                  {"dml template --model DIR --messages chat.json --masks",
                   "dml template --model DIR --template chatml --messages chat.json",
                   "dml template --template chat_template.jinja --context context.json"}};
  Template() {
    options.about(
        "Renders a chat template with messages and prints the text, as training and inference would see it. With "
        "--masks, the parts that are trained stand between ⟦ and ⟧.");
    options.text("model", model,
                 "use the template of this model; with --template, only its special tokens (bos_token, eos_token …)",
                 "DIR");
    options.text("template", path,
                 "a chat template: a Jinja file, or the name of a built-in template (dml list chat_templates)",
                 "FILE|NAME");
    options.values("template", chat_format_names());
    options.text("messages", messages, "JSON: a list of messages, or a dataset row with `messages` (and tools …)",
                 "FILE");
    options.text("context", context, "JSON object with all variables of the template: messages, bos_token, tools …",
                 "FILE");
    options.flag("add-generation-prompt", generation_prompt, "end with the prompt for the assistant's answer");
    options.flag("masks", masks, "mark the trained parts with ⟦ and ⟧");
  }
};

Json read_row(const std::string& path) {
  Json row = read_json(path, kOneConversation);
  if (row.is_array()) row = Json{{"messages", std::move(row)}};
  if (!row.is_object() || !row.contains("messages"))
    throw UserError("{}: must be a list of messages or an object with `messages`, is {}", path, row.type_name());
  return row;
}

ChosenTemplate given_template(const std::string& path) {
  if (file_exists(path)) return {read_file(path, jinja::kMaxSource), path};
  if (const ChatFormat* format = find_chat_format(path)) return {format->source, path};
  throw UserError("{}: is neither a file nor a built-in template{}", path, did_you_mean(path, chat_format_names()));
}

std::string marked(const Rendered& rendered) {
  std::string out;
  bool trained = false;
  for (auto& segment : rendered.segments)
    for (const Piece& piece : segment.pieces()) {
      if (piece.trained != trained && !piece.text.empty()) {
        out += piece.trained ? "⟦" : "⟧";
        trained = piece.trained;
      }
      out += piece.text;
    }
  return out + (trained ? "⟧" : "");
}

// Adds the special tokens of the model. Without a model, tokens that the row does not give are empty, and a warning
// names those that the template uses.
void add_special_tokens(Json& row, const PromptContext& made, const ChosenTemplate& chosen, bool has_model) {
  const std::pair<const char*, std::string> tokens[] = {{"bos_token", made.bos_token},
                                                        {"eos_token", made.eos_token},
                                                        {"pad_token", made.pad_token},
                                                        {"unk_token", made.unk_token}};
  std::vector<std::string> empty;
  for (auto& [name, token] : tokens) {
    if (row.contains(name) || (token.empty() && has_model)) continue;
    row[name] = token;
    if (token.empty() && chosen.source.find(name) != std::string::npos) empty.push_back(name);
  }
  if (!empty.empty())
    log_warning("the template uses {}, which {} empty without a model; --model DIR gives a model's tokens",
                fmt::join(empty, " and "), empty.size() == 1 ? "is" : "are");
}

// A conversation with its trained parts marked, followed by the generation prompt if it is asked for.
std::string masked(const PromptStrategy& strategy, const Json& row, bool generation_prompt) {
  const Rendered rendered = strategy.render(row).front();
  if (!generation_prompt) return marked(rendered);
  const std::string text = rendered.text(), whole = strategy.prompt(row).text();
  if (!whole.starts_with(text))
    throw UserError(
        "with --add-generation-prompt, this template renders the messages differently than in training, so the trained "
        "parts cannot be marked; leave out --masks or --add-generation-prompt");
  return marked(rendered) + whole.substr(text.size());
}

int render(const std::vector<std::string>& words) {
  Template t;
  t.options.parse(words);
  if (!t.model && !t.path) throw UserError("template needs --model DIR or --template FILE");
  if (t.messages.has_value() == t.context.has_value())
    throw UserError("template needs exactly one of --messages FILE, --context FILE");
  if (t.masks && !t.messages) throw UserError("--masks needs --messages");

  std::unique_ptr<Tokenizer> tokenizer;
  DatasetEntry entry;
  entry.type.name = "chat_template";
  PromptContext made;
  if (t.model) {
    tokenizer = load_tokenizer(model_directory(*t.model));
    made = prompt_context({}, {}, entry, *tokenizer);
    if (!t.path && made.tokenizer_template.empty() && made.named_templates.empty())
      throw UserError(
          "{}: has no chat template; give one instead: --template FILE, or a built-in one by its name, "
          "as --template chatml (`dml list chat_templates`)",
          *t.model);
  } else {
    made.dataset = &entry;
  }
  const ChosenTemplate chosen = t.path ? given_template(*t.path) : choose_chat_template(made);
  if (t.path) (file_exists(*t.path) ? made.chat_template_jinja : made.chat_template) = *t.path;
  // Without a model the EOS is unknown, so the token that ends a turn is shown as trained.
  if (const ChatFormat* format = t.path && !t.model ? find_chat_format(made.chat_template) : nullptr)
    if (!format->terminator.empty()) made.eot_tokens = {format->terminator};
  if (t.context) {
    Json variables = read_json(*t.context, kOneConversation);
    if (t.generation_prompt && variables.is_object()) variables["add_generation_prompt"] = true;
    print(render_template(chosen, variables, *t.context));
    return 0;
  }
  Json row = read_row(*t.messages);
  if (t.masks) {
    made.keep_answers = true;
    if (!tokenizer) add_special_tokens(made.chat_template_kwargs, made, chosen, false);
    auto strategy = make_chat_template(made);
    try {
      print(masked(*strategy, row, t.generation_prompt) + "\n");
    } catch (const UserError& error) {
      throw UserError("{}: {}", *t.messages, error.what());
    }
    return 0;
  }
  add_special_tokens(row, made, chosen, tokenizer != nullptr);
  row["add_generation_prompt"] = t.generation_prompt;
  print(render_template(chosen, row, *t.messages));
  return 0;
}

}  // namespace

Command template_command() {
  return {"template", "renders a chat template", [] { return Template().options.page(); }, render};
}

}  // namespace dml
