#!/usr/bin/python3
"""The peer: a training step of the same mathematics in PyTorch, as people write it.

    torch_train.py RECIPE [--masked X | --documents FILE] [--dpo] [--precision P] [--model M] [--warmup N] [--steps N] [--threads N]

Reads the keys of a bench recipe that matter here and prints one JSON line with the fields of `dml bench --json` that
bench/compare.sh reads. --precision is float32, autocast (bfloat16 products) or bf16 (bfloat16 weights). --model is plain (modules,
autograd, scores with a mask, all logits: what transformers and PEFT do in eager mode on a CPU) or transformers (their own classes,
attention by scaled_dot_product_attention). Both use AdamW and clipping. A micro-batch of documents of unlike length is padded to its longest.
With --dpo its documents are pairs, two by two: a pass without the adapter for the reference, and the logistic loss.
"""
import argparse
import json
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F
import yaml
from torch import nn


class LoraLinear(nn.Module):
    """y = x Wᵀ + s (x Aᵀ) Bᵀ, W frozen."""

    def __init__(self, size_in, size_out, rank, alpha):
        super().__init__()
        self.base = nn.Linear(size_in, size_out, bias=False)
        self.base.weight.requires_grad_(False)
        self.down = nn.Linear(size_in, rank, bias=False)
        self.up = nn.Linear(rank, size_out, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    adapted = True  # False: the base alone

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.scale if LoraLinear.adapted else self.base(x)


class RmsNorm(nn.Module):
    def __init__(self, width, eps, trained):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width), requires_grad=trained)
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Mlp(nn.Module):
    def __init__(self, width, ffn, linear):
        super().__init__()
        self.gate, self.up, self.down = linear(width, ffn), linear(width, ffn), linear(ffn, width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """A loop over the experts, each on the rows sent to it. As in PEFT, adapters of all linear modules leave experts out."""

    def __init__(self, config, trained):
        super().__init__()
        width = config["hidden_size"]
        linear = lambda i, o: nn.Linear(i, o, bias=False).requires_grad_(trained)
        self.chosen = config["num_experts_per_tok"]
        self.router = linear(width, config["num_local_experts"])
        self.experts = nn.ModuleList(Mlp(width, config["intermediate_size"], linear) for _ in range(config["num_local_experts"]))

    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        weights, experts = F.softmax(self.router(rows), dim=-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(experts == number)
            if len(row) > 0:
                out = out.index_add(0, row, (expert(rows[row]) * weights[row, place, None]).to(out.dtype))
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, config, linear, trained):
        super().__init__()
        width, ffn = config["hidden_size"], config["intermediate_size"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.size = width // self.heads
        eps = config["rms_norm_eps"]
        self.attention_norm, self.mlp_norm = RmsNorm(width, eps, trained), RmsNorm(width, eps, trained)
        self.q, self.o = linear(width, width), linear(width, width)
        self.k, self.v = (linear(width, self.kv_heads * self.size) for _ in range(2))
        self.mlp = Mixture(config, trained) if "num_local_experts" in config else Mlp(width, ffn, linear)

    def attention(self, x, cos, sin, mask):
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        if self.heads != self.kv_heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size) + mask
        out = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.o(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attention_norm(x), cos, sin, mask)
        return x + self.mlp(self.mlp_norm(x))


class Model(nn.Module):
    def __init__(self, config, adapter, rank, alpha):
        super().__init__()
        width, vocab = config["hidden_size"], config["vocab_size"]
        linear = (lambda i, o: LoraLinear(i, o, rank, alpha)) if adapter else (lambda i, o: nn.Linear(i, o, bias=False))
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(config, linear, not adapter) for _ in range(config["num_hidden_layers"]))
        self.norm = RmsNorm(width, config["rms_norm_eps"], not adapter)
        self.head = nn.Linear(width, vocab, bias=False)
        for weight in (self.embed.weight, self.head.weight):
            nn.init.normal_(weight, std=0.02)
            weight.requires_grad_(not adapter)
        size = width // config["num_attention_heads"]
        self.inv_freq = 10000.0 ** (-torch.arange(0, size, 2).float() / size)

    def forward(self, ids):
        length = ids.shape[1]
        angles = torch.outer(torch.arange(length).float(), self.inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        x = self.embed(ids)
        mask = torch.full((length, length), -math.inf).triu(1).to(x.dtype)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(self.norm(x))


class TransformersModel(nn.Module):
    """The same model by transformers, with the adapters of PEFT; dense models of the llama architecture only."""

    def __init__(self, config, adapter, rank, alpha):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        settings = {key: value for key, value in config.items() if key != "model_type"}
        model = LlamaForCausalLM(LlamaConfig(**settings, attn_implementation="sdpa", use_cache=False))
        if adapter:
            from peft import LoraConfig, get_peft_model
            model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM"))
        self.model = model.train()

    def forward(self, ids):
        return self.model(input_ids=ids).logits


MODELS = {"plain": Model, "transformers": TransformersModel}


def micro_batches(documents, each, vocab):
    """Lists of (ids, labels), each padded to its longest document; labels already shifted."""
    generator = torch.Generator().manual_seed(1)
    for first in range(0, len(documents), each):
        rows = documents[first:first + each]
        longest = max(tokens for tokens, _ in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), longest), -100)
        for row, (tokens, learned) in enumerate(rows):
            ids[row, :tokens] = torch.randint(0, vocab, (tokens,), generator=generator)
            start = max(tokens - learned, 1)
            labels[row, start - 1:tokens - 1] = ids[row, start:tokens]
        yield ids, labels


