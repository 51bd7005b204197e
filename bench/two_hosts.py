"""Step times over a slow link, measured and predicted; called by bench/two_hosts.sh on the first of two hosts."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

DML = os.environ["DML"]
# name: recipe, keys, strategies, goal for the ratio (None: only the prediction counts)
SHAPES = {
    "lora": ("S3", ["--batch_size", "8"], ["ddp"], 1.90),
    "full": ("S7", ["--batch_size", "16", "--comm_dtype", "bf16"], ["ddp"], 1.75),
    "strategies": ("S7", ["--batch_size", "8"], ["ddp", "zero1", "zero2", "zero3"], None),
}


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def bench(ranks, recipe, keys, steps):
    words = [DML, "bench", f"bench/recipes/{recipe}.yml", "--json", "--warmup", "1", "--steps", str(steps), "--threads", "1",
             "--micro_batch_size", "2", *keys]
    if ranks > 1:
        words = ["mpirun", "--hostfile", os.environ["DML_HOSTFILE"], "-np", str(ranks), "--map-by", "node", "--bind-to", "none"] + words
    return json.loads(output(words).strip().splitlines()[-1])


def planned(recipe, keys, rate):
    rate = re.sub("bit$", "bit", rate[0].upper() + rate[1:]) if rate[0].isalpha() else re.sub("[gm]bit", lambda m: m[0].capitalize(), rate)
    lines = output([DML, "plan", f"bench/recipes/{recipe}.yml", "--threads", "1", "--micro_batch_size", "2", *keys, "--ranks", "2",
                    "--bandwidth", rate, "--latency", "0.05ms"]).splitlines()
    return {words[1]: float(words[2]) for words in (line.split() for line in lines[1:]) if len(words) > 2}


def main():
    parser = argparse.ArgumentParser(prog="bench/two_hosts.sh")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("shapes", nargs="*", metavar="lora|full|strategies")
    args = parser.parse_args()
    rate, failed = os.environ["RATE"], False
    for name in args.shapes or SHAPES:
        if name not in SHAPES:
            parser.error(f"no shape {name}; there are {', '.join(SHAPES)}")
        recipe, keys, strategies, goal = SHAPES[name]
        for strategy in strategies:
            one, two, plans = [], [], []
            for _ in range(args.repeats):
                plans.append(planned(recipe, keys, rate)[strategy])
                one.append(bench(1, recipe, keys, args.steps)["step_s"])
                two.append(bench(2, recipe, [*keys, "--distribution", strategy], args.steps)["step_s"])
            a, b, plan = (statistics.median(v) for v in (one, two, plans))
            ratio, off = a / b, plan / b - 1
            verdicts = [f"predicted {plan:.2f} s, {off:+.1%} (within 15 %: {'pass' if abs(off) <= 0.15 else 'FAIL'})"]
            failed |= abs(off) > 0.15
            if goal:
                verdicts.insert(0, f"≥ {goal:.2f} {'pass' if ratio >= goal else 'FAIL'}")
                failed |= ratio < goal
            print(f"{name} {strategy} at {rate}: {a:.2f} s on one rank, {b:.2f} s on two hosts, ratio {ratio:.2f}; {'; '.join(verdicts)}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
