// A value of a wrong type or range is an error that names its argument. The bindings would convert it in silence.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowOnly } from '../src/brle.ts';
import { Context } from '../src/context.ts';
import { ebnf, Grammar, grammar, GrammarConstraint, jsonSchema, Matcher, regex } from '../src/grammar.ts';
import { encode, encodeSchemas } from '../src/json.ts';
import { Model } from '../src/model.ts';
import { Distribution, Entropy } from '../src/probe.ts';
import { drive } from '../src/reactor.ts';
import { Sampler } from '../src/sampler.ts';
import { shapeOf } from '../src/shape.ts';

const ctx = new Context(Model.load('fake')).append([97]);
const greedy = Sampler.argmax();
const generate = (options) => ctx.generate(greedy, { autoFlush: false, ...options });
const circle = [];
circle.push(circle);
const TYPE = 'TypeError';
const RANGE = 'RangeError';

const attempts = [
  [TYPE, 'value', () => ctx.model.templateOption('enable_thinking', [])],
  [TYPE, 'name', () => ctx.model.templateOption(1, true)],
  [TYPE, 'adapter', () => generate({ adapter: 'mine' })],
  [TYPE, 'adapter', () => generate().adapter(undefined)],
  [TYPE, 'adapter', () => ctx.forward().adapter({})],
  [TYPE, 'zoSeed', () => generate({ zoSeed: '7' })],
  [RANGE, 'zoSeed', () => generate({ zoSeed: 1.5 })],
  [RANGE, 'zoSeed', () => generate({ zoSeed: 1n << 63n })],
  [TYPE, 'seed', () => generate().zoSeed(null)],
  [RANGE, 'seed', () => ctx.forward().zoSeed(0.5)],
  [TYPE, 'seed', () => generate({ seed: '7' })],
  [RANGE, 'seed', () => generate().seed(NaN)],
  [TYPE, 'seed', () => ctx.forward().seed('7')],
  [TYPE, 'sampler', () => ctx.generate('greedy')],
  [TYPE, 'options', () => ctx.generate(greedy, 256)],
  [TYPE, 'maxTokens', () => generate({ maxTokens: '9' })],
  [RANGE, 'horizon', () => generate({ horizon: -1 })],
  [TYPE, 'stop', () => generate({ stop: 7 })],
  [TYPE, 'logitMask', () => generate({ logitMask: 'ab' })],
  [TYPE, 'constrain', () => generate({ constrain: '[0-9]+' })],
  [TYPE, 'speculator', () => generate({ speculator: { draft: () => [[], []] } })],
  [TYPE, 'probe', () => generate().probeEachStep(0, 'entropy')],
  [TYPE, 'probe', () => generate().probeEachStep(0, Entropy)],
  [TYPE, 'probe', () => ctx.forward().probe(0, undefined)],
  [TYPE, 'probe', () => ctx.forward().probe(0, greedy)],
  [TYPE, 'the value', () => encode(() => 1)],
  [TYPE, 'the value', () => encode(1n)],
  [TYPE, 'the value', () => encode(circle)],
  [RANGE, 'n', () => ctx.truncate(-1)],
  [RANGE, 'n', () => ctx.truncate(1)],
  [TYPE, 'sampler', () => ctx.forward().sample([0], 'greedy')],
  [TYPE, 'masks', () => ctx.forward().attentionMask(7)],
  [TYPE, 'each of masks', () => ctx.forward().attentionMask([7])],
  [RANGE, 'temperature', () => Sampler.topP(-0.1, 0.9)],
  [RANGE, 'temperature', () => Sampler.multinomial(NaN, 1)],
  [RANGE, 'temperature', () => Distribution(Infinity, 0)],
  [RANGE, 'p', () => Sampler.topP(0.6, 1.5)],
  [TYPE, 'p', () => Sampler.minP(0.6, '0.1')],
  [RANGE, 'k', () => Sampler.topK(0.6, -1)],
  [TYPE, 'schema', () => jsonSchema(7)],
  [TYPE, 'schema', () => Grammar.fromJsonSchema(null)],
  [TYPE, 'schema', () => shapeOf(7)],
  [TYPE, 'pattern', () => regex(/a+/)],
  [TYPE, 'source', () => ebnf(undefined)],
  [TYPE, 'grammar', () => grammar('a+')],
  [TYPE, 'grammar', () => new Matcher('a+', ctx.model.tokenizer())],
  [TYPE, 'tokenizer', () => new Matcher(Grammar.fromRegex('a'), ctx.model)],
  [TYPE, 'tokenizer', () => new Matcher(Grammar.fromRegex('a'))],
  [TYPE, 'matcher', () => new GrammarConstraint(Grammar.fromRegex('a'))],
  [TYPE, 'model', () => GrammarConstraint.fromRegex('a', 'default')],
  [RANGE, 'count', () => new Matcher(Grammar.fromRegex('a'), ctx.model.tokenizer()).rollback(-1)],
  [TYPE, 'each of schemas', () => encodeSchemas([7])],
  [TYPE, 'ids', () => allowOnly('ab')],
];

for (const [kind, argument, attempt] of attempts) {
  test(`a wrong ${argument} is named: ${attempt}`, () => {
    assert.throws(attempt, (error) => {
      assert.equal(error.name, kind);
      assert.match(error.message, new RegExp(`^${argument} must be `));
      return true;
    });
  });
}

test('an option that is not there is named, and not ignored', () => {
  assert.throws(() => generate({ max_tokens: 9 }), /^TypeError: generate\(\) has no option max_tokens; did you mean maxTokens\?/);
  assert.throws(() => generate({ decode: true }), /has no option decode: it takes maxTokens, stop, /);
  generate({ decode: undefined, maxTokens: undefined });
});

test('what is no handle reads nothing', () =>
  drive(
    Promise.resolve().then(async () => {
      const forward = new Context(Model.load('fake')).forward().input([97]);
      const handle = forward.sample([0], greedy);
      const out = await forward.execute();
      assert.equal(typeof out.token(handle), 'number');
      for (const read of ['token', 'tokensAt', 'entropy', 'logits', 'distribution']) {
        assert.throws(() => out[read](0), /^TypeError: handle must be a SlotHandle/);
      }
      assert.equal(out.autoSampler, undefined);
      assert.equal(out.token(out.autoSampler), undefined);
      assert.deepEqual([...out.tokensAt(out.autoSampler)], []);
    }),
  ));

test('parse is a function', async () => {
  await assert.rejects(generate().collectJson({ parse: 'int' }), /^TypeError: parse must be a function/);
});
