import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Context } from '../src/context.ts';
import { Model } from '../src/model.ts';
import { Entropy } from '../src/probe.ts';
import { addTimer, cancelTimer, drive } from '../src/reactor.ts';
import { Sampler } from '../src/sampler.ts';
import { machine, market, options, PAGE, STOP, told } from './fake_host.mjs';

const run = (main) => drive(Promise.resolve().then(main));
const Z = 122;

/** A greedy generation after "hi". */
function generation(options) {
  const ctx = new Context(Model.load('fake')).user('hi');
  return { ctx, g: ctx.generate(Sampler.argmax(), options) };
}

async function nextStep(g) {
  for await (const step of g) return step;
  return undefined;
}

const greedyTokens = (options) => run(() => generation(options).g.collectTokens());

test('a generation ends in front of the stop id, or at the limit', async () => {
  const tokens = [...(await greedyTokens())];
  assert.ok(tokens.length > 6 && !tokens.includes(STOP));
  assert.deepEqual([...(await greedyTokens({ maxTokens: 6 }))], tokens.slice(0, 6));
});

test('a loop of one\'s own asks for the next step', () =>
  run(async () => {
    const tokens = [];
    const { g } = generation({ maxTokens: 3 });
    for (let next = await g.next(); !next.done; next = await g.next()) {
      tokens.push(...(await next.value.execute()).tokens);
    }
    assert.deepEqual(tokens, [...(await generation({ maxTokens: 3 }).g.collectTokens())]);
    assert.deepEqual(await g.next(), { value: undefined, done: true });
  }));

test('pages are changed by hand, and the context follows', () =>
  run(async () => {
    const ctx = new Context(Model.load('fake'));
    const raw = ctx.inner();
    raw.reserveWorkingPages(3);
    raw.releaseWorkingPages(1);
    assert.equal(raw.workingPageCount(), 2);
    assert.throws(() => raw.releaseWorkingPages(3), /cannot release 3 of 2/);
    assert.throws(() => raw.reserveWorkingPages(-1), /^RangeError: n must be/);
    await ctx.append([97, 98, 99, 100, 101, 102]).flush();
    assert.deepEqual([raw.committedPageCount(), raw.workingPageTokenCount()], [1, 2]);
    raw.truncateWorkingPageTokens(1);
    assert.equal(ctx.seqLen, PAGE + 1);
    raw.commitWorkingPages(0);
    ctx.release();
    assert.throws(() => raw.workingPageCount(), /released/);
  }));

test('a turn that is open is not opened again', () =>
  run(async () => {
    const { ctx: plain } = generation({});
    const ctx = new Context(Model.load('fake')).user('hi').cue();
    const g = ctx.generate(Sampler.argmax(), { maxTokens: 2 });
    assert.deepEqual(ctx.buffer(), plain.buffer());
    await g.collectTokens();
    const held = ctx.buffer().length;
    ctx.generate(Sampler.argmax()); // after what was generated, it is another turn
    assert.ok(ctx.buffer().length > held);
  }));

test('a second pass on a context, while one is running, names the await that is missing', () =>
  run(async () => {
    const { ctx, g } = generation({ maxTokens: 5 });
    const alone = [...(await generation({ maxTokens: 5 }).g.collectTokens())];
    const flushed = ctx.flush();
    const missing = /^Error: ctx\.flush\(\) is still running .* write `await ctx\.flush\(\)`$/;
    await assert.rejects(ctx.flush(), missing);
    await assert.rejects(g.collectTokens(), missing);
    await assert.rejects(ctx.forward().input([1]).execute(), missing);
    assert.throws(() => ctx.fork(), missing);
    assert.throws(() => ctx.save('name'), missing);
    assert.throws(() => ctx.truncate(1), missing);
    await flushed;
    const after = ctx.generate(Sampler.argmax(), { maxTokens: 5, autoFlush: false });
    assert.deepEqual([...(await after.collectTokens())], alone);
    const step = (await ctx.append([1]).generate(Sampler.argmax(), { autoFlush: false }).next()).value;
    const executed = step.execute();
    await assert.rejects(ctx.flush(), /write `await step\.execute\(\)`$/);
    await executed;
  }));

