/** Cases about adapters and zeroth-order tuning. */
import { Adapter, Context, Sampler, zo, type GenerateOptions } from 'inferlet';
import { failureOf, loadModel, sameTokens, type Cases, type Input } from './case.ts';

async function generate(
  { prompt, max_tokens }: Input,
  options: GenerateOptions = {},
): Promise<Uint32Array> {
  using ctx = new Context(loadModel());
  ctx.user(prompt!);
  const generator = ctx.generate(Sampler.argmax(), { maxTokens: max_tokens, ...options });
  return await generator.collectTokens();
}

export const adapterCases: Cases = {
  adapter: async (input) => {
    const model = loadModel();
    for (const name of ['conformance', 'conformance-copy', 'conformance-import']) {
      Adapter.open(model, name)?.destroy();
    }
    const adapter = Adapter.create(model, 'conformance');
    zo.initialize(adapter, {
      rank: 2,
      alpha: 2.0,
      populationSize: 4,
      muFraction: 0.5,
      initialSigma: 0.5,
    });
    const plain = await generate(input);
    const zero = await generate(input, { adapter });
    const seeded = await generate(input, { adapter, zoSeed: 7 });
    const again = await generate(input, { adapter, zoSeed: 7 });
    const negative = await generate(input, { adapter, zoSeed: -7 });
    zo.update(adapter, [4, 1, 3, 2], [7, -7, 8, -8], 1.0);
    const tuned = await generate(input, { adapter });
    const copy = adapter.fork('conformance-copy');
    const forked = await generate(input, { adapter: copy });
    const opened = Adapter.open(model, 'conformance-copy') !== undefined;
    const taken = (await failureOf(() => Adapter.create(model, 'conformance'))) !== '';
    const wrong = (await failureOf(() => zo.update(adapter, [1], [1], 1.0))) !== '';
    const forkTaken = (await failureOf(() => adapter.fork('conformance-copy'))) !== '';
    const files = adapter.export();
    const imported = Adapter.create(model, 'conformance-import');
    const nothing = new TextEncoder().encode('no tensors');
    const badImport = (await failureOf(() => imported.import(files.config, nothing))) !== '';
    imported.import(files.config, files.tensors);
    const exported = await generate(input, { adapter: imported });
    const names = Adapter.names(model).filter((name) => name.startsWith('conformance'));
    for (const made of [adapter, copy, imported]) made.destroy();
    return {
      plain: [...plain],
      seeded: [...seeded],
      negative: [...negative],
      tuned: [...tuned],
      zero_same: sameTokens(zero, plain),
      seed_differs: !sameTokens(seeded, plain),
      seed_same: sameTokens(seeded, again),
      tuned_differs: !sameTokens(tuned, plain),
      forked_same: sameTokens(forked, tuned),
      opened,
      taken,
      wrong_scores: wrong,
      fork_taken: forkTaken,
      bad_import: badImport,
      exported_same: sameTokens(exported, tuned),
      names,
      gone: Adapter.open(model, 'conformance') === undefined,
    };
  },
};
