#!/usr/bin/env python3
"""What `dml serve` promises of its answers, field by field: streams byte by byte, log-probabilities, usage, errors with their
`param`, keys, pages of other sites, the other endpoints, and what happens at SIGTERM."""
import argparse, base64, http.client, json, math, os, re, select, signal, struct, sys, tempfile, threading, time
from server import PATIENCE, Server, arguments

parser = argparse.ArgumentParser(description=__doc__)
a, words = arguments(parser)
failures, done = [], 0
PROMPT = 'Once upon a time'
CHAT = [{'role': 'system', 'content': 'You tell stories of cats and dogs and of the sea. ' * 3}, {'role': 'user', 'content': 'Tell me of a cat.'}]


def check(name, good, *detail):
    global done
    done += 1
    if not good: failures.append((name, *(str(d)[:400] for d in detail)))


def ask(server, method, path, body=None, headers={}, raw=False):
    """(status, headers, text)"""
    c = http.client.HTTPConnection('127.0.0.1', server.port, timeout=PATIENCE)
    c.request(method, path, body if raw or body is None else json.dumps(body), {'Content-Type': 'application/json', **headers})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, text


def stream(server, path, body):
    status, headers, text = ask(server, 'POST', path, {**body, 'stream': True})
    return headers, text


def post(server, path, body):
    status, _, text = ask(server, 'POST', path, body)
    return json.loads(text) if status == 200 else {'status': status, **json.loads(text)}


def chat_streams(s):
    body = {'messages': CHAT, 'max_tokens': 12, 'temperature': 0, 'stream_options': {'include_usage': True}, 'logprobs': True, 'top_logprobs': 2}
    whole = post(s, '/v1/chat/completions', {k: v for k, v in body.items() if k != 'stream_options'})
    headers, text = stream(s, '/v1/chat/completions', body)
    check('stream headers', headers['content-type'].startswith('text/event-stream') and headers['cache-control'] == 'no-cache' and
          headers.get('x-accel-buffering') == 'no' and headers.get('transfer-encoding') == 'chunked', headers)
    blocks = text.split('\n\n')
    check('events end with an empty line, the last with [DONE]', blocks[-1] == '' and blocks[-2] == 'data: [DONE]', text[-200:])
    check('an event is one line of compact JSON', all(b.startswith('data: {') and '\n' not in b and ': ' not in re.sub(r'"(\\.|[^"\\])*"', '', b[6:]) for b in blocks[:-2]), text[:300])
    events = [json.loads(b[6:]) for b in blocks[:-2]]
    check('id, created and model are those of every chunk', len({(e['id'], e['created'], e['model'], e['object']) for e in events}) == 1 and
          events[0]['id'].startswith('chatcmpl-') and events[0]['object'] == 'chat.completion.chunk', events[0])
    check('the first chunk has the role alone', events[0]['choices'] == [{'index': 0, 'delta': {'role': 'assistant', 'content': ''}, 'logprobs': None, 'finish_reason': None}], events[0])
    check('the finish chunk has an empty delta', events[-2]['choices'][0]['delta'] == {} and events[-2]['choices'][0]['finish_reason'] == whole['choices'][0]['finish_reason'] in ('length', 'stop'), events[-2])
    check('usage comes last, null before', events[-1]['choices'] == [] and events[-1]['usage']['completion_tokens'] == whole['usage']['completion_tokens'] and all(e['usage'] is None for e in events[:-1]), events[-1])
    check('a stream without include_usage has none', 'usage' not in stream(s, '/v1/chat/completions', {'messages': CHAT, 'max_tokens': 2})[1])
    said = ''.join(c['delta'].get('content', '') for e in events for c in e['choices'])
    check('stream = answer', said == whole['choices'][0]['message']['content'], said, whole)
    told = [t for e in events for c in e['choices'] if c['logprobs'] for t in c['logprobs']['content']]
    check('log-probabilities of a stream = those of the answer', told == whole['choices'][0]['logprobs']['content'] and len(told) == whole['usage']['completion_tokens'], told)
    for t in told:
        check('a token says what it is', bytes(t['bytes']).decode('utf-8', 'replace') == t['token'] and t['logprob'] <= 0 and len(t['top_logprobs']) == 2 and
              t['logprob'] == max(x['logprob'] for x in t['top_logprobs']) and t['top_logprobs'][0]['logprob'] >= t['top_logprobs'][1]['logprob'], t)
    check('whole answer', whole['object'] == 'chat.completion' and whole['system_fingerprint'] and
          set(whole['usage']) == {'prompt_tokens', 'completion_tokens', 'total_tokens', 'prompt_tokens_details', 'completion_tokens_details'}, whole)
    check('the prompt was cached', 16 <= events[-1]['usage']['prompt_tokens_details']['cached_tokens'] < events[-1]['usage']['prompt_tokens'] == whole['usage']['prompt_tokens'], events[-1])
    headers, text = stream(s, '/v1/chat/completions', {'messages': CHAT, 'max_tokens': 4, 'n': 2, 'seed': 3})
    events = [json.loads(b[6:]) for b in text.split('\n\n')[:-2]]
    for i in (0, 1):
        mine = [c for e in events for c in e['choices'] if c['index'] == i]
        check('each choice has its role and its end', sum('role' in c['delta'] for c in mine) == 1 and sum(c['finish_reason'] is not None for c in mine) == 1 and
              'role' in mine[0]['delta'] and mine[-1]['finish_reason'], mine)


