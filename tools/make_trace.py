#!/usr/bin/python3
"""Writes tests/golden/traces: losses and gradient norms of whole training runs, step by step, in float64.

    /usr/bin/python3 tools/make_trace.py [--output tests/golden/traces]

Needs Debian's python3-torch. The decoder is golden_model.py's; adapters, AdamW, schedule and clipping are written here from
their papers, so that a run of `dml train` on the same rows can be compared with something that shares nothing with it.

  model/                   a random Llama of two layers with the vocabulary of datasets/quickstart/tokenizer, BF16, tied
  NAME/trace.json          "recipe": keys of the recipe; "micro_batches": the rows, used in turn; "log": one object a step:
                           loss (mean over the labeled tokens of the whole step, before it), grad_norm (before clipping), lr
  NAME/init/               the adapter the run starts from, as PEFT writes it; B is not zero

ReLoRA draws A anew at every restart: those are dml's random numbers (Philox4x32-10, Salmon et al. 2011), computed here too.
"""
import argparse
import json
import math
import os

import torch

from golden_model import Config, Decoder, tensor_shapes, write_safetensors

CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=2048, hidden_size=16, intermediate_size=40,
              num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_act="silu",
              max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True,
              torch_dtype="bfloat16", initializer_range=0.02, bos_token_id=1, eos_token_id=2)
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
STEPS = 6
COMMON = dict(lr_scheduler="constant", warmup_steps=0, weight_decay=0.0, max_grad_norm=0.0, gradient_accumulation_steps=1,
              adam_beta2=0.999, adam_epsilon=1e-8)
TRACES = {
    "lora-all": dict(adapter=dict(r=4, alpha=8, modules=EVERY), learning_rate=4e-3, lr_scheduler="cosine", warmup_steps=2,
                     max_grad_norm=1.0, gradient_accumulation_steps=2),
    "rslora": dict(adapter=dict(r=8, alpha=8, modules=["q_proj", "v_proj", "down_proj"], rslora=True), learning_rate=3e-3,
                   weight_decay=0.01),
    "dora": dict(adapter=dict(r=4, alpha=8, modules=["q_proj", "o_proj", "up_proj"], dora=True), learning_rate=3e-3),
    "relora": dict(adapter=dict(r=4, alpha=8, modules=EVERY), learning_rate=4e-3, lr_scheduler="cosine", warmup_steps=2,
                   steps=12, seed=42, relora=True, relora_prune_ratio=0.9, jagged_restart_steps=4, jagged_restart_warmup_steps=2,
                   jagged_restart_anneal_steps=2, frozen_storage="f32"),
    "relora-dora": dict(adapter=dict(r=4, alpha=8, modules=["q_proj", "o_proj", "up_proj"], dora=True), learning_rate=3e-3,
                        steps=8, seed=42, relora=True, relora_prune_method="reset", jagged_restart_steps=3,
                        jagged_restart_warmup_steps=1, jagged_restart_anneal_steps=1),
    "full-accum": dict(learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2, weight_decay=0.1, max_grad_norm=1.0,
                       gradient_accumulation_steps=2, adam_beta2=0.95, adam_epsilon=1e-5),
}


class Adapted(Decoder):
    """adapters: module → dict of a (r, in), b (out, r) and, for DoRA, m (out)."""

    def linear(self, x, name):
        adapter = self.adapters.get(name)
        w = self.w[name + ".weight"]
        if adapter is None:
            return x @ w.T
        y = x @ w.T + self.adapter_scale * (x @ adapter["a"].T) @ adapter["b"].T
        if "m" in adapter:  # DoRA, section 4.3: the norm counts as a constant in the gradient
            norm = (w + self.adapter_scale * adapter["b"] @ adapter["a"]).norm(dim=1).detach()
            y = y * (adapter["m"] / norm)
        return y


