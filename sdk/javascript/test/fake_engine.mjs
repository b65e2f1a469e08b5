// Contexts and passes of an engine without a model: the next token follows from those before it.
// Greedy samplers only. It keeps the rules of the pages, and says when they are broken.
import { after_ms, machine } from './fake_host.mjs';

export const PAGE = 4;
export const STOP = 257;
const TURN_ENDS_AT = 24; // the model stops once a context is so long

const nextToken = (history) =>
  history.length >= TURN_ENDS_AT
    ? STOP
    : 97 + (history.reduce((sum, token) => (sum * 31 + token) % 9973, 7) % 25);

function rule(holds, text) {
  if (!holds) throw new Error(`rule of the engine: ${text}`);
}

export class Model {
  static load = () => new Model();
  [Symbol.dispose]() {}
}

export class Context {
  committed = [];
  working = [];
  pages = 0;

  static create = () => new Context();
  tokensPerPage = () => PAGE;
  committedPageCount = () => this.committed.length / PAGE;
  workingPageCount = () => this.pages;
  workingPageTokenCount = () => this.working.length;
  reserveWorkingPages(count) {
    this.pages += count;
  }
  commitWorkingPages(count) {
    rule(this.working.length >= count * PAGE, 'only full pages can be committed');
    this.committed.push(...this.working.splice(0, count * PAGE));
    this.pages -= count;
  }
  truncateWorkingPageTokens(count) {
    rule(count > 0 && count <= this.working.length, 'only working tokens can be truncated');
    this.working.length -= count;
  }
  destroy() {}
  [Symbol.dispose]() {}
}

export class ForwardPass {
  #tokens = [];
  #rows = [];
  #context;

  context(context) {
    this.#context = context;
  }
  inputTokens(tokens) {
    this.#tokens.push(...tokens);
  }
  sampler(rows) {
    this.#rows.push(...rows);
  }
  parts() {
    return { context: this.#context, tokens: this.#tokens };
  }
  execute() {
    const { committed, working, pages } = this.#context;
    const history = [...committed, ...working];
    working.push(...this.#tokens);
    rule(working.length <= pages * PAGE, 'tokens need pages');
    const slots = this.#rows.map((row) => ({
      tag: 'token',
      val: nextToken([...history, ...this.#tokens.slice(0, row + 1)]),
    }));
    return {
      pollable: () => after_ms(1),
      get: () => ({ slots, specTokens: new Uint32Array(), specPositions: new Uint32Array() }),
      [Symbol.dispose]() {},
    };
  }
  [Symbol.dispose]() {}
}

export function begin(context, tokens, _mask, _seed, _sampler) {
  machine.steps++;
  const pass = new ForwardPass();
  pass.context(context);
  pass.inputTokens(tokens);
  pass.sampler([tokens.length - 1]);
  return pass.execute();
}

/** Gives its tokens one, then eight at a time. */
export function run(pass, limit, stops) {
  if (machine.chainsOff) throw new Error('chains are switched off');
  const { context, tokens: input } = pass.parts();
  const history = [...context.committed, ...context.working, ...input];
  const tokens = [];
  let ended;
  while (!ended) {
    tokens.push(nextToken([...history, ...tokens]));
    if (stops.includes(tokens.at(-1))) ended = 'stop';
    else if (tokens.length >= limit) ended = 'limit';
  }
  context.working.push(...input);
  rule(context.working.length <= context.pages * PAGE, 'tokens need pages');
  let previous;
  let isReady = false;
  machine.chains++;
  return {
    pollable: () => {
      isReady = true;
      return after_ms(1);
    },
    take: () => {
      if (!isReady) return { tokens: new Uint32Array() };
      isReady = false;
      const taken = tokens.splice(0, previous === undefined ? 1 : 8);
      for (const token of taken) {
        if (previous !== undefined) context.working.push(previous);
        context.pages = Math.max(context.pages, Math.ceil(context.working.length / PAGE));
        context.commitWorkingPages(Math.floor(context.working.length / PAGE));
        previous = token;
      }
      return { tokens: new Uint32Array(taken), ended: tokens.length > 0 ? undefined : ended };
    },
    [Symbol.dispose]() {},
  };
}

export const failure = () => undefined;
export const seed = () => {};
export const adapterSeed = () => {};
/** What the program has told the market: [passes, variation], a bid, or idle. */
export const market = [];
export const expect = (_context, passes, variation) => market.push([passes, variation]);
export const once = (_context, value) => market.push(value);
export const idle = (_context, isIdle) => market.push(isIdle ? 'idle' : 'as before');
export const truncateWorkingPageTokens = (context, count) => {
  if (count > 0) context.truncateWorkingPageTokens(count);
};

export const user = (_model, text) => Uint32Array.from(text, (letter) => letter.charCodeAt(0));
export const system = user;
export const assistant = user;
export const cue = () => Uint32Array.of(256);
/** A template that writes each turn by itself, and remembers what stood before them. */
export const told = { before: [] };
export function extend(model, before, turns) {
  told.before = before.slice();
  if (turns.length > 1 && turns.some(({ text }) => text === 'refused')) throw 'not together';
  return Uint32Array.from(
    turns.flatMap(({ kind, text }) => [...(kind === 'cue' ? cue() : user(model, text))]),
  );
}
export const encode = (_tokenizer, text) => user(undefined, text);
export const assembling = () => false;
export const equip = () => Uint32Array.of(258);
export const answer = (_model, _name, value) => user(_model, value);
export const seal = () => Uint32Array.of(STOP);
export const stopTokens = seal;

function unavailable() {
  throw new Error('not available here');
}
export const createDecoder = unavailable;
export const createToolDecoder = unavailable;
export const createToolMatcher = unavailable;
export const createMatcher = unavailable;
export const jsonGrammar = unavailable;
export const Grammar = {};
