#!/usr/bin/env python3
"""bitsandbytes' block-wise 8-bit optimizer state in PyTorch: what tests/kernels and tests/optim compare with.

    tools/make_adam8_golden.py > tests/golden/adam8.json        (Debian: python3-torch)

Written from the published description (Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022) and the map
that bitsandbytes builds; the nearest code is searched in double precision here, by midpoints in the program.
"""
import json

import torch

BLOCK = 256


def dynamic_map(signed):
    data = []
    for decade in range(7):
        items = 2 ** decade + 1 if signed else 2 ** (decade + 1) + 1
        edges = torch.linspace(0.1, 1, items)
        means = (edges[:-1] + edges[1:]) / 2
        data += (10 ** (decade - 6) * means).tolist()
        if signed:
            data += (-(10 ** (decade - 6)) * means).tolist()
    data += [0, 1.0]
    return torch.tensor(sorted(data))


MAPS = {True: dynamic_map(True), False: dynamic_map(False)}


def quantize(x, signed):
    """Codes and scales; values other than zero do not become zero."""
    codes, scales = torch.zeros(len(x), dtype=torch.long), []
    zero = int((MAPS[signed] == 0).nonzero())
    for first in range(0, len(x), BLOCK):
        block = x[first:first + BLOCK]
        most = block.abs().max()
        scales.append(most.item())
        scaled = (block / (most if most > 0 else 1)).double()
        found = 255 - (scaled[:, None] - MAPS[signed].double()).abs().flip(1).argmin(dim=1)  # of two as near the upper
        found[(found == zero) & (scaled != 0)] += scaled[(found == zero) & (scaled != 0)].sign().long()
        codes[first:first + BLOCK] = found
    return codes, torch.tensor(scales)


def dequantize(codes, scales, signed):
    return MAPS[signed][codes] * scales.repeat_interleave(BLOCK)[:len(codes)]


def values(n, salt):
    """Numbers that any program can reproduce: exact in float32, over many decades."""
    i = torch.arange(n)
    return ((i * 101 + salt * 37) % 257 - 128) / 64 * 2.0 ** -(((i + salt) % 19).double())


def adamw(steps, n, lr=0.02, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1):
    x = values(n, 5).float()
    m, v = (torch.zeros(n, dtype=torch.long), torch.zeros((n + BLOCK - 1) // BLOCK)), None
    v = (m[0].clone(), m[1].clone())
    for t in range(1, steps + 1):
        g = values(n, t).float()
        first = dequantize(*m, True) * beta1 + (1 - beta1) * g
        second = dequantize(*v, False) * beta2 + (1 - beta2) * g * g
        x = x * (1 - lr * decay)
        x = x - lr / (1 - beta1 ** t) * first / (second.sqrt() / (1 - beta2 ** t) ** 0.5 + eps)
        m, v = quantize(first, True), quantize(second, False)
    return x


n = 4096 + 300
golden = {"maps": {name: MAPS[signed].tolist() for name, signed in (("signed", True), ("unsigned", False))}}
for name, signed in (("signed", True), ("unsigned", False)):
    x = values(1000, 3).float()
    codes, scales = quantize(x if signed else x * x, signed)
    golden[name] = {"codes": codes.tolist(), "scales": scales.tolist()}
golden["adamw"] = adamw(10, n)[::7].tolist()
print(json.dumps(golden))