def rows(generator):
    """Four micro-batches of two rows; the shorter row is padded; its prompt is not trained."""
    batches = []
    for _ in range(4):
        batch = dict(input_ids=[], attention_mask=[], labels=[])
        lengths = torch.randint(9, 24, (2,), generator=generator).tolist()
        for n in lengths:
            ids = [1] + torch.randint(3, CONFIG["vocab_size"], (n - 2,), generator=generator).tolist() + [2]
            read, fill = n // 3, max(lengths) - n
            batch["input_ids"].append(ids + [0] * fill)
            batch["attention_mask"].append([1] * n + [0] * fill)
            batch["labels"].append([-100] * read + ids[read:] + [-100] * fill)
        batches.append(batch)
    return batches


def loss_of(model, batch):
    """(sum of the losses of labeled tokens, how many they are)"""
    total, count = 0.0, 0
    for ids, mask, labels in zip(batch["input_ids"], batch["attention_mask"], batch["labels"]):
        n = sum(mask)
        logits = model.logits(dict(tokens=ids[:n], positions=list(range(n)), starts=[0, n]))
        wanted = torch.tensor(labels[1:n])
        kept = wanted != -100
        total = total - logits[:-1].log_softmax(-1)[torch.arange(n - 1)[kept], wanted[kept]].sum()
        count += int(kept.sum())
    return total, count


def rate(s, keys, steps):
    warm, peak = keys["warmup_steps"], keys["learning_rate"]
    if s < warm:
        smooth = peak * (s + 1) / warm
    elif keys["lr_scheduler"] == "constant":
        smooth = peak
    else:
        smooth = peak * 0.5 * (1 + math.cos(math.pi * (s - warm) / (steps - warm)))
    every = keys.get("jagged_restart_steps")
    if not every:
        return smooth
    behind, rise, fall = s % every, keys["jagged_restart_warmup_steps"], keys["jagged_restart_anneal_steps"]
    return smooth * (min(1.0, (behind + 1) / rise) if s >= every else 1.0) * min(1.0, (every - behind) / fall)