test('an argument of a wrong type is named', () => {
  const { g } = generation({ maxTokens: 3 });
  assert.throws(() => g.horizon('9'), /^TypeError: n must be a number/);
  assert.throws(() => new Context('default'), /^TypeError: model must be a Model .*, not a string$/);
  assert.throws(() => g.probeEachStep(-1, Entropy()), /^RangeError: idx must be a whole number/);
  assert.throws(() => g.constrain('a+'), /^TypeError: constrain must be a Schema .*, not a string$/);
  assert.throws(() => generation({ constrain: [null] }), /^TypeError: constrain must be .*, not null$/);
});

test('a step that asks for nothing else is one call, and gives the same', () =>
  run(async () => {
    const { g } = generation({ maxTokens: 5 });
    const before = machine.steps;
    const tokens = [];
    for await (const step of g) tokens.push(...(await step.execute()).tokens);
    assert.equal(machine.steps - before, 5);
    const { g: probed } = generation({ maxTokens: 5 });
    const same = [];
    for await (const step of probed) {
      step.probe(0, Entropy());
      same.push(...(await step.execute()).tokens);
    }
    assert.equal(machine.steps - before, 5);
    assert.deepEqual(same, tokens);
  }));

test('steps of the only generation that runs are repeated in place, and give the same', () =>
  run(async () => {
    const stepped = async (g, between = () => {}) => {
      const tokens = [];
      for await (const step of g) {
        const out = await step.execute();
        assert.deepEqual([...out.tokensAt(out.autoSampler)].slice(0, out.tokens.length), [...out.tokens]);
        tokens.push(...out.tokens);
        await between();
      }
      return tokens;
    };
    const expected = [...(await generation().g.collectTokens())];
    const before = machine.repeats;
    assert.deepEqual(await stepped(generation().g), expected);
    const repeats = machine.repeats - before;
    assert.ok(repeats > 5, `${repeats} repeats`);
    // Two at once share their batches: no step blocks the other.
    const together = await Promise.all([stepped(generation().g), stepped(generation().g)]);
    assert.deepEqual(together, [expected, expected]);
    assert.ok(machine.repeats - before - repeats <= 1);
    // Beside a timer no step blocks.
    const timed = machine.repeats;
    const timer = addTimer(1e6, () => {});
    assert.deepEqual(await stepped(generation().g), expected);
    cancelTimer(timer);
    assert.equal(machine.repeats, timed);
    // Tokens that the program accepts in place of a step's tokens go into the next step.
    const { ctx, g } = generation({ maxTokens: 8 });
    const chosen = await stepped(g, () => g.accept([Z]));
    assert.equal(chosen.length, 8);
    assert.deepEqual([...ctx.buffer()], [Z]);
  }));

test('accept takes the place of what the step chose', () =>
  run(async () => {
    const told = [];
    const constraint = { step: (accepted) => (told.push([...accepted]), new Uint32Array()) };
    const { ctx, g } = generation({ maxTokens: 3, constrain: constraint });
    const start = ctx.buffer().length;
    let steps = 0;
    for await (const step of g) {
      const out = await step.execute();
      assert.notDeepEqual([...out.tokens], [Z]);
      assert.deepEqual([...g.accept([Z])], [Z]);
      assert.equal(g.tokensGenerated, ++steps);
      assert.deepEqual([...ctx.buffer()], [Z]);
    }
    assert.ok(g.isDone && steps === 3);
    assert.equal(ctx.seqLen, start + 2);
    assert.deepEqual(told, [[], [Z], [Z]]);
  }));

