#!/usr/bin/python3
"""tests/golden/preferences.json: losses and gradients of every objective over documents, on llama_tiny, in full and through its
adapter, by the float64 decoder of golden_model.py and autograd. Formulas are written from TRL's trainers.

The batch is that of tests/train/preference_test.cpp: documents 0, 2, 4, 2 of llama_tiny's batch as two pairs (or as good and bad
answers in turn); of chosen documents the first label counts as the prompt's; document d of n tokens has the reference
score -5 n - 0.4 d.
A gradient is stored as two numbers for each tensor: its norm, and its product with cos(1), cos(2), ...
"""
import argparse
import json
import os
import struct

import torch
import torch.nn.functional as F

from golden_model import Config, Decoder
from make_golden import LORA_ALPHA, LORA_RANK, adapter_tensors, trainable, trainable_lora

BETA, SMOOTHING, MARGIN, CENTRING, DIVERGENCE = 0.05, 0.1, 0.7, 0.02, 0.4
DOCUMENTS = [0, 2, 4, 2]


def read_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        assert t["dtype"] == "F32"
        begin, end = t["data_offsets"]
        out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(t["shape"]).double()
    return out


def grouped(batch):
    """The documents laid end to end, and the first label of each document's answer."""
    out = dict(tokens=[], labels=[], positions=[], starts=[0])
    for d in DOCUMENTS:
        first, last = batch["starts"][d], batch["starts"][d + 1]
        for key in ("tokens", "labels", "positions"):
            out[key] += batch[key][first:last]
        out["starts"].append(len(out["tokens"]))
    return out


class Scores:
    """Of each document: S, sum of log p over its answer; n, its tokens; NLL sums of answer and prompt labels."""

    def __init__(self, model, batch, pairs):
        losses = model.token_losses(batch)
        self.sums, self.tokens, self.rows = [], [], []
        for d in range(len(DOCUMENTS)):
            rows = [t for t in range(batch["starts"][d], batch["starts"][d + 1]) if batch["labels"][t] != -100]
            answer = rows[1:] if pairs and d % 2 == 0 else rows
            self.rows.append((losses[rows], -losses[answer]))
            self.sums.append(-losses[answer].sum())
            self.tokens.append(len(answer))
        self.reference = [-5.0 * n - 0.4 * d for d, n in enumerate(self.tokens)]


def log_sigmoid(x):
    return F.logsigmoid(x)


def dpo(name, s, divergence="reverse_kl"):
    change = {"reverse_kl": lambda x: x, "forward_kl": lambda x: -torch.exp(-x), "js_divergence": log_sigmoid,
              "alpha_divergence": lambda x: torch.exp(-0.5 * x) / -0.5}[divergence]
    b, e = BETA, SMOOTHING
    u = torch.stack([change(s.sums[d] - s.reference[d]) for d in (0, 2)])
    v = torch.stack([change(s.sums[d] - s.reference[d]) for d in (1, 3)])
    nc, nr = (torch.tensor([float(s.tokens[d]) for d in ds], dtype=torch.float64) for ds in ((0, 2), (1, 3)))
    x, l, sigma = b * (u - v), log_sigmoid, torch.sigmoid
    smooth = lambda x: -(1 - e) * l(x) - e * l(-x)
    policy = torch.stack([s.sums[0] - s.sums[1], s.sums[2] - s.sums[3]])
    reference = torch.tensor([s.reference[0] - s.reference[1], s.reference[2] - s.reference[3]], dtype=torch.float64)
    m = sigma(x / 0.05)
    table = {
        "sigmoid": lambda: smooth(x), "hinge": lambda: torch.relu(1 - x), "ipo": lambda: (u / nc - v / nr - 1 / (2 * b)) ** 2,
        "exo_pair": lambda: sigma(x) * (l(x) - torch.log1p(torch.tensor(-e))) + sigma(-x) * (l(-x) - torch.log(torch.tensor(e))),
        "nca_pair": lambda: -l(b * u) - 0.5 * l(-b * u) - 0.5 * l(-b * v),
        "robust": lambda: (-(1 - e) * l(x) + e * l(-x)) / (1 - 2 * e), "bco_pair": lambda: -l(b * u) - l(-b * v),
        "sppo_hard": lambda: (u - 0.5 / b) ** 2 + (v + 0.5 / b) ** 2,
        "aot": lambda: smooth(b * (policy.sort()[0] - reference.sort()[0])),
        "aot_unpaired": lambda: smooth(b * (u.sort()[0] - v.sort()[0])),
        "apo_zero": lambda: 1 - sigma(b * u) + sigma(b * v), "apo_down": lambda: sigma(b * u) + 1 - sigma(x),
        "discopop": lambda: (1 - m) * -l(x) + m * torch.exp(-x), "sigmoid_norm": lambda: -l(b * (u / nc - v / nr)),
        "dpop": lambda: -l(b * (u - v - 50 * torch.relu(-u))),
    }
    return table[name]().sum()