def completions(s):
    ask_for = {'prompt': PROMPT, 'max_tokens': 10, 'temperature': 0}
    whole = post(s, '/v1/completions', ask_for)
    ids, written = post(s, '/tokenize', {'prompt': PROMPT})['tokens'], whole['usage']['completion_tokens']
    check('completion', whole['object'] == 'text_completion' and whole['id'].startswith('cmpl-') and whole['usage']['prompt_tokens'] == len(ids), whole)
    check('ids, lists of ids and lists of texts are prompts', all([c['text'] for c in post(s, '/v1/completions', {**ask_for, 'prompt': p}).get('choices', [])] == [whole['choices'][0]['text']] * n
          for p, n in [(ids, 1), ([ids], 1), ([PROMPT], 1), ([PROMPT, PROMPT], 2), ([ids, ids, ids], 3)]))
    echo = post(s, '/v1/completions', {**ask_for, 'max_tokens': 0, 'echo': True, 'logprobs': 3})
    lp = echo['choices'][0]['logprobs']
    check('echo gives the prompt', echo['choices'][0]['text'] == PROMPT and echo['usage']['completion_tokens'] == 0 and echo['choices'][0]['finish_reason'] == 'length', echo)
    check('echo with log-probabilities: one of each token but the first', len(lp['tokens']) == len(lp['token_logprobs']) == len(lp['top_logprobs']) == len(lp['text_offset']) == len(ids) and
          lp['token_logprobs'][0] is None and lp['top_logprobs'][0] is None and all(x <= 0 for x in lp['token_logprobs'][1:]), lp)
    check('the token itself is among the top ones', all(t in top and abs(top[t] - p) < 1e-9 for t, p, top in list(zip(lp['tokens'], lp['token_logprobs'], lp['top_logprobs']))[1:]), lp)
    more = post(s, '/v1/completions', {**ask_for, 'echo': True, 'logprobs': 0})
    check('echo and an answer', more['choices'][0]['text'] == PROMPT + whole['choices'][0]['text'] and len(more['choices'][0]['logprobs']['tokens']) == len(ids) + written and
          max(abs(x - y) for x, y in zip(more['choices'][0]['logprobs']['token_logprobs'][1:], lp['token_logprobs'][1:])) < 1e-5, more)
    several = post(s, '/v1/completions', {'prompt': [ids[1:], ids[2:], ids[-1:]], 'n': 2, 'max_tokens': 1, 'echo': True, 'logprobs': 0, 'logit_bias': {'2': -100}})['choices']
    check('each echo has the tokens of its own prompt', [c['logprobs']['tokens'][:-1] for c in several] == [lp['tokens'][k:] for k in (1, 1, 2, 2, -1, -1)] and
          all(c['logprobs']['token_logprobs'][0] is None for c in several), several)
    long_ids = post(s, '/v1/completions', {**ask_for, 'prompt': PROMPT + whole['choices'][0]['text'], 'max_tokens': 0, 'echo': True, 'logprobs': 0})['choices'][0]['logprobs']
    if long_ids['tokens'] == more['choices'][0]['logprobs']['tokens']:  # the text is read as the tokens that were written
        check('an answer has the log-probabilities of the same text as a prompt', max(abs(x - y) for x, y in zip(more['choices'][0]['logprobs']['token_logprobs'][1:], long_ids['token_logprobs'][1:])) < 1e-3, more, long_ids)
    _, text = stream(s, '/v1/completions', {**ask_for, 'logprobs': 1, 'echo': True})
    events = [json.loads(b[6:]) for b in text.split('\n\n')[:-2]]
    check('streams of completions have the same object and no role', {e['object'] for e in events} == {'text_completion'} and ''.join(e['choices'][0]['text'] for e in events) == PROMPT + whole['choices'][0]['text'] and
          sum(len((e['choices'][0]['logprobs'] or {'tokens': []})['tokens']) for e in events) == len(ids) + written, text[:500])
    said = whole['choices'][0]['text']
    stop = next((said[i:i + 2] for i in range(2, len(said) - 2) if said[i:i + 2].isascii()), 'none')
    for path, body in (('/v1/completions', ask_for), ('/v1/completions', {**ask_for, 'include_stop_str_in_output': True})):
        cut = post(s, path, {**body, 'stop': stop})['choices'][0]
        want = whole['choices'][0]['text'].split(stop)[0] + (stop if 'include_stop_str_in_output' in body else '')
        check('stop', cut['text'] == want and cut['finish_reason'] == 'stop', cut, want)
        _, text = stream(s, path, {**body, 'stop': [stop, 'zzzz']})
        check('stop in a stream', ''.join(json.loads(b[6:])['choices'][0]['text'] for b in text.split('\n\n')[:-2]) == want, text[:300])
    both = [post(s, '/v1/completions', {'prompt': PROMPT, 'max_tokens': 8, 'seed': 9, 'temperature': 1, **more})['choices'][0]['text'] for more in ({}, {'n': 3}, {'repetition_penalty': 1}, {'top_p': 1.0, 'top_k': 0, 'min_p': 0})]
    check('a seed gives the same text, alone and as the first of n', len(set(both)) == 1, both)
    check('greedy: temperature 0 needs no seed, top_k 1 is greedy', post(s, '/v1/completions', {**ask_for, 'temperature': 1, 'top_k': 1})['choices'][0]['text'] == whole['choices'][0]['text'])
    biased = post(s, '/v1/completions', {**ask_for, 'logprobs': 1, 'max_tokens': 3, 'logit_bias': {str(ids[-1]): 100}})['choices'][0]['logprobs']
    check('logit_bias decides, log-probabilities are those of the model', len(set(biased['tokens'])) == 1 and all(p < 0 for p in biased['token_logprobs']), biased)
    banned = post(s, '/v1/completions', {**ask_for, 'logprobs': 1, 'max_tokens': 8, 'logit_bias': {str(ids[-1]): -100}})['choices'][0]['logprobs']
    check('a token with -100 is not written', biased['tokens'][0] not in banned['tokens'], banned)
    context = post(s, '/tokenize', {'content': 'a'})['max_model_len']
    near, nearer = (ids[-1:] * (context - left) for left in (12, 3))
    alone, beside = (post(s, '/v1/completions', {'prompt': p, 'max_tokens': 100000, 'temperature': 0}) for p in (near, [near, nearer]))
    check('an answer ends with the context, whatever stands beside it', alone['choices'][0]['text'] == beside['choices'][0]['text'] and alone['usage']['completion_tokens'] <= 12 and
          (alone['choices'][0]['finish_reason'], alone['usage']['completion_tokens']) in (('length', 12), ('stop', alone['usage']['completion_tokens'])), alone, beside)


