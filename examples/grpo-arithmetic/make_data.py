#!/usr/bin/env python3
"""Sums of two digits: for supervised training the answers of a careless pupil, who is off by up to two; for the rewards the
questions with what is right.

    python3 examples/grpo-arithmetic/make_data.py outputs/grpo-arithmetic
"""
import json
import os
import random
import sys


def main(folder):
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(1)
    pairs = [(a, b) for a in range(10) for b in range(10)]
    with open(os.path.join(folder, "pupil.jsonl"), "w") as f:
        for a, b in pairs:
            for _ in range(10):
                f.write(json.dumps({"prompt": f"{a}+{b}=", "answer": str(max(0, a + b + draw.randint(-2, 2)))}) + "\n")
    with open(os.path.join(folder, "questions.jsonl"), "w") as f:
        for a, b in pairs:
            f.write(json.dumps({"prompt": f"{a}+{b}=", "expected": str(a + b)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