test('after clearSampler it is the step\'s tokens', () =>
  run(async () => {
    const { ctx, g } = generation({ maxTokens: 2 });
    for await (const step of g) {
      const out = await step.clearSampler().execute();
      assert.equal(out.tokens.length, 0);
      assert.deepEqual([...g.accept([Z])], [Z]);
      assert.deepEqual([...ctx.buffer()], [Z]);
    }
    assert.equal(g.tokensGenerated, 2);
  }));

test('a token in place of a stop goes on, a stop in place of a token ends', () =>
  run(async () => {
    const { ctx, g } = generation();
    while (!g.isDone) await (await nextStep(g)).execute();
    assert.deepEqual([...g.accept([Z])], [Z]);
    assert.equal(g.isDone, false);
    assert.deepEqual([...ctx.buffer()], [Z]);
    await (await nextStep(g)).execute();
    assert.equal(g.accept([STOP]).length, 0);
    assert.equal(g.isDone, true);
    assert.equal(ctx.buffer().length, 0);
  }));

test('further accepts in a step add up to the limit', () =>
  run(async () => {
    const { ctx, g } = generation({ maxTokens: 3 });
    await (await nextStep(g)).execute();
    assert.deepEqual([...g.accept([97, 98])], [97, 98]);
    assert.deepEqual([...g.accept([99, 100])], [99]);
    assert.deepEqual([...g.accept([101])], []);
    assert.deepEqual([...ctx.buffer()], [97, 98, 99]);
    assert.ok(g.isDone && g.tokensGenerated === 3);
  }));

test('what was flushed cannot be replaced', () =>
  run(async () => {
    const { ctx, g } = generation({ maxTokens: 4 });
    await (await nextStep(g)).execute();
    await ctx.flush();
    assert.deepEqual([...g.accept([Z])], [Z]);
    assert.equal(g.tokensGenerated, 2);
    assert.deepEqual([...ctx.buffer()], [Z]);
  }));

test('drafts that were kept are taken back too', async () => {
  const truth = await greedyTokens({ maxTokens: 12 });
  await run(async () => {
    const told = [];
    let drafts = truth.subarray(0, PAGE + 2);
    const speculator = {
      draft: () => [drafts, new Uint32Array()],
      accept: (tokens) => told.push([...tokens]),
      rollback: () => assert.fail('every draft is right'),
      reset() {},
    };
    const { ctx, g } = generation({ maxTokens: 12, speculator });
    const start = ctx.buffer().length;
    const out = await (await nextStep(g)).execute();
    assert.deepEqual(out.tokens, truth.subarray(0, PAGE + 3));
    assert.equal(ctx.seqLen, start + PAGE + 2);
    g.accept([Z]);
    assert.equal(ctx.seqLen, start);
    assert.deepEqual([...ctx.buffer()], [Z]);
    assert.equal(g.tokensGenerated, 1);

    drafts = new Uint32Array();
    await (await nextStep(g)).execute();
    assert.equal(ctx.seqLen, start + 1);
    assert.deepEqual(told, [[Z]]);
  });
});

test('turns are written together until something else touches the buffer', () =>
  run(async () => {
    const before = (ctx) => (ctx.user('?'), told.before);
    const fresh = () => new Context(Model.load('fake'));
    assert.deepEqual(before(fresh().system('s').user('u').cue()), []);
    assert.deepEqual(before(fresh().user('u').append([97])), ['user']);
    assert.deepEqual(before(fresh().user('u').cue().append([97]).seal()), ['user', 'assistant']);
    const flushed = fresh().user('u');
    await flushed.flush();
    assert.deepEqual(before(flushed), ['user']);
    const generated = fresh().user('u');
    await generated.generate(Sampler.argmax(), { maxTokens: 2 }).collectTokens();
    assert.deepEqual(before(generated), ['user', 'cue']);
    const refused = fresh().user('a').user('refused').user('b');
    assert.deepEqual(told.before, ['user', 'user']);
    assert.equal(refused.buffer().length, 'arefusedb'.length);
  }));

