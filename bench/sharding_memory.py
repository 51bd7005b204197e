"""Memory of a rank against the ideal table of the strategies; called by bench/sharding_memory.sh."""
import argparse
import os
import sys

from child import json_of

# What a rank holds of weights, gradients and state (two planes): 1 all, 0 its shards.
WHOLE = {"ddp": (1, 1, 1), "zero1": (1, 1, 0), "zero2": (1, 0, 0), "zero3": (0, 0, 0)}


def run(strategy, ranks):
    command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", os.environ["DML"], "bench",
               "bench/recipes/S7.yml", "--json", "--warmup", "1", "--steps", "1", "--threads", "1", "--micro_batch_size", "1", "--batch_size", str(ranks),
               "--sequence_len", "64", "--distribution", strategy]
    return json_of(command)


def main():
    parser = argparse.ArgumentParser(prog="bench/sharding_memory.sh")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("strategies", nargs="*", metavar="ddp|zero1|zero2|zero3")
    args = parser.parse_args()
    failed = False
    for strategy in args.strategies or WHOLE:
        result = run(strategy, args.ranks)
        plan, size = result["plan"], 4 * result["trained"]
        ideal = sum(size * planes * (1 if whole else 1 / args.ranks) for whole, planes in zip(WHOLE[strategy], (1, 1, 2)))
        held = sum(plan.get(k, 0) for k in ("trained weights", "gradients", "optimizer state", "communication"))
        measured = result["peak_bytes"] - plan["process"] - plan["activations"] - plan.get("data (mapped)", 0)
        off = measured / ideal - 1
        failed |= off > 0.1
        print(f"{strategy} on {args.ranks} ranks: ideal {ideal / 1e6:.0f} MB, held {held / 1e6:.0f} MB, of which communication "
              f"{plan.get('communication', 0) / 1e6:.0f} MB; measured {measured / 1e6:.0f} MB, {off:+.1%} of ideal (≤ 10 %: {'FAIL' if off > 0.1 else 'pass'})", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
