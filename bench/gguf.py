"""The figures of bench/gguf.sh."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import yaml

from child import json_of, text_of

DML = os.environ["DML"]
TOKENIZER = "datasets/quickstart/tokenizer"
TRAINED = {"model_type": "llama", "vocab_size": 2048, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
           "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 256, "tie_word_embeddings": True,
           "bos_token_id": 1, "eos_token_id": 2}  # rows of 512 and 1536: whole blocks of 256
RISES = {"q8_0": 0.005, "q4_k_m": 0.04, "q4_0": None, "q5_k_m": None, "q6_k": None}


def said(what, value, unit, goal=None, at_least=False):
    passed = "" if goal is None else f" (goal {'≥' if at_least else '≤'} {goal:g}: {'pass' if (value >= goal if at_least else value <= goal) else 'FAIL'})"
    print(f"{what}: {value:.3g} {unit}{passed}", flush=True)


def recipe(folder, name, **keys):
    path = os.path.join(folder, name + ".yml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(keys, file)
    return path


def convert(model, path, dtype, threads):
    """(seconds, peak resident memory in GB)."""
    if os.path.exists(path):
        os.unlink(path)
    begin = time.monotonic()
    child = subprocess.Popen(["taskset", "-c", f"0-{threads - 1}", DML, "convert", model, "--format", "gguf", "--dtype", dtype, "--output", path],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"dml convert --dtype {dtype}: {errors}")
    return time.monotonic() - begin, used.ru_maxrss * 1024 / 1e9


def perplexity(args):
    model = os.path.join(args.folder, "trained")
    data = {"datasets": [{"path": "datasets/quickstart/plain_questions.jsonl", "type": "alpaca"},
                         {"path": "datasets/quickstart/plain_text.jsonl", "type": "completion"}],
            "val_set_size": 0.1, "sequence_len": 128, "sample_packing": True, "seed": 42, "threads": args.threads,
            "dataset_exact_deduplication": True, "dataset_prepared_path": os.path.join(args.folder, "prepared")}
    train = recipe(args.folder, "train", tokenizer_config=TOKENIZER, model_config=TRAINED, micro_batch_size=4, num_epochs=args.epochs,
                   optimizer="adamw_torch", learning_rate=1e-3, lr_scheduler="cosine", warmup_steps=20, save_strategy="no",
                   eval_strategy="no", output_dir=model, **data)
    begin = time.monotonic()
    text_of([DML, "train", train])
    print(f"trained in {time.monotonic() - begin:.0f} s", flush=True)

    def measured(base, name):
        evaluated = recipe(args.folder, "evaluate-" + name, base_model=base, output_dir=os.path.join(args.folder, "none"), **data)
        return json_of([DML, "evaluate", evaluated, "--json"])["ppl"]

    plain = measured(model, "float32")
    print(f"perplexity of float32: {plain:.4f}")
    for dtype, most in RISES.items():
        path = os.path.join(args.folder, f"trained-{dtype}.gguf")
        convert(model, path, dtype, args.threads)
        said(f"rise with {dtype}", 100 * (measured(path, dtype) / plain - 1), "%", most and 100 * most)


def random_model(args, shape):
    path = os.path.join(args.folder, shape)
    if not os.path.exists(os.path.join(path, "config.json")):
        subprocess.run(["/usr/bin/python3", "bench/make_model.py", f"bench/recipes/{shape}.yml", path], check=True)
        for name in os.listdir(TOKENIZER):
            shutil.copy(os.path.join(TOKENIZER, name), path)
    return path


def quantize(args):
    model, path = random_model(args, "serve"), os.path.join(args.folder, "serve-q4_k_m.gguf")
    runs = [convert(model, path, "q4_k_m", args.threads) for _ in range(args.repeats)]
    said("1.1B to q4_k_m", min(seconds for seconds, _ in runs), "s", 20)
    said("memory", max(memory for _, memory in runs), "GB", 1)


def qlora(args):
    model, path = random_model(args, "S2"), os.path.join(args.folder, "S2-q4_k_m.gguf")
    convert(model, path, "q4_k_m", args.threads)
    with open("bench/recipes/S2.yml", encoding="utf-8") as file:
        keys = {key: value for key, value in yaml.safe_load(file).items() if key not in ("model_config", "frozen_storage")}
    keys |= {"threads": args.threads, "quantized_cache_path": os.path.join(args.folder, "cache")}
    bases = {"nf4": recipe(args.folder, "nf4", **keys | {"base_model": model, "adapter": "qlora"}),
             "q4_k_m": recipe(args.folder, "q4_k_m", **keys | {"base_model": path})}
    seconds = {name: [] for name in bases}
    for _ in range(args.repeats):
        for name, written in bases.items():
            seconds[name].append(json_of([DML, "bench", written, "--json", "--warmup", "1", "--steps", "3"])["step_s"])
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    print(f"step: nf4 {middle['nf4']:.3f} s, q4_k_m {middle['q4_k_m']:.3f} s")
    said("speed of q4_k_m over nf4", middle["nf4"] / middle["q4_k_m"], "", 0.9, at_least=True)


PARTS = {"perplexity": perplexity, "convert": quantize, "qlora": qlora}


def main():
    parser = argparse.ArgumentParser(prog="bench/gguf.sh")
    parser.add_argument("--folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("parts", nargs="*", metavar="perplexity|convert|qlora")
    args = parser.parse_args()
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as scratch:
        args.folder = args.folder or scratch
        os.makedirs(args.folder, exist_ok=True)
        for name in args.parts or PARTS:
            PARTS[name](args)


if __name__ == "__main__":
    main()