def answer_scores(model, ids, labels):
    """Sums of log p over the labels of each document."""
    log_p = F.log_softmax(model(ids).float(), dim=-1)
    picked = log_p.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (picked * (labels != -100)).sum(dim=-1)


def dpo_loss(model, ids, labels, pairs, beta=0.1):
    with torch.no_grad():
        LoraLinear.adapted = False
        reference = answer_scores(model, ids, labels)
        LoraLinear.adapted = True
    gain = beta * (answer_scores(model, ids, labels) - reference)
    return -F.logsigmoid(gain[0::2] - gain[1::2]).sum() / pairs


def sgemm_rate():
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--masked", type=float, default=0)
    parser.add_argument("--documents")
    parser.add_argument("--dpo", action="store_true")
    parser.add_argument("--precision", choices=["float32", "autocast", "bf16"], default="float32")
    parser.add_argument("--model", choices=list(MODELS), default="plain")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with open(args.recipe, encoding="utf-8") as file:
        recipe = yaml.safe_load(file)
    config, each = recipe["model_config"], recipe["micro_batch_size"]
    batches = recipe.get("gradient_accumulation_steps", 1)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)

    if args.documents:
        with open(args.documents, encoding="utf-8") as file:
            documents = [tuple(map(int, line.split())) for line in file if line.strip() and line[0] != "#"]
    else:
        length = recipe["sequence_len"]
        documents = [(length, min(max(round(length * (1 - args.masked)), 1), length - 1))] * each * batches
    data = list(micro_batches(documents[:each * batches], each, config["vocab_size"]))
    learned = sum(int((labels != -100).sum()) for _, labels in data)
    tokens = sum(count for count, _ in documents[:each * batches])

    rate = sgemm_rate()
    model = MODELS[args.model](config, recipe.get("adapter"), recipe.get("lora_r", 8), recipe.get("lora_alpha", 16))
    if args.precision == "bf16":
        model.to(torch.bfloat16)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=float(recipe["learning_rate"]), weight_decay=0.0)

    def loss_of(ids, labels):
        if args.dpo:
            return dpo_loss(model, ids, labels, each * batches // 2)
        logits = model(ids).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=-100, reduction="sum") / learned

    def step():
        total = 0.0
        for ids, labels in data:
            with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "autocast"):
                loss = loss_of(ids, labels)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    losses, seconds, processor = [], [], []
    for _ in range(args.warmup + args.steps):
        start, spent = time.perf_counter(), time.process_time()
        losses.append(step())
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - spent)
    median = statistics.median(seconds[args.warmup:])
    print(json.dumps({
        "engine": "torch " + torch.__version__, "step_s": median, "processor_s": statistics.median(processor[args.warmup:]), "tok_s": tokens / median, "trained_tok_s": learned / median,
        "tokens": tokens, "trained_tokens": learned, "sgemm_gflops": max(rate, sgemm_rate()) * 1e-9,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": sum(p.numel() for p in model.parameters()), "trained": sum(p.numel() for p in trained),
        "loss": [losses[0], losses[-1]]}))


if __name__ == "__main__":
    main()
