#include "prompt/chat_template.h"

#include <algorithm>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "jinja/template.h"
#include "prompt/chat_conversation.h"
#include "prompt/chat_formats.h"
#include "prompt/chat_mask.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr std::string_view kTrimmed = " \t\r\n";
constexpr std::string_view kFallback = "tokenizer_default_fallback_";

ChosenTemplate from_jinja_key(const std::string& value) {
  const bool is_text = value.find("{{") != std::string::npos || value.find("{%") != std::string::npos ||
                       value.find('\n') != std::string::npos;
  if (is_text) return {value, "chat_template_jinja"};
  if (!file_exists(value)) throw UserError("chat_template_jinja: '{}' is neither a template nor a file", value);
  return {read_text_file(value, jinja::kMaxSource), value};
}

std::string tokenizer_template(const PromptContext& c) {
  if (!c.tokenizer_template.empty()) return c.tokenizer_template;
  for (auto& [name, text] : c.named_templates)
    if (name == "default") return text;
  return {};
}

ChosenTemplate by_name(const PromptContext& c, const std::string& name, const std::string& text) {
  if (name == "jinja") {
    if (text.empty()) throw UserError("chat_template: jinja needs chat_template_jinja: a template or a file");
    return from_jinja_key(text);
  }
  const bool fallback = name.starts_with(kFallback);
  if (name == "tokenizer_default" || fallback) {
    std::string own = tokenizer_template(c);
    if (!own.empty()) return {std::move(own), "the tokenizer's"};
    if (!fallback)
      throw UserError("the tokenizer has no chat template; set chat_template, for example chat_template: chatml");
    return by_name(c, name.substr(kFallback.size()), "");
  }
  if (const ChatFormat* f = find_chat_format(name)) return {f->source, name + ", built in"};
  for (auto& [own, source] : c.named_templates)
    if (own == name) return {source, "the tokenizer's '" + name + "'"};
  std::vector<std::string> names = {"tokenizer_default", "jinja"};
  for (auto& f : chat_formats()) names.push_back(f.name);
  for (auto& [own, source] : c.named_templates) names.push_back(own);
  throw UserError("unknown chat_template '{}'{}", name, did_you_mean(name, names));
}

/// Chooses the template of one level of the recipe: none, a name, a text, or both (the name must be jinja then).
bool choose(const PromptContext& c, const std::string& name, const std::string& text, ChosenTemplate& out) {
  if (name.empty() && text.empty()) return false;
  if (!text.empty() && !name.empty() && name != "jinja")
    throw UserError(
        "chat_template: {} contradicts chat_template_jinja; set chat_template: jinja, or remove one of them", name);
  out = by_name(c, name.empty() ? "jinja" : name, text);
  return true;
}

EndTokens end_tokens(const PromptContext& c, const DatasetEntry& e) {
  EndTokens ends;
  ends.eos = c.eos_token;
  ends.eot = c.eot_tokens;
  ends.train_on_eos = e.train_on_eos;
  ends.train_on_eot = e.train_on_eot.value_or(e.train_on_eos);
  if (ends.eot.empty()) ends.eot = {c.eos_token};
  if (ends.train_on_eos != ends.train_on_eot &&
      std::find(ends.eot.begin(), ends.eot.end(), c.eos_token) != ends.eot.end())
    throw UserError(
        "train_on_eos and train_on_eot differ, but the eos token '{}' is also an eot token: set eot_tokens to other "
        "tokens",
        c.eos_token);
  return ends;
}

jinja::Value variable(const Json& json) {
  try {
    return jinja::from_json(json);
  } catch (const jinja::Failure& f) {
    throw UserError("chat_template_kwargs: {}", f.text);
  }
}

