#!/usr/bin/env python3
"""Mixed load on `dml serve` for --seconds: clients ask completions, chats, streams, constrained answers and embeddings of the base
and its adapters, greedily and with seeds. Every answer is known from asking alone; wrong ones are counted."""
import argparse, json, random, sys, threading, time
from server import Server, arguments

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--seconds', type=float, default=5)
parser.add_argument('--clients', type=int, default=8)
parser.add_argument('--kinds', type=int, default=200, help='different requests')
a, words = arguments(parser)
server = Server(a.dml, *words)
models = [m['id'] for m in server.ask('GET', '/v1/models')[1]['data']]
SCHEMA = {'type': 'object', 'properties': {'name': {'type': 'string', 'maxLength': 12}, 'age': {'type': 'integer', 'minimum': 0, 'maximum': 150},
                                           'kind': {'enum': ['cat', 'dog']}}, 'required': ['name', 'age', 'kind'], 'additionalProperties': False}
THINGS = ['a cat', 'the old dog', 'rain and the sea', 'Lily and her mum went to the park to play with a big red ball that day, and then', 'Tim']


def request(i):
    rng = random.Random(i)
    how = {'model': models[i % len(models)], 'max_tokens': rng.randrange(2, 24)}
    how.update({'temperature': 0} if i % 2 else {'temperature': 1.2, 'seed': i})
    text = f'Once upon a time there was {rng.choice(THINGS)} {i % 9}'
    kind = i % 7
    if kind == 0: return '/v1/embeddings', {'model': how['model'], 'input': text}
    if kind == 1: return '/v1/chat/completions', {**how, 'messages': [{'role': 'system', 'content': 'You tell stories. ' * 4}, {'role': 'user', 'content': text}]}
    if kind == 2: return '/v1/completions', {**how, 'prompt': text, 'n': 2, 'logprobs': 2}
    if kind == 3: return '/v1/completions', {**how, 'prompt': text, 'guided_json': SCHEMA, 'max_tokens': 60}
    if kind == 4: return '/v1/completions', {**how, 'prompt': text, 'stop': ['e']}
    return '/v1/completions', {**how, 'prompt': text}


def core(answer):
    """What of an answer depends on the request alone."""
    if 'choices' in answer: return json.dumps([answer['choices'], answer['usage']['completion_tokens']], sort_keys=True)
    return json.dumps(answer.get('data') or answer, sort_keys=True)


def ask(i, stream):
    path, body = request(i)
    if not stream or 'input' in body or 'n' in body: return core(server.ask('POST', path, body)[1]), None
    events = list(server.events(path, body))
    return None, ''.join((c.get('text') or c.get('delta', {}).get('content') or '') for e in events for c in e.get('choices', []))


want = [ask(i, False)[0] for i in range(a.kinds)]
texts = [None if 'choices' not in w and not w.startswith('[[') else ''.join(c.get('text') or c.get('message', {}).get('content') or '' for c in json.loads(w)[0]) for w in want]
wrong, answered, lock, end = [], 0, threading.Lock(), time.time() + a.seconds
before, begun, cpu = server.rss(), time.time(), server.cpu()


def client(number):
    global answered
    rng = random.Random(number)
    while True:  # at least once
        i, stream = rng.randrange(a.kinds), rng.random() < 0.4
        try:
            whole, text = ask(i, stream)
            good = whole == want[i] if whole is not None else text == texts[i]
            got = whole if whole is not None else text
        except Exception as e:
            good, got = False, repr(e)
        with lock:
            answered += 1
            if not good: wrong.append((i, request(i), str(got)[:300], want[i][:300]))
        if time.time() >= end: break


threads = [threading.Thread(target=client, args=(n,)) for n in range(a.clients)]
for t in threads: t.start()
for t in threads: t.join()
seconds = time.time() - begun
print(f'{a.clients} clients, {seconds:.0f} s, {len(models)} models: {answered} answers, {len(wrong)} wrong; '
      f'resident {before} kB before, {server.rss()} kB after; {server.cpu() - cpu:.0f} s of processor time')
for w in wrong[:5]: print('WRONG', w)
status = server.end()
if status != 0: print('FAILED exit', status)
print('soak', 'holds' if not wrong and status == 0 and answered else 'falls short')
sys.exit(bool(wrong) or status != 0 or not answered)
