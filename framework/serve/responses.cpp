#include "serve/responses.h"

#include "core/shown.h"

namespace dml {
namespace {

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

// Converts `instructions` and `input` to the messages of a chat.
Json messages_of(Fields& f) {
  Json messages = Json::array();
  if (const auto words = f.text("instructions")) messages.push_back({{"role", "system"}, {"content", *words}});
  const Json* input = f.find("input");
  if (!input) f.wrong("input", "is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else if (input->is_array()) {
    for (std::size_t i = 0; i < input->size(); ++i) {
      const std::string path = "input[" + std::to_string(i) + "].";
      Fields item((*input)[i], path);
      if (item.text("type").value_or("message") != "message") item.wrong("type", "must be message");
      const auto role = item.text("role");
      const Json* content = item.find("content");
      if (!role) item.wrong("role", "is missing");
      if (!content) item.wrong("content", "is missing");
      messages.push_back(
          {{"role", *role == "developer" ? "system" : *role}, {"content", parts_of(*content, path + "content")}});
    }
  } else {
    f.wrong("input", "must be a string or a list of messages");
  }
  return messages;
}

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
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
      }
      chat["response_format"] = wanted;
    }
    t.refuse_others({});
  }
  if (const Json* reasoning = f.find("reasoning"))
    if (const auto effort = Fields(*reasoning, "reasoning.").text("effort")) chat["reasoning_effort"] = *effort;
  if (const Json* before = f.find("previous_response_id"); before)
    f.wrong("previous_response_id", "is not supported: nothing of a request is kept; send the messages again");
  f.flag("parallel_tool_calls", true);
  if (const Json* tools = f.find("tools"); tools && !(tools->is_array() && tools->empty()))
    f.wrong("tools", "are not supported here; /v1/chat/completions knows tools");
  if (const Json* choice = f.find("tool_choice"); choice && *choice != "auto" && *choice != "none")
    f.wrong("tool_choice", "goes with tools");
  f.integer("top_logprobs", 0, 0, 0);
  f.refuse_others({"store", "user", "metadata", "truncation", "include", "service_tier", "safety_identifier",
                   "prompt_cache_key", "prompt_cache_retention", "background", "stream_options", "max_tool_calls"});
  return chat;
}

ApiError of_response(ApiError error) {
  for (auto& [chat, own] : chat_names()) {
    if (!error.param.starts_with(chat)) continue;
    error.param = own + error.param.substr(chat.size());
    if (const auto at = error.message.find("'" + chat); at != error.message.npos)
      error.message.replace(at + 1, chat.size(), own);
    break;
  }
  return error;
}

ResponseAnswer::ResponseAnswer(Asked asked, const AnswerFormat& format, std::shared_ptr<HttpReply> reply,
                               Metrics& metrics)
    : TextAnswer(std::move(asked), format, std::move(reply), metrics), message_id_(fresh_id("msg_")) {
  id_ = fresh_id("resp_");
}

Json ResponseAnswer::message(const char* status) const {
  return {{"type", "message"},
          {"id", message_id_},
          {"status", status},
          {"role", "assistant"},
          {"content", Json::array({text_part(text_)})}};
}

Json ResponseAnswer::response(const char* status) const {
  const bool ended = std::string_view(status) != "in_progress";
  const Json used = usage();
  Json out = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", status},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"model", asked_.model_name},
              {"output", Json::array()},
              {"parallel_tool_calls", true},
              {"temperature", asked_.engine.sampling.temperature},
              {"top_p", asked_.engine.sampling.top_p},
              {"tools", Json::array()},
              {"tool_choice", "auto"},
              {"metadata", Json::object()},
              {"usage", nullptr}};
  if (!ended) return out;
  if (std::string_view(status) == "incomplete") out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  out["output"].push_back(message(status));
  out["usage"] = {{"input_tokens", used["prompt_tokens"]},
                  {"input_tokens_details", used["prompt_tokens_details"]},
                  {"output_tokens", used["completion_tokens"]},
                  {"output_tokens_details", {{"reasoning_tokens", 0}}},
                  {"total_tokens", used["total_tokens"]}};
  return out;
}

void ResponseAnswer::send(const char* type, Json data) {
  Json all = {{"type", type}, {"sequence_number", number_++}};
  all.update(data);
  reply_->write(std::string("event: ") + type + "\ndata: " + dump(all) + "\n\n");
}

void ResponseAnswer::end_with(const ApiError& e) {
  const Json error = e.json()["error"];
  send("error", {{"code", error["code"]}, {"message", error["message"]}, {"param", error["param"]}});
}

void ResponseAnswer::tell(std::size_t i, const std::string& piece, bool last) {
  Choice& c = choices_[i];
  const Json place = {{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}};
  auto at = [&](Json more) {
    Json all = place;
    all.update(more);
    return all;
  };
  if (!std::exchange(c.begun, true)) {
    send("response.created", {{"response", response("in_progress")}});
    send("response.in_progress", {{"response", response("in_progress")}});
    Json item = message("in_progress");
    item["content"] = Json::array();
    send("response.output_item.added", {{"output_index", 0}, {"item", item}});
    send("response.content_part.added", at({{"part", text_part("")}}));
  }
  const ReplyParser::Piece said = last ? c.reply.finish() : c.reply.push(piece);
  text_ += said.content;
  if (!said.content.empty())
    send("response.output_text.delta", at({{"delta", said.content}, {"logprobs", Json::array()}}));
  if (!last) return;
  const char* status = c.finish == "length" ? "incomplete" : "completed";
  send("response.output_text.done", at({{"text", text_}, {"logprobs", Json::array()}}));
  send("response.content_part.done", at({{"part", text_part(text_)}}));
  send("response.output_item.done", {{"output_index", 0}, {"item", message(status)}});
  send(c.finish == "length" ? "response.incomplete" : "response.completed", {{"response", response(status)}});
}

Json ResponseAnswer::whole() {
  Choice& c = choices_[0];
  for (const ReplyParser::Piece& piece : {c.reply.push(c.whole), c.reply.finish()}) text_ += piece.content;
  return response(c.finish == "length" ? "incomplete" : "completed");
}

}  // namespace dml
