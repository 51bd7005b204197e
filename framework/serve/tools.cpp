#include "serve/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "constraint/call_automaton.h"
#include "core/shown.h"

namespace dml {
namespace {

// The URI that a schema gives itself, "" if none.
std::string own_id(const Json& schema) {
  const auto id = schema.find("$id");
  const std::string uri = id != schema.end() && id->is_string() ? id->get<std::string>() : "";
  return uri.substr(0, uri.find('#'));
}

// The JSON Schema of the calls: one call, or for Mistral a list. Parameters are separate documents, so that their
// references resolve; one that has no URI, or that of another function, gets one.
Json call_schema(const Json& functions, ToolStyle style, bool one_call) {
  const char* arguments = style == ToolStyle::llama ? "parameters" : "arguments";
  Json any = Json::array();
  std::set<std::string> ids{""};
  for (const Json& f : functions) {
    Json parameters = f["parameters"];
    if (!ids.insert(own_id(parameters)).second) parameters["$id"] = "tool:" + std::to_string(any.size());
    any.push_back({{"type", "object"},
                   {"properties", {{"name", {{"const", f["name"]}}}, {arguments, parameters}}},
                   {"required", {"name", arguments}},
                   {"additionalProperties", false}});
  }
  Json one = any.size() == 1 ? any[0] : Json{{"anyOf", any}};
  if (style != ToolStyle::mistral) return one;
  Json list = {{"type", "array"}, {"items", one}, {"minItems", 1}};
  if (one_call) list["maxItems"] = 1;
  return list;
}

// The schema of a function's arguments, which are an object; a function that declares no parameters has none.
Json arguments_schema(Fields& function) {
  const Json* given = function.find("parameters");
  Json schema = given ? *given : Json::object();
  if (!schema.is_object() || (schema.contains("type") && schema["type"] != "object"))
    function.wrong("parameters", "must be a JSON Schema of an object");
  schema["type"] = "object";
  static const std::vector<std::string> kSayNothing{"type", "title", "description", "$schema"};
  const bool declares = std::ranges::any_of(schema.items(), [](const auto& item) {
    return item.key() == "properties" || item.key() == "required"
               ? !item.value().empty()
               : std::ranges::find(kSayNothing, item.key()) == kSayNothing.end();
  });
  if (!declares) schema["additionalProperties"] = false;
  return schema;
}

}  // namespace

ToolsAsked read_tools(Fields& f, ToolStyle style) {
  ToolsAsked out;
  out.one = !f.flag("parallel_tool_calls", true);
  const Json* tools = f.find("tools");
  const Json* choice = f.find("tool_choice");
  if (!tools) {
    if (choice && *choice != "none" && *choice != "auto") f.wrong("tool_choice", "requires tools");
    return out;
  }
  if (!tools->is_array() || tools->empty()) f.wrong("tools", "must be a list of at least one tool");
  for (std::size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], f.path("tools") + "[" + std::to_string(i) + "].");
    if (tool.text("type").value_or("function") != "function") tool.wrong("type", "must be function");
    const Json* function = tool.find("function");
    if (!function) tool.wrong("function", "is missing");
    Fields one(*function, tool.path("function") + ".");
    if (one.text("name").value_or("").empty()) one.wrong("name", "is missing");
    one.text("description");
    out.functions.push_back({{"name", (*function)["name"]}, {"parameters", arguments_schema(one)}});
  }
  std::string mode = !choice ? "auto" : choice->is_string() ? choice->get<std::string>() : "";
  if (choice && choice->is_object()) {
    Fields c(*choice, "tool_choice.");
    if (c.text("type").value_or("function") != "function") c.wrong("type", "must be function");
    const Json* function = c.find("function");
    if (!function) c.wrong("function", "is missing");
    const std::string name = Fields(*function, "tool_choice.function.").text("name").value_or("");
    std::erase_if(out.functions.get_ref<Json::array_t&>(), [&](const Json& each) { return each["name"] != name; });
    if (out.functions.empty()) f.wrong("tool_choice", "names '" + shown(name, 80) + "', which is none of the tools");
    mode = "required";
    out.one = true;
  } else if (choice && mode != "auto" && mode != "none" && mode != "required") {
    f.wrong("tool_choice", "must be none, auto, required or a tool");
  }
  if (mode == "none") return out;
  if (style == ToolStyle::none)
    f.wrong("tools",
            "are not supported with the chat template of this model: it renders no tools, or writes calls in a format "
            "that dml does not parse; --chat-template NAME chooses another one");
  out.list = *tools;
  out.parse = true;
  out.required = mode == "required";
  if (out.required)
    out.opened = style == ToolStyle::hermes ? "<tool_call>" : style == ToolStyle::mistral ? "[TOOL_CALLS]" : "";
  return out;
}

std::string call_constraint_key(const ToolsAsked& tools, const ReplyParser::Format& reply) {
  return fmt::format("calls{:d}{:d}{:d}{:d}{}", tools.required, tools.one, reply.reasoning, reply.inside_reasoning,
                     dump(tools.functions));
}

std::unique_ptr<Automaton> call_constraint(const ToolsAsked& tools, const ReplyParser::Format& reply,
                                           const std::string& chat_template, std::unique_ptr<Automaton> answer) {
  const bool named = reply.tools == ToolStyle::mistral && chat_template.find("[ARGS]") != chat_template.npos;
  auto json = [](const Json& schema) { return schema_automaton(dump(schema), "tools", JsonSpace::one); };
  CallForm form;
  form.thinks = reply.reasoning && !answer;
  form.thinking = reply.inside_reasoning;
  form.required = tools.required;
  if (named) {
    for (const Json& f : tools.functions)
      form.calls.push_back({f["name"].get<std::string>() + "[ARGS]", json(f["parameters"])});
  } else {
    form.calls.push_back(
        {reply.tools == ToolStyle::hermes ? "\n" : "", json(call_schema(tools.functions, reply.tools, tools.one))});
  }
  switch (reply.tools) {
    case ToolStyle::hermes:
      form.marks = {"<tool_call>"};
      form.close = "\n</tool_call>";
      form.again = "\n<tool_call>";
      break;
    case ToolStyle::mistral:
      form.marks = {"[TOOL_CALLS]"};
      form.again = named ? "[TOOL_CALLS]" : "";
      break;
    default:
      form.begun = "{\"name\"";
      form.marks = {form.begun, "<|python_tag|>" + form.begun};
      form.again = "; " + form.begun;
      form.anywhere = false;
  }
  if (tools.one) form.again.clear();
  if (!answer) return call_automaton(std::move(form));
  form.text = form.anywhere = false;
  return either_automaton(call_automaton(std::move(form)), std::move(answer));
}

}  // namespace dml
