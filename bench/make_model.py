#!/usr/bin/python3
"""Writes a model of random bfloat16 weights, shard by shard: what S2, S5 and S8 of bench/compare.sh start from.

    bench/make_model.py RECIPE FOLDER [--shard-mb N]

The shape is the recipe's model_config. Values are normal with deviation 0.02, cut from one pool of 16 million at random
places, norms are ones; no more than a piece of one tensor is in memory at a time.
"""
import argparse
import json
import os

import numpy
import yaml

PIECE = 1 << 22


def tensors(c):
    """Names and shapes of a Llama or Mistral, in the order of the files."""
    width, ffn = c["hidden_size"], c["intermediate_size"]
    keys = width // c["num_attention_heads"] * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], width)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (width,)
        for name, shape in (("q", (width, width)), ("k", (keys, width)), ("v", (keys, width)), ("o", (width, width))):
            yield f"{at}self_attn.{name}_proj.weight", shape
        yield at + "post_attention_layernorm.weight", (width,)
        for name, shape in (("gate", (ffn, width)), ("up", (ffn, width)), ("down", (width, ffn))):
            yield f"{at}mlp.{name}_proj.weight", shape
    yield "model.norm.weight", (width,)
    if not c.get("tie_word_embeddings"):
        yield "lm_head.weight", (c["vocab_size"], width)


def bf16(x):
    bits = x.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def size(shape):
    return int(numpy.prod(shape))


def write_shard(path, shard, pool, random):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shard:
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * size(shape)]}
        at += 2 * size(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape in shard:
            if len(shape) == 1:
                file.write(bf16(numpy.ones(shape)).tobytes())
                continue
            for first in range(0, size(shape), PIECE):
                start = int(random.integers(len(pool) - PIECE))
                file.write(pool[start:start + min(PIECE, size(shape) - first)].data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("folder")
    parser.add_argument("--shard-mb", type=int, default=2000)
    args = parser.parse_args()
    with open(args.recipe, encoding="utf-8") as file:
        config = yaml.safe_load(file)["model_config"]
    random = numpy.random.default_rng(1)
    pool = bf16(random.standard_normal(1 << 24, dtype=numpy.float32) * numpy.float32(0.02))
    shards, room = [[]], args.shard_mb * 10**6
    for name, shape in tensors(config):
        if shards[-1] and sum(2 * size(s) for _, s in shards[-1]) + 2 * size(shape) > room:
            shards.append([])
        shards[-1].append((name, shape))
    os.makedirs(args.folder, exist_ok=True)
    where = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        write_shard(os.path.join(args.folder, name), shard, pool, random)
        where.update({tensor: name for tensor, _ in shard})
    if len(shards) > 1:
        total = sum(2 * size(shape) for _, shape in tensors(config))
        with open(os.path.join(args.folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": where}, file)
    name = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"}[config["model_type"]]
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"architectures": [name], "torch_dtype": "bfloat16", **config}, file, indent=1)


if __name__ == "__main__":
    main()
