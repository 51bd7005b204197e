#!/usr/bin/env python3
"""200 prompts answered greedily, and 200 choices, on 1, 2 and 4 ranks of one thread: the same numbers, and how the time falls.

    bench/evals.py --base MODEL [--dml build/release/dml] [--prompts 200] [--tokens 64] [--ranks 1 2 4]
"""
import argparse
import json
import os
import subprocess
import tempfile
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--base', required=True, type=os.path.abspath)
    parser.add_argument('--dml', default='build/release/dml', type=os.path.abspath)
    parser.add_argument('--prompts', type=int, default=200)
    parser.add_argument('--tokens', type=int, default=64)
    parser.add_argument('--ranks', type=int, nargs='+', default=[1, 2, 4])
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [{'prompt': f'Once there were {i} birds in a tree, and', 'expected': 'tree', 'answer': i % 2,
                 'choices': [' they sang.', ' the sea was made of wood.']} for i in range(a.prompts)]
        with open(folder + '/rows.jsonl', 'w') as f:
            f.writelines(json.dumps(row) + '\n' for row in rows)
        with open(folder + '/evals.yml', 'w') as f:
            f.write(f'evals:\n  - {{name: answers, path: {folder}/rows.jsonl, raw: true, max_new_tokens: {a.tokens}, '
                    "checks: [contains, {regex: '[aeiou]{2}'}]}\n"
                    f'  - {{name: choices, path: {folder}/rows.jsonl, raw: true, checks: [choice]}}\n')
        first = None
        print('| ranks | seconds | speed-up | same numbers |\n|--:|--:|--:|---|')
        for ranks in a.ranks:
            words = [a.dml, 'evaluate', '--base-model', a.base, '--evals', folder + '/evals.yml', '--json', '--threads', '1']
            if ranks > 1:
                words = ['mpirun', '--oversubscribe', '-n', str(ranks)] + words
            begin = time.monotonic()
            ended = subprocess.run(words, capture_output=True, text=True)
            seconds = time.monotonic() - begin
            if ended.returncode:
                raise SystemExit(ended.stderr)
            numbers = json.loads(ended.stdout)['models']
            first = first or (seconds, numbers)
            print(f'| {ranks} | {seconds:.1f} | {first[0] / seconds:.2f} | {"yes" if numbers == first[1] else "NO"} |', flush=True)


main()
