/** The engine refuses with an error, which is thrown, and the program goes on. */
import { Context, Distribution, Grammar, mcp, messaging, Model, regex, Sampler, session } from 'inferlet';
import { failureOf, loadModel, type Cases } from './case.ts';

/** Whether it throws, with a text. */
const refused = async (attempt: () => unknown): Promise<boolean> => (await failureOf(attempt)) !== '';

export const refusalCases: Cases = {
  refusals: async ({ topic }) => {
    const model = loadModel();
    let queue = 0;
    while (!(await refused(() => messaging.push(topic!, 'message')))) queue++;
    using ctx = new Context(model);
    using empty = new Context(model);
    ctx.append([97]);
    const options = { maxTokens: 3, autoFlush: false };
    return {
      queue,
      push: true,
      topic: await refused(() => messaging.push('t'.repeat(2000), 'message')),
      send: await refused(() => session.send('x'.repeat((16 << 20) + 1))),
      bid: await refused(() => ctx.setBid(-1)),
      regex: await refused(() =>
        ctx.generate(Sampler.argmax(), { constrain: regex('('), ...options }),
      ),
      truncate: await refused(() => empty.truncate(1)),
      goes_on:
        (await ctx.generate(Sampler.argmax(), options).stop([]).collectTokens()).length === 3,
    };
  },

  wrong_types: async () => {
    const model = loadModel();
    using ctx = new Context(model);
    const forward = ctx.forward().input([97]);
    const wrong = <T>(value: unknown): T => value as T; // past the compiler, as JavaScript is
    const attempts: Record<string, [string, () => unknown]> = {
      text: ['text', () => ctx.user(wrong(3))],
      tokens: ['tokens', () => ctx.append(wrong('ab'))],
      fraction: ['tokens', () => ctx.append([1.5])],
      negative: ['tokens', () => ctx.append([-1])],
      count: ['n', () => ctx.truncate(wrong('1'))],
      sampler: ['sampler', () => ctx.generate(wrong('greedy'))],
      limit: ['maxTokens', () => ctx.generate(Sampler.argmax(), { maxTokens: wrong('3') })],
      temperature: ['temperature', () => Sampler.topP(wrong('hot'), 0.9)],
      row: ['indices', () => forward.sample(wrong('0'), Sampler.argmax())],
      pattern: ['pattern', () => Grammar.fromRegex(wrong(3))],
      topic: ['topic', () => messaging.push(wrong(3), 'm')],
      bytes: ['data', () => session.sendFile(wrong('text'))],
      name: ['name', () => Model.load(wrong(3))],
    };
    const failed: string[] = [];
    for (const [name, [argument, attempt]] of Object.entries(attempts)) {
      try {
        attempt();
      } catch (error) {
        const own = error instanceof TypeError || error instanceof RangeError;
        if (own && error.message.includes(argument)) failed.push(name);
      }
    }
    return failed;
  },

  wrong_ranges: async () => {
    using ctx = new Context(loadModel());
    const forward = ctx.forward().input([97]);
    const attempts: Record<string, [string, () => unknown]> = {
      temperature: ['temperature', () => Sampler.topP(-1, 0.9)],
      top_p: ['p', () => Sampler.topP(1, 2)],
      min_p: ['p', () => Sampler.minP(1, -0.5)],
      distribution: ['temperature', () => forward.probe(0, Distribution(-1, 5))],
    };
    const failed: string[] = [];
    for (const [name, [argument, attempt]] of Object.entries(attempts)) {
      try {
        attempt();
      } catch (error) {
        if (error instanceof RangeError && error.message.startsWith(`${argument} must be `)) failed.push(name);
      }
    }
    return failed;
  },

  mcp_error: async () => {
    try {
      mcp.connect('none');
    } catch (error) {
      if (!(error instanceof mcp.McpError)) throw error;
      const text = String(error);
      return { text, has_code: text.endsWith(` (code ${error.code})`) };
    }
    return {};
  },
};