class ChatTemplate : public PromptStrategy {
 public:
  explicit ChatTemplate(const PromptContext& c)
      : options_(conversation_options(c.dataset ? *c.dataset : DatasetEntry{}, c.train_on_inputs)),
        ends_(end_tokens(c, options_.entry)),
        chosen_(choose_chat_template(c)),
        template_(chosen_.source, "chat template (" + chosen_.origin + ")"),
        kwargs_(c.chat_template_kwargs) {
    options_.default_system = c.default_system_message;
    for (auto& [name, token] : {std::pair{"bos_token", c.bos_token},
                                {"eos_token", c.eos_token},
                                {"pad_token", c.pad_token},
                                {"unk_token", c.unk_token}})
      if (!token.empty()) variables_.set(name, jinja::Text(token));
    if (!kwargs_.is_null() && !kwargs_.is_object())
      throw UserError("chat_template_kwargs: must be a table, is {}", kwargs_.type_name());
    for (auto& [key, value] : kwargs_.items()) variables_.set(jinja::Text(key), variable(value));
    generation_prompt_ = find_generation_prompt();
    keep_answers_ = c.keep_answers;
  }

  std::vector<Rendered> render(const Json& record) const override {
    const Conversation c = read_conversation(record, options_);
    jinja::RenderResult r = render(c, false);
    const std::vector<char> seen = seen_turns(c, r);
    if (r.marks_lost) check_marks(c, seen);
    const auto left_out = [&](const Turn& turn) {
      return turn.has_text && !seen[static_cast<std::size_t>(&turn - c.turns.data())];
    };
    const auto missing = r.marks_lost ? c.turns.end() : std::ranges::find_if(c.turns, left_out);
    Rendered out = one_segment(mask(std::move(r), c, ends_, generation_prompt_));
    out.untrained_reason = untrained_reason(c);
    if (missing != c.turns.end()) out.left_out = missing->role;
    out.fields = c.fields;
    return single(std::move(out));
  }

  Rendered prompt(const Json& record) const override {
    const Conversation whole = read_conversation(record, options_);
    Conversation c = whole;
    std::vector<jinja::Value> messages = whole.messages.list().items;
    while (!keep_answers_ && !messages.empty() && c.turns.back().role == "assistant") {
      messages.pop_back();
      c.turns.pop_back();
    }
    c.messages = jinja::Value::list(std::move(messages));
    Rendered out = one_segment(mask(render(c, true), whole, ends_, generation_prompt_));
    for (Segment::Span& span : out.segments[0].spans) span.trained = false;
    return out;
  }

  std::string fingerprint() const override {
    std::string all;
    for (auto& [key, value] : inputs()) all += fmt::format("{}\n{}\n", key, value);
    return digest_of(all);
  }

  std::vector<std::pair<std::string, std::string>> inputs() const override {
    const DatasetEntry& e = options_.entry;
    const Json keys = {{"chat_template_kwargs", kwargs_},
                       {"date", jinja::template_time()},
                       {"eos_token", ends_.eos},
                       {"eot_tokens", ends_.eot},
                       {"train_on_inputs", options_.train_on_inputs},
                       {"roles", options_.role_names},
                       {"roles_to_train", e.roles_to_train},
                       {"train_on_turns", e.train_on_turns},
                       {"train_on_eos", static_cast<int>(ends_.train_on_eos)},
                       {"train_on_eot", static_cast<int>(ends_.train_on_eot)},
                       {"field_messages", e.field_messages},
                       {"message_property_mappings", e.message_property_mappings},
                       {"field_tools", e.field_tools},
                       {"field_system", e.field_system.value_or("system")},
                       {"split_thinking", {e.field_thinking.value_or(""), e.template_thinking_key, e.split_thinking}},
                       {"drop_system_message", e.drop_system_message},
                       {"message_field_training", e.message_field_training.value_or("")},
                       {"message_field_training_detail", e.message_field_training_detail.value_or("")},
                       {"default_system_message", options_.default_system}};
    std::vector<std::pair<std::string, std::string>> out{{"type", "chat_template 1"},
                                                         {"chat_template", digest_of(template_.source())}};
    for (auto& [key, value] : keys.items()) out.emplace_back(key, dump(value));
    for (const char* token : {"bos_token", "pad_token", "unk_token"})
      if (const jinja::Value* v = variables_.find(std::string_view(token))) out.emplace_back(token, v->text().str());
    return out;
  }

