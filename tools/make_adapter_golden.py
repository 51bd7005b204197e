#!/usr/bin/python3
"""Writes tests/golden/adapters: ten steps of training of every kind of adapter on tests/golden/llama_tiny or qwen2.

    /usr/bin/python3 tools/make_adapter_golden.py [--output tests/golden] [KIND …]

Needs Debian's python3-torch. float64 and autograd; an adapter is written as what it means, a changed weight, so nothing
of how dml computes it is repeated here. The format is described in tests/golden/README.md.
"""
import argparse
import json
import math
import os
import re
import shutil
import struct

import torch

from golden_model import Config, Decoder, write_safetensors
from make_golden import ADAMW, loss_of, write_json
from make_nf4_golden import CODES, dequantize_scales, quantize_nf4, quantize_scales

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# Differences from plain LoRA of rank 4 and alpha 8 on q_proj and v_proj.
KINDS = {
    "lora": {},
    "rslora": dict(use_rslora=True),
    "dora": dict(use_dora=True, target_modules=ALL),
    "loraplus": dict(target_modules=ALL, ratio=16.0),
    "modules_to_save": dict(modules_to_save=["lm_head", "model.norm"]),
    "patterns": dict(target_modules=ALL, rank_pattern={"layers.0.self_attn.q_proj": 2, "down_proj": 6},
                     alpha_pattern={r"layers\.1.*proj": 3}, layers_to_transform=[0, 1]),
    "layers": dict(target_modules=ALL, layers_to_transform=[1]),
    "embedding": dict(target_modules=["embed_tokens", "q_proj"]),
    "head": dict(target_modules=["lm_head", "v_proj"]),
    "ends": dict(target_modules=["embed_tokens", "lm_head"], use_rslora=True),
    "pissa": dict(target_modules=ALL + ["lm_head"], init_lora_weights="pissa"),
    "olora": dict(target_modules=ALL + ["lm_head"], init_lora_weights="olora", use_rslora=True),
    "pissa_dora": dict(target_modules=ALL, init_lora_weights="pissa", use_dora=True),
    "loftq": dict(target_modules=ALL, init_lora_weights="loftq", loftq_config=dict(loftq_bits=4, loftq_iter=1)),
    "loftq_iterated": dict(target_modules=ALL, init_lora_weights="loftq", lora_alpha=4, loftq_config=dict(loftq_bits=4, loftq_iter=4)),
    # On a base in NF4 with double quantization, linear layers only.
    "nf4_lora": dict(target_modules=ALL, base="nf4"),
    "nf4_dora": dict(target_modules=ALL, use_dora=True, base="nf4"),
    "nf4_pissa": dict(target_modules=ALL, init_lora_weights="pissa", base="nf4"),
    "nf4_olora": dict(target_modules=["q_proj", "down_proj"], init_lora_weights="olora", base="nf4"),
    # On qwen2, whose q, k and v have biases and whose head is its embedding.
    "lora_bias": dict(lora_bias=True, model="qwen2"),
    "bias_all": dict(bias="all", model="qwen2"),
    "bias_lora_only": dict(bias="lora_only", model="qwen2"),
    "tied_embedding": dict(modules_to_save=["embed_tokens"], model="qwen2"),
    "tied_head": dict(modules_to_save=["lm_head"], model="qwen2"),
    "tied_both": dict(modules_to_save=["embed_tokens", "lm_head"], model="qwen2"),
    "tied_shared": dict(modules_to_save=["embed_tokens", "lm_head"], ensure_weight_tying=True, model="qwen2"),
    "tied_lora_head": dict(target_modules=["lm_head", "q_proj"], model="qwen2"),
    "tied_rows": dict(trainable_token_indices=[40, 5, 17], model="qwen2"),
    "tied_head_rows": dict(trainable_token_indices={"lm_head": [8, 3]}, model="qwen2"),
    "rows": dict(trainable_token_indices={"embed_tokens": [5, 31], "lm_head": [17, 40, 3]}),
}


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            first, last = t["data_offsets"]
            dtype = torch.bfloat16 if t["dtype"] == "BF16" else torch.float32
            out[name] = torch.frombuffer(bytearray(data[first:last]), dtype=dtype).double().view(t["shape"])
    return out


def chosen(pattern, module, otherwise):
    return next((v for k, v in pattern.items() if re.fullmatch(rf"(.*\.)?({k})", module)), otherwise)