def borders(s):
    """What lies on a border: stops over several tokens, no tokens, several streams with usage, constraints beside other fields."""
    ask_for = {'prompt': PROMPT, 'max_tokens': 12, 'temperature': 0}
    said = post(s, '/v1/completions', ask_for)['choices'][0]['text']
    for at, size in [(1, 3), (2, 5), (3, 7), (4, 9), (5, 4), (6, 6)]:
        stops = [said[at:at + size], said[at + 2:at + size + 3]]
        want = said[:min(said.find(x) for x in stops)]
        cut = post(s, '/v1/completions', {**ask_for, 'stop': stops})['choices'][0]
        pieces = [json.loads(b[6:])['choices'][0]['text'] for b in stream(s, '/v1/completions', {**ask_for, 'stop': stops})[1].split('\n\n')[:-2]]
        check('a stop may lie in several tokens', (cut['text'], cut['finish_reason'], ''.join(pieces)) == (want, 'stop', want), stops, cut, pieces)
    for more in ({'max_tokens': 0}, {'max_completion_tokens': 0, 'max_tokens': 5}):
        none = post(s, '/v1/chat/completions', {'messages': CHAT, **more})
        check('no token', (none['choices'][0]['message']['content'], none['choices'][0]['finish_reason'], none['usage']['completion_tokens']) == ('', 'length', 0), none)
        events = [json.loads(b[6:])['choices'][0] for b in stream(s, '/v1/chat/completions', {'messages': CHAT, **more})[1].split('\n\n')[:-2]]
        check('a stream of no token', [(e['delta'], e['finish_reason']) for e in events] == [({'role': 'assistant', 'content': ''}, None), ({}, 'length')], events)
    several = {'prompt': [PROMPT, 'The sea'], 'n': 2, 'max_tokens': 6, 'seed': 5, 'temperature': 1, 'logprobs': 1}
    whole, text = post(s, '/v1/completions', several), stream(s, '/v1/completions', {**several, 'stream_options': {'include_usage': True}})[1]
    events = [json.loads(b[6:]) for b in text.split('\n\n')[:-2]]
    for i, choice in enumerate(whole['choices']):
        mine = [c for e in events for c in e['choices'] if c['index'] == i]
        check('each stream of several is its answer', ''.join(c['text'] for c in mine) == choice['text'] and sum((c['logprobs']['tokens'] for c in mine), []) == choice['logprobs']['tokens'] and
              [c['finish_reason'] for c in mine if c['finish_reason']] == [choice['finish_reason']], mine, choice)
    used = [e['usage'] for e in events if e['usage']]
    check('several streams have one usage, of all', len(used) == 1 and events[-1]['usage'] == used[0] and used[0]['completion_tokens'] == whole['usage']['completion_tokens'] and used[0]['prompt_tokens'] == whole['usage']['prompt_tokens'], used, whole['usage'])
    free = {'prompt': PROMPT, 'max_tokens': 4, 'temperature': 0, 'logprobs': 5}
    held = post(s, '/v1/completions', {**free, 'max_tokens': 40, 'guided_regex': '[a-c]{3}-[0-9]'})['choices'][0]
    check('log-probabilities of a constrained answer are those of the model', ''.join(held['logprobs']['tokens']) == held['text'] and all(p <= 0 for p in held['logprobs']['token_logprobs']) and
          max(held['logprobs']['top_logprobs'][0].values()) == max(post(s, '/v1/completions', free)['choices'][0]['logprobs']['top_logprobs'][0].values()), held)
    most = int(re.search(r'0 to (\d+)', post(s, '/v1/completions', {'prompt': 'a', 'logit_bias': {'x': 1}})['error']['message'])[1])
    for more in ({'temperature': 0}, {'temperature': 1}):
        body = {'prompt': 'a', 'max_tokens': 4, 'guided_choice': ['red', 'green'], 'logit_bias': {str(i): -100 for i in range(most + 1)}, **more}
        refused = post(s, '/v1/completions', body)
        check('where no token is left nothing is answered', refused.get('status') == 400 and 'left to choose' in refused['error']['message'], refused)
        text = stream(s, '/v1/completions', body)[1]
        check('... nor in a stream', 'left to choose' in text and '[DONE]' not in text and text.count('"error"') == 1, text)
    context = post(s, '/tokenize', {'content': 'a'})['max_model_len']
    ids = post(s, '/tokenize', {'prompt': 'A cat and a dog by the sea. ' * 60})['tokens'][:context - 4]
    first, longer, again = ({'prompt': ids + ids[:n], 'max_tokens': 4, 'temperature': 0} for n in (0, 4, 0))
    first, longer, again = (post(s, '/v1/completions', b) for b in (first, {**longer, 'prompt': (ids * context)[:context]}, again))
    check('a known beginning does not lengthen the context', longer.get('status') == 400 and longer['error']['code'] == 'context_length_exceeded' and first['choices'][0]['text'] == again['choices'][0]['text'] and
          again['usage']['prompt_tokens_details']['cached_tokens'] > 0, longer, again)


