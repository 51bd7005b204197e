"""Runs dml bench with and without rl: dpo, and the PyTorch loop, in turns; prints goal, measured and pass. Called by
bench/preference.sh. The documents of a micro-batch are a pair (S2) or pairs (S6, rows of natural length), so all three see the
same tokens; the prompts of a pair, where there are any, are the same. Figures are medians over the repeats; peaks are the largest."""
import argparse
import os
import statistics
import sys
import tempfile

import yaml

from child import json_of

LENGTHS = ["--documents", "bench/recipes/alpaca_lengths.txt"]
PAIRS = ["--rl", "dpo"]
IN_EVERY_STEP = [*PAIRS, "--precompute_ref_log_probs", "false"]
TINY = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 1000}


class Bench:
    def __init__(self, folder, args):
        self.folder, self.args, self.failed = folder, args, False

    def recipe(self, name):
        """One micro-batch a step; with --smoke a tiny model of the same shape."""
        with open(f"bench/recipes/{name}.yml", encoding="utf-8") as file:
            keys = yaml.safe_load(file)
        keys["gradient_accumulation_steps"] = 1
        if self.args.smoke:
            keys["model_config"].update(TINY)
        path = os.path.join(self.folder, f"{name}.yml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(keys, file)
        return path

    def dml(self, recipe, options):
        return [os.environ["DML"], "bench", self.recipe(recipe), "--json", "--warmup", "1", "--steps", str(self.args.steps), *options]

    def torch(self, recipe, options):
        return ["/usr/bin/python3", "bench/peers/torch_train.py", self.recipe(recipe), "--dpo", "--warmup", "1", "--steps",
                str(max(1, self.args.steps // 2)), *options]

    def measured(self, commands):
        """name -> (median seconds of a step, median tokens a second, largest peak), the commands taking turns."""
        runs = {name: [] for name in commands}
        for turn in range(self.args.repeats):
            for name, command in commands.items():
                runs[name].append(json_of(command))
                print(f"  {name} {turn + 1}: {runs[name][-1]['step_s']:.2f} s", file=sys.stderr, flush=True)
        return {name: (statistics.median(r["step_s"] for r in all), statistics.median(r["tok_s"] for r in all),
                       max(r["peak_bytes"] for r in all)) for name, all in runs.items()}

    def row(self, what, value, goal, at_most):
        good = goal is None or (value <= goal if at_most else value >= goal)
        self.failed |= not good and not self.args.smoke
        sign = "" if goal is None else "<=" if at_most else ">="
        print(f"{what:<72} {sign:<2} {goal or '':<5} {value:6.2f}  {'' if goal is None else 'pass' if good else 'FAIL'}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/preference.sh")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.repeats, args.steps = 1, 1
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, args)
        half = ["--masked", "0.5"]
        s2 = bench.measured({"supervised": bench.dml("S2", []), "reference in every step": bench.dml("S2", IN_EVERY_STEP),
                             "precomputed": bench.dml("S2", PAIRS), "supervised, half prompt": bench.dml("S2", half),
                             "pair, half prompt": bench.dml("S2", [*IN_EVERY_STEP, *half])})
        plain, every, before = s2["supervised"], s2["reference in every step"], s2["precomputed"]
        bench.row("S2: a pair's step / supervised step, reference in every step", every[0] / plain[0], 2.7, True)
        bench.row("S2: the same, precomputed", before[0] / plain[0], 2.05, True)
        bench.row("S2: the same in every step, half of it a prompt that is computed once", s2["pair, half prompt"][0] / s2["supervised, half prompt"][0], None, True)
        bench.row("S2: peak memory / supervised, reference in every step", every[2] / plain[2], 1.15, True)
        bench.row("S2: the same, precomputed", before[2] / plain[2], 1.15, True)
        s6 = bench.measured({"dml": bench.dml("S6", [*IN_EVERY_STEP, *LENGTHS]), "torch": bench.torch("S6", LENGTHS)})
        bench.row("S6 on alpaca rows: tokens per second / PyTorch DPO", s6["dml"][1] / s6["torch"][1], 3, False)
        sys.exit(bench.failed)


if __name__ == "__main__":
    main()
