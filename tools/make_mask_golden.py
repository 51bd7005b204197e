#!/usr/bin/python3
"""Writes tests/golden/masks.json: which bytes of a rendered conversation are trained, by an independent, slow rule.

    tools/make_mask_golden.py FOLDER     # with the published templates, as axolotl-chatml.jinja …

Each conversation is rendered by python3-jinja2 once as it is and once for every message, with a sentinel in the place of
that message's content. What stands in front of the sentinel says where the content begins. A turn is learned when its role
is (or its flag says so), the end token behind it by train_on_eos. Nothing here knows marks, pieces or tokens.
"""
import json
import os
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

SENTINEL = "\ue000"
FORMATS = [  # our name, the published file, eos, whether there is a system role
    ("chatml", "axolotl-chatml", "<|im_end|>", True),
    ("llama3", "axolotl-llama3", "<|eot_id|>", True),
    ("mistral_v1", "axolotl-mistral_v1", "</s>", True),
    ("mistral_v2v3", "axolotl-mistral_v2v3", "</s>", True),
    ("gemma", "axolotl-gemma", "<end_of_turn>", False),
    ("phi_3", "axolotl-phi_3", "<|end|>", True),
    ("qwen_25", "axolotl-qwen_25", "<|im_end|>", True),
    ("qwen3", "axolotl-qwen3", "<|im_end|>", True),
]
TALK = [("user", "Hello, who are you?"), ("assistant", "Nobody – ça va?"), ("user", "日本 or 🙂?"),
        ("assistant", "Both.\n\nReally."), ("user", "Bye"), ("assistant", "See you")]
CONVERSATIONS = [TALK[:2], TALK, [("system", "Be brief.")] + TALK[:4]]
OPTIONS = [
    {},
    {"train_on_inputs": True},
    {"roles_to_train": ["user", "assistant"]},
    {"roles_to_train": ["user"]},
    {"roles_to_train": []},
    {"train_on_eos": "all"},
    {"train_on_eos": "last"},
    {"train_on_eos": "none"},
    {"roles_to_train": [], "train_on_eos": "all"},
    {"train_on_turns": 1},
    {"train_on_turns": 1, "train_on_eos": "all"},
    {"train_on_turns": 2, "train_on_eos": "last"},
    {"flags": [0, 1, 0, 0, 1, 0, 1]},
    {"flags": [1, 0, 1, 1, 0, 1, 0], "train_on_eos": "last"},
]


def fail(message):
    raise RuntimeError(message)


def render(template, messages, eos):
    return template.render(messages=messages, bos_token="<s>", eos_token=eos, add_generation_prompt=False, tools=None)


def contents(template, messages, eos):
    """[begin, end) of every message's content, in characters of the whole text."""
    text, spans = render(template, messages, eos), []
    for i, m in enumerate(messages):
        changed = [dict(x, content=SENTINEL) if k == i else x for k, x in enumerate(messages)]
        begin = render(template, changed, eos).find(SENTINEL)
        if begin < 0:  # the template leaves this message out
            spans.append(None)
            continue
        assert text[begin:begin + len(m["content"])] == m["content"], (text, m)
        spans.append((begin, begin + len(m["content"])))
    return text, spans


def learned(text, spans, messages, eos, options):
    n = len(messages)
    roles = options.get("roles_to_train", ["assistant"])
    turn = [options.get("train_on_inputs", False) or m["role"] in roles for m in messages]
    if "flags" in options:
        turn = [bool(options["flags"][i]) for i in range(n)]
    if "train_on_turns" in options:
        keep = [i for i in range(n) if turn[i]][-options["train_on_turns"]:]
        turn = [i in keep for i in range(n)]
    policy, mask, last = options.get("train_on_eos", "turn"), [False] * len(text), None
    present = [i for i in range(n) if spans[i]]
    for i, following in zip(present, present[1:] + [None]):
        begin, end = spans[i]
        if turn[i]:
            mask[begin:end] = [True] * (end - begin)
        at = end
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if not text.startswith(eos, at) or (following and at >= spans[following][0]):
            continue
        if policy == "all" or (policy == "turn" and turn[i]):
            mask[at:at + len(eos)] = [True] * len(eos)
        if policy == "last" and turn[i]:
            last = at
    if last is not None:
        mask[last:last + len(eos)] = [True] * len(eos)
    out, at = [], 0
    for character, learn in zip(text, mask):  # in bytes
        size = len(character.encode())
        if learn and out and out[-1][1] == at:
            out[-1][1] += size
        elif learn:
            out.append([at, at + size])
        at += size
    return out


def main():
    cases = []
    for name, file, eos, system in FORMATS:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                    extensions=["jinja2.ext.loopcontrols"])
        environment.globals["raise_exception"] = fail
        with open(os.path.join(sys.argv[1], file + ".jinja"), encoding="utf-8") as source:
            template = environment.from_string(source.read())
        for talk in CONVERSATIONS:
            if talk[0][0] == "system" and not system:
                continue
            messages = [{"role": role, "content": content} for role, content in talk]
            text, spans = contents(template, messages, eos)
            cases.append({"template": name, "eos": eos, "messages": messages, "text": text,
                          "masks": [{"options": o, "learned": learned(text, spans, messages, eos, o)}
                                    for o in OPTIONS]})
    path = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "masks.json")
    with open(path, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "\n]\n")


main()
