// Grammars, matchers and constraints; documents by schema and by schema objects.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowOnly } from '../src/brle.ts';
import { Context } from '../src/context.ts';
import { Grammar, GrammarConstraint, Matcher, regex } from '../src/grammar.ts';
import { Model } from '../src/model.ts';
import { Entropy } from '../src/probe.ts';
import { drive } from '../src/reactor.ts';
import { Sampler } from '../src/sampler.ts';
import { parseJson } from '../src/json.ts';
import { shapeOf } from '../src/shape.ts';
import * as tools from '../src/tools.ts';
import { machine } from './fake_host.mjs';

const run = (main) => drive(Promise.resolve().then(main));
const text = (tokens) => String.fromCharCode(...tokens);
const WORDS = 'apple|apricot|plum';

function generation(options) {
  const ctx = new Context(Model.load('fake')).user('hi');
  return { ctx, g: ctx.generate(Sampler.argmax(), options) };
}

for (const options of [{}, { maxTokens: 2 }, { logitMask: [97, 25] }]) {
  test(`chained or stepped the text is the same: ${JSON.stringify(options)}`, () =>
    run(async () => {
      const chained = generation({ constrain: regex(WORDS), ...options });
      const [chains, masks] = [machine.chains, machine.masks];
      const said = text(await chained.g.collectTokens());
      assert.deepEqual([machine.chains, machine.masks], [chains + 1, masks]);
      const stepped = generation({ constrain: regex(WORDS), ...options });
      stepped.g.probeEachStep(0, Entropy());
      assert.equal(text(await stepped.g.collectTokens()), said);
      assert.equal(machine.chains, chains + 1);
      assert.ok(WORDS.split('|').some((word) => word.startsWith(said)) && said.length > 1);
      assert.deepEqual([...chained.ctx.buffer()], [...stepped.ctx.buffer()]);
      assert.equal(chained.ctx.seqLen, stepped.ctx.seqLen);
      assert.ok(chained.g.isDone && stepped.g.isDone);
    }));
}

test('constraints of your own hold beside matchers, and name themselves when nothing is left', () =>
  run(async () => {
    const notP = { step: () => allowOnly([...Array(258).keys()].filter((token) => token !== 112)) };
    const said = await generation({ constrain: [regex('apple|plum|axe'), notP] }).g.collectTokens();
    assert.equal(text(said), 'axe');
    class OnlyZ {
      step = () => allowOnly([122]);
    }
    const { g } = generation({ constrain: [regex('plum'), new OnlyZ()], logitMask: [97, 26] });
    await assert.rejects(
      g.collectTokens(),
      /position 0 of the text by all of: regular expression, OnlyZ, the logit mask/,
    );
  }));

test('a subclass that steps is asked', () =>
  run(async () => {
    const asked = [];
    class Counting extends GrammarConstraint {
      step(accepted) {
        asked.push([...accepted]);
        return super.step(accepted);
      }
    }
    const model = Model.load('fake');
    const constraint = new Counting(new Matcher(Grammar.fromRegex('ab'), model.tokenizer()));
    assert.equal(text(await generation({ constrain: constraint }).g.collectTokens()), 'ab');
    assert.deepEqual(asked, [[], [97], [98]]);
  }));

test('what a speculator is told at a limit and a stop, beside a matcher and a mask', async () => {
  const options = { constrain: regex('abcdefghijkl'), logitMask: [0, 258] };
  const truth = await run(() => generation(options).g.collectTokens());
  const recorded = () => {
    const told = [];
    let at = 0;
    const draft = () => {
      const ahead = truth.subarray(at, at + 4);
      told.push(['draft', ahead.length]);
      return [ahead, Uint32Array.from(ahead, (_, i) => 500 + i)];
    };
    const accept = (tokens) => {
      at += tokens.length;
      told.push(['accept', tokens.length]);
    };
    const rollback = (n) => told.push(['rollback', n]);
    return { told, speculator: { draft, accept, rollback, reset: () => told.push(['reset']) } };
  };
  machine.drafts = [];
  const limit = recorded();
  const seven = { ...options, maxTokens: 7, speculator: limit.speculator };
  assert.deepEqual(await run(() => generation(seven).g.collectTokens()), truth.slice(0, 7));
  assert.deepEqual(machine.drafts[0], [[...truth.subarray(0, 4)], [500, 501, 502, 503]]);
  assert.deepEqual(limit.told, [
    ['draft', 4], ['accept', 5], ['draft', 4], ['rollback', 3], ['accept', 2], ['reset'],
  ]);
  const stop = recorded();
  const stopped = { ...options, stop: [99], speculator: stop.speculator };
  assert.deepEqual(await run(() => generation(stopped).g.collectTokens()), truth.slice(0, 2));
  assert.deepEqual(stop.told, [['draft', 4], ['rollback', 2], ['accept', 2], ['reset']]);
});

