"""Step times over a slow link, measured and predicted; called by bench/two_hosts.sh on the first of two hosts."""
import argparse
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from child import json_of, text_of

DML, RATE = os.environ["DML"], os.environ["RATE"]
# name: recipe, keys, strategies, goal for the ratio (None: only the prediction counts)
SHAPES = {
    "lora": ("S3", ["--batch_size", "8"], ["ddp"], 1.90),
    "full": ("S7", ["--batch_size", "16", "--comm_dtype", "bf16"], ["ddp"], 1.75),
    "strategies": ("S7", ["--batch_size", "8"], ["ddp", "zero1", "zero2", "zero3"], None),
}
ALONE = ["--threads", "1", "--micro_batch_size", "2"]


def bench(ranks, recipe, keys, steps):
    words = [DML, "bench", f"bench/recipes/{recipe}.yml", "--json", "--warmup", "1", "--steps", str(steps), *ALONE, *keys]
    if ranks > 1:
        words = ["mpirun", "--hostfile", os.environ["DML_HOSTFILE"], "-np", str(ranks), "--map-by", "node", "--bind-to", "none"] + words
    return json_of(words)


def planned(recipe, keys):
    """Seconds per step on two ranks, by strategy. Two plans run at once, since the two hosts share one machine's memory and clock."""
    command = [DML, "plan", f"bench/recipes/{recipe}.yml", *ALONE, *keys, "--ranks", "2", "--bandwidth", RATE, "--latency", "0.05ms"]
    with ThreadPoolExecutor() as pool:
        tables = list(pool.map(text_of, [command, command]))
    seconds = {}
    for table in tables:
        for words in (line.split() for line in table.splitlines()[1:]):
            if len(words) > 2:
                seconds.setdefault(words[1], []).append(float(words[2]))
    return {strategy: statistics.mean(both) for strategy, both in seconds.items()}


def main():
    parser = argparse.ArgumentParser(prog="bench/two_hosts.sh")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--only", metavar="STRATEGY")
    parser.add_argument("shapes", nargs="*", metavar="lora|full|strategies")
    args = parser.parse_args()
    failed = False
    for name in args.shapes or SHAPES:
        if name not in SHAPES:
            parser.error(f"no shape {name}; there are {', '.join(SHAPES)}")
        recipe, keys, strategies, goal = SHAPES[name]
        for strategy in [s for s in strategies if args.only in (None, s)]:
            one, two, plans = [], [], []
            for _ in range(args.repeats):
                plans.append(planned(recipe, keys)[strategy])
                two.append(bench(2, recipe, [*keys, "--distribution", strategy], args.steps))
                if goal:
                    one.append(bench(1, recipe, keys, args.steps))
            # The fastest of each: other load only adds time.
            plan, best = min(plans), min(two, key=lambda r: r["step_s"])
            off = plan / best["step_s"] - 1
            text = f"{name} {strategy} at {RATE}: {best['step_s']:.2f} s on two hosts, {best['communication_s']:.2f} s of it communication"
            if goal:
                alone = min(one, key=lambda r: r["step_s"])
                ratio = alone["step_s"] / best["step_s"]
                failed |= ratio < goal
                text += f"; {alone['step_s']:.2f} s on one rank, ratio {ratio:.2f} (≥ {goal:.2f}: {'pass' if ratio >= goal else 'FAIL'})"
                text += f"; sgemm of a core {alone['sgemm_gflops']:.0f} alone, {best['sgemm_gflops'] / 2:.0f} beside the other"
            failed |= abs(off) > 0.15
            print(f"{text}; predicted {plan:.2f} s, {off:+.1%} (within 15 %: {'pass' if abs(off) <= 0.15 else 'FAIL'})", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
