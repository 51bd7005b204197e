"""Runs dml bench and the PyTorch peer alternately and prints goal, measured and pass; called by bench/compare.sh.

Every figure is a median over the repeats. "of sgemm" is dml's own: operations the mathematics needs per second over the
single-thread OpenBLAS rate of the same run times the threads. S5 and the S2 it is measured against start from the same
model folder of bfloat16 weights, as a user's run does, each with its own defaults (S5 keeps activations in bfloat16, S2 in
float32); the others have their weights made in memory. The peer is a plain model, and transformers' own where that is installed; the
faster counts. With --bf16 both sides use bfloat16 products; of the peer's two ways (autocast, bfloat16 weights) the faster counts, or
its float32 where that is faster still. "of bf16" is then the share of the rate of the fastest large bfloat16 product in the same run:
oneDNN's, dml's own, or sgemm's where the processor multiplies bfloat16 no faster. `--long` and `--with-7b` add what takes longer.
"""
import argparse
import functools
import itertools
import os
import resource
import statistics
import subprocess
import tempfile

import yaml

from child import json_of

FIRST = []  # words before every command
PYTHON = os.environ["PYTHON"]  # that of the peer
PRECISIONS = ["float32"]  # those tried of the peer
THREADS = []  # the option of both sides
FASTEST = {}  # the peer's fastest precision and model, by recipe
DML_OPTIONS = []

LENGTHS = ["--documents", "bench/recipes/alpaca_lengths.txt"]
# name: what, recipe, further options, quantity, against, goals (speed ratio at least, fraction at least, memory ratio at most)
SHAPES = {
    "S1": ("full, 4 × 256, vocab 50257", "S1", [], "tok_s", "torch", (2.5, 0.75, 0.35)),
    "S2": ("LoRA, 4 × 2048", "S2", [], "tok_s", "torch", (1.25, 0.90, 0.35)),
    "S3": ("LoRA, 12 × 768", "S3", [], "tok_s", "torch", (2.8, 0.85, 0.35)),
    "S4": ("S2, 75 % masked", "S2", ["--masked", "0.75"], "tok_s", "torch", (1.55, None, None)),
    "S5": ("S2 as QLoRA", "S5", [], "tok_s", "S2", (0.95, None, 0.6)),
    "S6": ("S3 on alpaca rows", "S6", LENGTHS, "trained_tok_s", "torch", (5.0, None, None)),
    "S7": ("full, 12 × 768", "S7", [], "tok_s", "torch", (2.2, 0.80, None)),
    "M3": ("M2 on alpaca rows", "M3", LENGTHS, "trained_tok_s", "torch", (3.0, None, None)),
}
LONG = {"8k": 8192, "16k": 16384, "32k": 32768}  # names and tokens of long documents


def model_folder(recipe, folder):
    """A model of the recipe's shape, created by the first call."""
    path = os.path.join(folder, recipe)
    if not os.path.exists(os.path.join(path, "config.json")):
        subprocess.run(["/usr/bin/python3", "bench/make_model.py", f"bench/recipes/{recipe}.yml", path], check=True)
    return path


def from_folder(recipe, folder):
    return ["--base_model", model_folder(recipe, folder), "--quantized_cache_path", os.path.join(folder, "quantized")]


def dml(recipe, options, steps):
    return [*FIRST, os.environ["DML"], "bench", f"bench/recipes/{recipe}.yml", "--json", "--warmup", "1", "--steps", str(steps), *THREADS, *DML_OPTIONS, *options]


@functools.cache
def has_transformers():
    return subprocess.run([PYTHON, "-c", "import transformers, peft"], capture_output=True, check=False).returncode == 0


