#!/usr/bin/env python3
"""Answers sampled at temperature 1 under JSON schemas: every one must validate (python3-jsonschema is the judge)."""
import argparse, json, sys, threading
from server import Server, arguments

try:
    import jsonschema
except ImportError:
    print('skipped: python3-jsonschema is not there')
    sys.exit(0)

SCHEMAS = [
    {'type': 'object', 'properties': {'name': {'type': 'string', 'minLength': 1, 'maxLength': 8}, 'age': {'type': 'integer', 'minimum': 0, 'maximum': 120}},
     'required': ['name', 'age'], 'additionalProperties': False},
    {'type': 'array', 'items': {'type': 'number', 'minimum': -1, 'exclusiveMaximum': 1}, 'minItems': 1, 'maxItems': 4},
    {'type': 'array', 'items': {'enum': ['a', 'b', 'c', 1, None]}, 'uniqueItems': True, 'minItems': 2, 'maxItems': 4},
    {'oneOf': [{'type': 'object', 'properties': {'kind': {'const': 'cat'}, 'lives': {'type': 'integer', 'multipleOf': 3, 'minimum': 0, 'maximum': 9}}, 'required': ['kind', 'lives'], 'additionalProperties': False},
               {'type': 'object', 'properties': {'kind': {'const': 'dog'}, 'tail': {'type': 'boolean'}}, 'required': ['kind', 'tail'], 'additionalProperties': False}]},
    {'type': 'object', 'patternProperties': {'^[a-c]{1,3}$': {'type': 'string', 'pattern': '^[0-9]{2,4}$'}}, 'additionalProperties': False, 'minProperties': 1, 'maxProperties': 3},
    {'$defs': {'tree': {'type': 'object', 'properties': {'v': {'type': 'integer', 'minimum': 0, 'maximum': 9}, 'l': {'anyOf': [{'$ref': '#/$defs/tree'}, {'type': 'null'}]}}, 'required': ['v', 'l'], 'additionalProperties': False}}, '$ref': '#/$defs/tree'},
    {'type': 'object', 'properties': {'day': {'type': 'string', 'format': 'date'}, 'id': {'type': 'string', 'format': 'uuid'}, 'at': {'type': 'string', 'format': 'ipv4'}}, 'required': ['day', 'id', 'at'], 'additionalProperties': False},
    {'allOf': [{'type': 'object', 'properties': {'a': {'type': 'integer', 'maximum': 50}}, 'required': ['a']}, {'properties': {'a': {'minimum': 40}, 'b': {'not': {'type': ['object', 'array', 'string']}}}, 'required': ['b'], 'maxProperties': 2}]},
    {'if': {'properties': {'k': {'const': 'x'}}}, 'then': {'required': ['y']}, 'else': {'required': ['z']}, 'type': 'object', 'properties': {'k': {'enum': ['x', 'w']}, 'y': {'type': 'boolean'}, 'z': {'type': 'null'}},
     'required': ['k'], 'additionalProperties': False},
    {'type': 'array', 'prefixItems': [{'type': 'string', 'maxLength': 3}, {'type': 'boolean'}], 'items': False, 'minItems': 2},
]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--answers', type=int, default=200)
a, words = arguments(parser)
server = Server(a.dml, *words)
wrong, cut, lock = [], [], threading.Lock()


def answer(i):
    schema = SCHEMAS[i % len(SCHEMAS)]
    status, r = server.ask('POST', '/v1/completions', {'prompt': f'Tell me about number {i}.', 'temperature': 1, 'seed': i, 'max_tokens': 1000, 'guided_json': schema})
    if status != 200: return schema, r
    choice = r['choices'][0]
    if choice['finish_reason'] == 'length':
        with lock: cut.append(i)
        return None
    try:
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(json.loads(choice['text']))
    except (ValueError, jsonschema.ValidationError) as e:
        return schema, choice['text'], str(e)[:200]


def some(first, step):
    for i in range(first, a.answers, step):
        if problem := answer(i):
            with lock: wrong.append(problem)


threads = [threading.Thread(target=some, args=(n, 8)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
for w in wrong[:5]: print('WRONG', w)
status = server.end()
print(f'all of {a.answers} answers are valid' if not wrong else f'{len(wrong)} of {a.answers} answers are wrong', f'({len(cut)} ended by their length)')
sys.exit(bool(wrong) or len(cut) > a.answers // 20 or status != 0)
