/** What the engine refuses is thrown, and the program goes on. */
import { Context, messaging, regex, Sampler, session } from 'inferlet';
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
};
