#include "serve/constraints.h"

#include <algorithm>

#include "constraint/automaton.h"
#include "core/error.h"
#include "serve/openai_request.h"
#include "serve/tools.h"

namespace dml {
namespace {

constexpr std::size_t kMaxKnown = 64, kMaxBytes = std::size_t{128} << 20, kLarge = std::size_t{8} << 20;

}  // namespace

std::shared_ptr<TokenConstraint> Constraints::get(const AnswerFormat& format, const std::string& kind,
                                                  const std::string& text, bool continued, const std::string& param) {
  const std::string key = kind + (continued ? "+" : "-") + text;
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
  std::shared_ptr<Automaton> automaton;
  try {
    if (kind == "schema") automaton = schema_automaton(text, param, JsonSpace::one);
    else if (kind == "regex") automaton = regex_automaton(text);
    else if (kind == "grammar") automaton = grammar_automaton(text, param);
    else if (kind == "calls") automaton = call_constraint_automaton(text);
    else if (kind == "choice") automaton = choice_automaton(parse_json(text, param).get<std::vector<std::string>>());
    else automaton = json_object_automaton(JsonSpace::one);
    if (automaton->start() == Automaton::kDead) throw UserError("the constraint allows no text at all");
  } catch (const UserError& e) {
    throw ApiError::invalid(param, e.what());
  }
  auto made = format.constraint(std::move(automaton), continued);
  const std::lock_guard lock(mutex_);
  known_.push_front({key, made});
  forget_old();
  return made;
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

void RequestReader::constraint(Fields& f, Asked& asked) const {
  std::string kind, text, param;
  auto take = [&](const std::string& what, std::string value, const std::string& name) {
    if (!kind.empty()) f.wrong(name, "cannot stand beside " + param + ": an answer has one constraint");
    kind = what, text = std::move(value), param = f.path(name);
  };
  auto schema_text = [](const Json& schema) { return schema.is_string() ? schema.get<std::string>() : dump(schema); };
  if (const Json* format = f.find("response_format")) {
    Fields r(*format, "response_format.");
    const std::string type = r.text("type").value_or("");
    if (type == "json_object") {
      take("json", "", "response_format");
    } else if (type == "json_schema") {
      const Json* wrapped = r.find("json_schema");
      if (!wrapped) r.wrong("json_schema", "is missing");
      Fields schema(*wrapped, "response_format.json_schema.");
      schema.text("name"), schema.text("description"), schema.flag("strict", false);
      const Json* own = schema.find("schema");
      if (!own) schema.wrong("schema", "is missing");
      schema.refuse_others({});
      take("schema", dump(*own), "response_format");
    } else if (type == "regex" || type == "grammar") {
      const auto value = r.text(r.has("value") ? "value" : type == "regex" && r.has("pattern") ? "pattern" : type);
      if (!value) r.wrong(type, "is missing");
      take(type, *value, "response_format");
    } else if (type != "text") {
      r.wrong("type", "must be text, json_object, json_schema, regex or grammar");
    }
    r.refuse_others({});
  }
  if (const auto value = f.text("guided_regex")) take("regex", *value, "guided_regex");
  for (const char* name : {"guided_grammar", "grammar"})
    if (const auto value = f.text(name)) take("grammar", *value, name);
  for (const char* name : {"guided_json", "json_schema"})
    if (const Json* value = f.find(name)) take("schema", schema_text(*value), name);
  if (f.has("guided_choice")) take("choice", dump(Json(f.texts("guided_choice", 10000))), "guided_choice");
  if (!kind.empty()) asked.engine.constraint = constraints_.get(models_.format(), kind, text, asked.continued, param);
}

}  // namespace dml
