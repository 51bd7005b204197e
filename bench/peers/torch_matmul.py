"""The rate of PyTorch's bfloat16 matrix product, which is oneDNN's, as a line of JSON. The best of many runs of a square product: the
yardstick of bench/compare.sh --bf16."""
import argparse
import json
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=2048)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    a, b = (torch.randn(args.size, args.size).bfloat16() for _ in range(2))
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"gflops": 2 * args.size**3 / best / 1e9}))


if __name__ == "__main__":
    main()
