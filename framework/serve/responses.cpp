#include "serve/responses.h"

#include "core/shown.h"

namespace dml {
namespace {

constexpr std::size_t kMaxIncluded = 64;
constexpr const char* kNothingKept =
    "the server stores no requests; set store: false in the client, so that it sends the whole conversation";
constexpr const char* kNoTools = "/v1/responses has no tools; use /v1/chat/completions";

// Converts text parts of the Responses API to those of a chat.
Json parts_of(const Json& content, const std::string& path) {
  if (content.is_string()) return content;
  if (!content.is_array()) throw ApiError::invalid(path, "'" + path + "' must be a string or a list of text parts");
  Json out = Json::array();
  for (const Json& part : content) {
    Fields p(part, path + "[].");
    const std::string type = p.text("type").value_or("");
    if (type != "input_text" && type != "output_text" && type != "text")
      p.wrong("type", "is '" + shown(type, 40) + "'; this model reads text only");
    out.push_back({{"type", "text"}, {"text", p.text("text").value_or("")}});
  }
  return out;
}

// The field of a chat request that corresponds to one of a Responses request.
const std::vector<std::pair<std::string, std::string>>& chat_names() {
  static const std::vector<std::pair<std::string, std::string>> table{{"max_tokens", "max_output_tokens"},
                                                                      {"messages", "input"},
                                                                      {"response_format", "text.format"},
                                                                      {"reasoning_effort", "reasoning.effort"}};
  return table;
}

// The text of a reasoning item, as this server and others send it.
std::string reasoning_of(Fields& item) {
  std::string text;
  const Json* content = item.find("content");
  if (!content || (content->is_array() && content->empty())) content = item.find("summary");
  if (!content) return text;
  if (!content->is_array()) item.wrong("content", "must be a list of parts of type reasoning_text");
  for (const Json& part : *content) text += Fields(part, item.path("content") + "[].").text("text").value_or("");
  return text;
}

// Converts `instructions` and `input` to the messages of a chat. Reasoning belongs to the assistant's message after it.
Json messages_of(Fields& f) {
  Json messages = Json::array();
  if (const auto words = f.text("instructions")) messages.push_back({{"role", "system"}, {"content", *words}});
  const Json* input = f.find("input");
  if (!input) f.wrong("input", "is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else if (input->is_array()) {
    std::string thought;
    for (std::size_t i = 0; i < input->size(); ++i) {
      const std::string path = "input[" + std::to_string(i) + "].";
      Fields item((*input)[i], path);
      const std::string type = item.text("type").value_or("message");
      if (type == "reasoning") {
        thought = reasoning_of(item);
        continue;
      }
      if (type == "item_reference") item.wrong("type", std::string("is 'item_reference'; ") + kNothingKept);
      if (type.starts_with("function_call")) item.wrong("type", "is '" + shown(type, 40) + "'; " + kNoTools);
      if (type != "message") item.wrong("type", "must be message or reasoning");
      const auto role = item.text("role");
      const Json* content = item.find("content");
      if (!role) item.wrong("role", "is missing");
      if (!content) item.wrong("content", "is missing");
      messages.push_back(
          {{"role", *role == "developer" ? "system" : *role}, {"content", parts_of(*content, path + "content")}});
      if (*role == "assistant" && !thought.empty()) messages.back()["reasoning_content"] = thought;
      thought.clear();
    }
  } else {
    f.wrong("input", "must be a string or a list of messages");
  }
  return messages;
}

}  // namespace

Json chat_of_response(const Json& body) {
  Fields f(body);
  Json chat = Json::object();
  chat["messages"] = messages_of(f);
  for (auto [name, as] : {std::pair{"model", "model"},
                          {"temperature", "temperature"},
                          {"top_p", "top_p"},
                          {"stream", "stream"},
                          {"max_output_tokens", "max_tokens"},
                          {"seed", "seed"},
                          {"chat_template_kwargs", "chat_template_kwargs"}})
    if (const Json* value = f.find(name)) chat[as] = *value;
  if (const Json* text = f.find("text")) {
    Fields t(*text, "text.");
    t.text("verbosity");
    if (const Json* format = t.find("format")) {
      Fields how(*format, "text.format.");
      Json wanted = {{"type", how.text("type").value_or("text")}};
      if (wanted["type"] == "json_schema") {
        const Json* schema = how.find("schema");
        if (!schema) how.wrong("schema", "is missing");
        wanted["json_schema"] = {{"name", "text"}, {"schema", *schema}};
      } else if (wanted["type"] == "regex" || wanted["type"] == "grammar") {
        wanted = *format;
      }
      chat["response_format"] = wanted;
    }
    t.refuse_others({});
  }
  if (const Json* reasoning = f.find("reasoning"))
    if (const auto effort = Fields(*reasoning, "reasoning.").text("effort")) chat["reasoning_effort"] = *effort;
  if (const Json* before = f.find("previous_response_id"); before)
    f.wrong("previous_response_id", std::string("is not supported: ") + kNothingKept);
  f.flag("parallel_tool_calls", true);
  if (const Json* tools = f.find("tools"); tools && !(tools->is_array() && tools->empty()))
    f.wrong("tools", std::string("are not supported: ") + kNoTools);
  if (const Json* choice = f.find("tool_choice"); choice && *choice != "auto" && *choice != "none")
    f.wrong("tool_choice", "requires tools");
  f.integer("top_logprobs", 0, 0, 0);
  if (f.flag("background", false)) f.wrong("background", "is not supported: no answer is kept");
  for (const std::string& part : f.texts("include", kMaxIncluded))
    if (part == "message.output_text.logprobs")
      f.wrong("include", "asks for log-probabilities, which /v1/responses does not have");
  f.refuse_others({"store", "user", "metadata", "truncation", "service_tier", "safety_identifier", "prompt_cache_key",
                   "prompt_cache_retention", "stream_options", "max_tool_calls"});
  return chat;
}

ApiError of_response(ApiError error) {
  for (auto& [chat, own] : chat_names()) {
    if (!error.param.starts_with(chat)) continue;
    error.param = own + error.param.substr(chat.size());
    if (const auto at = error.message.find("'" + chat); at != error.message.npos)
      error.message.replace(at + 1, chat.size(), own);
    else if (error.message.starts_with(chat + ":")) error.message.replace(0, chat.size(), own);
    break;
  }
  return error;
}

ResponseAnswer::ResponseAnswer(Asked asked, const AnswerFormat& format, std::shared_ptr<HttpReply> reply,
                               Metrics& metrics)
    : TextAnswer(std::move(asked), format, std::move(reply), metrics),
      reasoning_{"reasoning", fresh_id("rs_"), "reasoning_text", "response.reasoning_text"},
      message_{"message", fresh_id("msg_"), "output_text", "response.output_text"} {
  id_ = fresh_id("resp_");
}

Json ResponseAnswer::content_part(const Item& item, const std::string& text) const {
  Json part = {{"type", item.part}, {"text", text}};
  if (&item == &message_) part.update({{"annotations", Json::array()}, {"logprobs", Json::array()}});
  return part;
}

Json ResponseAnswer::item_json(const Item& item, const char* status) const {
  Json out = {{"type", item.type}, {"id", item.id}, {"status", status}, {"content", Json::array()}};
  if (&item == &message_) out["role"] = "assistant";
  else out["summary"] = Json::array();
  if (std::string_view(status) != "in_progress") out["content"].push_back(content_part(item, item.text));
  return out;
}

// An answer that was cut off in its reasoning has no message.
bool ResponseAnswer::has_message() const {
  const Choice& c = choices_[0];
  return !c.content.empty() || c.reasoning.empty() || c.finish != "length";
}

Json ResponseAnswer::response(bool ended) const {
  const Json used = usage();
  Json out = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", ended ? status() : "in_progress"},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"model", asked_.model_name},
              {"output", Json::array()},
              {"parallel_tool_calls", true},
              {"store", false},
              {"temperature", asked_.engine.sampling.temperature},
              {"top_p", asked_.engine.sampling.top_p},
              {"tools", Json::array()},
              {"tool_choice", "auto"},
              {"metadata", Json::object()},
              {"usage", nullptr}};
  if (!ended) return out;
  if (choices_[0].finish == "length") out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (!reasoning_.text.empty()) out["output"].push_back(item_json(reasoning_, has_message() ? "completed" : status()));
  if (has_message()) out["output"].push_back(item_json(message_, status()));
  out["usage"] = {{"input_tokens", used["prompt_tokens"]},
                  {"input_tokens_details", used["prompt_tokens_details"]},
                  {"output_tokens", used["completion_tokens"]},
                  {"output_tokens_details", used["completion_tokens_details"]},
                  {"total_tokens", used["total_tokens"]}};
  return out;
}

