"""The table of bench/serve.sh. Rates are counted by the clients from the first token of the last answer on, and are medians."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/clients"))
from child import json_of, text_of  # noqa: E402
from server import Server  # noqa: E402

LONG_PROMPT = 2000


def prompt(number, length=16):
    return [100 + (number * 131 + i * 17) % 20000 for i in range(length)]


class Stream(threading.Thread):
    """One client; returns the arrival times of its tokens."""

    def __init__(self, server, number, tokens, length=16):
        super().__init__()
        self.server, self.times, self.began = server, [], time.monotonic()
        self.body = {"prompt": prompt(number, length), "max_tokens": tokens, "temperature": 0, "logit_bias": {"2": -100}}
        self.start()

    def run(self):
        self.began = time.monotonic()
        for event in self.server.events("/v1/completions", self.body, timeout=3600):
            if "error" in event:
                sys.exit(f"the server refuses: {event['error']}")
            if event.get("choices") and event["choices"][0]["finish_reason"] is None:
                self.times.append(time.monotonic())


def rate(server, clients, tokens):
    """Tokens per second of all clients while all are generating."""
    streams = [Stream(server, i, tokens) for i in range(clients)]
    for s in streams:
        s.join()
    first, last = max(s.times[0] for s in streams), min(s.times[-1] for s in streams)
    return sum(sum(first < t <= last for t in s.times) for s in streams) / (last - first)


def batch(args, model, count, tokens, folder):
    """Tokens per second while the answers of a batch are generated, as dml reports, and its CPU seconds."""
    path = os.path.join(folder, "batch.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(count):
            body = {"prompt": prompt(i), "max_tokens": tokens, "temperature": 0, "logit_bias": {"2": -100}}
            file.write(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
    before = os.times()
    done = subprocess.run([os.environ["DML"], "serve", "--base-model", model, "--threads", str(args.threads), "--input", path,
                           "--output", path + ".out"], check=True, stderr=subprocess.PIPE, text=True)
    after = os.times()
    said = float(re.search(r"at ([0-9.]+) tokens/s", done.stderr)[1])
    return said, after.children_user + after.children_system - before.children_user - before.children_system


def gaps_beside_a_long_prompt(server, tokens):
    """Mean seconds between tokens of four answers: normally, and while a long prompt is read."""
    streams = [Stream(server, i, tokens) for i in range(4)]
    while any(len(s.times) < tokens // 4 for s in streams):
        time.sleep(0.01)
    long = Stream(server, 99, 2, LONG_PROMPT)
    for s in [*streams, long]:
        s.join()
    begin, end = long.began, long.times[0]

    def gaps(low, high):
        return [b - a for s in streams for a, b in zip(s.times, s.times[1:]) if low <= a and b <= high]
    usual = gaps(max(s.times[0] for s in streams), begin)
    beside = gaps(begin, end) or gaps(begin, float("inf"))
    return statistics.mean(usual), statistics.mean(beside), max(beside), end - begin


def own_cost(args, tiny, folder):
    """CPU time per token of a tiny model streamed to 16 clients, in excess of the same in a batch."""
    server = Server(os.environ["DML"], "--base-model", tiny, "--threads", str(args.threads))
    rate(server, 16, 50)
    before = server.cpu()
    rate(server, 16, 400)
    served = (server.cpu() - before) / (16 * 400)
    server.end()
    alone = (batch(args, tiny, 16, 400, folder)[1] - batch(args, tiny, 16, 50, folder)[1]) / (16 * 350)
    return served, alone


def make_model(args, recipe, path):
    if not os.path.exists(os.path.join(path, "config.json")):
        subprocess.run(["/usr/bin/python3", "bench/make_model.py", recipe, path], check=True)
    for name in os.listdir(args.tokenizer):
        if name.startswith(("tokenizer", "special_tokens")) and not os.path.samefile(args.tokenizer, path):
            shutil.copy(os.path.join(args.tokenizer, name), path)
    return path


def line(what, value, unit, goal=None, good=None):
    print(f"{what:62} {value:9.2f} {unit:9} {goal or '':14} {'' if good is None else 'pass' if good else 'FAIL'}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--folder", default="/var/tmp/dml-bench-serve")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--recipe", default="bench/recipes/serve.yml")
    parser.add_argument("--peer")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    model = make_model(args, args.recipe, os.path.join(args.folder, os.path.splitext(os.path.basename(args.recipe))[0]))
    measured = {n: [] for n in (1, 4, 16)}
    engine, peer, waits = [], {n: [] for n in measured}, []
    gguf = os.path.join(args.folder, os.path.basename(model) + ".gguf")
    if args.peer and not os.path.exists(gguf):
        text_of([os.environ["DML"], "convert", model, "--format", "gguf", "--dtype", "bf16", "--output", gguf])
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(args.repeats):  # in turns
            engine.append(batch(args, model, 16, args.tokens, scratch)[0])
            server = Server(os.environ["DML"], "--base-model", model, "--threads", str(args.threads))
            rate(server, 1, 4)
            for n in measured:
                measured[n].append(rate(server, n, args.tokens))
            waits.append(gaps_beside_a_long_prompt(server, 2 * args.tokens))
            server.end()
            if args.peer:
                got = json_of(["node", "bench/peers/llama_cpp.mjs", args.peer, gguf, str(args.threads), str(args.tokens), *map(str, measured)])
                for n in peer:
                    peer[n].append(got[str(n)])
        tiny = os.path.join(args.folder, "tiny")
        with open(args.recipe, encoding="utf-8") as file:
            text = file.read()
        small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
        with open(os.path.join(scratch, "tiny.yml"), "w", encoding="utf-8") as file:
            file.writelines(f"  {key}: {small[key]}\n" if (key := row.strip().split(":")[0]) in small else row + "\n" for row in text.splitlines())
        served, alone = own_cost(args, make_model(args, os.path.join(scratch, "tiny.yml"), tiny), scratch)
    median = statistics.median
    many, one, base = median(measured[16]), median(measured[1]), median(engine)
    print(f"{os.path.basename(model)}, {args.threads} threads, {args.tokens} tokens an answer, median of {args.repeats}")
    for n in measured:
        line(f"dml serve, {n} client{'s' if n > 1 else ''}", median(measured[n]), "tokens/s")
    line("the engine alone, 16 answers together", base, "tokens/s")
    line("16 clients over the engine alone", many / base, "", ">= 0.90", many >= 0.9 * base)
    line("16 clients over one", many / one, "", ">= 4.00", many >= 4 * one)
    usual, beside, most, reading = (median(x) for x in zip(*waits))
    line("between tokens, usually", 1e3 * usual, "ms")
    line(f"... while a prompt of {LONG_PROMPT} tokens is read ({reading:.1f} s)", 1e3 * beside, "ms")
    line("... the longest of them", 1e3 * most, "ms")
    line("while it is read over usually", beside / usual, "", "<= 2.00", beside <= 2 * usual)
    line("the server's own processor time a token", 1e6 * (served - alone), "us", "<= 100", served - alone <= 1e-4)
    for n in peer if args.peer else ():
        line(f"llama.cpp, {n} sequence{'s' if n > 1 else ''}", median(peer[n]), "tokens/s")
        line(f"dml serve over llama.cpp, {n}", median(measured[n]) / median(peer[n]), "", ">= 1.00", median(measured[n]) >= median(peer[n]))


if __name__ == "__main__":
    main()
