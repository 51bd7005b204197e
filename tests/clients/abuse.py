#!/usr/bin/env python3
"""What hostile and broken clients do to `dml serve`: malformed requests of every kind, connections that never finish, clients that
leave in the middle of a stream. The server must answer every valid request meanwhile, say nothing with 500, give all places
back, and hold its memory. --requests 10000 --slow 200 --leaving 1000 is the long form."""
import argparse, json, os, random, socket, sys, threading, time
from server import PATIENCE, Server, arguments, soon

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--requests', type=int, default=300)
parser.add_argument('--slow', type=int, default=20)
parser.add_argument('--leaving', type=int, default=30)
parser.add_argument('--seed', type=int, default=1)
a, words = arguments(parser)
server = Server(a.dml, *words)
rng = random.Random(a.seed)
failures = []

VALID = {'prompt': 'Once upon a time', 'max_tokens': 8, 'temperature': 0}
WANT = server.ask('POST', '/v1/completions', VALID)[1]['choices'][0]['text']

CHAT = ['messages', 'model', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty',
        'presence_penalty', 'frequency_penalty', 'logit_bias', 'n', 'stop', 'seed', 'logprobs', 'top_logprobs', 'stream',
        'stream_options', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'chat_template_kwargs',
        'reasoning_effort', 'continue_final_message', 'add_generation_prompt', 'stop_token_ids', 'guided_json', 'guided_regex',
        'guided_choice', 'guided_grammar', 'no_such_field']
WRONG = [17, -1, 1e300, 2.5, 'text', '', [], {}, [[]], [None], True, {'a': 1}, ['x', 1], 10**30, -10**18, 'x' * 5000, {'type': 'x'},
         '(' * 300, [{'role': 7}], [{'role': 'user'}], {'type': 'json_schema'}, {'999999999': 1}, [10**9] * 3]


def post(path, body, head=''):
    if isinstance(body, str): body = body.encode()
    return (f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{head}'
            'Connection: close\r\n\r\n').encode() + body


def wrong_field():
    body = {'messages': [{'role': 'user', 'content': 'Hi'}], 'max_tokens': 2}
    body[rng.choice(CHAT)] = rng.choice(WRONG)
    return post('/v1/chat/completions', json.dumps(body))


def truncated():
    whole = post('/v1/completions', json.dumps(VALID))
    return whole[:rng.randrange(1, len(whole))]


def smuggled():
    line = rng.choice(['Content-Length: 5\r\nTransfer-Encoding: chunked', 'Content-Length: 5\r\nContent-Length: 6', 'Content-Length: -5',
                       'Content-Length: 0x10', 'Content-Length: 5\r\n folded', 'Transfer-Encoding: xchunked', 'Transfer-Encoding: chunked, gzip',
                       'Content-Length: 99999999999999999999', 'Content-Length: 5 5', 'Transfer-Encoding : chunked', 'Content-Length:\x005'])
    return f'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n5\r\n{{"a"}}\r\n0\r\n\r\n'.encode()


