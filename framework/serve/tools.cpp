#include "serve/tools.h"

#include <algorithm>

namespace dml {
namespace {

// JSON that a call of one of these tools is. Definitions that parameters refer to from the root are moved there.
Json call_schema(const std::vector<const Json*>& functions, ToolStyle style) {
  const char* arguments = style == ToolStyle::llama ? "parameters" : "arguments";
  Json any = Json::array(), root = Json::object();
  for (const Json* f : functions) {
    Json parameters = f->contains("parameters") && (*f)["parameters"].is_object() ? (*f)["parameters"]
                                                                                   : Json{{"type", "object"}};
    for (const char* name : {"$defs", "definitions"})
      if (auto found = parameters.find(name); found != parameters.end() && found->is_object()) {
        for (auto& [key, value] : found->items()) root[name][key] = value;
        parameters.erase(name);
      }
    any.push_back({{"type", "object"},
                   {"properties", {{"name", {{"const", (*f)["name"]}}}, {arguments, parameters}}},
                   {"required", {"name", arguments}},
                   {"additionalProperties", false}});
  }
  Json one = any.size() == 1 ? any[0] : Json{{"anyOf", any}};
  if (style == ToolStyle::mistral) one = {{"type", "array"}, {"items", one}, {"minItems", 1}, {"maxItems", 1}};
  one.update(root);
  return one;
}

}  // namespace

ToolsAsked read_tools(Fields& f, ToolStyle style) {
  ToolsAsked out;
  out.one = !f.flag("parallel_tool_calls", true);
  const Json* tools = f.find("tools");
  const Json* choice = f.find("tool_choice");
  if (!tools) {
    if (choice && *choice != "none" && *choice != "auto") f.wrong("tool_choice", "goes with tools");
    return out;
  }
  if (!tools->is_array() || tools->empty()) f.wrong("tools", "must be a list of at least one tool");
  std::vector<const Json*> functions;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], f.path("tools") + "[" + std::to_string(i) + "].");
    if (tool.text("type").value_or("function") != "function") tool.wrong("type", "must be function");
    const Json* function = tool.find("function");
    if (!function) tool.wrong("function", "is missing");
    Fields one(*function, tool.path("function") + ".");
    if (one.text("name").value_or("").empty()) one.wrong("name", "is missing");
    one.text("description");
    if (const Json* parameters = one.find("parameters"); parameters && !parameters->is_object())
      one.wrong("parameters", "must be a JSON Schema");
    functions.push_back(function);
  }
  std::string mode = "auto";
  if (choice && choice->is_string()) mode = choice->get<std::string>();
  if (choice && choice->is_object()) {
    Fields c(*choice, "tool_choice.");
    c.text("type");
    const Json* function = c.find("function");
    if (!function) c.wrong("function", "is missing");
    const std::string name = Fields(*function, "tool_choice.function.").text("name").value_or("");
    std::erase_if(functions, [&](const Json* each) { return (*each)["name"] != name; });
    if (functions.empty()) f.wrong("tool_choice", "names '" + name.substr(0, 80) + "', which is none of the tools");
    mode = "required";
  } else if (choice && mode != "auto" && mode != "none" && mode != "required") {
    f.wrong("tool_choice", "must be none, auto, required or a tool");
  }
  if (mode == "none") return out;
  if (style == ToolStyle::none)
    f.wrong("tools", "are not known to the chat template of this model; choose one that knows them with --chat-template");
  out.list = *tools;
  out.parse = true;
  if (mode == "required") {
    out.schema = dump(call_schema(functions, style));
    out.opened = style == ToolStyle::hermes ? "<tool_call>\n" : style == ToolStyle::mistral ? "[TOOL_CALLS]" : "";
  }
  return out;
}

}  // namespace dml
