"""The stages of bench/mixture.sh."""
import argparse
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

from child import json_of
from make_model import layer_of, size, tensors

FAILED = []


def check(what, good, said):
    print(f"{'pass' if good else 'FAIL'}  {what}: {said}", flush=True)
    if not good:
        FAILED.append(what)


def gb(count):
    return f"{count / 1e9:.1f} GB"


def disk(config, layers):
    """Bytes of the weights that are no holes, and of the linear layers in NF4 with the scales of their scales."""
    weights = quantized = 0
    for name, shape in tensors(config):
        matrix = len(shape) == 2 and layer_of(name) >= 0
        if not matrix or layer_of(name) < layers:
            weights += 2 * size(shape)
        if matrix and not name.endswith("mlp.gate.weight"):
            quantized += size(shape) // 2 + size(shape) // 60
    return weights, quantized


def planned(recipe, folder):
    """The memory of the run that `dml validate` reports. It reads no weights."""
    rows = os.path.join(folder, "rows.jsonl")
    with open(rows, "w", encoding="utf-8") as file:
        file.write('{"text": "' + "one two three four five " * 200 + '"}\n')
    start = time.monotonic()
    done = subprocess.run([os.environ["DML"], "validate", recipe, "--tokenizer_config", "datasets/quickstart/tokenizer", "--datasets",
                           f"[{{path: {rows}, type: completion}}]", "--output_dir", os.path.join(folder, "out")],
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = re.search(r"(training takes|this run needs) (?:up to )?([\d.]+) (MB|GB)", said)
    if not found:
        sys.exit(f"dml validate did not say what the run takes: {said.strip()[-500:]}")
    return float(found[2]) * (1e9 if found[3] == "GB" else 1e6), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(prog="bench/mixture.sh")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--experts", type=int)
    parser.add_argument("--layers-with-values", type=int, default=1 << 30, metavar="N", help="matrices of the others are holes")
    parser.add_argument("--limit-gb", type=float, default=22, help="what the plan and the peak of a step may be")
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "dml-mixture"))
    parser.add_argument("--keep", action="store_true", help="do not remove the weights and their NF4 at the end")
    parser.add_argument("recipe", nargs="?", default="bench/recipes/M30.yml")
    args = parser.parse_args()
    with open(args.recipe, encoding="utf-8") as file:
        recipe = yaml.safe_load(file)
    config = recipe["model_config"]
    config["num_hidden_layers"] = args.layers or config["num_hidden_layers"]
    config["num_experts"] = args.experts or config["num_experts"]
    folder, base = args.folder, os.path.join(args.folder, "base")
    os.makedirs(folder, exist_ok=True)

    weights, quantized = disk(config, args.layers_with_values)
    room = shutil.disk_usage(folder).free
    print(f"{gb(weights)} of weights and {gb(quantized)} in NF4; {gb(room)} are free in {folder}", flush=True)
    if not os.path.exists(os.path.join(base, "config.json")) and room < weights + quantized:
        sys.exit("not enough disk space: see --layers-with-values and --folder")
    shape = os.path.join(folder, "shape.yml")
    with open(shape, "w", encoding="utf-8") as file:
        yaml.safe_dump({"model_config": config}, file)
    if not os.path.exists(os.path.join(base, "config.json")):
        subprocess.run(["/usr/bin/python3", "bench/make_model.py", shape, base, "--layers-with-values", str(args.layers_with_values)],
                       check=True)
    del recipe["model_config"]
    recipe.update(base_model=base, quantized_cache_path=os.path.join(folder, "quantized"))
    run = os.path.join(folder, "run.yml")
    with open(run, "w", encoding="utf-8") as file:
        yaml.safe_dump(recipe, file)

    limit = args.limit_gb * 1e9
    plan, seconds = planned(run, folder)
    check("the plan, before a weight is read", plan <= limit, f"{gb(plan)} in {seconds:.0f} s, of {gb(limit)}")
    bench = [os.environ["DML"], "bench", run, "--json", "--warmup", "0", "--steps", "1"]
    start = time.monotonic()
    first = json_of(bench)
    seconds = time.monotonic() - start
    written = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(recipe["quantized_cache_path"]) for name in names)
    check("NF4 on disk", abs(written / quantized - 1) < 0.02, f"{gb(written)}, expected {gb(quantized)}; quantized and a step in {seconds:.0f} s")
    check("its peak", first["peak_bytes"] <= limit, f"{gb(first['peak_bytes'])} of {gb(limit)}; planned {gb(first['plan_bytes'])}")
    again = json_of(bench)
    check("a step from the NF4 on disk", again["loss"] == first["loss"] and all(map(math.isfinite, again["loss"])),
          f"loss {again['loss'][0]:.4f}, {again['step_s']:.1f} s, {again['tok_s']:.1f} tok/s, {again['fraction']:.2f} of sgemm")
    check("its peak from there", again["peak_bytes"] <= limit, f"{gb(again['peak_bytes'])} of {gb(limit)}")
    print(f"largest process of all: {gb(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)}")
    if not args.keep:
        shutil.rmtree(folder)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