def nf4(w, nested):
    """The values of w after NF4, with double quantization if nested."""
    codes, scales = quantize_nf4(w.float().flatten())
    if nested:
        scales = dequantize_scales(*quantize_scales(scales))
    values = torch.tensor(CODES)[torch.stack([codes >> 4, codes & 15], dim=1).flatten().long()]
    return (values * scales.repeat_interleave(64)[:len(values)]).view(w.shape).double()


def low_rank(w, r):
    u, s, vh = torch.linalg.svd(w, full_matrices=False)
    root = torch.sqrt(s[:r])
    return root[:, None] * vh[:r], u[:, :r] * root


def loftq(w, r, iterations):
    """PEFT's loftq_init: Q from W - BA, then BA from W - Q, in turn."""
    rest = w
    for _ in range(iterations):
        q = nf4(rest, nested=False)
        a, b = low_rank(w - q, r)
        rest = w - b @ a
    return a, b, q


def start(c, w, r, scale, embedding, generator):
    """(A, B, rest of the base): B is not zero, so that A learns from the first step on."""
    def random(*shape, size):
        return (size * torch.randn(shape, generator=generator, dtype=torch.float64)).float().double()

    init = c.get("init_lora_weights", True)
    if embedding:
        return random(r, w.shape[0], size=0.05), random(w.shape[1], r, size=1.0), w
    if init == "loftq":
        return loftq(w, r, c["loftq_config"]["loftq_iter"])
    if init == "pissa":
        a, b = low_rank(w / scale, r)
    elif init == "olora":
        q, upper = torch.linalg.qr(w)
        a, b = upper[:r], q[:, :r]
    else:
        return random(r, w.shape[1], size=1 / math.sqrt(w.shape[1])), random(w.shape[0], r, size=0.2), w
    rest = w - scale * b @ a
    return a, b, nf4(rest, nested=True) if c.get("base") == "nf4" else rest


EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def names(patterns, name):
    return any(name[:-len(".weight")].endswith(m) for m in patterns)


def unties_head(c):
    """Whether an adapter unties embedding and head of a tied model."""
    ends = [EMBEDDING, HEAD]
    saves = any(names(c.get("modules_to_save") or [], e) for e in ends) and not c.get("ensure_weight_tying")
    rows = c.get("trainable_token_indices")
    return saves or any(names(c["target_modules"], e) for e in ends) or (isinstance(rows, dict) and "lm_head" in rows)


def adapter(c, weights, generator):
    """(name in PEFT's file → parameter, function that gives the weights with the adapter in them)."""
    parameters, effects, base = {}, [], dict(weights)
    rows = c.get("trainable_token_indices") or {}
    trained_rows = []
    for module, tokens in (rows if isinstance(rows, dict) else {"embed_tokens": rows}).items():
        if tokens:
            name = next(n for n in weights if names([module], n))
            delta = weights[name][tokens] + 0.1 * torch.randn((len(tokens), weights[name].shape[1]), generator=generator).double()
            parameters["base_model.model." + name[:-len(".weight")] + ".token_adapter.trainable_tokens_delta"] = delta = delta.float().double()
            trained_rows.append((name, torch.tensor(tokens), delta))
    saved_ends = [n for n in (EMBEDDING, HEAD) if names(c.get("modules_to_save") or [], n)]
    if c.get("ensure_weight_tying") and saved_ends:
        parameters["base_model.model." + EMBEDDING] = base[EMBEDDING] = weights[EMBEDDING].clone()
    for name, w in weights.items():
        if name.endswith(".bias"):
            adapted = names(c["target_modules"], name[:-len("bias")] + "weight")
            if c.get("bias") == "all" or (c.get("bias") == "lora_only" and adapted):
                key = name[:-len("bias")] + ("base_layer.bias" if adapted else "bias")
                parameters["base_model.model." + key] = base[name] = w.clone()
            continue
        if c.get("ensure_weight_tying") and name == EMBEDDING:
            continue
        module = name[:-len(".weight")]
        layer = re.search(r"\.layers\.(\d+)\.", name)
        if any(module.endswith(m) for m in c.get("modules_to_save") or []):
            parameters["base_model.model." + name] = base[name] = w.clone()
            continue
        in_layer = not c.get("layers_to_transform") or (layer and int(layer[1]) in c["layers_to_transform"])
        if module.rsplit(".", 1)[-1] not in c["target_modules"] or not in_layer:
            continue
        r = chosen(c.get("rank_pattern", {}), module, c["r"])
        alpha = chosen(c.get("alpha_pattern", {}), module, c["lora_alpha"])
        scale = alpha / (math.sqrt(r) if c.get("use_rslora") else r)
        embedding = module.endswith("embed_tokens")
        a, b, base[name] = start(c, w, r, scale, embedding, generator)
        stem = "base_model.model." + module
        keys = (".lora_embedding_A", ".lora_embedding_B") if embedding else (".lora_A.weight", ".lora_B.weight")
        parameters[stem + keys[0]], parameters[stem + keys[1]] = a, b
        m = None
        if c.get("use_dora"):
            m = parameters[stem + ".lora_magnitude_vector"] = (base[name] + scale * b @ a).norm(dim=1).float().double()
        shift = None
        if c.get("lora_bias"):
            shift = parameters[stem + ".lora_B.bias"] = 0.1 * torch.randn(w.shape[0], generator=generator).double()
        effects.append((name, a, b, m, scale, embedding, shift))
    for p in parameters.values():
        p.requires_grad_(True)

    def changed():
        out = dict(base)
        for name, tokens, delta in trained_rows:
            out[name] = out[name].index_copy(0, tokens, delta)
        for name, a, b, m, scale, embedding, shift in effects:
            w = base[name] + scale * ((b @ a).T if embedding else b @ a)
            if m is not None:
                w = (m / w.detach().norm(dim=1))[:, None] * w
            out[name] = w
            if shift is not None:
                bias = name[:-len("weight")] + "bias"
                out[bias] = out[bias] + scale * shift
        return out

    return parameters, changed


