// Generations that the engine runs by itself are those of the loop over steps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Context } from '../src/context.ts';
import { Model } from '../src/model.ts';
import { drive } from '../src/reactor.ts';
import { Sampler } from '../src/sampler.ts';
import { machine } from './fake_host.mjs';

const run = (main) => drive(Promise.resolve().then(main));

function generation(options) {
  const ctx = new Context(Model.load('fake')).user('hi');
  return { ctx, g: ctx.generate(Sampler.argmax(), options) };
}

async function bySteps(g) {
  const tokens = [];
  for await (const step of g) tokens.push(...(await step.execute()).tokens);
  return tokens;
}

const where = ({ ctx, g }) => ({
  committed: ctx.raw.committedPageCount(),
  pages: ctx.raw.workingPageCount(),
  length: ctx.seqLen,
  buffer: [...ctx.buffer()],
  generated: g.tokensGenerated,
  done: g.isDone,
});

for (const options of [{}, { maxTokens: 0 }, { maxTokens: 1 }, { maxTokens: 9 }, { stop: [98, 99] }]) {
  test(`the same tokens and context: ${JSON.stringify(options)}`, () =>
    run(async () => {
      const chained = generation(options);
      const stepped = generation(options);
      const before = machine.chains;
      const tokens = [...(await chained.g.collectTokens())];
      assert.equal(machine.chains - before, options.maxTokens === 0 ? 0 : 1);
      assert.deepEqual(tokens, await bySteps(stepped.g));
      assert.deepEqual(where(chained), where(stepped));
    }));
}

test('an engine that runs no chains runs step by step', () =>
  run(async () => {
    const chained = generation({ maxTokens: 9 });
    const tokens = [...(await chained.g.collectTokens())];
    machine.chainsOff = true;
    const stepped = generation({ maxTokens: 9 });
    try {
      assert.deepEqual([...(await stepped.g.collectTokens())], tokens);
    } finally {
      machine.chainsOff = false;
    }
    assert.deepEqual(where(stepped), where(chained));
  }));

test('what is asked between two tokens runs step by step', () =>
  run(async () => {
    const before = machine.chains;
    const constraint = { step: () => new Uint32Array() };
    await generation({ maxTokens: 3, constrain: constraint }).g.collectTokens();
    assert.equal(machine.chains, before);
  }));

test('a generation goes on where the last one ended', () =>
  run(async () => {
    const { ctx, g } = generation({ maxTokens: 5 });
    const tokens = [...(await g.collectTokens())];
    const more = ctx.generate(Sampler.argmax(), { maxTokens: 4, autoFlush: false });
    tokens.push(...(await more.collectTokens()));
    const whole = await generation({ maxTokens: 9 }).g.collectTokens();
    assert.deepEqual(tokens, [...whole]);
  }));