def tools(s):
    tool = lambda name: {'type': 'function', 'function': {'name': name, 'parameters': {'type': 'object', 'properties': {'n': {'type': 'integer', 'minimum': 0, 'maximum': 9}}, 'required': ['n'], 'additionalProperties': False}}}
    body = {'messages': CHAT, 'tools': [tool('get'), tool('put')], 'tool_choice': 'required', 'max_tokens': 200, 'temperature': 1}
    for seed in range(2):
        r = post(s, '/v1/chat/completions', {**body, 'seed': seed})
        calls = r['choices'][0]['message'].get('tool_calls', [])
        check('required calls', calls and all(c['type'] == 'function' and c['id'].startswith('call_') and c['function']['name'] in ('get', 'put') and 0 <= json.loads(c['function']['arguments'])['n'] <= 9 for c in calls) and
              r['choices'][0]['finish_reason'] == ('tool_calls' if r['usage']['completion_tokens'] < 200 else 'length'), r)
        check('no markup of calls in the content', not r['choices'][0]['message']['content'], r)
        if r['choices'][0]['finish_reason'] == 'tool_calls': check('content of calls alone is null', r['choices'][0]['message']['content'] is None, r)
        one = post(s, '/v1/chat/completions', {**body, 'seed': seed, 'parallel_tool_calls': False})
        check('one call', len(one['choices'][0]['message']['tool_calls']) == 1 and one['choices'][0]['finish_reason'] == 'tool_calls', one)
        named = post(s, '/v1/chat/completions', {**body, 'seed': seed, 'tool_choice': {'type': 'function', 'function': {'name': 'put'}}})
        check('a named tool', [c['function']['name'] for c in named['choices'][0]['message']['tool_calls']] == ['put'], named)
        events = [json.loads(b[6:]) for b in stream(s, '/v1/chat/completions', {**body, 'seed': seed})[1].split('\n\n')[:-2]]
        heads = [c for e in events for c in e['choices'][0]['delta'].get('tool_calls', [])]
        built = {}
        for h in heads:
            if 'id' in h: built[h['index']] = [h['function']['name'], '']
            built[h['index']][1] += h['function'].get('arguments', '')
        check('calls of a stream', [built[i] for i in range(len(built))] == [[c['function']['name'], c['function']['arguments']] for c in calls], heads)
    many = post(s, '/v1/chat/completions', {**body, 'seed': 1, 'logit_bias': {'2': -100}})['choices'][0]
    check('... and none of one that is cut off', not many['message']['content'], many)
    check('several calls are written where they may be', len(many['message']['tool_calls']) > 1 and many['finish_reason'] == 'length', many)
    check('tool_choice none leaves the tools out', 'tool_calls' not in post(s, '/v1/chat/completions', {**body, 'tool_choice': 'none', 'max_tokens': 4})['choices'][0]['message'])


