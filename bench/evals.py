#!/usr/bin/env python3
"""200 prompts answered greedily, and 200 choices, on 1, 2 and 4 ranks of one thread, alternately: the same answers, and how the
time falls. The goal on two ranks is 1.8 times the speed of one.

    bench/evals.py [--base MODEL] [--dml build/release/dml] [--prompts 200] [--tokens 128] [--ranks 1 2 4] [--repeats 3]

Without --base it makes a model of random weights, 8 layers of 512, with the tokenizer of the quickstart. Seconds are medians and
include the start of the program. Answers are compared by a judge whose score is a checksum of the answer.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOKENIZER = 'datasets/quickstart/tokenizer'
SHAPE = """model_config: {architectures: [LlamaForCausalLM], model_type: llama, vocab_size: 2048, hidden_size: 512, intermediate_size: 1408,
  num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: 512, rms_norm_eps: 1.0e-5,
  rope_theta: 10000.0, tie_word_embeddings: true, bos_token_id: 1, eos_token_id: 2}
"""
JUDGE = """import json, sys, zlib
for line in sys.stdin:
    print(json.dumps({'score': zlib.crc32(json.loads(line)['output'].encode()) / 2**32}), flush=True)
"""


def made_model(folder):
    with open(folder + '/shape.yml', 'w') as f:
        f.write(SHAPE)
    subprocess.run(['/usr/bin/python3', 'bench/make_model.py', folder + '/shape.yml', folder + '/base'], check=True)
    shutil.copytree(TOKENIZER, folder + '/base', dirs_exist_ok=True)
    return folder + '/base'


def write_evals(folder, prompts, tokens):
    rows = [{'prompt': f'Once there were {i} birds in a tree, and', 'expected': 'tree', 'answer': i % 2,
             'choices': [' they sang.', ' the sea was made of wood.']} for i in range(prompts)]
    with open(folder + '/rows.jsonl', 'w') as f:
        f.writelines(json.dumps(row) + '\n' for row in rows)
    with open(folder + '/judge.py', 'w') as f:
        f.write(JUDGE)
    with open(folder + '/evals.yml', 'w') as f:
        f.write(f'evals:\n  - {{name: answers, path: {folder}/rows.jsonl, raw: true, max_new_tokens: {tokens}, '
                f'checks: [contains, {{command: {sys.executable} {folder}/judge.py, name: checksum}}]}}\n'
                f'  - {{name: choices, path: {folder}/rows.jsonl, raw: true, checks: [choice]}}\n')


def run(dml, base, folder, ranks):
    """Seconds, and the numbers."""
    words = [dml, 'evaluate', '--base-model', base, '--evals', folder + '/evals.yml', '--json', '--threads', '1']
    if ranks > 1:
        words = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-n', str(ranks)] + words
    begin = time.monotonic()
    ended = subprocess.run(words, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return seconds, json.loads(ended.stdout)['models']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--base', type=os.path.abspath)
    parser.add_argument('--dml', default='build/release/dml', type=os.path.abspath)
    parser.add_argument('--prompts', type=int, default=200)
    parser.add_argument('--tokens', type=int, default=128)
    parser.add_argument('--ranks', type=int, nargs='+', default=[1, 2, 4])
    parser.add_argument('--repeats', type=int, default=3)
    a = parser.parse_args()
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    with tempfile.TemporaryDirectory() as folder:
        base = a.base or made_model(folder)
        write_evals(folder, a.prompts, a.tokens)
        seconds, numbers = {r: [] for r in a.ranks}, {}
        for _ in range(a.repeats):
            for ranks in a.ranks:
                took, found = run(a.dml, base, folder, ranks)
                seconds[ranks].append(took)
                numbers.setdefault(ranks, found)
                if found != numbers[ranks]:
                    raise SystemExit(f'{ranks} ranks: two runs differ')
    print('| ranks | seconds | speed-up | same answers |\n|--:|--:|--:|---|')
    one = statistics.median(seconds[a.ranks[0]])
    for ranks in a.ranks:
        median = statistics.median(seconds[ranks])
        print(f'| {ranks} | {median:.1f} | {one / median:.2f} | {"yes" if numbers[ranks] == numbers[a.ranks[0]] else "NO"} |')


main()
