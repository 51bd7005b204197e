"""The table of bench/decode.sh; rates are medians."""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

import serve
from child import json_of, text_of

READ = 512  # tokens of the prompt that is read
CASES = {"one prompt": "1", "eight prompts": "8", "reading 512": f"p{READ}"}


def of_dml(args, model, case, folder):
    """Tokens a second of a case, as dml reports them."""
    path = os.path.join(folder, "requests.jsonl")
    reads = case.startswith("p")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(1 if reads else int(case)):
            body = {"prompt": serve.prompt(i, READ if reads else 16), "max_tokens": 1 if reads else args.tokens, "temperature": 0,
                    "logit_bias": {"2": -100}}
            file.write(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
    done = subprocess.run([os.environ["DML"], "serve", "--base-model", model, "--threads", str(args.threads), "--context", "1024",
                           "--bf16", args.bf16, "--input", path, "--output", path + ".out"],
                          check=True, stderr=subprocess.PIPE, text=True)
    if reads:
        tokens, seconds = re.search(r"Prompt: (\d+) tokens[^,]*, ([0-9.]+) s", done.stderr).groups()
        return int(tokens) / float(seconds)
    return float(re.search(r"at ([0-9.]+) tokens/s", done.stderr)[1])


def memory_rate():
    """Bytes a second, of decode_bench on one layer; None if it is not built."""
    program = os.path.join(os.path.dirname(os.environ["DML"]), "bench", "decode_bench")
    if not os.path.exists(program):
        return None
    return 1e9 * float(re.search(r"memory ([0-9.]+) GB/s", text_of([program, "--layers", "1", "--tokens", "8", "bf16"]))[1])


def read_by_a_token(path, config):
    """Bytes of a GGUF file that every token reads: all but the embedding's table, which is stored as the head is."""
    head = config["vocab_size"] * config["hidden_size"]
    width, kv = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"] * config["num_key_value_heads"]
    layers = config["num_hidden_layers"] * width * (2 * width + 2 * kv + 3 * config["intermediate_size"])
    return os.path.getsize(path) * (layers + head) / (layers + 2 * head)


def main():
    parser = argparse.ArgumentParser(prog="bench/decode.sh")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--folder", default="/var/tmp/dml-bench-serve")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bf16", default="auto")
    parser.add_argument("types", nargs="*", metavar="TYPE")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    model = serve.make_model(args, "bench/recipes/serve.yml", os.path.join(args.folder, "serve"))
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    rates = [rate for _ in range(3) if (rate := memory_rate())]
    print(f"{args.threads} threads, {args.tokens} tokens an answer, --bf16 {args.bf16}, median of {args.repeats}"
          + (f"; the memory is read at {max(rates) / 1e9:.1f} GB/s" if rates else ""))
    for kind in args.types or ["bf16", "q8_0", "q4_0", "q4_k_m"]:
        path = os.path.join(args.folder, f"decode-{kind}.gguf")
        if not os.path.exists(path):
            text_of([os.environ["DML"], "convert", model, "--format", "gguf", "--dtype", kind, "--output", path])
        ours, theirs = {name: [] for name in CASES}, {name: [] for name in CASES}
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(args.repeats):
                for name, case in CASES.items():
                    ours[name].append(of_dml(args, path, case, scratch))
                    got = json_of(["node", "bench/peers/llama_cpp.mjs", args.peer, path, str(args.threads), str(args.tokens), case])
                    theirs[name].append(got[case])
        for name in CASES:
            a, b = statistics.median(ours[name]), statistics.median(theirs[name])
            serve.line(f"{kind}, {name}: dml {a:.1f}, llama.cpp {b:.1f} tokens/s", a / b, "", ">= 1.00", a >= b)
        one, eight = statistics.median(ours["one prompt"]), statistics.median(ours["eight prompts"])
        serve.line(f"{kind}, eight prompts over one", eight / one, "", ">= 4.00", eight >= 4 * one)
        if rates:
            share, goal = one * read_by_a_token(path, config) / max(rates), 0.6 if kind.startswith("q4") else 0.85
            serve.line(f"{kind}, one prompt, of the memory's rate", share, "", f">= {goal:.2f}", share >= goal)


if __name__ == "__main__":
    main()