def groups(parameters, ratio):
    """One per combination of decay and rate: matrices decay; LoRA+ has a higher rate for B and vectors."""
    out = {}
    for name, p in parameters.items():
        fast = ratio if ratio and (".lora_B" in name or p.dim() == 1) else 1.0
        decay = ADAMW["weight_decay"] if p.dim() > 1 else 0.0
        out.setdefault((decay, fast), []).append(p)
    return [dict(params=p, weight_decay=decay, lr=ADAMW["lr"] * fast) for (decay, fast), p in out.items()]


def write_kind(name, model, folder):
    changes = dict(KINDS[name])
    ratio = changes.pop("ratio", None)
    model = os.path.join(model, changes.get("model", "llama_tiny"))
    c = dict(peft_type="LORA", task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    c.update(changes)
    spec = Config(json.load(open(os.path.join(model, "model/config.json"))))
    weights = read_safetensors(os.path.join(model, "model/model.safetensors"))
    batch = json.load(open(os.path.join(model, "batch.json")))
    if spec.tied and unties_head(c):
        spec.tied, weights[HEAD] = False, weights[EMBEDDING]
    if c.get("base") == "nf4":
        weights = {k: nf4(w, nested=True) if "_proj." in k else w for k, w in weights.items()}
    parameters, changed = adapter(c, weights, torch.Generator().manual_seed(sum(map(ord, name))))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    base = {k: c[k] for k in ("base", "model") if k in c}
    write_json(os.path.join(folder, "adapter_config.json"), {k: v for k, v in c.items() if k not in base})
    if "init_lora_weights" not in c:
        write_safetensors(os.path.join(folder, "adapter_model.safetensors"), parameters)
    optimizer = torch.optim.AdamW(groups(parameters, ratio), betas=tuple(ADAMW["betas"]), eps=ADAMW["eps"])
    losses = []
    for _ in range(ADAMW["steps"]):
        optimizer.zero_grad()
        value = loss_of(Decoder(spec, changed()), batch)[1]
        value.backward()
        optimizer.step()
        losses.append(value.item())
    write_json(os.path.join(folder, "steps.json"), dict(ADAMW, loraplus_lr_ratio=ratio or 1.0, **base, losses=losses))
    print(name, losses[0], losses[-1])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(here, "../tests/golden"))
    parser.add_argument("kinds", nargs="*", help="some of them; all without")
    a = parser.parse_args()
    torch.set_num_threads(1)
    for name in a.kinds or KINDS:
        write_kind(name, a.output, os.path.join(a.output, "adapters", name))


if __name__ == "__main__":
    main()
