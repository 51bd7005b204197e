#!/usr/bin/env python3
"""tests/golden/packed: one small Llama whose matrices are stored as AWQ, GPTQ and mlx-lm store them, and the values that these
bits stand for, computed here by their definitions (AutoAWQ's and AutoGPTQ's packing, mlx.core.quantize).

usage: tools/make_packed_golden.py FOLDER
"""
import json
import os
import struct
import sys

import numpy as np

HIDDEN, FFN, VOCAB, GROUP = 32, 64, 48, 32
rng = np.random.default_rng(3)
out = sys.argv[1]

SHAPES = {"model.layers.0.self_attn.%s_proj" % n: (HIDDEN, HIDDEN) for n in "qkvo"}
SHAPES |= {"model.layers.0.mlp.gate_proj": (FFN, HIDDEN), "model.layers.0.mlp.up_proj": (FFN, HIDDEN), "model.layers.0.mlp.down_proj": (HIDDEN, FFN)}
NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint32": "U32"}


def save(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, x in sorted(tensors.items()):
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": NAMES[x.dtype.name], "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def pack(codes, order=range(8)):
    """The last axis, eight codes a word, the first of `order` in the lowest bits."""
    grouped = codes.reshape(*codes.shape[:-1], -1, 8).astype(np.uint32)
    words = np.zeros(grouped.shape[:-1], np.uint32)
    for place, column in enumerate(order):
        words |= grouped[..., column] << np.uint32(4 * place)
    return words


plain = {"model.embed_tokens.weight": rng.normal(0, .5, (VOCAB, HIDDEN)).astype(np.float16),
         "lm_head.weight": rng.normal(0, .3, (VOCAB, HIDDEN)).astype(np.float16),
         "model.norm.weight": np.ones(HIDDEN, np.float16)}
for norm in ("input_layernorm", "post_attention_layernorm"):
    plain["model.layers.0.%s.weight" % norm] = np.ones(HIDDEN, np.float16)
stores = {name: dict(plain) for name in ("awq", "gptq", "mlx")}
expected = {}
for name, (rows, cols) in SHAPES.items():
    codes = rng.integers(0, 16, (rows, cols))
    zeros = rng.integers(1, 16, (rows, cols // GROUP))
    scales = rng.uniform(.01, .04, (rows, cols // GROUP)).astype(np.float16)
    biases = rng.uniform(-.3, .3, (rows, cols // GROUP)).astype(np.float16)
    spread = lambda x: np.repeat(x.astype(np.float64), GROUP, axis=1)
    expected["columns." + name] = ((codes - spread(zeros)) * spread(scales)).astype(np.float32)
    expected["mlx." + name] = (codes * spread(scales) + spread(biases)).astype(np.float32)
    stores["awq"] |= {name + ".qweight": pack(codes.T, [0, 2, 4, 6, 1, 3, 5, 7]).astype(np.int32),
                      name + ".qzeros": pack(zeros.T, [0, 2, 4, 6, 1, 3, 5, 7]).astype(np.int32), name + ".scales": scales.T}
    stores["gptq"] |= {name + ".qweight": pack(codes).T.astype(np.int32), name + ".qzeros": pack(zeros.T - 1).astype(np.int32),
                       name + ".scales": scales.T, name + ".g_idx": (np.arange(cols) // GROUP).astype(np.int32)}
    stores["mlx"] |= {name + ".weight": pack(codes), name + ".scales": scales, name + ".biases": biases}
config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCAB,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "torch_dtype": "float16"}
said = {"awq": {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}},
        "gptq": {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False}},
        "mlx": {"quantization": {"group_size": GROUP, "bits": 4}, "quantization_config": {"group_size": GROUP, "bits": 4}}}
for name, tensors in stores.items():
    os.makedirs(os.path.join(out, name), exist_ok=True)
    save(os.path.join(out, name, "model.safetensors"), tensors)
    with open(os.path.join(out, name, "config.json"), "w") as file:
        json.dump(config | said[name], file, indent=2)
save(os.path.join(out, "expected.safetensors"), expected)
