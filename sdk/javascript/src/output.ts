/** The output of a pass. The handles that the pass returned while it was built find their slots here. */
import type { Output as RawOutput, SlotOutput } from 'pie:core/inference';
import { instance, whole } from './check.ts';

/** The place of a sampler's or probe's result. It is valid for outputs of its own pass or generator. */
export class SlotHandle {
  /** @internal How many slots it covers. */ count: number;
  /** @internal Which of the tokens that a step chose. */ readonly index: number;
  /** @internal The handle that was given out. */ readonly given: SlotHandle;

  /** @internal */
  constructor(count: number, given?: SlotHandle, index = 0) {
    this.count = count;
    this.given = given ?? this;
    this.index = index;
  }

  /**
   * The same probe at another token of a step that accepted several: `out.entropy(h.at(i))` belongs to
   * `out.tokens[i]`. The handle itself reads the first one.
   */
  at(index: number): SlotHandle {
    return new SlotHandle(1, this.given, whole('index', index));
  }
}

/** Finds the tokens of a sampler in an output. */
export type SampleHandle = SlotHandle;
/** Finds the answer of a probe in an output. */
export type ProbeHandle = SlotHandle;

/** @internal Where each handle's slots begin. */
export type Layout = ReadonlyMap<SlotHandle, number>;

/** The content of a slot of each kind. */
type SlotValues = { [Slot in SlotOutput as Slot['tag']]: Slot['val'] };

const NO_TOKENS = new Uint32Array();

/** @internal The tokens among `count` slots. */
export function tokensIn(slots: readonly SlotOutput[], first: number, count: number): Uint32Array {
  const tokens: number[] = [];
  for (let i = first; i < first + count; i++) {
    const slot = slots[i];
    if (slot?.tag === 'token') tokens.push(slot.val);
  }
  return new Uint32Array(tokens);
}

/** The parts that an output is made from. */
interface Answer {
  raw: RawOutput | undefined;
  tokens: Uint32Array | undefined;
  autoSampler: SampleHandle | undefined;
  readonly layout: Layout | undefined;
  /** How many tokens a step chose, which is the number of slots of each probe. */
  readonly chosen: number;
  /** The token of a step that chose one and nothing else. The other fields are made from it when they are read. */
  readonly token: number | undefined;
}

/** The output of a pass. */
export class Output {
  // One field: an interpreter spends most of a constructor's time on its fields, and there is one output a token.
  readonly #answer: Answer;

  private constructor(answer: Answer) {
    this.#answer = answer;
  }

  /** @internal What a pass gave. `tokens`, `autoSampler` and `chosen` are a generator's. */
  static of(
    raw: RawOutput,
    layout: Layout,
    tokens: Uint32Array = NO_TOKENS,
    autoSampler?: SampleHandle,
    chosen = 1,
  ): Output {
    return new Output({ raw, tokens, autoSampler, layout, chosen, token: undefined });
  }

  /** @internal What a step gave that chose one token and nothing else. `accepted`: the generator keeps it. */
  static ofToken(token: number, accepted: boolean): Output {
    return new Output({
      raw: undefined,
      tokens: accepted ? undefined : NO_TOKENS,
      autoSampler: undefined,
      layout: undefined,
      chosen: 1,
      token,
    });
  }

  /** The engine's answer as it came: slots, and the drafts beside them. */
  get raw(): RawOutput {
    const answer = this.#answer;
    answer.raw ??= {
      slots: [{ tag: 'token', val: answer.token! }],
      specTokens: NO_TOKENS,
      specPositions: NO_TOKENS,
    };
    return answer.raw;
  }

  /** Tokens that the generator accepted in this step; empty for a plain `Forward`. */
  get tokens(): Uint32Array {
    const answer = this.#answer;
    answer.tokens ??= new Uint32Array([answer.token!]);
    return answer.tokens;
  }

  /** The generator's own sampler; undefined for a plain `Forward` and after `clearSampler()`. */
  get autoSampler(): SampleHandle | undefined {
    const answer = this.#answer;
    if (answer.token !== undefined) answer.autoSampler ??= new SlotHandle(1);
    return answer.autoSampler;
  }

  /** Where the slots of a handle begin; undefined for a handle of another output. */
  #find(handle: SlotHandle): number | undefined {
    const { layout, autoSampler } = this.#answer;
    instance('handle', handle, SlotHandle, 'sample() and probe() return handles');
    if (!layout) return handle === autoSampler ? 0 : undefined;
    return layout.get(handle);
  }

  /**
   * The (first) sampled token; undefined if `handle` is not a sampler's. An undefined handle reads nothing:
   * `autoSampler` is undefined where there is none.
   */
  token(handle: SampleHandle | undefined): number | undefined {
    if (handle === undefined) return undefined;
    return this.#read(handle, 'token');
  }

  /** All sampled tokens: a row after the other, and a row's draws together. */
  tokensAt(handle: SampleHandle | undefined): Uint32Array {
    if (handle === undefined) return NO_TOKENS;
    const first = this.#find(handle);
    return first === undefined ? NO_TOKENS : tokensIn(this.raw.slots, first, handle.count);
  }

  /** Token ids and their probabilities, likeliest first. */
  distribution(handle: ProbeHandle): [Uint32Array, Float32Array] | undefined {
    return this.#read(handle, 'distribution');
  }

  /** `vocab_size × 4` bytes of little-endian f32. */
  logits(handle: ProbeHandle): Uint8Array | undefined {
    return this.#read(handle, 'logits');
  }

  /** The log-probabilities of the asked tokens, in their order. */
  logprobs(handle: ProbeHandle): Float32Array | undefined {
    return this.#read(handle, 'logprobs');
  }

  /** The entropy in nats. */
  entropy(handle: ProbeHandle): number | undefined {
    return this.#read(handle, 'entropy');
  }

  /**
   * The hidden state that `Embedding()` or `Sampler.embedding()` asked for (the first of several rows), as
   * bytes of little-endian f32.
   */
  embedding(handle: SampleHandle | ProbeHandle): Uint8Array | undefined {
    return this.#read(handle, 'embedding');
  }

  #read<Tag extends keyof SlotValues>(handle: SlotHandle, tag: Tag): SlotValues[Tag] | undefined {
    const first = this.#find(handle?.given);
    if (first === undefined || handle.index >= this.#answer.chosen) return undefined;
    const slot = this.raw.slots[first + handle.index];
    return slot?.tag === tag ? (slot.val as SlotValues[Tag]) : undefined;
  }
}
