#!/usr/bin/env python3
"""What becomes of Axolotl's example recipes: each is trained for two steps as it is, with a small model and rows of ours in the
places that it names, or refused by line. Prints the table of docs/axolotl-recipes.md.

    tools/axolotl_recipes.py FOLDER --base MODEL [--dml build/release/dml]

FOLDER: recipes, and in FOLDER/parsed the same as JSON, for the names of datasets and columns. MODEL: a small model directory.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

SMOKE = ['--max_steps', '2', '--sequence_len', '256', '--micro_batch_size', '1', '--gradient_accumulation_steps', '1',
         '--sample_packing_group_size', '8', '--output_dir', 'out', '--dataset_prepared_path', 'prepared', '--threads', '1']


def row(dataset, i):
    question, answer = f'What is number {i}?', f'It is {i * i}.'
    kind = dataset.get('type')
    if kind == 'alpaca':
        return {'instruction': question, 'input': '', 'output': answer}
    if kind in ('pretrain', 'completion'):
        return {dataset.get('field') or dataset.get('text_column') or 'text': f'{question} {answer}'}
    if kind == 'chat_template.default':
        return {dataset['field_messages']: [{'role': 'user', 'content': question}],
                dataset['field_chosen']: {'role': 'assistant', 'content': answer},
                dataset['field_rejected']: {'role': 'assistant', 'content': 'No idea.'}}
    names = dataset.get('message_property_mappings', {})
    role, content = names.get('role', 'role'), names.get('content', 'content')
    people = ('human', 'gpt') if role == 'from' else ('user', 'assistant')
    return {dataset.get('field_messages', 'messages'): [{role: people[0], content: question}, {role: people[1], content: answer}]}


def outcome(dml, recipe, parsed, base):
    with tempfile.TemporaryDirectory() as folder:
        for dataset in parsed.get('datasets') or parsed.get('pretraining_dataset') or []:
            place = pathlib.Path(folder, dataset['path'], dataset.get('name') or '')
            place.mkdir(parents=True, exist_ok=True)
            place.joinpath('train.jsonl').write_text(''.join(json.dumps(row(dataset, i)) + '\n' for i in range(40)))
        words = [dml, 'train', str(recipe), '--base_model', base] + SMOKE
        ended = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if ended.returncode == 0:
        return 'trains', re.findall(r'Training\s+(.*)', ended.stderr)
    errors = [re.sub(r'^error:\s*', '', line) for line in ended.stderr.splitlines() if line.startswith('error')]
    lines = [re.sub(r'\S*' + re.escape(recipe.name) + ':', 'line ', line) for line in errors or ended.stderr.splitlines()[-3:]]
    return 'refused' if ended.returncode == 2 else f'exit code {ended.returncode}', lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--base', required=True, type=os.path.abspath)
    parser.add_argument('--dml', default='build/release/dml', type=os.path.abspath)
    a = parser.parse_args()
    print('| recipe of Axolotl | method | what becomes of it |\n|---|---|---|')
    for recipe in sorted(a.folder.resolve().glob('*.y*ml')):
        parsed = json.loads((a.folder / 'parsed' / (recipe.name + '.json')).read_text())
        method = parsed.get('rl') or parsed.get('adapter') or ('pretraining' if parsed.get('pretraining_dataset') else 'full')
        result, lines = outcome(a.dml, recipe, parsed, a.base)
        why = '' if result == 'trains' else ': ' + '; '.join(line.replace('|', '/') for line in lines)
        print(f"| {recipe.stem.replace('__', '/')} | {method} | {result}{why} |", flush=True)


main()
