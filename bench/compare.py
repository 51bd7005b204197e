"""Runs dml bench and the PyTorch peer in turns and prints goal, measured and pass; called by bench/compare.sh.

Every figure is a median over the repeats. "of sgemm" is dml's own: operations the mathematics needs per second over the
single-thread OpenBLAS rate of the same run times the threads.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

LENGTHS = ["--documents", "bench/recipes/alpaca_lengths.txt"]
# name: what, recipe, further options, quantity, against, goals (speed ratio at least, fraction at least, memory ratio at most)
SHAPES = {
    "S1": ("full, 4 × 256, vocab 50257", "S1", [], "tok_s", "torch", (2.5, 0.75, 0.35)),
    "S2": ("LoRA, 4 × 2048", "S2", [], "tok_s", "torch", (1.25, 0.90, 0.35)),
    "S3": ("LoRA, 12 × 768", "S3", [], "tok_s", "torch", (2.8, 0.85, 0.35)),
    "S4": ("S2, 75 % masked", "S2", ["--masked", "0.75"], "tok_s", "torch", (1.55, None, None)),
    "S5": ("S2 as QLoRA", "S5", [], "tok_s", "S2", (0.95, None, 0.6)),
    "S6": ("S3 on alpaca rows", "S6", LENGTHS, "learned_tok_s", "torch", (5.0, None, None)),
    "S7": ("full, 12 × 768", "S7", [], "tok_s", "torch", (2.2, 0.80, None)),
}


def run(command, quantity, busy):
    """The JSON object a program ends with; when busy, speeds as if the lone thread had had its core to itself."""
    done = subprocess.run(command + (["--threads", "1"] if busy else []), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    if busy:
        slowed = result["step_s"] / result["processor_s"]
        result[quantity] *= slowed
        result["fraction"] = result.get("fraction", 0) * slowed
    return result


def dml(recipe, options, steps):
    return [os.environ["DML"], "bench", f"bench/recipes/{recipe}.yml", "--json", "--warmup", "1", "--steps", str(steps), *options]


def torch(recipe, options, steps):
    return ["/usr/bin/python3", "bench/peers/torch_train.py", f"bench/recipes/{recipe}.yml", "--warmup", "1", "--steps",
            str(max(2, steps // 2)), *options]


def median(runs, key):
    return statistics.median(r[key] for r in runs)


def verdict(value, goal, at_least=True):
    if goal is None:
        return f"{value:6.2f}           "
    good = value >= goal if at_least else value <= goal
    return f"{value:6.2f} {'≥' if at_least else '≤'} {goal:4.2f} {'pass' if good else 'FAIL'}"


def main():
    parser = argparse.ArgumentParser(prog="bench/compare.sh")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a dml run; the peer makes half of them")
    parser.add_argument("--busy", action="store_true", help="one thread each, processor seconds: for a machine that others use")
    parser.add_argument("shapes", nargs="*", metavar="S1…S7")
    args = parser.parse_args()
    unknown = [s for s in args.shapes if s not in SHAPES]
    if unknown:
        parser.error(f"no shape {unknown[0]}; there are {', '.join(SHAPES)}")
    print(f"{'':3} {'shape':27} {'dml tok/s':>9} {'other':>7}  {'speed ratio':17} {'of sgemm':17} {'memory ratio':17} "
          f"{'dml GB':>6} {'plan':>5} {'sgemm':>6}")
    for name in args.shapes or SHAPES:
        what, recipe, options, quantity, against, (speed, fraction, memory) = SHAPES[name]
        ours, theirs = [], []
        for _ in range(args.repeats):
            ours.append(run(dml(recipe, options, args.steps), quantity, args.busy))
            other = torch(recipe, options, args.steps) if against == "torch" else dml(*SHAPES[against][1:3], args.steps)
            theirs.append(run(other, quantity, args.busy))
        fast, slow = median(ours, quantity), median(theirs, quantity)
        peak = median(ours, "peak_bytes")
        print(f"{name:3} {what:27} {fast:9.1f} {slow:7.1f}  {verdict(fast / slow, speed)} {verdict(median(ours, 'fraction'), fraction)} "
              f"{verdict(peak / median(theirs, 'peak_bytes'), memory, False)} {peak / 1e9:6.2f} "
              f"{median(ours, 'plan_bytes') / peak:5.2f} {median(ours, 'sgemm_gflops'):6.1f}", flush=True)


if __name__ == "__main__":
    main()
