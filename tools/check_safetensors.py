#!/usr/bin/env python3
"""Checks safetensors files against the format and prints their contents.

    tools/check_safetensors.py FILE...

Shares nothing with the C++ reader: plain Python and numpy. Exit 1 at the first file that breaks a rule.
"""
import json
import struct
import sys

import numpy as np

BITS = {"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16,
        "U16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8}
NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}


def no_duplicates(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def values(dtype, raw):
    if dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(raw, NUMPY[dtype]) if dtype in NUMPY else None


def check(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    if 8 + length > len(data) or length % 8:
        raise ValueError(f"header of {length} bytes in a file of {len(data)}")
    header = json.loads(data[8:8 + length].decode("utf-8"), object_pairs_hook=no_duplicates)
    metadata = header.pop("__metadata__", {})
    if not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("metadata holds something else than texts")
    body, cursor = data[8 + length:], 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        count = int(np.prod(entry["shape"], dtype=object)) if entry["shape"] else 1
        if begin != cursor or (end - begin) * 8 != count * BITS[entry["dtype"]]:
            raise ValueError(f"{name}: bytes {begin} to {end}, expected {count} x {entry['dtype']} from {cursor}")
        if begin % (BITS[entry["dtype"]] // 8):
            raise ValueError(f"{name}: not aligned")
        cursor = end
    if cursor != len(body):
        raise ValueError(f"{len(body) - cursor} bytes belong to no tensor")
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        array = values(entry["dtype"], body[begin:end])
        total = "" if array is None else f" sum {float(array.astype('f8').sum()):g}"
        print(f"{name} {entry['dtype']} {entry['shape']}{total}")


if __name__ == "__main__":
    for file in sys.argv[1:]:
        try:
            check(file)
        except (ValueError, KeyError, struct.error, UnicodeDecodeError) as problem:
            sys.exit(f"{file}: {problem}")