test('a matcher forks and goes back', () => {
  const matcher = new Matcher(Grammar.fromRegex('abc|abd'), Model.load('fake').tokenizer());
  matcher.acceptTokens([97, 98]);
  const other = matcher.fork();
  other.acceptTokens([99]);
  assert.ok(other.isTerminated() && !matcher.isTerminated());
  other.rollback(1);
  assert.deepEqual([...other.nextTokenLogitMask()], [...matcher.nextTokenLogitMask()]);
});

test('a schema object like zod\'s describes the document and parses it', () => {
  const node = (typeName, parts = {}) => ({ _def: { typeName, ...parts } });
  const zod3 = {
    ...node('ZodObject', {
      shape: () => ({
        name: node('ZodString', { checks: [{ kind: 'max', value: 9 }] }),
        age: node('ZodNumber', { checks: [{ kind: 'int' }, { kind: 'min', value: 0 }] }),
        tags: node('ZodOptional', { innerType: node('ZodArray', { type: node('ZodString') }) }),
        kind: node('ZodUnion', { options: [node('ZodLiteral', { value: 'a' }), node('ZodNull')] }),
      }),
    }),
    parse: (value) => ({ parsed: value }),
  };
  const { schema, parse } = shapeOf(zod3);
  machine.schemas = [];
  schema.buildConstraint(Model.load('fake'));
  assert.deepEqual(machine.schemas[0], {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 9 },
      age: { type: 'integer', minimum: 0 },
      tags: { type: 'array', items: { type: 'string' } },
      kind: { anyOf: [{ enum: ['a'] }, { type: 'null' }] },
    },
    required: ['name', 'age', 'kind'],
    additionalProperties: false,
  });
  assert.deepEqual(parse({ a: 1 }), { parsed: { a: 1 } });
  const zod4 = { _def: { type: 'array', element: { _def: { type: 'boolean' } } }, parse: (v) => v };
  shapeOf(zod4).schema.buildConstraint(Model.load('fake'));
  assert.deepEqual(machine.schemas[1], { type: 'array', items: { type: 'boolean' } });
  const own = { toJSONSchema: () => ({ const: 1 }), parse: (v) => v };
  shapeOf(own).schema.buildConstraint(Model.load('fake'));
  assert.deepEqual(machine.schemas[2], { const: 1 });
  assert.throws(() => shapeOf({ ...node('ZodDate'), parse: (v) => v }), /kind date/);
});

