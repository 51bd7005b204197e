#!/usr/bin/python3
"""Writes tests/golden/chat_formats.json: the models' own chat templates rendered by python3-jinja2.

    tools/make_chat_golden.py FOLDER        FOLDER/NAME.jinja for each of NAMES

The templates are Axolotl's (src/axolotl/utils/chat_templates/templates). Only what they give is stored, for conversations of
plain text, and with tools where the template has them. exaone4 is mended: Axolotl's lacks a `continue` and so writes the first
system message twice, and [9:] cuts a letter of the reasoning.
"""
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NAMES = ["llama4", "mistral_v7_tekken", "gemma3n", "gemma4", "gemma4_unified", "exaone4", "nemotron_h", "command_a", "command_a_tool_use", "command_a_rag",
         "granite", "granitemoe", "llama3_2_vision", "pixtral", "qwen2_vl", "llava"]
DAY = "2025-06-07"

user = lambda text: {"role": "user", "content": text}
assistant = lambda text, **more: {"role": "assistant", "content": text, **more}
system = lambda text: {"role": "system", "content": text}
CONVERSATIONS = {
    "one": [user("Hi there")],
    "pair": [user("Hi"), assistant("Hello!")],
    "system": [system("Be brief."), user("Hi"), assistant("Hello!"), user("Bye")],
    "blanks": [system("  Be brief. \n"), user("  Hi \n"), assistant(" Hello! \n\n"), user("\tBye ")],
    "unicode": [user("Grüße, 你好 😀"), assistant("«ja»")],
    "thoughts": [user("1+1?"), assistant("<think>\nadd\n</think>\n\n2"), user("2+2?"), assistant("<think>\nadd\n</think>\n\n4")],
    "channel": [user("1+1?"), assistant("<|channel>thought\nadd<channel|>2"), user("2+2?")],
    "parts": [user([{"type": "text", "text": "one "}]), assistant([{"type": "text", "text": "two"}])],
    "narrator": [user("Hi"), {"role": "narrator", "content": "Rain."}],
    "two_users": [user("Hi"), user("Hello?")],
    "two_systems": [system("a"), user("b"), system("c"), user("d")],
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
        "type": "object", "required": ["city", "when"], "properties": {
            "city": {"type": "string", "description": "Of the town"},
            "unit": {"type": "string", "enum": ["°C", "°F"]},
            "when": {"type": "object", "description": "A day", "required": ["day"],
                     "properties": {"day": {"type": "integer"}, "hour": {"type": "integer", "nullable": True}}},
            "far": {"type": "object", "additionalProperties": False},
            "places": {"type": "array", "description": "Others", "items": {
                "type": "object", "required": ["name"], "properties": {"name": {"type": "string", "description": "<b>"}}}},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}}},
    {"type": "function", "function": {"name": "stop", "description": "Ends it.", "parameters": {"type": "object", "properties": {}},
                                      "response": {"type": "object", "description": "Nothing"}}},
]
call = lambda name, given: {"type": "function", "function": {"name": name, "arguments": given}}
TOOL_CONVERSATIONS = {
    "tools": [user(" Weather? ")],
    "tools_system": [system("Be brief. "), user("Weather?")],
    "tool_call": [user("Weather?"), assistant("Let me see.", tool_calls=[call("weather", {"city": "Köln", "when": {"day": 3, "exact": True}})]),
                  {"role": "tool", "content": "12 °C"}, assistant("12 °C."), user("Thanks")],
    "tool_calls": [system("Be brief."), user("Weather?"),
                   assistant("", tool_calls=[call("weather", {"days": [1, 2.5], "city": "Bonn"}), call("stop", {})]),
                   {"role": "tool", "content": "12"}, {"role": "tool", "content": "ok"}],
}
# With numbers for calls and results, as Command A's template asks.
NUMBERED = [user("Weather?"), assistant("", tool_plan="I ask.", tool_calls=[call("weather", {"city": "Köln"}) | {"id": "a"}, call("stop", {}) | {"id": "b"}]),
            {"role": "tool", "tool_call_id": "a", "content": "12 °C"}, {"role": "tool", "tool_call_id": "b", "content": "ok"},
            assistant("", tool_plan="Again.", tool_calls=[call("weather", {"city": "Bonn"}) | {"id": "c"}]),
            {"role": "tool", "tool_call_id": "c", "content": "9"}, assistant("12 and 9."), user("Thanks")]
DOCUMENTS = {"documents": [{"doc_id": 3, "text": "Rain <in> Köln."}, {"doc_id": 5, "text": "Sun."}]}
WITH_DOCUMENTS = {"command_a_tool_use": [DOCUMENTS, DOCUMENTS | {"enable_citations": True}], "command_a_rag": [DOCUMENTS],
                  "granite": [DOCUMENTS, DOCUMENTS | {"controls": {"citations": True, "hallucinations": True}}, {"thinking": True}],
                  "granitemoe": [DOCUMENTS, DOCUMENTS | {"controls": {"citations": True, "hallucinations": True}}]}
