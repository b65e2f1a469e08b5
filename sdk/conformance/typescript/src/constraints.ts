/** Cases about grammars, and about generations that follow them. */
import {
  allowOnly,
  Context,
  Entropy,
  Grammar,
  GrammarConstraint,
  Matcher,
  regex,
  Sampler,
  tools,
  type Constraint,
  type GenerateOptions,
  type Generator,
} from 'inferlet';
import { failureOf, loadModel, sameTokens, type Cases, type Input } from './case.ts';

function grammarOf({ kind, source }: Input): Grammar {
  if (kind === 'regex') return Grammar.fromRegex(source!);
  if (kind === 'ebnf') return Grammar.fromEbnf(source!);
  return kind === 'json_schema' ? Grammar.fromJsonSchema(source!) : Grammar.json();
}

export function constraintOf({ kind, source }: Input): GrammarConstraint {
  const model = loadModel();
  if (kind === 'regex') return GrammarConstraint.fromRegex(source!, model);
  if (kind === 'ebnf') return GrammarConstraint.fromEbnf(source!, model);
  if (kind === 'json_schema') return GrammarConstraint.fromJsonSchema(source!, model);
  return GrammarConstraint.json(model);
}

const SAMPLERS: Record<string, Sampler> = {
  top_p: Sampler.topP(1.5, 0.9),
  top_k: Sampler.topK(1.5, 20),
  min_p: Sampler.minP(1.5, 0.02),
  top_k_top_p: Sampler.topKTopP(1.5, 20, 0.9),
  multinomial: Sampler.multinomial(1.5, 1),
  draws: Sampler.multinomial(1.5, 3),
};
const ALIKE = Sampler.topP(1000, 1);

/** Runs `use` on a generation: greedy, or drawn from the seed by the sampler; without one, all allowed tokens alike. */
export async function drawn<T>(
  { prompt, seed, sampler, tokens, allowed, max_tokens }: Input,
  use: (generator: Generator, state: () => string) => Promise<T>,
  own: GenerateOptions = {},
): Promise<T> {
  using ctx = new Context(loadModel());
  const options: GenerateOptions = { maxTokens: max_tokens, stop: tokens ?? [], ...own };
  if (seed) options.seed = seed;
  if (allowed?.length) options.logitMask = allowOnly(allowed);
  const drawing = SAMPLERS[sampler ?? ''] ?? ALIKE;
  const generator = ctx.user(prompt!).generate(seed ? drawing : Sampler.argmax(), options);
  const state = () =>
    JSON.stringify([ctx.seqLen, [...ctx.buffer()], generator.tokensGenerated, generator.isDone]);
  return await use(generator, state);
}

/** All tokens, and where the context stands then. */
export const outcome = async (generator: Generator, state: () => string) => ({
  tokens: await generator.collectTokens(),
  state: state(),
});

export const isSame = (
  a: { tokens: Uint32Array; state: string },
  b: { tokens: Uint32Array; state: string },
): boolean => sameTokens(a.tokens, b.tokens) && a.state === b.state;

const refused = async (attempt: () => unknown): Promise<boolean> => (await failureOf(attempt)) !== '';

/** A constraint of our own that restricts nothing. */
const anything = (): Constraint => ({ step: () => new Uint32Array() });

const SIZES = ['small', 'large'];

/** A schema object as zod 3 builds it. */
const node = (typeName: string, parts: object = {}) => ({ _def: { typeName, ...parts } });
const pieSchema = {
  ...node('ZodObject', {
    shape: () => ({
      good: node('ZodBoolean'),
      price: node('ZodOptional', { innerType: node('ZodNumber', { checks: [{ kind: 'int' }] }) }),
      size: node('ZodEnum', { values: SIZES }),
      slices: node('ZodArray', { type: node('ZodNumber', { checks: [{ kind: 'int' }] }) }),
    }),
  }),
  parse: (value: unknown) => value as { good: boolean; size: string },
};

export const constraintCases: Cases = {
  matcher: async (input) => {
    using grammar = grammarOf(input);
    using matcher = new Matcher(grammar, loadModel().tokenizer());
    const first = matcher.nextTokenLogitMask();
    const forced = matcher.forcedTokens();
    matcher.acceptTokens(input.tokens!);
    const after = matcher.nextTokenLogitMask();
    const terminated = matcher.isTerminated();
    using fork = matcher.fork();
    matcher.rollback(input.n!);
    const back = matcher.nextTokenLogitMask();
    matcher.reset();
    return {
      source: grammar.toString(),
      first,
      forced,
      after,
      terminated,
      back,
      fork_same: sameTokens(fork.nextTokenLogitMask(), after),
      reset_same: sameTokens(matcher.nextTokenLogitMask(), first),
      refused: await refused(() => matcher.acceptTokens([0])),
      too_far: await refused(() => matcher.rollback(1)),
    };
  },

  grammar_bad: (input) => grammarOf(input).toString(),

  generate_grammar: async (input) => {
    const chained = await drawn(input, outcome, { constrain: constraintOf(input) });
    const stepped = await drawn(
      input,
      (generator, state) => {
        generator.probeEachStep(0, Entropy());
        return outcome(generator, state);
      },
      { constrain: constraintOf(input) },
    );
    const beside = await drawn(input, outcome, { constrain: [constraintOf(input), anything()] });
    const both = [constraintOf(input), constraintOf(input)];
    const twice = await drawn(input, outcome, { constrain: both });
    return {
      text: loadModel().tokenizer().decode(chained.tokens),
      state: JSON.parse(chained.state) as unknown,
      same_stepped: isSame(stepped, chained),
      same_beside: isSame(beside, chained),
      same_twice: isSame(twice, chained),
    };
  },

  generate_conflict: (input) => {
    const constrain: Constraint[] = [constraintOf(input)];
    if (input.n) constrain.push(anything());
    return drawn(input, (generator) => generator.collectText(), { constrain, maxTokens: 40 });
  },

  collect_thinking: (input) =>
    drawn(
      input,
      async (generator) => {
        const value = await generator.thinkFirst().collectJson({ schema: input.value as object });
        return { value, tokens: generator.tokensGenerated };
      },
      { constrain: regex(input.source!) },
    ),

  native_bad: async (input) => {
    const [grammar, matcher] = [tools.nativeGrammar, tools.nativeMatcher].map((native) => {
      try {
        return native(loadModel(), input.tools!) !== undefined;
      } catch (error) {
        return String(error);
      }
    });
    if (typeof grammar !== 'string') return { grammar, matcher };
    throw new Error(grammar === matcher ? grammar : 'the grammar and the matcher differ');
  },

  native_call: (input) =>
    drawn(input, async (generator) => {
      const model = loadModel();
      const matcher = tools.nativeMatcher(model, input.tools!);
      if (!matcher) return { has: false };
      using grammar = tools.nativeGrammar(model, input.tools!);
      const tokens = await generator.constrain(new GrammarConstraint(matcher)).collectTokens();
      const event = new tools.Decoder(model).feed(tokens);
      if (event.type !== 'call') throw new Error('there is no call');
      return { has: grammar !== undefined, name: event.name, args: JSON.parse(event.args) as unknown };
    }),

  collect_json: (input) =>
    drawn(input, async (generator) => ({
      value: await generator.collectJson({ schema: input.value as object }),
      done: generator.isDone,
    })),

  collect_typed: (input) =>
    drawn(input, async (generator) => {
      const pie = await generator.collectJson({ schema: pieSchema });
      return { typed: typeof pie.good === 'boolean' && SIZES.includes(pie.size) };
    }),
};