def torch(recipe, options, steps):
    """The peer's result, in the fastest of its precisions and models. Mixtures, and documents of unlike length, are left to the plain one."""
    command = [*FIRST, PYTHON, "bench/peers/torch_train.py", f"bench/recipes/{recipe}.yml", "--warmup", "1", "--steps",
               str(max(2, steps // 2)), *THREADS, *options]
    plain_only = recipe.startswith("M") or "--documents" in options or not has_transformers()
    ways = itertools.product(PRECISIONS, ["plain"] if plain_only else ["plain", "transformers"])
    tried = [FASTEST[recipe]] if recipe in FASTEST else list(ways)
    runs = {way: json_of([*command, "--precision", way[0], "--model", way[1]]) for way in tried}
    FASTEST[recipe] = max(runs, key=lambda way: runs[way]["tok_s"])
    return runs[FASTEST[recipe]]


def bf16_rate(runs):
    """GFLOP/s of the fastest large product with bfloat16 factors: the peer's, dml's own, or sgemm's."""
    command = [*FIRST, PYTHON, "bench/peers/torch_matmul.py", *THREADS]
    return max(json_of(command)["gflops"], median(runs, "product_gflops"), median(runs, "sgemm_gflops"))


def median(runs, key):
    return statistics.median(r[key] for r in runs)


def verdict(value, goal, at_least=True):
    if goal is None:
        return f"{value:6.2f}           "
    good = value >= goal if at_least else value <= goal
    return f"{value:6.2f} {'≥' if at_least else '≤'} {goal:4.2f} {'pass' if good else 'FAIL'}"


def line(name, what, verdicts):
    print(f"{name:3} {what:27} {'   '.join(verdicts)}", flush=True)


def long_documents(name, args):
    """A step of one long document, relative to its operations at the rate of a document of 1024. Two layers are enough above 8k."""
    tokens = LONG[name]
    layers = 12 if tokens == 8192 else 2
    def step(length):
        options = ["--micro_batch_size", "1", "--sequence_len", str(length), "--model_config.num_hidden_layers", str(layers),
                   "--model_config.max_position_embeddings", str(max(2048, length))]
        runs = [json_of(dml("S3", options, 2)) for _ in range(args.repeats)]
        return {"rate": statistics.median(r["gflop"] / r["step_s"] for r in runs), "plan": runs[0]["plan"]["activations"]}
    short, half, long = step(1024), step(tokens // 2), step(tokens)
    line(name, f"S3, {layers} layers, {tokens} tokens", [f"time ÷ predicted {verdict(short['rate'] / long['rate'], 1.15, False)}",
                                                  f"activations ÷ those of {tokens // 2} {verdict(long['plan'] / half['plan'], 2.05, False)}"])


def same_flop_dense(recipe, folder):
    """The recipe with an MLP as wide as a token's experts together."""
    with open(f"bench/recipes/{recipe}.yml", encoding="utf-8") as file:
        dense = yaml.safe_load(file)
    config = dense["model_config"]
    del config["num_local_experts"]
    config.update(model_type="llama", intermediate_size=config["intermediate_size"] * config.pop("num_experts_per_tok"))
    path = os.path.join(folder, recipe + "-dense.yml")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(dense, file)
    return path


def mixture(name, what, args):
    """A mixture of experts against a loop over them in PyTorch, and against a dense model with the same cost per token."""
    dense = dml(name, [], args.steps)
    dense[dense.index(f"bench/recipes/{name}.yml")] = same_flop_dense(name, args.folder)
    dml_runs, others, reference_runs = [], [], []
    for _ in range(args.repeats):
        dml_runs.append(json_of(dml(name, [], args.steps)))
        others.append(json_of(dense))
        reference_runs.append(torch(name, [], args.steps))
    fast, slow, share = median(dml_runs, "tok_s"), median(reference_runs, "tok_s"), median(dml_runs, "fraction")
    line(name, what, [f"{fast:9.1f} {slow:7.1f}  {verdict(fast / slow, 3.0)}", f"of sgemm {share:.2f}",
                      f"÷ dense {verdict(share / median(others, 'fraction'), 0.8)}"])


def seven_billion(args):
    """S8: a step, and the whole run from bfloat16 files to a saved adapter."""
    options = from_folder("S8", args.folder)
    json_of(dml("S8", options, 1))  # quantizes
    step = json_of(dml("S8", options, 1))
    line("S8", "7B QLoRA, 512 tokens", [f"{step['tok_s']:.1f} tok/s", f"of sgemm {verdict(step['fraction'], 0.85)}",
                                       f"GB {verdict(step['peak_bytes'] / 1e9, 6.0, False)}"])
    out = tempfile.mkdtemp(dir=args.folder)
    with open(os.path.join(out, "rows.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"text": "' + "one two three four five " * 40 + '"}\n')
    rows = "{path: " + out + "/rows.jsonl, type: completion}"
    train = [os.environ["DML"], "train", "bench/recipes/S8.yml", *options, "--tokenizer_config", "datasets/quickstart/tokenizer", "--datasets", f"[{rows}]",
             "--dataset_prepared_path", out, "--max_steps", "1", "--num_epochs", "1", "--output_dir", os.path.join(out, "adapter")]
    done = subprocess.run(train, capture_output=True, text=True, check=False)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    saved = os.path.exists(os.path.join(out, "adapter", "adapter_model.safetensors"))
    line("", "from files to an adapter", [f"{'saved' if done.returncode == 0 and saved else 'FAIL: ' + done.stderr.strip()[-300:]}", f"GB {verdict(peak, 24.0, False)}"])


def main():
    parser = argparse.ArgumentParser(prog="bench/compare.sh")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a dml run; the peer makes half of them")
    parser.add_argument("--threads", type=int, default=2, help="of both sides")
    parser.add_argument("--realtime", action="store_true", help="other programs of the machine wait (chrt, as root)")
    parser.add_argument("--bf16", action="store_true", help="bfloat16 products on both sides")
    parser.add_argument("--long", action="store_true", help="also a document of 8192 tokens")
    parser.add_argument("--with-7b", action="store_true", help="also S8: 20 GB in --folder, 24 GB of memory")
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "dml-bench"), help="for models made once")
    parser.add_argument("shapes", nargs="*", metavar="S1…S8, M1…M3, 8k, 16k, 32k")
    args = parser.parse_args()
    THREADS.extend(["--threads", str(args.threads)])
    if args.realtime:  # the system keeps a twentieth of the time for the others
        FIRST.extend(["chrt", "-f", "20"])
    if args.bf16:
        DML_OPTIONS.extend(["--bf16", "true"])
        PRECISIONS.extend(["autocast", "bf16"])
    further = {**{name: functools.partial(long_documents, name) for name in LONG}, "S8": seven_billion,
               "M1": lambda args: mixture("M1", "LoRA, 8 experts, 2 active", args),
               "M2": lambda args: mixture("M2", "full, 8 experts, 2 active", args)}
    unknown = [s for s in args.shapes if s not in SHAPES and s not in further]
    if unknown:
        parser.error(f"no shape {unknown[0]}; there are {', '.join([*SHAPES, *further])}")
    names = args.shapes or [*SHAPES, "M1", "M2", *(["8k"] if args.long else []), *(["S8"] if args.with_7b else [])]
    print(f"{'':3} {'shape':27} {'dml tok/s':>9} {'other':>7}  {'speed ratio':17} {'of sgemm':17} {'memory ratio':17} "
          f"{'dml GB':>6} {'plan':>5} {'sgemm':>6}")
    for name in names:
        if name in further:
            further[name](args)
            continue
        what, recipe, options, quantity, against, (speed, fraction, memory) = SHAPES[name]
        dml_runs, reference_runs = [], []
        folder = [] if against == "torch" else from_folder(against, args.folder)
        if folder:  # the first run quantizes
            json_of(dml(recipe, options + folder, 1))
        for _ in range(args.repeats):
            dml_runs.append(json_of(dml(recipe, options + folder, args.steps)))
            reference_runs.append(torch(recipe, options, args.steps) if against == "torch" else json_of(dml(against, folder, args.steps)))
        fast, slow = median(dml_runs, quantity), median(reference_runs, quantity)
        peak = median(dml_runs, "peak_bytes")
        sgemm = median(dml_runs, "sgemm_gflops")
        of_bf16 = ""
        if args.bf16:
            yardstick = bf16_rate(dml_runs)
            of_bf16 = f"  of bf16 {median(dml_runs, 'fraction') * sgemm / yardstick:.2f} ({yardstick:.0f} GFLOP/s)"
        print(f"{name:3} {what:27} {fast:9.1f} {slow:7.1f}  {verdict(fast / slow, speed)} {verdict(median(dml_runs, 'fraction'), fraction)} "
              f"{verdict(peak / median(reference_runs, 'peak_bytes'), memory, False)} {peak / 1e9:6.2f} "
              f"{median(dml_runs, 'plan_bytes') / peak:5.2f} {sgemm:6.1f}{of_bf16}", flush=True)


if __name__ == "__main__":
    main()