  std::string description() const override {
    std::string roles;
    for (auto& r : options_.entry.roles_to_train) roles += (roles.empty() ? "" : ", ") + r;
    if (options_.train_on_inputs) roles = "all";
    if (const auto turns = options_.entry.train_on_turns; turns > 0)
      roles += turns == 1 ? " (last turn)" : fmt::format(" (last {} turns)", turns);
    static constexpr const char* kEnds[] = {"without their EOS", "with their EOS", "with the last EOS",
                                            "with every EOS"};
    return fmt::format("chat template ({}): trains on {} messages, {}", chosen_.origin, roles.empty() ? "no" : roles,
                       kEnds[static_cast<int>(ends_.train_on_eos)]);
  }

 private:
  jinja::RenderResult render(const Conversation& c, bool generation_prompt) const {
    jinja::Dict context = variables_;
    context.set("messages", c.messages);
    context.set("tools", c.tools);
    if (!context.find(std::string_view("documents"))) context.set("documents", nullptr);
    context.set("add_generation_prompt", generation_prompt);
    return template_.render(std::move(context));
  }

  static Rendered one_segment(Segment segment) {
    Rendered r;
    r.segments.push_back(std::move(segment));
    return r;
  }

  /// What the template adds for an answer, found by rendering a conversation of one question; "" if it cannot render
  /// that.
  std::string find_generation_prompt() const {
    const std::string probe =
        dump(Json{{options_.entry.field_messages, Json::array({Json{{"role", "user"}, {"content", "?"}}})}});
    ConversationOptions plain{{}, false, {}, {}};
    plain.entry.field_messages = options_.entry.field_messages;
    try {
      const Conversation c = read_conversation(parse_json(probe, "probe"), plain);
      const std::string without = render(c, false).text, with = render(c, true).text;
      return with.starts_with(without) ? with.substr(without.size()) : "";
    } catch (const UserError&) {
      return "";
    }
  }

  /// The reason why no turn is trained, listing the roles.
  std::string untrained_reason(const Conversation& c) const {
    std::vector<std::string> roles;
    for (const Turn& turn : c.turns) {
      if (turn.trained) return "";
      if (std::find(roles.begin(), roles.end(), turn.role) == roles.end()) roles.push_back(turn.role);
    }
    return fmt::format("no message is trained; the roles are {}; check roles, roles_to_train and train_on_turns",
                       roles.empty() ? "none" : fmt::format("{}", fmt::join(roles, ", ")));
  }

  /// Which turns the template writes.
  static std::vector<char> seen_turns(const Conversation& c, const jinja::RenderResult& r) {
    std::vector<char> seen(c.turns.size(), 0);
    for (const jinja::Run& run : r.spans)
      if (const Source& s = c.sources[run.mark - 1]; s.spoken) seen[static_cast<std::size_t>(s.turn)] = 1;
    return seen;
  }

  /// UserError when the template passes a trained turn through an operation that loses marks, so that it cannot be
  /// masked.
  void check_marks(const Conversation& c, const std::vector<char>& seen) const {
    for (std::size_t i = 0; i < c.turns.size(); ++i)
      if (c.turns[i].trained && c.turns[i].has_text && !seen[i])
        throw UserError(
            "{}[{}]: the chat template ({}) changes this message, so its tokens cannot be identified for the labels",
            options_.entry.field_messages, i, chosen_.origin);
  }