void ResponseAnswer::send(const std::string& type, Json data) {
  Json all = {{"type", type}, {"sequence_number", number_++}};
  all.update(data);
  reply_->write("event: " + type + "\ndata: " + dump(all) + "\n\n");
}

void ResponseAnswer::end_with(const ApiError& e) {
  const Json error = e.json()["error"];
  send("error", {{"code", error["code"]}, {"message", error["message"]}, {"param", error["param"]}});
}

Json ResponseAnswer::place(const Item& item, Json more) {
  more.update({{"item_id", item.id}, {"output_index", item.index}, {"content_index", 0}});
  return more;
}

// Sends new text of an item, and before its first text that the item begins.
void ResponseAnswer::add(Item& item, const std::string& text) {
  if (!std::exchange(item.open, true)) {
    item.index = items_++;
    send("response.output_item.added", {{"output_index", item.index}, {"item", item_json(item, "in_progress")}});
    send("response.content_part.added", place(item, {{"part", content_part(item, "")}}));
  }
  item.text += text;
  if (text.empty()) return;
  Json delta = place(item, {{"delta", text}});
  if (&item == &message_) delta["logprobs"] = Json::array();
  send(item.events + ".delta", std::move(delta));
}

void ResponseAnswer::end(Item& item, const char* status) {
  if (!std::exchange(item.open, false)) return;
  Json whole = place(item, {{"text", item.text}});
  if (&item == &message_) whole["logprobs"] = Json::array();
  send(item.events + ".done", std::move(whole));
  send("response.content_part.done", place(item, {{"part", content_part(item, item.text)}}));
  send("response.output_item.done", {{"output_index", item.index}, {"item", item_json(item, status)}});
}

void ResponseAnswer::tell(std::size_t i, const std::string&, bool last) {
  Choice& c = choices_[i];
  if (!std::exchange(c.begun, true)) {
    send("response.created", {{"response", response(false)}});
    send("response.in_progress", {{"response", response(false)}});
  }
  if (!c.said.reasoning.empty()) add(reasoning_, c.said.reasoning);
  if (!c.said.content.empty() || (last && has_message())) {
    end(reasoning_, "completed");
    add(message_, c.said.content);
  }
  if (!last) return;
  end(reasoning_, status());
  end(message_, status());
  send(std::string("response.") + status(), {{"response", response(true)}});
}

Json ResponseAnswer::whole() {
  reasoning_.text = choices_[0].reasoning;
  message_.text = choices_[0].content;
  return response(true);
}

}  // namespace dml