def others(s):
    vectors = post(s, '/v1/embeddings', {'input': ['a cat', 'the sea']})
    coded = post(s, '/v1/embeddings', {'input': ['a cat', 'the sea'], 'encoding_format': 'base64'})
    for v, c in zip(vectors['data'], coded['data']):
        check('embeddings have length 1, and are float32 in base64', abs(math.fsum(x * x for x in v['embedding']) - 1) < 1e-5 and
              list(struct.unpack(f"<{len(v['embedding'])}f", base64.b64decode(c['embedding']))) == [struct.unpack('<f', struct.pack('<f', x))[0] for x in v['embedding']], v)
    check('embeddings', vectors['object'] == 'list' and [d['index'] for d in vectors['data']] == [0, 1] and vectors['usage']['prompt_tokens'] == vectors['usage']['total_tokens'] > 0, vectors['usage'])
    r = post(s, '/v1/responses', {'instructions': 'Be brief.', 'input': [{'role': 'user', 'content': [{'type': 'input_text', 'text': 'Hi'}]}], 'max_output_tokens': 5, 'temperature': 0, 'tools': [], 'store': False})
    check('a response', r['object'] == 'response' and (r['status'], r['incomplete_details']) in (('incomplete', {'reason': 'max_output_tokens'}), ('completed', None)) and r['output'][0]['content'][0]['type'] == 'output_text' and
          r['usage']['output_tokens'] <= 5 and r['usage']['total_tokens'] == r['usage']['output_tokens'] + r['usage']['input_tokens'], r)
    _, text = stream(s, '/v1/responses', {'input': 'Hi', 'max_output_tokens': 5, 'temperature': 0})
    blocks = [dict(line.split(': ', 1) for line in b.split('\n')) for b in text.split('\n\n')[:-1]]
    events = [json.loads(b['data']) for b in blocks]
    kinds = [e['type'] for e in events]
    check('events of a response', [b['event'] for b in blocks] == kinds and [e['sequence_number'] for e in events] == list(range(len(events))) and kinds[:4] == ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added'] and
          kinds[-4:-1] == ['response.output_text.done', 'response.content_part.done', 'response.output_item.done'] and kinds[-1] in ('response.incomplete', 'response.completed'), kinds)
    check('deltas of a response', ''.join(e['delta'] for e in events if e['type'] == 'response.output_text.delta') == events[-1]['response']['output'][0]['content'][0]['text'], text[:500])
    text = 'Hé \U0001F600 ok'
    t = post(s, '/tokenize', {'content': text, 'with_pieces': True})
    check('tokenize and detokenize', post(s, '/detokenize', {'tokens': [x['id'] for x in t['tokens']]})['content'].strip() == text and t['count'] == len(t['tokens']), t)
    laid = post(s, '/apply-template', {'messages': CHAT})['prompt']
    chat_ids = post(s, '/tokenize', {'messages': CHAT, 'return_token_strs': True})
    check('the tokens of a conversation', CHAT[1]['content'] in laid and len(chat_ids['token_strs']) == chat_ids['count'] and
          chat_ids['count'] == post(s, '/v1/chat/completions', {'messages': CHAT, 'max_tokens': 1})['usage']['prompt_tokens'], chat_ids['count'])
    models = json.loads(ask(s, 'GET', '/v1/models')[2])
    check('models', models['object'] == 'list' and all(m['object'] == 'model' and '/' not in m['id'] and m['max_model_len'] > 0 for m in models['data']) and
          json.loads(ask(s, 'GET', '/v1/models/' + models['data'][0]['id'])[2]) == models['data'][0], models)
    metrics = ask(s, 'GET', '/metrics')[2]
    names = set(re.findall(r'^# TYPE (\S+) (?:counter|gauge|histogram)$', metrics, re.M))
    check('every sample of the metrics has a type', all(re.sub(r'_(bucket|sum|count)$', '', n) in names or n in names for n in re.findall(r'^([a-z_]+)[{ ]', metrics, re.M)), names)
    check('metrics', {'dml_prompt_tokens_total', 'dml_prefix_cache_queries_total', 'dml_time_to_first_token_seconds', 'dml_request_generation_tokens', 'process_resident_memory_bytes'} <= names and
          s.gauge('dml_prefix_cache_hits_total') <= s.gauge('dml_prefix_cache_queries_total') and s.gauge('dml_num_requests_running') == 0, names)


def constraints(s):
    base = {'prompt': PROMPT, 'max_tokens': 60, 'temperature': 1, 'seed': 4}
    text = lambda more: post(s, '/v1/completions', {**base, **more})['choices'][0]['text']
    check('regex', re.fullmatch('[a-c]{3}-[0-9]', text({'guided_regex': '[a-c]{3}-[0-9]'})))
    check('choice', text({'guided_choice': ['red', 'green']}) in ('red', 'green'))
    check('grammar', re.fullmatch('ab(cd|ef){1,2}', text({'guided_grammar': 'root ::= "ab" end end?\nend ::= "cd" | "ef"'})))
    check('response_format of a chat', json.loads(post(s, '/v1/chat/completions', {'messages': CHAT, 'max_tokens': 60, 'seed': 1, 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'enum': [{'a': 1}, {'a': 2}]}}}})['choices'][0]['message']['content']) in ({'a': 1}, {'a': 2}))


