#!/usr/bin/env python3
"""Starts `dml serve` and runs openai.mjs, the checks with the official client of npm, against it."""
import argparse, os, subprocess, sys
from server import Server, arguments

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--modules', default='', help='the folder in which npm install openai was run')
a, words = arguments(parser)
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'openai.mjs')
server = Server(a.dml, *words)
model = server.ask('GET', '/v1/models')[1]['data'][0]['id']
run = subprocess.run(['node', script, f'http://127.0.0.1:{server.port}', model, *([a.modules] if a.modules else [])], timeout=500)
status = server.end()
if status: print('FAILED exit', status)
sys.exit(run.returncode or status)