def reference_free(name, s):
    a = torch.stack([s.sums[d] / s.tokens[d] for d in (0, 2)])
    b = torch.stack([s.sums[d] / s.tokens[d] for d in (1, 3)])
    if name == "simpo":
        x = BETA * (a - b) - 0.5 * BETA
        return (-(1 - SMOOTHING) * log_sigmoid(x) - SMOOTHING * log_sigmoid(-x)).sum()
    if name == "orpo":  # with the cross-entropy of prompt and chosen answer, a mean over tokens
        odds = a - b - (torch.log1p(-torch.exp(a)) - torch.log1p(-torch.exp(b)))
        whole = torch.cat([s.rows[0][0], s.rows[2][0]])
        return (-BETA * log_sigmoid(odds)).sum() + 2 * whole.mean()
    chosen = torch.cat([s.rows[0][1], s.rows[2][1]])  # cpo, with the cross-entropy of the chosen answers
    x = BETA * torch.stack([s.sums[0] - s.sums[1], s.sums[2] - s.sums[3]])
    return (-(1 - SMOOTHING) * log_sigmoid(x) - SMOOTHING * log_sigmoid(-x)).sum() - 2 * chosen.mean()


def kto(s):
    out = 0
    for d in range(4):
        u = s.sums[d] - s.reference[d]
        out = out + 1 - torch.sigmoid(BETA * (u - DIVERGENCE) * (1 if d % 2 == 0 else -1))
    return out


def longest_common(s):
    """LD-DPO with alpha 0.3: the tail by which one answer of a pair is longer has less weight."""
    parts = []
    for pair in ((0, 1), (2, 3)):
        common = min(s.tokens[d] for d in pair)
        score = [s.rows[d][1][:common].sum() + 0.3 * s.rows[d][1][common:].sum() - s.reference[d] for d in pair]
        parts.append(-log_sigmoid(BETA * (score[0] - score[1])))
    return sum(parts)


def reward(model, batch):
    r = model.logits(batch)[[batch["starts"][d + 1] - 1 for d in range(4)], 0]
    c, j = r[[0, 2]], r[[1, 3]]
    return (-log_sigmoid(c - j - MARGIN) + CENTRING * (c + j) ** 2).sum()


def probe(g):
    flat = g.flatten()
    wave = torch.cos(torch.arange(1, len(flat) + 1, dtype=torch.float64))
    return [float(f"{flat.norm().item():.8g}"), float(f"{(flat * wave).sum().item():.8g}")]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", default=os.path.join(here, "../tests/golden"))
    a = parser.parse_args()
    torch.set_num_threads(1)
    folder = os.path.join(a.golden, "llama_tiny")
    c = Config(json.load(open(folder + "/model/config.json")))
    weights = read_safetensors(folder + "/model/model.safetensors")
    stored = read_safetensors(folder + "/lora/adapter_model.safetensors")
    modules = sorted({n[len("base_model.model."):].split(".lora_")[0] for n in stored})
    adapters = {m: tuple(stored[f"base_model.model.{m}.lora_{x}.weight"] for x in "AB") for m in modules}
    batch = grouped(json.load(open(folder + "/batch.json")))
    names = ["sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
             "apo_zero", "apo_down", "discopop", "sigmoid_norm", "dpop"]
    losses = {n: (lambda m, n=n: dpo(n, Scores(m, batch, True))) for n in names}
    for d in ("forward_kl", "js_divergence", "alpha_divergence"):
        losses["sigmoid " + d] = lambda m, d=d: dpo("sigmoid", Scores(m, batch, True), d)
    for n in ("cpo", "simpo", "orpo"):
        losses[n] = lambda m, n=n: reference_free(n, Scores(m, batch, True))
    losses["ld_alpha"] = lambda m: longest_common(Scores(m, batch, True))
    losses["kto"] = lambda m: kto(Scores(m, batch, False))
    losses["reward"] = lambda m: reward(m, batch)
    score = torch.sin(torch.arange(1, weights["model.norm.weight"].numel() + 1, dtype=torch.float64)).float().double()[None]
    out = dict(beta=BETA, label_smoothing=SMOOTHING, margin=MARGIN, centring=CENTRING, divergence=DIVERGENCE)
    for name, loss in losses.items():
        w = dict(weights)
        if name == "reward":
            w["lm_head.weight"] = score
        full, lora = trainable(w), trainable_lora(adapters)
        row = {}
        for kind, model, gradients in (
                ("full", Decoder(c, full), lambda: {k: v.grad for k, v in full.items() if v.grad is not None}),
                ("lora", Decoder(c, w, lora, LORA_ALPHA / LORA_RANK),
                 lambda: adapter_tensors({m: (a.grad, b.grad) for m, (a, b) in lora.items()}))):
            value = loss(model)
            value.backward()
            row[kind] = dict(loss=float(f"{value.item():.12g}"), gradients={k: probe(g) for k, g in gradients().items()})
        if name == "reward":
            row["full"]["gradients"]["score.weight"] = row["full"]["gradients"].pop("lm_head.weight")
        out[name] = row
    with open(os.path.join(a.golden, "preferences.json"), "w") as f:
        f.write("{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