def huge():
    return rng.choice([lambda: b'GET /health HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * 60000 + b'\r\n\r\n',
                       lambda: b'GET /health HTTP/1.1\r\nHost: localhost\r\n' + b''.join(b'X%d: 1\r\n' % i for i in range(500)) + b'\r\n',
                       lambda: b'GET /' + b'a' * 50000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n',
                       lambda: b'a' * 100000,
                       lambda: b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n'])()


def pipelined():
    good = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
    return good * rng.randrange(2, 9) + rng.choice([b'', b'garbage\r\n\r\n', good[:20], wrong_field()])


def bad_text():
    return post('/v1/completions', rng.choice([b'{"prompt": "\xff\xfe\xc3"}', b'{"prompt": "a\x00b"}', b'{"prompt": "\\ud800"}', b'{"prompt": "x"',
                                               b'{"prompt": "x", "prompt": "y"}', b'\xef\xbb\xbf{}', b'', b'null', b'NaN', b'[1]', b'{"a":1}{"b":2}']))


def deep():
    return post('/v1/chat/completions', rng.choice(['[' * 100000, '{"a":' * 50000, '{"messages":' + '[' * 300 + ']' * 300 + '}',
                                                    '{"guided_regex": "' + '(' * 5000 + '", "messages": [{"role":"user","content":"x"}]}',
                                                    json.dumps({'messages': [{'role': 'user', 'content': 'x'}], 'guided_json': {'$ref': '#'}}),
                                                    json.dumps({'messages': [{'role': 'user', 'content': 'x'}], 'guided_json': {'type': 'string', 'minLength': 10**9}})]))


def elsewhere():
    return rng.choice([b'BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n', b'GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n',
                       b'GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n', b'GET /health HTTP/1.1\r\n\r\n', b'DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n',
                       b'GET /v1/models/..%2f..%2fx HTTP/1.1\r\nHost: localhost\r\n\r\n', b'GET /health HTTP/1.1\nHost: localhost\n\n',
                       b'GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n', bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400)))])


KINDS = [wrong_field, wrong_field, wrong_field, truncated, smuggled, huge, pipelined, bad_text, deep, elsewhere]


def send(data):
    """The status lines that came; the sender closes its side when all is sent, as a client that has given up does."""
    s = server.connect()
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # refused while we were talking
    got = b''
    try:
        while more := s.recv(65536):
            got += more
    except ConnectionError:
        pass
    finally:
        s.close()
    return [int(line.split()[1]) for line in got.split(b'\r\n') if line.startswith(b'HTTP/1.') and len(line.split()) > 1]


def check_valid(when):
    status, body = server.ask('POST', '/v1/completions', VALID)
    if status != 200 or body['choices'][0]['text'] != WANT: failures.append((when, status, str(body)[:200]))


def malformed(count):
    seen = {}
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        data = kind()
        try:
            for status in send(data):
                seen[status] = seen.get(status, 0) + 1
                if status >= 500 and status not in (501, 503, 505): failures.append((kind.__name__, status, data[:300]))
        except TimeoutError:
            failures.append((kind.__name__, 'no answer', data[:300]))
        if i % 50 == 0: check_valid(f'after {i} malformed requests')
    return seen


def wrong_fields():
    """Every field with every wrong value: an error names the field, in OpenAI's form."""
    refused = 0
    for field in CHAT:
        for value in WRONG:
            body = {'messages': [{'role': 'user', 'content': 'Hi'}], 'max_tokens': 1, 'seed': 1, field: value}
            status, answer = server.ask('POST', '/v1/chat/completions', body)
            if status == 200: continue
            refused += 1
            error = answer.get('error', {}) if isinstance(answer, dict) else {}
            good = status in (400, 404) and error.get('message') and error.get('type') and 'code' in error
            if not good or not str(error.get('param')).startswith(field): failures.append(('wrong field', field, value, status, answer))
    return refused


def slow(count):
    """Connections that send a byte now and then, and never a whole request."""
    held = [server.connect() for _ in range(count)]
    whole, closed, begin = post('/v1/completions', json.dumps(VALID)), 0, time.time()
    for i, s in enumerate(held): s.setblocking(False)
    at = [0] * count
    answered = 0
    while held and time.time() - begin < PATIENCE:
        for i, s in reversed(list(enumerate(held))):
            try:
                if i % 2: s.send(whole[at[i] % 60:at[i] % 60 + 1])
                at[i] += 1
                if s.recv(1000) == b'': raise ConnectionError
            except BlockingIOError:
                continue
            except OSError:
                s.close()
                held.pop(i), at.pop(i)
                closed += 1
        check_valid('beside slow connections')
        answered += 1
        time.sleep(0.5)
    for s in held: s.close()
    if held: failures.append(('slow connections', 'still open', len(held)))
    return closed, time.time() - begin, answered


