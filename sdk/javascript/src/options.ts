/** The options of `ctx.generate`. */
import type { Adapter } from './adapter.ts';
import { kind } from './check.ts';
import type { Constraint, Schema } from './constraint.ts';
import type { Seed } from './pass.ts';
import type { Speculator } from './speculation.ts';
import type { Tokens } from './tokens.ts';

export interface GenerateOptions {
  /** Stop after this many tokens. */
  maxTokens?: number | undefined;
  /** Ids that also end the generation, beside the model's own, which end a turn or the text. */
  stop?: Tokens | undefined;
  /** Constraints, which hold together. */
  constrain?: Schema | Constraint | readonly (Schema | Constraint)[] | undefined;
  /** A mask for every step; it holds together with the constraints. */
  logitMask?: Tokens | undefined;
  /** A drafter of your own. */
  speculator?: Speculator | undefined;
  /** The engine's own drafter. */
  systemSpeculation?: boolean | undefined;
  /** A LoRA adapter for every step. */
  adapter?: Adapter | undefined;
  /** An Evolution Strategies seed for every step. */
  zoSeed?: Seed | undefined;
  /** Makes the random choices reproducible: step i draws from `seed + i`. */
  seed?: Seed | undefined;
  /** The expected length, from which the bid for pages follows. */
  horizon?: number | undefined;
  /** Open the model's turn now, unless `ctx.cue()` has just done so. Default true. */
  autoFlush?: boolean | undefined;
}

/** Every option, so that the compiler finds one that is missing here. */
const KNOWN: Record<keyof GenerateOptions, true> = {
  maxTokens: true,
  stop: true,
  constrain: true,
  logitMask: true,
  speculator: true,
  systemSpeculation: true,
  adapter: true,
  zoSeed: true,
  seed: true,
  horizon: true,
  autoFlush: true,
};

/** Throws at an option that would be ignored, such as `max_tokens`. */
export function checkOptions(options: GenerateOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`options must be an object such as { maxTokens: 256 }, not ${kind(options)}`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (Object.hasOwn(KNOWN, name) || value === undefined) continue;
    const camelCase = name.replace(/[_-]+([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const hint = Object.hasOwn(KNOWN, camelCase) ? `; did you mean ${camelCase}?` : '';
    throw new TypeError(`generate() has no option ${name}${hint || `: it takes ${Object.keys(KNOWN).join(', ')}`}`);
  }
}
