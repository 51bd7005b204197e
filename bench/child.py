"""Runs a measured program as a child process: its last line is the result, its failure ends the measurement."""
import json
import subprocess
import sys


def text_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def json_of(command):
    return json.loads(text_of(command).strip().splitlines()[-1])