WITH_TOOLS = {"command_a_tool_use": {"enable_citations": True}, "granite": DOCUMENTS, "granitemoe": DOCUMENTS,
              "llama3_2_vision": {"tools_in_user_message": False}, "llama4": {"tools_in_user_message": False}, "exaone4": {"enable_thinking": True}, "gemma4": {"enable_thinking": True}, "gemma4_unified": {"enable_thinking": True}}
# Gemma's own way: answers of tools in the message that called them.
ANSWERED = [user("Weather?"), assistant("", tool_calls=[call("weather", {"city": "Köln"})],
                                        tool_responses=[{"name": "weather", "response": {"degrees": 12, "dry": False}}, {"name": "stop", "response": "done"}])]
# A turn with several calls: reasoning, results by number and in parts, a call that is not answered yet.
REASONED = [user("Weather?"), assistant("", reasoning_content="Ask.", tool_calls=[call("weather", {"city": "Köln"}) | {"id": "a"}, call("stop", "now") | {"id": "b"}]),
            {"role": "tool", "tool_call_id": "b", "content": "done"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "12 "}, {"type": "text", "text": "°C"}]}]
MORE_WITH_TOOLS = {"gemma4": {"answered": ANSWERED}, "command_a_tool_use": {"numbered": NUMBERED},
                   "gemma4_unified": {"answered": ANSWERED, "numbered": NUMBERED, "reasoned": REASONED, "unanswered": NUMBERED[:2],
                                      "again": REASONED + [assistant("It is 12.", reasoning="Sum up.", tool_calls=[call("stop", {})]), {"role": "tool", "content": "ok"},
                                                           assistant(" Done. "), user("Thanks"), assistant("<|channel>x<channel|>")]}}
VARIABLES = [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"skip_think": False}]


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals.update(raise_exception=raise_exception, strftime_now=lambda _: DAY)
    # As in transformers: plain JSON without HTML escapes.
    env.filters["tojson"] = lambda value, ensure_ascii=False, indent=None: json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    out = []
    for name in NAMES:
        template = env.from_string(open(os.path.join(sys.argv[1], name + ".jinja")).read())
        conversations = TOOL_CONVERSATIONS | MORE_WITH_TOOLS.get(name, {}) if name in WITH_TOOLS else {}
        for title, messages in conversations.items():
            if name == "command_a_tool_use" and title not in ("tools_system", "numbered"):
                continue
            asked = [(True, {})] + ([(False, {}), (True, WITH_TOOLS[name])] if title == "tools_system" else [])
            for ask, variables in asked:
                context = dict(messages=messages, add_generation_prompt=ask, bos_token="<s>", eos_token="</s>", **variables)
                case = dict(template=name, id=title, tools=True, context=context)
                try:
                    case["expected"] = template.render(tools=TOOLS, **context)
                except Exception:
                    case["error"] = True
                out.append(case)
        for variables in WITH_DOCUMENTS.get(name, []):
            for title in ("pair", "system"):
                context = dict(messages=CONVERSATIONS[title], add_generation_prompt=True, bos_token="<s>", eos_token="</s>", **variables)
                out.append(dict(template=name, id=title, context=context, expected=template.render(**context)))
        for title, messages in CONVERSATIONS.items():
            if name.startswith("command_a") and title == "parts":
                continue  # it prints the list as Python does
            if name in ("command_a_tool_use", "command_a_rag") and title not in ("pair", "blanks", "two_systems"):
                continue  # they say much
            if name == "llava":  # it reads parts alone
                messages = [m if isinstance(m["content"], list) else m | {"content": [{"type": "text", "text": m["content"]}]} for m in messages]
            for ask in (True, False):
                for variables in VARIABLES:
                    context = dict(messages=messages, add_generation_prompt=ask, bos_token="<s>", eos_token="</s>", **variables)
                    case = dict(template=name, id=title, context=context)
                    try:
                        case["expected"] = template.render(**context)
                    except Exception:
                        case["error"] = True
                    if variables == {} or case.get("expected") != plain.get((name, title, ask)):
                        out.append(case)
                    if variables == {}:
                        plain[name, title, ask] = case.get("expected")
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/golden/chat_formats.json")
    with open(path, "w") as f:
        text = lambda value: json.dumps(value, ensure_ascii=False)
        f.write('{"day": ' + text(DAY) + ', "tools": ' + text(TOOLS) + ', "cases": [\n' + ",\n".join(map(text, out)) + "\n]}\n")
    print(len(out), "cases")


plain = {}
if __name__ == "__main__":
    main()