  ConversationOptions options_;
  EndTokens ends_;
  ChosenTemplate chosen_;
  jinja::Template template_;
  Json kwargs_;
  jinja::Dict variables_;
  std::string generation_prompt_;
  bool keep_answers_ = false;
};

}  // namespace

ChosenTemplate choose_chat_template(const PromptContext& c) {
  ChosenTemplate out;
  if (c.dataset && choose(c, c.dataset->chat_template.value_or(""), c.dataset->chat_template_jinja.value_or(""), out))
    return out;
  if (choose(c, c.chat_template, c.chat_template_jinja, out)) return out;
  return by_name(c, "tokenizer_default", "");
}

void check_chat_template_name(const PromptContext& c) {
  std::string name = c.chat_template;
  if (name.starts_with(kFallback)) name = name.substr(kFallback.size());
  if (!name.empty() && name != "jinja" && name != "tokenizer_default") by_name(c, name, "");
}

std::unique_ptr<PromptStrategy> make_chat_template(const PromptContext& context) {
  return std::make_unique<ChatTemplate>(context);
}

std::vector<std::string> chat_template_warnings(const PromptContext& c) {
  if (!c.trains) return {};
  const ChosenTemplate chosen = choose_chat_template(c);
  std::vector<std::string> out;
  auto missing = [&](const std::string& token) { return chosen.source.find(token) == std::string::npos; };
  const std::string& eos = c.eos_token;
  const ChatFormat* format = find_chat_format(chosen.origin.substr(0, chosen.origin.find(',')));
  const std::string end = format && !format->terminator.empty() ? format->terminator : "";
  if (c.eot_tokens.empty() && !eos.empty() && missing(eos) && missing("eos_token"))
    out.push_back(fmt::format(
        "the chat template ({}) never writes the EOS token '{}', so the model does not learn to stop; add {}",
        chosen.origin, eos,
        end.empty() ? "eot_tokens: [the token that ends a turn]" : "eot_tokens: [\"" + end + "\"]"));
  for (auto& token : c.eot_tokens)
    if (missing(token) && !(token == eos && !missing("eos_token")))
      out.push_back(fmt::format("eot_tokens: the chat template ({}) never writes '{}'", chosen.origin, token));
  return out;
}

TrainedEnds trained_ends(const Rendered& example, const std::vector<std::string>& end_tokens) {
  TrainedEnds out;
  std::size_t longest = 1;
  for (auto& token : end_tokens) longest = std::max(longest, token.size());
  for (const Segment& s : example.segments) {
    std::string run;  // the end of the trained text so far; untrained whitespace does not end it
    auto close = [&] {
      const std::size_t size = run.find_last_not_of(kTrimmed) + 1;
      const std::string_view text = std::string_view(run).substr(0, size);
      if (!text.empty()) {
        ++out.trained;
        out.ended +=
            std::any_of(end_tokens.begin(), end_tokens.end(), [&](auto& t) { return !t.empty() && text.ends_with(t); });
      }
      run.clear();
    };
    std::size_t begin = 0;
    for (const Segment::Span& p : s.spans) {
      const std::string_view piece = std::string_view(s.text).substr(begin, p.end - begin);
      begin = p.end;
      const std::size_t size = piece.find_last_not_of(kTrimmed) + 1;
      if (!p.trained && size > 0) close();
      else if (p.trained && size >= longest) run = piece.substr(size - longest);
      else if (p.trained) run += piece;
    }
    close();
    if (s.end_of_text && s.end_trained) out.ended = out.trained;
  }
  return out;
}

std::string render_template(const ChosenTemplate& chosen, const Json& variables, const std::string& place) {
  const jinja::Template t(chosen.source, chosen.origin);
  if (!variables.is_object())
    throw UserError("{}: must be an object of the template's variables, is {}", place, variables.type_name());
  try {
    return t.render(jinja::from_json(variables)).text;
  } catch (const jinja::Failure& f) {
    throw UserError("{}: {}", place, f.text);
  }
}

}  // namespace dml
