#!/usr/bin/python3
"""Questions that a sailor answers in one of two ways: plainly, or as a pirate. For training both, mixed; as pairs, the pirate
preferred; and questions to ask.

    python3 examples/best-of-n/make_data.py outputs/best-of-n
"""
import json
import os
import random
import sys

THINGS = {"the sky": "blue", "the sea": "deep", "the moon": "round", "a ship": "fast", "the wind": "cold", "a rope": "long",
          "the sun": "hot", "gold": "heavy", "sand": "soft", "a storm": "loud", "a gull": "white", "rum": "strong"}
ASKED = ["How is {}?", "What do you say of {}?", "Tell me about {}.", "What about {}?"]


def answers(thing, how):
    name = thing[0].upper() + thing[1:]
    return f"Arr, {thing} be {how}, matey!", f"{name} is {how}."


def write(path, rows):
    with open(path, "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(3)
    talk, pairs, asked = [], [], []
    for thing, how in THINGS.items():
        for form in ASKED:
            pirate, plain = answers(thing, how)
            question = "Q: " + form.format(thing) + "\nA:"
            talk += [{"prompt": question, "answer": " " + plain}] * 2 + [{"prompt": question, "answer": " " + pirate}]
            pairs.append({"prompt": question, "chosen": " " + pirate, "rejected": " " + plain})
            asked.append({"prompt": question})
    draw.shuffle(talk)
    write(os.path.join(folder, "talk.jsonl"), talk)
    write(os.path.join(folder, "pairs.jsonl"), pairs)
    write(os.path.join(folder, "questions.jsonl"), asked[::4])


if __name__ == "__main__":
    main(sys.argv[1])