def leaving(count):
    """Clients that read one event of a long answer and go, and clients that go while their prompt is read."""
    body = {'prompt': 'Once upon a time', 'max_tokens': 200, 'temperature': 1}
    context = server.ask('GET', '/v1/models')[1]['data'][0]['max_model_len']
    def some(n):
        for i in range(n):
            s = server.connect()
            s.sendall(post('/v1/completions', json.dumps({'prompt': [100 + i] * (context - 50), 'max_tokens': 50, 'n': 4, 'stream': i % 2 == 0})))
            s.close()
            for event in server.events('/v1/completions', body):
                if 'error' in event and event['error'].get('status') != 429: failures.append(('leaving', event))
                break
    threads = [threading.Thread(target=some, args=(max(1, count // 8),)) for _ in range(min(8, count))]
    for t in threads: t.start()
    for t in threads: t.join()
    begin = time.time()
    while server.gauge('dml_num_requests_running') and time.time() - begin < PATIENCE: check_valid('behind clients that left')
    if server.gauge('dml_num_requests_running'): failures.append(('leaving', 'answers nobody waits for continue'))
    return time.time() - begin


def fill():
    """Long prompts until the key-value cache is full: memory that is reserved at the start, and becomes resident as it is used."""
    context = server.ask('GET', '/v1/models')[1]['data'][0]['max_model_len']
    def some(first, last):
        draw = random.Random(first)
        for _ in range(first, last):
            body = {'prompt': [draw.randrange(100, 1000) for _ in range(context - 1)], 'max_tokens': 1}
            if (status := server.ask('POST', '/v1/completions', body)[0]) != 200: failures.append(('long prompt', status))
    threads = [threading.Thread(target=some, args=(4 * i, 4 * i + 3)) for i in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()


def at_rest():
    """(resident kB, open files) when nothing has been asked for a while."""
    if long: time.sleep(2.5)
    return server.rss(), open_files()


def open_files(): return len(os.listdir(f'/proc/{server.process.pid}/fd'))


# What is taken once is taken now: the cache, the constraints that are kept, threads.
long = a.requests >= 5000
begun = at_rest()[0]
if long: fill()
filled = at_rest()[0]
malformed(max(1, a.requests // 10)), leaving(max(8, a.leaving // 10))
if long: slow(min(10, a.slow)), wrong_fields()
before, files = at_rest()
print(f'resident memory: {begun} kB at first, {filled} kB with a full cache, {before} kB warm')
print(f'wrong values of {len(CHAT)} fields: {wrong_fields()} refused by name; {at_rest()[0]} kB')
seen, parts = {}, max(1, a.requests // 2500)
for part in range(parts):
    for status, count in malformed(a.requests // parts).items(): seen[status] = seen.get(status, 0) + count
    print(f'malformed requests: {a.requests // parts * (part + 1)}, {at_rest()[0]} kB')
print('statuses', dict(sorted(seen.items())))
closed, seconds, answered = slow(a.slow)
print(f'slow connections: {closed} closed by the server in {seconds:.1f} s, {answered} valid requests answered beside them; {at_rest()[0]} kB')
print(f'clients that left: {a.leaving}, no answer under way {leaving(a.leaving):.1f} s later')
check_valid('at the end')
after, files_after = at_rest()
print(f'resident memory: {before} kB before, {after} kB after ({100 * (after / before - 1):+.1f} %); open files {files} and {files_after}')
if long and after > 1.05 * before: failures.append(('memory', before, after))
if not soon(lambda: open_files() <= files + 3): failures.append(('open files', files, files_after))
if (status := server.end()) != 0: failures.append(('exit', status, ''.join(server.lines)[-500:]))
for f in failures[:20]: print('FAILED', f)
print('abuse', 'holds' if not failures else f'{len(failures)} failures')
sys.exit(bool(failures))
