#!/usr/bin/python3
"""Writes tests/golden/nf4: bitsandbytes' 4-bit scheme in plain PyTorch, for tests/checkpoint to compare bits with.

    /usr/bin/python3 tools/make_nf4_golden.py [--output tests/golden/nf4]      (Debian: python3-torch)

Values are made from integers, so that any program can make them again: `values()`. Everything else is PyTorch's float32
arithmetic. Rules (Dettmers et al. 2023, and bitsandbytes' own implementation):
  * blocks of 64 in row-major order; absmax; x · (1 / absmax) to the code whose thresholds enclose it
  * two codes a byte, the even index in the high nibble
  * the scales less their mean in 8 bits, blocks of 256, the nearest value of the signed dynamic map. The mean is summed
    in float64: a float32 mean has other last bits on every device, by the order it is summed in
  * int8: per row, round(x · (127 / absmax))

Two things are written: expected.safetensors, and a tensor in the form that transformers saves (bnb.safetensors).
"""
import argparse
import json
import os
import struct

import torch

CODES = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
         -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
         0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
THRESHOLDS = [-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544, -0.23460740596055984,
              -0.13791173323988914, -0.045525018125772476, 0.03979014977812767, 0.1202552504837513, 0.2035212516784668,
              0.2920137718319893, 0.3893125355243683, 0.5016634166240692, 0.6427869200706482, 0.8614784178118011]


DTYPES = {torch.float32: "F32", torch.uint8: "U8", torch.int8: "I8"}


def write_safetensors(path, tensors):
    """Wide elements first, so that all stay aligned."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        blobs.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def values(n):
    """24-bit numbers of a linear congruential generator, halved a few times from block to block; block 3 is zero."""
    out, state = [], 1
    for i in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        block = i // 64
        out.append(0.0 if block == 3 else ((state >> 40) - 2**23) * 2.0 ** -(24 + block * 7 % 5))
    return torch.tensor(out, dtype=torch.float32)


def quantize_nf4(x):
    blocks = torch.nn.functional.pad(x, (0, -len(x) % 64)).reshape(-1, 64)
    absmax = blocks.abs().max(dim=1).values
    scaled = blocks * (1 / torch.clamp(absmax, min=1e-38))[:, None]
    codes = torch.bucketize(scaled, torch.tensor(THRESHOLDS), right=False).flatten()[:len(x)]  # right=False: x > threshold
    codes = torch.nn.functional.pad(codes, (0, len(codes) % 2))
    return (codes[0::2] * 16 + codes[1::2]).to(torch.uint8), absmax


def dynamic_map():
    data = []
    for i in range(7):
        edges = torch.linspace(0.1, 1, 2**i + 1)
        middles = (edges[:-1] + edges[1:]) / 2
        data += ((10 ** (i - 6)) * middles).tolist()
        data += (-(10 ** (i - 6)) * middles).tolist()
    return torch.tensor(sorted(data + [0, 1.0]))


def quantize_scales(absmax):
    offset = absmax.double().mean().float()
    blocks = torch.nn.functional.pad(absmax - offset, (0, -len(absmax) % 256)).reshape(-1, 256)
    most = blocks.abs().max(dim=1).values
    scaled = blocks * (1 / torch.clamp(most, min=1e-38))[:, None]
    codes = (scaled.flatten()[:len(absmax), None] - dynamic_map()).abs().argmin(dim=1)
    return codes.to(torch.uint8), most, offset


def dequantize_scales(codes, most, offset):
    return dynamic_map()[codes.long()] * most.repeat_interleave(256)[:len(codes)] + offset


def quantize_int8(x):
    most = x.abs().max(dim=1).values
    inverse = torch.where(most > 0, 127 / most, torch.zeros(()))
    return torch.round(x * inverse[:, None]).to(torch.int8), most / 127


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--output", default="tests/golden/nf4")
    output = arguments.parse_args().output
    os.makedirs(output, exist_ok=True)
    x = values(64 * 520 + 38)
    codes, absmax = quantize_nf4(x)
    scale_codes, most, offset = quantize_scales(absmax)
    int8, int8_scales = quantize_int8(x[:64 * 30].reshape(40, 48))
    write_safetensors(os.path.join(output, "expected.safetensors"), {
        "codes": codes, "absmax": absmax, "scale_codes": scale_codes, "scale_max": most, "scale_mean": offset[None],
        "scales": dequantize_scales(scale_codes, most, offset), "int8": int8, "int8_scales": int8_scales})
    # The first 32 × 80 values as transformers saves a quantized layer.
    shape, name = [32, 80], "model.layers.0.mlp.up_proj.weight"
    codes, absmax = quantize_nf4(x[:2560])
    scale_codes, most, offset = quantize_scales(absmax)
    state = dict(quant_type="nf4", blocksize=64, dtype="bfloat16", shape=shape, nested_blocksize=256,
                 nested_dtype="float32", nested_offset=offset.item())
    write_safetensors(os.path.join(output, "bnb.safetensors"), {
        name: codes[:, None], name + ".absmax": scale_codes, name + ".nested_absmax": most,
        name + ".nested_quant_map": dynamic_map(), name + ".quant_map": torch.tensor(CODES),
        name + ".quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)})


if __name__ == "__main__":
    main()
