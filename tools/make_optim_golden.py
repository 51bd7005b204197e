#!/usr/bin/env python3
"""Ten steps of PyTorch's AdamW and SGD, and PyTorch's OneCycleLR, as the values tests/optim compares with.

    tools/make_optim_golden.py > tests/golden/optim.json        (Debian: python3-torch)
"""
import json

import torch


def gradient(step, n):
    """Numbers that any program can reproduce: exact in float32."""
    return torch.tensor([((step * 37 + i * 101) % 257 - 128) / 64 for i in range(n)])


def run(make, steps, n=24):
    start = torch.tensor([((i * 29) % 61 - 30) / 16 for i in range(n)])
    decayed, plain = torch.nn.Parameter(start[:16].clone()), torch.nn.Parameter(start[16:].clone())
    optimizer = make([{'params': [decayed], 'weight_decay': 0.1}, {'params': [plain], 'weight_decay': 0.0}])
    trace = []
    for step in range(steps):
        g = gradient(step, n)
        decayed.grad, plain.grad = g[:16].clone(), g[16:].clone()
        optimizer.step()
        trace.append(decayed.tolist() + plain.tolist())
    return trace


def one_cycle(peak, steps, pct):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps, pct_start=pct)
    rates = []
    for _ in range(steps):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        if len(rates) < steps:
            schedule.step()
    return rates


print(json.dumps({
    'adamw': run(lambda groups: torch.optim.AdamW(groups, lr=0.02, betas=(0.9, 0.95), eps=1e-8), 10),
    'sgd': run(lambda groups: torch.optim.SGD(groups, lr=0.02, momentum=0.9), 10),
    'one_cycle': one_cycle(0.01, 40, 0.25),
}))