WRONG = [  # path, body, status, param, words of the message
    ('/v1/completions', {}, 400, 'prompt', 'missing'), ('/v1/completions', {'prompt': ''}, (200, 400), None, ''), ('/v1/completions', {'prompt': []}, 400, 'prompt', ''),
    ('/v1/completions', {'prompt': [[]]}, 400, 'prompt', ''), ('/v1/completions', {'prompt': [10 ** 9]}, 400, 'prompt', 'token id'), ('/v1/completions', {'prompt': [1, 'a']}, 400, 'prompt', 'token id'),
    ('/v1/completions', {'prompt': 'a', 'n': 129}, 400, 'n', '128'), ('/v1/completions', {'prompt': ['a'] * 100, 'n': 100}, 400, 'n', '1024'), ('/v1/completions', {'prompt': 'a', 'n': 0}, 400, 'n', ''),
    ('/v1/completions', {'prompt': 'a', 'logprobs': 21}, 400, 'logprobs', '20'), ('/v1/completions', {'prompt': 'a', 'logprobs': True}, 400, 'logprobs', ''), ('/v1/completions', {'prompt': 'a', 'temperature': -0.1}, 400, 'temperature', ''),
    ('/v1/completions', {'prompt': 'a', 'temperature': 2.1}, 400, 'temperature', '2'), ('/v1/completions', {'prompt': 'a', 'top_p': 0}, 400, 'top_p', 'above 0'), ('/v1/completions', {'prompt': 'a', 'top_p': 1.1}, 400, 'top_p', ''),
    ('/v1/completions', {'prompt': 'a', 'presence_penalty': 3}, 400, 'presence_penalty', ''), ('/v1/completions', {'prompt': 'a', 'frequency_penalty': -3}, 400, 'frequency_penalty', ''),
    ('/v1/completions', {'prompt': 'a', 'logit_bias': {'x': 1}}, 400, 'logit_bias', ''), ('/v1/completions', {'prompt': 'a', 'logit_bias': {'1': 101}}, 400, 'logit_bias', '100'), ('/v1/completions', {'prompt': 'a', 'logit_bias': {'99999999': 1}}, 400, 'logit_bias', 'token id'),
    ('/v1/completions', {'prompt': 'a', 'stop': ''}, 400, 'stop', 'empty'), ('/v1/completions', {'prompt': 'a', 'stop': ['a'] * 17}, 400, 'stop', ''), ('/v1/completions', {'prompt': 'a', 'seed': 2 ** 70}, 400, 'seed', ''), ('/v1/completions', {'prompt': 'a', 'seed': 1.5}, 400, 'seed', ''),
    ('/v1/completions', {'prompt': 'a', 'stream_options': {'include_usage': True}}, 400, 'stream_options', 'stream'), ('/v1/completions', {'prompt': 'a', 'max_tokens': 1.5}, 400, 'max_tokens', ''), ('/v1/completions', {'prompt': 'a', 'temprature': 1}, 400, 'temprature', 'temperature'),
    ('/v1/completions', {'prompt': 'a ' * 40000}, 400, 'prompt', 'tokens'), ('/v1/completions', {'prompt': 'a', 'model': 'x'}, 404, 'model', 'exist'), ('/v1/completions', {'prompt': 'a', 'guided_regex': '('}, 400, 'guided_regex', ''),
    ('/v1/completions', {'prompt': 'a', 'guided_json': {'type': 'strin'}}, 400, 'guided_json', 'type'), ('/v1/completions', {'prompt': 'a', 'guided_json': {}, 'guided_regex': 'a'}, 400, 'guided_json', 'one constraint'),
    ('/v1/completions', {'prompt': 'a', 'stop_token_ids': [1] * 257}, 400, 'stop_token_ids', '256'), ('/v1/completions', {'prompt': 'a', 'logit_bias': {str(i): 1 for i in range(4097)}}, 400, 'logit_bias', '4096'),
    ('/v1/completions', {'prompt': 'a', 'repetition_penalty': 0}, 400, 'repetition_penalty', '0.001'), ('/v1/completions', {'prompt': 'a', 'repeat_penalty': 101}, 400, 'repeat_penalty', '100'),
    ('/v1/chat/completions', {'messages': CHAT, 'tools': [{'type': 'function', 'function': {'name': 'f'}}], 'tool_choice': 17}, 400, 'tool_choice', 'required'),
    ('/v1/chat/completions', {'messages': CHAT, 'tools': [{'type': 'function', 'function': {'name': 'f'}}], 'tool_choice': {'type': 'custom', 'function': {'name': 'f'}}}, 400, 'tool_choice.type', 'function'),
    ('/v1/chat/completions', {}, 400, 'messages', ''), ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'x'}}]}]}, 400, 'messages[0].content[0].type', 'image_url'),
    ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': None}]}, 400, 'messages[0].content', ''), ('/v1/chat/completions', {'messages': CHAT, 'top_logprobs': 3}, 400, 'top_logprobs', 'logprobs'),
    ('/v1/chat/completions', {'messages': CHAT, 'logprobs': True, 'top_logprobs': 21}, 400, 'top_logprobs', '20'), ('/v1/chat/completions', {'messages': CHAT, 'tools': []}, 400, 'tools', ''), ('/v1/chat/completions', {'messages': CHAT, 'tool_choice': 'required'}, 400, 'tool_choice', 'tools'),
    ('/v1/chat/completions', {'messages': CHAT, 'tools': [{'type': 'function', 'function': {'name': 'f'}}], 'tool_choice': {'type': 'function', 'function': {'name': 'g'}}}, 400, 'tool_choice', 'none of the tools'),
    ('/v1/chat/completions', {'messages': CHAT, 'response_format': {'type': 'json_schema'}}, 400, 'response_format.json_schema', 'missing'), ('/v1/chat/completions', {'messages': CHAT, 'response_format': {'type': 'xml'}}, 400, 'response_format.type', ''),
    ('/v1/chat/completions', {'messages': CHAT, 'reasoning_effort': 'huge'}, 400, 'reasoning_effort', 'medium'), ('/v1/chat/completions', {'messages': CHAT, 'continue_final_message': True}, 400, 'continue_final_message', 'assistant'),
    ('/v1/chat/completions', {'messages': CHAT, 'chat_template_kwargs': 3}, 400, 'chat_template_kwargs', ''), ('/v1/chat/completions', {'messages': CHAT, 'max_completion_tokens': -1}, 400, 'max_completion_tokens', ''),
    ('/v1/embeddings', {'input': []}, 400, 'input', ''), ('/v1/embeddings', {'input': 'a', 'dimensions': 3}, 400, 'dimensions', 'width'), ('/v1/embeddings', {'input': 'a', 'encoding_format': 'hex'}, 400, 'encoding_format', 'base64'),
    ('/v1/responses', {}, 400, 'input', 'missing'), ('/v1/responses', {'input': 'a', 'max_output_tokens': 'x'}, 400, 'max_output_tokens', 'max_output_tokens'), ('/v1/responses', {'input': 'a', 'previous_response_id': 'x'}, 400, 'previous_response_id', 'stores no requests'),
    ('/v1/responses', {'input': 'a', 'text': {'format': {'type': 'xml'}}}, 400, 'text.format.type', ''), ('/v1/responses', {'input': 'a', 'tools': [{'type': 'web_search'}]}, 400, 'tools', 'chat'), ('/v1/responses', {'input': 'a', 'reasoning': {'effort': 'x'}}, 400, 'reasoning.effort', ''),
    ('/tokenize', {}, 400, 'content', ''), ('/tokenize', {'content': 'a', 'prompt': 'a'}, 400, 'content', 'one'), ('/detokenize', {'tokens': 'a'}, 400, 'tokens', ''), ('/detokenize', {'tokens': [-1]}, 400, 'tokens', 'token id'), ('/apply-template', {'messages': 3}, 400, 'messages', ''),
]


