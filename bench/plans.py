#!/usr/bin/env python3
"""The planned memory of S1 to S7 compared with the peak memory of the process, in two steps of each. Goal: within a tenth.
About three minutes on two cores.

    bench/plans.py [--dml build/release/dml] [S1 … S7]
"""
import argparse
import os
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
sys.path.insert(0, 'bench')
from child import json_of  # noqa: E402
from compare import SHAPES, from_folder  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--dml', default='build/release/dml')
    parser.add_argument('--folder', default=os.path.join(tempfile.gettempdir(), 'dml-bench'), help='for models made once')
    parser.add_argument('shapes', nargs='*', metavar='S1…S7')
    a = parser.parse_args()
    failed = False
    print('| shape | plan, MB | peak, MB | plan ÷ peak |\n|---|--:|--:|--:|')
    for name in a.shapes or SHAPES:
        _, recipe, options, _, against, _ = SHAPES[name]
        folder = [] if against == 'torch' else from_folder(against, a.folder)
        words = [a.dml, 'bench', f'bench/recipes/{recipe}.yml', '--json', '--warmup', '1', '--steps', '1', *options, *folder]
        if folder:  # the first run quantizes
            json_of(words)
        run = json_of(words)
        ratio = run['plan_bytes'] / run['peak_bytes']
        good = 0.9 <= ratio <= 1.1
        failed |= not good
        print(f'| {name} | {run["plan_bytes"] / 1e6:.0f} | {run["peak_bytes"] / 1e6:.0f} | {ratio:.3f}{"" if good else " FAIL"} |', flush=True)
    sys.exit(failed)


main()
