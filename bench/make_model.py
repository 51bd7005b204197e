#!/usr/bin/python3
"""Writes a model of random bfloat16 weights, shard by shard: what S2, S5 and S8 of bench/compare.sh and bench/mixture.sh
start from.

    bench/make_model.py RECIPE FOLDER [--shard-mb N] [--layers-with-values N]

The shape is the recipe's model_config: a Llama, a Mistral or a Qwen 3 mixture of experts. Values are normal with deviation
0.02, cut from one pool of 16 million at random places, norms are ones; no more than a piece of one tensor is in memory at a
time. The matrices of the layers behind the first N with values are zeros, which are holes in their files and take no disk.
"""
import argparse
import json
import os

import numpy
import yaml

PIECE = 1 << 22


def tensors(c):
    """Names and shapes in the order of the files."""
    width, experts = c["hidden_size"], c.get("num_experts", 0)
    head = c.get("head_dim", width // c["num_attention_heads"])
    queries, keys = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], width)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (width,)
        for name, shape in (("q", (queries, width)), ("k", (keys, width)), ("v", (keys, width)), ("o", (width, queries))):
            yield f"{at}self_attn.{name}_proj.weight", shape
        if experts:
            yield at + "self_attn.q_norm.weight", (head,)
            yield at + "self_attn.k_norm.weight", (head,)
            yield at + "mlp.gate.weight", (experts, width)
        yield at + "post_attention_layernorm.weight", (width,)
        ffn = c["moe_intermediate_size"] if experts else c["intermediate_size"]
        for mlp in [f"{at}mlp.experts.{e}." for e in range(experts)] or [at + "mlp."]:
            for name, shape in (("gate", (ffn, width)), ("up", (ffn, width)), ("down", (width, ffn))):
                yield f"{mlp}{name}_proj.weight", shape
    yield "model.norm.weight", (width,)
    if not c.get("tie_word_embeddings"):
        yield "lm_head.weight", (c["vocab_size"], width)


def layer_of(name):
    return int(name.split(".")[2]) if name.startswith("model.layers.") else -1


def bf16(x):
    bits = x.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def size(shape):
    return int(numpy.prod(shape))


def write_shard(path, shard, pool, random, layers):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shard:
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * size(shape)]}
        at += 2 * size(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shard:
            if len(shape) == 1:
                file.write(bf16(numpy.ones(shape)).tobytes())
                continue
            if layer_of(name) >= layers:
                file.seek(2 * size(shape), os.SEEK_CUR)
                continue
            for first in range(0, size(shape), PIECE):
                start = int(random.integers(len(pool) - PIECE))
                file.write(pool[start:start + min(PIECE, size(shape) - first)].data)
        file.truncate()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("folder")
    parser.add_argument("--shard-mb", type=int, default=2000)
    parser.add_argument("--layers-with-values", type=int, default=1 << 30, metavar="N")
    args = parser.parse_args()
    with open(args.recipe, encoding="utf-8") as file:
        config = yaml.safe_load(file)["model_config"]
    random = numpy.random.default_rng(1)
    pool = bf16(random.standard_normal(1 << 24, dtype=numpy.float32) * numpy.float32(0.02))
    shards, room = [[]], args.shard_mb * 10**6
    filled = 0
    for name, shape in tensors(config):
        if shards[-1] and filled + 2 * size(shape) > room:
            shards.append([])
            filled = 0
        shards[-1].append((name, shape))
        filled += 2 * size(shape)
    os.makedirs(args.folder, exist_ok=True)
    where = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        write_shard(os.path.join(args.folder, name), shard, pool, random, args.layers_with_values)
        where.update({tensor: name for tensor, _ in shard})
    if len(shards) > 1:
        total = sum(2 * size(shape) for _, shape in tensors(config))
        with open(os.path.join(args.folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": where}, file)
    name = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
            "qwen3_moe": "Qwen3MoeForCausalLM"}[config["model_type"]]
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"architectures": [name], "torch_dtype": "bfloat16", **config}, file, indent=1)


if __name__ == "__main__":
    main()