def errors(s):
    for path, body, want, param, words in WRONG:
        status, headers, text = ask(s, 'POST', path, body)
        error = json.loads(text).get('error', {})
        if status == 200: good = 200 in (want if isinstance(want, tuple) else (want,))
        else: good = status in (want if isinstance(want, tuple) else (want,)) and set(error) == {'message', 'type', 'param', 'code'} and (param is None or error['param'] == param) and words in error['message']
        check(f'{path} {json.dumps(body)[:120]}', good, status, error)
    code = json.loads(ask(s, 'POST', '/v1/completions', {'prompt': 'a ' * 40000})[2])['error']
    check('a context that overflows says by how much', code['code'] == 'context_length_exceeded' and len(re.findall(r'\d+ tokens', code['message'])) == 2, code)
    check('null is absent', ask(s, 'POST', '/v1/completions', {'prompt': 'a', 'max_tokens': 1, **{k: None for k in ('temperature', 'top_p', 'n', 'stop', 'seed', 'logprobs', 'stream', 'stream_options', 'logit_bias', 'echo', 'user', 'model')}})[0] == 200)
    check('what is ignored is ignored', ask(s, 'POST', '/v1/chat/completions', {'messages': CHAT, 'max_tokens': 1, 'user': 'x', 'metadata': {}, 'store': True, 'service_tier': 'auto', 'safety_identifier': 'x', 'prompt_cache_key': 'x', 'verbosity': 'low', 'prediction': {}})[0] == 200)
    for method, path, body, want, raw in [('GET', '/v1/nothing', None, 404, False), ('GET', '/v1/completions', None, 405, False), ('DELETE', '/v1/models', None, 405, False), ('POST', '/v1/completions', '{"a":', 400, True), ('POST', '/v1/completions', '[' * 99999, 400, True),
                                          ('GET', '/v1/models/none', None, 404, False), ('HEAD', '/health', None, 200, False)]:
        status, headers, text = ask(s, method, path, body, raw=raw)
        check(f'{method} {path}', status == want and (method == 'HEAD' or 'message' in json.loads(text).get('error', {'message': 1})) and (want != 405 or 'allow' in headers), status, text)
    check('types and schemes are spelled in either case', ask(s, 'POST', '/tokenize', '{"content": "a"}', {'Content-Type': 'Application/JSON; Charset=UTF-8'}, raw=True)[0] == 200)
    check('a body that is no JSON by its type', ask(s, 'POST', '/v1/completions', '{}', {'Content-Type': 'text/plain'}, raw=True)[0] == 415)
    check('another name of this machine', ask(s, 'GET', '/health', headers={'Host': 'evil.example'})[0] == 403)
    check('no other site may ask', not any(k.startswith('access-control') for k in {**ask(s, 'POST', '/v1/completions', {'prompt': 'a', 'max_tokens': 1}, {'Origin': 'http://evil.example'})[1], **ask(s, 'OPTIONS', '/v1/completions', headers={'Origin': 'http://evil.example'})[1]}))


