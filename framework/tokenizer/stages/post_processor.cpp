#include "tokenizer/stages/post_processor.h"

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"
#include "tokenizer/stages/json_fields.h"

namespace dml {
namespace {

Token checked_id(const Json& value, Token size, std::string_view where) {
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() >= size)
    throw UserError("{}: token id {} must be a whole number below {}", where, shown(dump(value), 40), size);
  return value.get<Token>();
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}} …], "special_tokens": {"<s>": {"ids": [1]}}};
// older files spell `single` as "<s> $A".
PostProcessor read_template(const Json& spec, Token size, std::string_view where) {
  PostProcessor out;
  static const Json none = Json::object();
  auto table = spec.find("special_tokens");
  const Json& specials = table != spec.end() && table->is_object() ? *table : none;
  bool text_seen = false;
  auto add_special = [&](const std::string& name) {
    auto entry = specials.find(name);
    if (entry == specials.end() || !entry->is_object() || !entry->contains("ids") || !(*entry)["ids"].is_array())
      throw UserError("{}: the template names '{}', which 'special_tokens' does not have", where, shown(name, 60));
    for (const Json& id : (*entry)["ids"]) (text_seen ? out.back : out.front).push_back(checked_id(id, size, where));
  };
  auto single = spec.find("single");
  if (single != spec.end() && single->is_string()) {
    std::string all = single->get<std::string>();
    for (std::size_t i = 0; i < all.size();) {
      std::size_t end = std::min(all.find(' ', i), all.size());
      std::string word = all.substr(i, end - i);
      if (word.starts_with('$')) text_seen = true;
      else if (!word.empty()) add_special(word.substr(0, word.rfind(':')));
      i = end + 1;
    }
    return out;
  }
  for_each_part(spec, "single", where, [&](const Json& part, const std::string& at) {
    if (part.is_object() && part.contains("Sequence")) {
      text_seen = true;
    } else if (part.is_object() && part.contains("SpecialToken")) {
      add_special(json_string(part["SpecialToken"], "id", "", at));
    } else {
      throw UserError("{}: must be a SpecialToken or a Sequence", at);
    }
  });
  return out;
}

// ["[CLS]", 101]
Token read_pair(const Json& spec, const char* key, Token size, std::string_view where) {
  auto it = spec.find(key);
  if (it == spec.end() || !it->is_array() || it->size() != 2)
    throw UserError("{}: '{}' must be [text, id]", where, key);
  return checked_id((*it)[1], size, where);
}

}  // namespace

PostProcessor make_post_processor(const Json& spec, Token size, std::string_view where) {
  PostProcessor out;
  if (spec.is_null()) return out;
  std::string type = stage_type(spec, where);
  if (type == "ByteLevel") return out;  // only trims offsets, which here mean every byte
  if (type == "TemplateProcessing") return read_template(spec, size, where);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return {{read_pair(spec, "cls", size, where)}, {read_pair(spec, "sep", size, where)}};
  if (type == "Sequence") {
    for_each_part(spec, "processors", where, [&](const Json& part, const std::string& at) {
      PostProcessor inner = make_post_processor(part, size, at);
      out.front.insert(out.front.begin(), inner.front.begin(), inner.front.end());
      out.back.insert(out.back.end(), inner.back.begin(), inner.back.end());
    });
    return out;
  }
  static const std::vector<std::string> known = {"ByteLevel", "TemplateProcessing", "BertProcessing",
                                                 "RobertaProcessing", "Sequence"};
  throw UserError("{}: unknown post-processor '{}'{}", where, shown(type, 60), did_you_mean(type, known));
}

}  // namespace dml