def philox(counter, key):
    mask = 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & mask, (a >> 32) ^ counter[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def drawn_again(shape, stream, number, seed):
    """A after restart `number`: uniform in ±1/√in, from words addressed by seed, restart and module."""
    purpose, count = 5, shape[0] * shape[1]
    words = [w for i in range((count + 3) // 4) for w in philox([i, 0, stream, number ^ 0x9E3779B9], [seed, purpose << 24])]
    uniform = torch.tensor([w >> 8 for w in words[:count]], dtype=torch.float32) * 2.0 ** -24
    return ((2 * uniform - 1) * (1 / torch.tensor(float(shape[1]), dtype=torch.float32).sqrt())).reshape(shape).double()


def restart(model, adapters, first, second, keys, number):
    """W + s·BA becomes W, A and B are reinitialized, and most of Adam's moments are pruned (Lialin et al. 2023, section 3)."""
    kind = {name: i for i, name in enumerate(EVERY)}
    place = {m: i for i, m in enumerate(sorted(adapters, key=lambda m: (int(m.split(".")[2]), kind[m.split(".")[-1]])))}
    with torch.no_grad():
        for module, parts in adapters.items():
            w = model.w[module + ".weight"]
            merged = w + model.adapter_scale * parts["b"] @ parts["a"]
            if "m" in parts:
                merged = merged * (parts["m"] / merged.norm(dim=1))[:, None]
            w.copy_(merged if keys.get("frozen_storage") == "f32" else merged.float().bfloat16().double())
            parts["a"].copy_(drawn_again(parts["a"].shape, place[module], number, keys["seed"]))
            parts["b"].zero_()
            if "m" in parts:
                parts["m"].copy_(w.norm(dim=1))
        for m, v in zip(first, second):
            kept = m.abs() > torch.quantile(m.abs().flatten(), keys.get("relora_prune_ratio", 1.0))
            m.mul_(kept)
            v.mul_(kept)


def train(model, parameters, batches, keys, steps, adapters=None):
    first, second = [torch.zeros_like(p) for p in parameters], [torch.zeros_like(p) for p in parameters]
    beta1, beta2, accumulation, log = 0.9, keys["adam_beta2"], keys["gradient_accumulation_steps"], []
    for s in range(steps):
        if keys.get("relora") and s and s % keys["jagged_restart_steps"] == 0:
            restart(model, adapters, first, second, keys, s // keys["jagged_restart_steps"])
        parts = [loss_of(model, batches[(s * accumulation + i) % len(batches)]) for i in range(accumulation)]
        learned = sum(count for _, count in parts)
        loss = sum(part for part, _ in parts) / learned
        gradients = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        clip = min(1.0, keys["max_grad_norm"] / norm) if keys["max_grad_norm"] else 1.0
        lr = rate(s, keys, steps)
        log.append(dict(step=s + 1, loss=float(loss.detach()), grad_norm=norm, lr=lr, learned_tokens=learned))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second):
                m.mul_(beta1).add_((1 - beta1) * clip * g)
                v.mul_(beta2).add_((1 - beta2) * (clip * g) ** 2)
                if p.dim() == 2:
                    p.mul_(1 - lr * keys["weight_decay"])
                p.sub_(lr * (m / (1 - beta1 ** (s + 1))) / ((v / (1 - beta2 ** (s + 1))).sqrt() + keys["adam_epsilon"]))
    return log


def make_adapter(weights, wanted, scale, generator):
    adapters = {}
    for tensor in sorted(weights):
        module = tensor[:-len(".weight")]
        if module.split(".")[-1] not in wanted["modules"]:
            continue
        out, into = weights[tensor].shape
        a, b = ((torch.randn(*shape, generator=generator) * 0.1).float().double() for shape in ((wanted["r"], into), (out, wanted["r"])))
        parts = dict(a=a, b=b)
        if wanted.get("dora"):
            parts["m"] = (weights[tensor] + scale * parts["b"] @ parts["a"]).norm(dim=1).float().double()
        adapters[module] = parts
    return adapters


def write_adapter(folder, adapters, wanted):
    os.makedirs(folder, exist_ok=True)
    suffix = dict(a=".lora_A.weight", b=".lora_B.weight", m=".lora_magnitude_vector")
    write_safetensors(folder + "/adapter_model.safetensors",
                      {"base_model.model." + module + suffix[k]: t for module, parts in adapters.items() for k, t in parts.items()})
    write_json(folder + "/adapter_config.json",
               dict(base_model_name_or_path="../../model", bias="none", fan_in_fan_out=False, inference_mode=True,
                    init_lora_weights=True, lora_alpha=wanted["alpha"], lora_dropout=0.0, peft_type="LORA", r=wanted["r"],
                    target_modules=wanted["modules"], task_type="CAUSAL_LM", use_dora=wanted.get("dora", False),
                    use_rslora=wanted.get("rslora", False)))


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f)
        f.write("\n")


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(here, "tests", "golden", "traces"))
    output = parser.parse_args().output
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(20)
    config = Config(CONFIG)
    stored = {}
    for name, shape in sorted(tensor_shapes(config).items()):
        center, spread = (1.0, 0.1) if len(shape) == 1 else (0.0, 0.3)
        stored[name] = (center + spread * torch.randn(*shape, generator=generator)).bfloat16()
    os.makedirs(output + "/model", exist_ok=True)
    write_json(output + "/model/config.json", CONFIG)
    write_safetensors(output + "/model/model.safetensors", stored, "BF16")
    batches = rows(generator)
    for name, changes in TRACES.items():
        keys = dict(COMMON, **changes)
        wanted, steps, adapters = keys.pop("adapter", None), keys.pop("steps", STEPS), None
        weights = {k: v.double() for k, v in stored.items()}
        folder = os.path.join(output, name)
        os.makedirs(folder, exist_ok=True)
        if wanted:
            scale = wanted["alpha"] / (math.sqrt(wanted["r"]) if wanted.get("rslora") else wanted["r"])
            adapters = make_adapter(weights, wanted, scale, generator)
            write_adapter(folder + "/init", adapters, wanted)
            parameters = [t.requires_grad_() for parts in adapters.values() for t in parts.values()]
            model = Adapted(config, weights, adapters, scale)
        else:
            parameters = [t.requires_grad_() for t in weights.values()]
            model = Decoder(config, weights)
        write_json(folder + "/trace.json",
                   dict(recipe=keys, micro_batches=batches, log=train(model, parameters, batches, keys, steps, adapters)))


if __name__ == "__main__":
    main()
