"""Runs dml bench with and without rl: dpo, and the PyTorch loop, in turns; prints goal, measured and pass. Called by
bench/preference.sh. The documents of a micro-batch are a pair (S2) or pairs (S6, rows of natural length), so all three see the
same tokens. Figures are medians over the repeats; peaks are the largest."""
import argparse
import os
import statistics

from child import json_of

LENGTHS = ["--documents", "bench/recipes/alpaca_lengths.txt"]
PAIRS = ["--rl", "dpo"]
IN_EVERY_STEP = [*PAIRS, "--precompute_ref_log_probs", "false"]


def dml(recipe, options, steps):
    return [os.environ["DML"], "bench", f"bench/recipes/{recipe}.yml", "--json", "--warmup", "1", "--steps", str(steps), *options]


def torch(recipe, options, steps):
    return ["/usr/bin/python3", "bench/peers/torch_train.py", f"bench/recipes/{recipe}.yml", "--dpo", "--warmup", "1", "--steps",
            str(max(2, steps // 2)), *options]


def measured(commands, repeats):
    """name -> (median seconds of a step, median tokens a second, largest peak), the commands taking turns."""
    runs = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            runs[name].append(json_of(command))
    return {name: (statistics.median(r["step_s"] for r in all), statistics.median(r["tok_s"] for r in all),
                   max(r["peak_bytes"] for r in all)) for name, all in runs.items()}


def row(what, value, goal, at_most):
    good = value <= goal if at_most else value >= goal
    print(f"{what:<68} {'<=' if at_most else '>='} {goal:<5} {value:6.2f}  {'pass' if good else 'FAIL'}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    s2 = measured({"supervised": dml("S2", [], args.steps), "every": dml("S2", IN_EVERY_STEP, args.steps),
                   "before": dml("S2", PAIRS, args.steps)}, args.repeats)
    row("S2: a pair's step / supervised step, reference in every step", s2["every"][0] / s2["supervised"][0], 2.7, True)
    row("S2: the same, precomputed", s2["before"][0] / s2["supervised"][0], 2.05, True)
    row("S2: peak memory / supervised, reference in every step", s2["every"][2] / s2["supervised"][2], 1.15, True)
    row("S2: the same, precomputed", s2["before"][2] / s2["supervised"][2], 1.15, True)
    s6 = measured({"dml": dml("S6", [*IN_EVERY_STEP, *LENGTHS], args.steps), "torch": torch("S6", LENGTHS, args.steps)},
                  args.repeats)
    row("S6 on alpaca rows: tokens per second / PyTorch DPO", s6["dml"][1] / s6["torch"][1], 3, False)


if __name__ == "__main__":
    main()
