"""Step time of one rank over that of two for the same global batch; called by bench/scaling.sh."""
import argparse
import os
import statistics
import sys

from child import json_of

# name: recipe, goals of the first release and of the distributed one
SHAPES = {"lora": ("S3", (1.85, 1.95)), "full": ("S7", (1.85, 1.90))}


def run(recipe, ranks, steps):
    command = ["mpirun", "-np", str(ranks), *os.environ["BIND"].split(), os.environ["DML"], "bench", f"bench/recipes/{recipe}.yml",
               "--json", "--warmup", "1", "--steps", str(steps), "--threads", "1", "--micro_batch_size", "2", "--batch_size", "4"]
    return json_of(command)


def main():
    parser = argparse.ArgumentParser(prog="bench/scaling.sh")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("shapes", nargs="*", metavar="lora|full")
    args = parser.parse_args()
    for name in args.shapes or SHAPES:
        if name not in SHAPES:
            parser.error(f"no shape {name}; there are {', '.join(SHAPES)}")
        recipe, goals = SHAPES[name]
        one, two = [], []
        for _ in range(args.repeats):
            one.append(run(recipe, 1, args.steps))
            two.append(run(recipe, 2, args.steps))
        middle = lambda runs, key: statistics.median(r[key] for r in runs)
        ratio = middle(one, "step_s") / middle(two, "step_s")
        results = ", ".join(f"≥ {g:.2f} {'pass' if ratio >= g else 'FAIL'}" for g in goals)
        print(f"{name}: {middle(one, 'step_s'):.3f} s on one rank, {middle(two, 'step_s'):.3f} s on two, of which "
              f"{middle(two, 'communication_s'):.3f} s communication: {ratio:.3f} ({results}); sgemm of a core "
              f"{middle(one, 'sgemm_gflops'):.1f} alone, {middle(two, 'sgemm_gflops') / 2:.1f} beside the other", flush=True)
        if any(a["loss"] != b["loss"] for a, b in zip(one, two)):
            sys.exit(f"{name}: the losses of one and of two ranks differ")


if __name__ == "__main__":
    main()
