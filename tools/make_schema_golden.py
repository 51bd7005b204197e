#!/usr/bin/env python3
"""Random JSON Schemas with instances and whether they are valid, by Debian's python3-jsonschema: tests/golden/json_schema.jsonl.

Run from the project's root: python3 tools/make_schema_golden.py > tests/golden/json_schema.jsonl
Each line: {"schema": …, "valid": [JSON texts], "invalid": [JSON texts]}."""
import json
import random

import jsonschema

ROUNDS, INSTANCES, SEED = 160, 40, 7
NAMES = ['a', 'b', 'ab', 'x1', 'c']
TYPES = ['string', 'number', 'integer', 'array', 'object', 'boolean', 'null']
KEYWORDS = ['const', 'enum', 'minLength', 'maxLength', 'pattern', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
            'multipleOf', 'items', 'prefixItems', 'minItems', 'maxItems', 'contains', 'uniqueItems', 'properties', 'required',
            'additionalProperties', 'patternProperties', 'propertyNames', 'minProperties', 'maxProperties', 'dependentRequired',
            'dependentSchemas', 'allOf', 'anyOf', 'oneOf', 'not', 'if', '$ref']
draw = random.Random(SEED)


def instance(depth=0):
    kind = draw.random()
    if kind < .15:
        return draw.choice([None, True, False])
    if kind < .4:
        return draw.choice([0, 1, 2, 3, 5, -1, -7, 10, 12, 1.5, -0.25, 100, 0.1, 2.75])
    if kind < .6 or depth > 2:
        return draw.choice(['', 'a', 'b', 'ab', 'x1', 'foo', 'é', 'a b', '"q"', '12', '2020-01-01'])
    if kind < .8:
        return [instance(depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(NAMES + ['zz', 'y']): instance(depth + 1) for _ in range(draw.randint(0, 3))}


def keyword(name, depth):
    if name == 'const':
        return instance(1)
    if name == 'enum':
        return [instance(1) for _ in range(draw.randint(1, 4))]
    if name in ('minLength', 'minItems', 'minProperties'):
        return draw.randint(0, 2)
    if name in ('maxLength', 'maxItems', 'maxProperties'):
        return draw.randint(1, 4)
    if name == 'pattern':
        return draw.choice(['^a', 'b$', '^[a-z]+$', 'o', '^(a|b)*$', '^\\d+$', '^(?!a)', 'x?1', '^.{1,2}$'])
    if name in ('minimum', 'exclusiveMinimum'):
        return draw.choice([-8, -1, 0, 0.5, 1, 2, 10])
    if name in ('maximum', 'exclusiveMaximum'):
        return draw.choice([0, 0.5, 1, 3, 10, 12.5, 100, -2])
    if name == 'multipleOf':
        return draw.choice([1, 2, 3, 0.5, 0.25, 5])
    if name == 'propertyNames':
        return draw.choice([{'pattern': '^[ab]'}, {'maxLength': 2}, {'enum': ['a', 'b', 'c']}])
    if name == 'uniqueItems':
        return True
    if name == 'properties':
        return {n: schema(depth + 1) for n in draw.sample(NAMES, draw.randint(1, 3))}
    if name == 'patternProperties':
        return {draw.choice(['^a', 'b', '1$']): schema(depth + 1)}
    if name == 'required':
        return draw.sample(NAMES, draw.randint(1, 2))
    if name == 'dependentRequired':
        return {draw.choice(NAMES): draw.sample(NAMES, 1)}
    if name == 'dependentSchemas':
        return {draw.choice(NAMES): schema(depth + 1)}
    if name == 'prefixItems':
        return [schema(depth + 1) for _ in range(draw.randint(1, 2))]
    if name in ('allOf', 'anyOf', 'oneOf'):
        return [schema(depth + 1) for _ in range(draw.randint(1, 3))]
    if name == '$ref':
        return draw.choice(['#/$defs/p', '#/$defs/q'])
    return schema(depth + 1)  # items, contains, additionalProperties, not, if


def schema(depth=0):
    if depth > 3:
        return draw.choice([True, {'type': 'string'}, {'type': 'integer'}, {}])
    if depth and draw.random() < .06:
        return draw.choice([True, False])
    out = {}
    if draw.random() < .55:
        out['type'] = draw.choice(TYPES) if draw.random() < .8 else draw.sample(TYPES, 2)
    for _ in range(draw.randint(1 if depth == 0 else 0, 3)):
        name = draw.choice(KEYWORDS)
        out[name] = keyword(name, depth)
        if name == 'if':
            out['then'], out['else'] = schema(depth + 1), schema(depth + 1)
    return out


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(',', ':'))


def main():
    written = 0
    while written < ROUNDS:
        s = schema()
        if '$ref' in json.dumps(s):
            s['$defs'] = {'p': schema(2), 'q': schema(2)}
        if '"uniqueItems"' in json.dumps(s) and any(f'"{k}"' in json.dumps(s) for k in ('not', 'if', 'oneOf')):
            continue  # not supported together
        validator = jsonschema.Draft202012Validator(s)
        answers = {True: set(), False: set()}
        try:
            for _ in range(INSTANCES):
                value = instance()
                answers[validator.is_valid(value)].add(text(value))
        except RecursionError:
            continue
        if not answers[True] or not answers[False]:  # says nothing
            continue
        print(text({'schema': s, 'valid': sorted(answers[True])[:8], 'invalid': sorted(answers[False])[:8]}))
        written += 1


main()