test('a turn lists its calls, and an answer names its call', () => {
  const ctx = new Context(Model.load('fake'));
  const add = { name: 'add', arguments: '{"y": 1.0, "x": 2}', id: 'call_7' };
  ctx.assistantCalls('Wait.', [add, { name: 'a "b"', arguments: { é: [1] } }, { name: 'now', arguments: ' ' }]);
  assert.deepEqual(told.turns, [
    {
      kind: 'assistant',
      text: 'Wait.',
      name: '',
      tools: [
        '{"arguments": {"y": 1.0, "x": 2}, "id": "call_7", "name": "add"}',
        '{"arguments": {"é":[1]}, "id": "", "name": "a \\"b\\""}',
        '{"arguments": {}, "id": "", "name": "now"}',
      ],
    },
  ]);
  ctx.answerCall(add, { sum: 3 }).answerCall({ name: 'now' }, 'noon');
  assert.deepEqual(told.turns.slice(1), [
    { kind: 'answer', text: '{"sum":3}', name: 'add', tools: ['call_7'] },
    { kind: 'answer', text: 'noon', name: 'now', tools: [] },
  ]);
  assert.throws(() => ctx.assistantCalls(3, [add]), /^TypeError: text must be a string/);
  assert.throws(() => ctx.assistantCalls('', add), /^TypeError: calls must be a list/);
  assert.throws(() => ctx.assistantCalls('', ['add']), /^TypeError: each of calls must be an object/);
  assert.throws(() => ctx.assistantCalls('', [{}]), /^TypeError: name must be a string/);
  assert.throws(() => ctx.assistantCalls('', [{ ...add, id: 7 }]), /^TypeError: id must be a string/);
  assert.throws(() => ctx.assistantCalls('', [{ ...add, arguments: 7 }]), /^TypeError: arguments must be /);
  assert.throws(() => ctx.answerCall('add', 3), /^TypeError: call must be an object/);
});

test('cached tokens are those of the engine', () =>
  run(async () => {
    const ctx = new Context(Model.load('fake'));
    assert.equal(ctx.cachedTokens, 0);
    await ctx.append([97, 98, 99, 100, 101]).flush();
    assert.equal(ctx.cachedTokens, PAGE);
    ctx.release();
    assert.throws(() => ctx.cachedTokens, /released/);
  }));

test('the engine is told what to expect, and what the program bids', async () => {
  market.length = 0;
  for (const options of [{ maxTokens: 6 }, { maxTokens: 6, horizon: 4 }, {}]) await greedyTokens(options);
  assert.deepEqual(market.splice(0), [[6, 1], [4, 0], [undefined, 1]]);
  const ctx = new Context(Model.load('fake'));
  ctx.setBid(7);
  {
    using _outer = ctx.idle();
    using _inner = ctx.idle();
  }
  assert.deepEqual(market.splice(0), [7, 'idle', 'as before']);
});

test('truncate takes counts only', () => {
  const ctx = new Context(Model.load('fake'));
  for (const count of [-1, 0.5, NaN]) assert.throws(() => ctx.truncate(count), RangeError);
});

test('stop ids are added to those of the model', async () => {
  const tokens = [...(await greedyTokens())];
  assert.deepEqual([...(await greedyTokens({ stop: [Z + 1], autoFlush: true }))], tokens);
  const past = await run(() => generation({ maxTokens: tokens.length + 1 }).g.stop([]).collectTokens());
  assert.deepEqual([...past], [...tokens, STOP]);
});

test('template options are JSON for the engine', () => {
  const model = Model.load('fake');
  for (const [value, text] of [[false, 'false'], ['high', '"high"'], [3, '3'], [null, undefined]]) {
    model.templateOption('variable', value);
    assert.equal(options.get('variable'), text);
  }
  assert.throws(() => model.templateOption('messages', true), /sets itself/);
});