def sites_and_keys():
    page, key = {'Origin': 'https://a.example'}, {'Authorization': 'Bearer secret'}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.open(folder + '/keys', os.O_CREAT | os.O_WRONLY, 0o600), 'w') as f: f.write('# keys\n\nsecret  # of Bob\n')
        s = Server(a.dml, *words, '--api-key-file', folder + '/keys', '--cors-origin', 'https://A.example/', '--slots', '1', '--queue', '1')
    pre = ask(s, 'OPTIONS', '/v1/completions', headers={**page, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization,content-type,x-stainless-os'})
    check('a preflight needs no key', pre[0] == 204 and pre[1].get('access-control-allow-origin') == 'https://a.example' and 'x-stainless-os' in pre[1].get('access-control-allow-headers', '') and 'POST' in pre[1]['access-control-allow-methods'], pre)
    for path, body in (('/v1/completions', {'prompt': 'a', 'max_tokens': 1}), ('/v1/completions', {'prompt': 'a', 'max_tokens': 1, 'stream': True}), ('/v1/embeddings', {'input': 'a'}), ('/tokenize', {'content': 'a'}), ('/v1/completions', {'prompt': 3})):
        check(f'a page may read {path}', ask(s, 'POST', path, body, {**page, **key})[1].get('access-control-allow-origin') == 'https://a.example', body)
        check('another page may not', 'access-control-allow-origin' not in ask(s, 'POST', path, body, {'Origin': 'https://b.example', **key})[1])
    for headers, want in [({}, 401), ({'Authorization': 'Bearer secre'}, 401), ({'Authorization': 'Bearer secret2'}, 401), ({'Authorization': 'Basic secret'}, 401), ({'X-Api-Key': 'secret'}, 200), ({'Authorization': 'BEARER secret'}, 200), (key, 200)]:
        for path in ('/v1/models', '/metrics'):
            check(f'{path} with {headers}', ask(s, 'GET', path, headers=headers)[0] == want)
    check('everybody may ask for health and the page', ask(s, 'GET', '/health')[0] == 200 and ask(s, 'GET', '/')[0] == 200)
    check('a wrong key is an authentication error', json.loads(ask(s, 'GET', '/v1/models')[2])['error']['type'] == 'authentication_error')
    got, lock = [], threading.Lock()
    def one():
        r = ask(s, 'POST', '/v1/completions', {'prompt': 'a', 'max_tokens': 300, 'temperature': 1, 'seed': 1}, key)
        with lock: got.append(r)
    for _ in range(5):
        threads = [threading.Thread(target=one) for _ in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
    check('one request in the slot and one in the queue are taken', [r[0] for r in got] == [200] * 10, [r[0] for r in got])
    full = []
    for _ in range(50):  # a machine that stalls may answer each before the next one comes
        threads = [threading.Thread(target=one) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        if full := [r for r in got if r[0] == 429]: break
    check('a full queue refuses with Retry-After, and answers the others', full and all('retry-after' in r[1] and json.loads(r[2])['error']['type'] == 'rate_limit_error' for r in full) and
          len({json.dumps(json.loads(r[2])['choices']) for r in got if r[0] == 200}) == 1, [r[0] for r in got])
    c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=PATIENCE)  # SIGTERM while an answer is under way
    c.request('POST', '/v1/completions', json.dumps({'prompt': 'a', 'max_tokens': 400, 'stream': True, 'temperature': 1}), {'Content-Type': 'application/json', **key})
    r = c.getresponse()
    r.readline()
    s.process.send_signal(signal.SIGTERM)
    rest = r.read().decode()
    check('an answer under way ends', rest.endswith('data: [DONE]\n\n') or '"error"' in rest, rest[-200:])
    check('SIGTERM', s.process.wait(PATIENCE) == 0)


def slow_schemas(s):
    """Schemas that take long to refuse stop neither /health nor a request without a schema."""
    def slow(n):
        one = lambda i, k: {'properties': {f'p{i}': {'minimum': k}}, 'required': [f'q{n}_{i}_{k}']}
        return {'type': 'object', 'allOf': [{'oneOf': [one(i, k) for k in range(8)]} for i in range(6)]}
    sockets = []
    for n in range(8):
        body = json.dumps({'prompt': 'a', 'max_tokens': 1, 'guided_json': slow(n)})
        sockets.append(s.connect())
        sockets[-1].sendall(f'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode())
    health, plain = ask(s, 'GET', '/health')[0], ask(s, 'POST', '/v1/completions', {'prompt': 'a', 'max_tokens': 1})[0]
    over = len(select.select(sockets, [], [], 0)[0])
    check('slow schemas stop nobody else', (health, plain) == (200, 200) and over <= 4, health, plain, over)
    for c in sockets:
        answer = c.recv(65536).decode()
        check('a schema that takes too long is refused', answer.startswith('HTTP/1.1 400') and 'too complex' in answer, answer)
        c.close()


server = Server(a.dml, *words)
for part in (chat_streams, completions, borders, tools, others, constraints, errors, slow_schemas): part(server)
check('exit', server.end() == 0, server.lines)
sites_and_keys()
for f in failures[:20]: print('FAILED', *f)
print(f'{done} checks: the contract holds' if not failures else f'{len(failures)} of {done} checks fail')
sys.exit(bool(failures))