test("zod's checks become keywords, or are refused by their names", () => {
  const zod3 = (typeName, ...checks) => ({ _def: { typeName, checks } });
  const zod4 = (type, ...checks) => ({
    _def: { type, checks: checks.map((def) => ({ _zod: { def } })) },
  });
  const native = { A: 0, B: 'b', 0: 'A' };
  const keys = { _def: { typeName: 'ZodEnum', values: ['a', 'b'] } };
  const flag = { _def: { type: 'boolean' } };
  const text = { type: 'string' };
  const whole = { type: 'integer' };
  const described = [
    [zod3('ZodString', { kind: 'email' }, { kind: 'max', value: 9 }), { ...text, format: 'email', maxLength: 9 }],
    [zod3('ZodString', { kind: 'url' }), { ...text, format: 'uri' }],
    [zod3('ZodString', { kind: 'length', value: 3 }), { ...text, minLength: 3, maxLength: 3 }],
    [zod3('ZodString', { kind: 'regex', regex: /^a+$/ }), { ...text, pattern: '^a+$' }],
    [
      zod3('ZodString', { kind: 'startsWith', value: 'a.' }, { kind: 'endsWith', value: 'z' }),
      { ...text, pattern: '^a\\.', allOf: [{ pattern: 'z$' }] },
    ],
    [zod3('ZodString', { kind: 'trim' }), text],
    [zod3('ZodNumber', { kind: 'min', value: 0, inclusive: false }), { type: 'number', exclusiveMinimum: 0 }],
    [zod3('ZodNumber', { kind: 'int' }, { kind: 'multipleOf', value: 5 }), { ...whole, multipleOf: 5 }],
    [zod4('string', { check: 'string_format', format: 'uuid' }), { ...text, format: 'uuid' }],
    [zod4('string', { check: 'string_format', format: 'regex', pattern: /b/ }), { ...text, pattern: 'b' }],
    [zod4('string', { check: 'length_equals', length: 2 }), { ...text, minLength: 2, maxLength: 2 }],
    [{ _def: { type: 'string', check: 'string_format', format: 'ipv4' } }, { ...text, format: 'ipv4' }],
    [
      zod4('number', { check: 'greater_than', value: 1, inclusive: false }, { check: 'less_than', value: 9 }),
      { type: 'number', exclusiveMinimum: 1, maximum: 9 },
    ],
    [
      { _def: { type: 'number', check: 'number_format', format: 'int32' } },
      { ...whole, minimum: -2147483648, maximum: 2147483647 },
    ],
    [
      { _def: { ...zod4('array', { check: 'min_length', minimum: 1 })._def, element: flag } },
      { type: 'array', items: { type: 'boolean' }, minItems: 1 },
    ],
    [
      { _def: { typeName: 'ZodArray', type: flag, exactLength: { value: 2 }, minLength: null } },
      { type: 'array', items: { type: 'boolean' }, minItems: 2, maxItems: 2 },
    ],
    [
      { _def: { type: 'tuple', items: [flag], rest: zod4('null') } },
      { type: 'array', prefixItems: [{ type: 'boolean' }], minItems: 1, items: { type: 'null' } },
    ],
    [{ _def: { typeName: 'ZodNativeEnum', values: native } }, { enum: [0, 'b'] }],
    [
      { _def: { typeName: 'ZodRecord', keyType: keys, valueType: flag } },
      {
        type: 'object',
        properties: { a: { type: 'boolean' }, b: { type: 'boolean' } },
        additionalProperties: false,
      },
    ],
    [
      { _def: { type: 'record', keyType: zod4('string', { check: 'max_length', maximum: 4 }), valueType: flag } },
      { type: 'object', additionalProperties: { type: 'boolean' }, propertyNames: { maxLength: 4 } },
    ],
    [{ _def: { type: 'pipe', in: flag, out: { _def: { type: 'transform' } } } }, { type: 'boolean' }],
  ];
  for (const [node, wanted] of described) {
    assert.deepEqual(JSON.parse(shapeOf({ ...node, parse: (v) => v }).source), wanted);
  }
  const refused = [
    [zod3('ZodString', { kind: 'emoji' }), /the check emoji of a text/],
    [zod3('ZodString', { kind: 'regex', regex: /a/i }), /the check regex with the flag i of a text/],
    [zod4('string', { check: 'string_format', format: 'jwt' }), /the check jwt of a text/],
    [zod4('number', { check: 'new' }), /the check new of a number/],
    [{ _def: { type: 'record', keyType: zod4('number'), valueType: flag } }, /keys of a JSON object/],
  ];
  for (const [node, says] of refused) {
    assert.throws(() => shapeOf({ ...node, parse: (v) => v }), says);
  }
});

test("a tool's wrong schema is an error, and no lack of a format", () => {
  const model = Model.load('fake');
  const none = "model 'm' has no form of tool calls that a grammar can hold it to, or no tools are given";
  assert.equal(tools.nativeMatcher(model, [none]), undefined);
  assert.equal(tools.nativeGrammar(model, [none]), undefined);
  for (const native of [tools.nativeMatcher, tools.nativeGrammar]) {
    assert.throws(() => native(model, ['unknown keyword']), /unknown keyword/);
  }
  assert.deepEqual([...tools.nativeMatcher(model, [{}]).nextTokenLogitMask()], [97, 1]);
});

test('a complete document that cannot be read says why', () => {
  assert.deepEqual(parseJson('[1e300, "1e999"]'), [1e300, '1e999']);
  assert.throws(() => parseJson('{"a": [-1e999]}'), /^RangeError: it has a number that is greater/);
  assert.throws(() => parseJson(`[${'9'.repeat(400)}]`), /^RangeError/);
});
