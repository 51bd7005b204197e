#include "serve/constraints.h"

#include <algorithm>

#include "constraint/automaton.h"
#include "core/error.h"
#include "serve/openai_request.h"

namespace dml {
namespace {

constexpr std::size_t kMaxKnown = 64, kMaxBytes = std::size_t{128} << 20, kLarge = std::size_t{8} << 20;

}  // namespace

std::shared_ptr<TokenConstraint> Constraints::get(const AnswerFormat& format, const std::string& what, const Make& make,
                                                  bool continued, const std::string& param) {
  const std::string key = (continued ? "+" : "-") + what;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = known_.begin(); it != known_.end(); ++it)
      if (it->key == key) {
        known_.splice(known_.begin(), known_, it);
        const auto found = known_.front().constraint;
        forget_old();
        return found;
      }
  }
  auto made = format.constraint(compiled(make, param), continued);
  const std::lock_guard lock(mutex_);
  known_.push_front({key, made});
  forget_old();
  return made;
}

std::unique_ptr<Automaton> Constraints::compiled(const Make& make, const std::string& param) {
  try {
    auto automaton = make();
    if (automaton->start() == Automaton::kDead) throw UserError("the constraint allows no text at all");
    return automaton;
  } catch (const UserError& e) {
    throw ApiError::invalid(param, e.what());
  }
}

void Constraints::rest() {
  const std::lock_guard lock(mutex_);
  forget_old();
}

// Transition tables grow with use. An automaton whose table has become large is dropped and compiled again when it is
// needed.
void Constraints::forget_old() {
  std::erase_if(
      known_, [](const Known& k) { return k.constraint.use_count() == 1 && k.constraint->automaton_bytes() > kLarge; });
  std::size_t bytes = 0, kept = 0;
  for (auto it = known_.begin(); it != known_.end() && kept < kMaxKnown && bytes < kMaxBytes; ++it, ++kept)
    bytes += it->constraint->bytes();
  known_.resize(std::min(known_.size(), std::max<std::size_t>(1, kept)));
}

RequestReader::AnswerConstraint RequestReader::constraint(Fields& f) const {
  AnswerConstraint out;
  auto take = [&](const std::string& name, std::string what, Constraints::Make how) {
    if (out.make) f.wrong(name, "cannot stand beside " + out.param + ": an answer has one constraint");
    out = {f.path(name), std::move(what), std::move(how)};
  };
  auto take_schema = [&](const std::string& name, const std::string& text) {
    take(name, "schema" + text,
         [text, source = f.path(name)] { return schema_automaton(text, source, JsonSpace::one); });
  };
  auto take_regex = [&](const std::string& name, const std::string& text) {
    take(name, "regex" + text, [text] { return regex_automaton(text); });
  };
  auto take_grammar = [&](const std::string& name, const std::string& text) {
    take(name, "grammar" + text, [text, source = f.path(name)] { return grammar_automaton(text, source); });
  };
  if (const Json* format = f.find("response_format")) {
    Fields r(*format, "response_format.");
    const std::string type = r.text("type").value_or("");
    if (type == "json_object") {
      take("response_format", "object", [] { return json_object_automaton(JsonSpace::one); });
    } else if (type == "json_schema") {
      const Json* wrapped = r.find("json_schema");
      if (!wrapped) r.wrong("json_schema", "is missing");
      Fields schema(*wrapped, "response_format.json_schema.");
      schema.text("name"), schema.text("description"), schema.flag("strict", false);
      const Json* own = schema.find("schema");
      if (!own) schema.wrong("schema", "is missing");
      schema.refuse_others({});
      take_schema("response_format", dump(*own));
    } else if (type == "regex" || type == "grammar") {
      const auto value = r.text(r.has("value") ? "value" : type == "regex" && r.has("pattern") ? "pattern" : type);
      if (!value) r.wrong(type, "is missing");
      type == "regex" ? take_regex("response_format", *value) : take_grammar("response_format", *value);
    } else if (type != "text") {
      r.wrong("type", "must be text, json_object, json_schema, regex or grammar");
    }
    r.refuse_others({});
  }
  if (const auto value = f.text("guided_regex")) take_regex("guided_regex", *value);
  for (const char* name : {"guided_grammar", "grammar"})
    if (const auto value = f.text(name)) take_grammar(name, *value);
  for (const char* name : {"guided_json", "json_schema"})
    if (const Json* value = f.find(name)) take_schema(name, text_or_json(*value));
  if (f.has("guided_choice")) {
    const std::vector<std::string> choices = f.texts("guided_choice", 10000);
    take("guided_choice", "choice" + dump(Json(choices)), [choices] { return choice_automaton(choices); });
  }
  return out;
}

std::shared_ptr<TokenConstraint> RequestReader::token_constraint(const AnswerConstraint& answer,
                                                                 const ToolsAsked& tools, const Asked& asked) const {
  const AnswerFormat& format = models_.format();
  if (tools.parse && (!answer.make || answer.on_text()))
    return constraints_.get(
        format, call_constraint_key(tools, asked.reply) + answer.key,
        [&] {
          return call_constraint(tools, asked.reply, format.chat_template(),
                                 answer.make ? Constraints::compiled(answer.make, answer.param) : nullptr);
        },
        asked.continued, "tools");
  return answer.make ? constraints_.get(format, answer.key, answer.make, asked.continued, answer.param) : nullptr;
}

}  // namespace dml
