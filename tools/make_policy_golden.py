#!/usr/bin/env python3
"""Losses of GRPO and their gradients on the tiny Llama of tests/golden, by autograd: fixed completions, advantages and earlier
log-probabilities, every way to average, to clip and to stay close to a reference. Formulas as in TRL's GRPOTrainer, written down
again; nothing here is shared with the C++ sources.

    tools/make_policy_golden.py > tests/golden/policy.json
"""
import json
import math
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from golden_model import Config, Decoder  # noqa: E402
from make_adapter_golden import read_safetensors  # noqa: E402

FAMILY = os.path.join(HERE, "..", "tests", "golden", "llama_tiny")
MODEL = os.path.join(FAMILY, "model")
LONGEST = 8          # tokens that a completion may have
PROMPTS = [5, 5, 3, 3]
LENGTHS = [6, 8, 1, 4]
ENDED = [True, False, True, True]

CASES = [
    dict(name="dapo", loss_type="dapo"),
    dict(name="grpo", loss_type="grpo"),
    dict(name="dr_grpo", loss_type="dr_grpo"),
    dict(name="old", loss_type="dapo", old=True),
    dict(name="old_grpo", loss_type="grpo", old=True, epsilon=0.1, epsilon_high=0.3),
    dict(name="delta", loss_type="dapo", old=True, delta=1.2),
    dict(name="sequence", loss_type="grpo", old=True, sequence=True, epsilon=0.02),
    dict(name="beta", loss_type="dapo", beta=0.04),
    dict(name="all", loss_type="dr_grpo", old=True, beta=0.1, epsilon_high=0.28, mask_truncated=True),
    dict(name="warm", loss_type="dapo", temperature=0.7, old=True),
]


def adapters():
    """The model with the golden adapter, which is the reference."""
    tensors = read_safetensors(os.path.join(FAMILY, "lora", "adapter_model.safetensors"))
    with open(os.path.join(FAMILY, "lora", "adapter_config.json")) as f:
        config = json.load(f)
    modules = sorted({k.rsplit(".lora_", 1)[0] for k in tensors})
    pairs = {m.replace("base_model.model.", "", 1): (tensors[m + ".lora_A.weight"], tensors[m + ".lora_B.weight"]) for m in modules}
    return pairs, config["lora_alpha"] / config["r"]


def documents(generator):
    out = []
    for prompt, length in zip(PROMPTS, LENGTHS):
        tokens = torch.randint(3, 97, (prompt + length,), generator=generator).tolist()
        out.append(dict(tokens=tokens, prompt=prompt))
    return out


def batch_of(docs):
    tokens, labels, positions, starts = [], [], [], [0]
    for d in docs:
        n = len(d["tokens"])
        tokens += d["tokens"]
        labels += [d["tokens"][t + 1] if t + 1 >= d["prompt"] else -100 for t in range(n - 1)] + [-100]
        positions += range(n)
        starts.append(len(tokens))
    return dict(tokens=tokens, labels=labels, positions=positions, starts=starts)


def logps_of(model, docs, temperature):
    batch = batch_of(docs)
    rows = torch.log_softmax(model.logits(batch) / temperature, -1)
    out = []
    for d, start in zip(docs, batch["starts"]):
        where = range(start + d["prompt"] - 1, start + len(d["tokens"]) - 1)
        out.append(torch.stack([rows[t, batch["labels"][t]] for t in where]))
    return out


def loss_of(case, logps, old, reference, advantages):
    low, high = case.get("epsilon", 0.2), case.get("epsilon_high", case.get("epsilon", 0.2))
    beta, total, tokens = case.get("beta", 0.0), 0.0, 0
    for i, lp in enumerate(logps):
        if case.get("mask_truncated") and not ENDED[i]:
            continue
        log_ratio = lp - (old[i] if case.get("old") else lp.detach())
        if case.get("sequence"):
            log_ratio = log_ratio.mean().expand_as(lp)
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, 1 - low, 1 + high)
        if "delta" in case:
            ratio = torch.clamp(ratio, max=case["delta"])
        loss = -torch.min(ratio * advantages[i], clipped * advantages[i])
        if beta:
            loss = loss + beta * (torch.exp(reference[i] - lp) - (reference[i] - lp) - 1)
        tokens += len(lp)
        total = total + (loss.mean() if case["loss_type"] == "grpo" else loss.sum())
    return total / dict(dapo=tokens, grpo=len(logps), dr_grpo=len(logps) * LONGEST)[case["loss_type"]]


def main():
    generator = torch.Generator().manual_seed(24)
    with open(os.path.join(MODEL, "config.json")) as f:
        config = Config(json.load(f))
    weights = {k: torch.as_tensor(v).double() for k, v in read_safetensors(os.path.join(MODEL, "model.safetensors")).items()}
    docs = documents(generator)
    advantages = [1.5, -0.7, 0.4, -1.1]
    old_shift = [[round(0.3 * x, 6) for x in torch.randn(n, generator=generator).tolist()] for n in LENGTHS]
    other = Decoder(config, weights, *adapters())
    out = dict(longest=LONGEST, documents=docs, ended=ENDED, advantages=advantages, cases=[])
    for case in CASES:
        leaves = {k: v.clone().requires_grad_(True) for k, v in weights.items()}
        logps = logps_of(Decoder(config, leaves), docs, case.get("temperature", 1.0))
        old = [lp.detach() + torch.tensor(s) for lp, s in zip(logps, old_shift)]
        reference = [lp.detach() for lp in logps_of(other, docs, case.get("temperature", 1.0))]
        loss = loss_of(case, logps, old, reference, advantages)
        loss.backward()
        gradients = {k: dict(norm=v.grad.norm().item(),
                             turned=sum(g * math.cos(0.7 * j) for j, g in enumerate(v.grad.flatten().tolist())))
                     for k, v in leaves.items()}
        out["cases"].append(dict(settings=case, loss=loss.item(), gradients=gradients,
                                 old=[x.tolist() for x in old]))
    cases = ",\n".join(json.dumps(c) for c in out.pop("cases"))
    print(json.dumps(out)[:-1] + ', "cases": [\n' + cases + "\n]}")


if __name__ == "__main__":
    main()
