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
  tokenizer = () => ({});
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
  matchers = [];
  #tokens = [];
  #drafts = [];
  #rows = [];
  #mask = [];
  #context;

  context(context) {
    this.#context = context;
  }
  inputTokens(tokens) {
    this.#tokens.push(...tokens);
  }
  inputSpeculativeTokens(tokens, positions) {
    machine.drafts.push([[...tokens], [...positions]]);
    this.#drafts = [...tokens];
  }
  outputSpeculativeTokens() {}
  logitMask(mask) {
    this.#mask = mask;
  }
  sampler(rows) {
    this.#rows.push(...rows);
  }
  parts() {
    return { context: this.#context, tokens: this.#tokens, mask: this.#mask };
  }
  execute() {
    const { committed, working, pages } = this.#context;
    const history = [...committed, ...working];
    working.push(...this.#tokens);
    rule(working.length + this.#drafts.length <= pages * PAGE, 'tokens need pages');
    const matchers = this.matchers.map((matcher) => matcher.copy());
    const slots = this.#rows.flatMap((row) => {
      const before = [...history, ...this.#tokens.slice(0, row + 1)];
      const chosen = [choose(before, this.#mask, matchers)];
      for (const draft of row === this.#tokens.length - 1 ? this.#drafts : []) {
        if (chosen.at(-1) !== draft || advance(matchers, draft)) break;
        working.push(draft);
        before.push(draft);
        chosen.push(choose(before, this.#mask, matchers));
      }
      return chosen.map((val) => ({ tag: 'token', val }));
    });
    return {
      pollable: () => after_ms(1),
      get: () => ({ slots, specTokens: new Uint32Array(), specPositions: new Uint32Array() }),
      [Symbol.dispose]() {},
    };
  }
  [Symbol.dispose]() {}
}

/** The next token that the mask and the matchers allow. */
function choose(history, mask, matchers) {
  const free = nextToken(history);
  const isAllowed = (token) =>
    isTrueAt(mask, token) && matchers.every((matcher) => matcher.next().has(token));
  for (let i = 0; i < 258; i++) if (isAllowed((free + i) % 258)) return (free + i) % 258;
  throw new Error('no token is allowed');
}

function isTrueAt(mask, token) {
  let end = 0;
  return mask.length === 0 || mask.some((run, i) => (end += run) > token && i % 2 === 1 && token >= end - run);
}

/** Whether a matcher allows nothing after the token. */
function advance(matchers, token) {
  for (const matcher of matchers) matcher.acceptTokens([token]);
  return matchers.some((matcher) => matcher.isTerminated());
}

/** A grammar: the texts that it accepts. */
export class Grammar {
  constructor(texts) {
    this.texts = texts;
  }
  static fromRegex = (pattern) => new Grammar(pattern.split('|'));
  static fromJsonSchema(schema) {
    machine.schemas.push(JSON.parse(schema));
    return new Grammar([JSON.stringify(JSON.parse(schema).const ?? machine.document)]);
  }
  [Symbol.dispose]() {}
}

class Matcher {
  taken = [];
  constructor(texts) {
    this.texts = texts;
  }
  copy() {
    const made = new Matcher(this.texts);
    made.taken = [...this.taken];
    return made;
  }
  next() {
    const at = this.taken.length;
    const begun = this.texts.filter((text) => this.taken.every((token, i) => text[i] === token));
    return new Set(begun.map((text) => text[at] ?? STOP));
  }
  acceptTokens(tokens) {
    for (const token of tokens) {
      if (!this.next().has(token)) throw new Error(`token ${token} does not fit the grammar`);
      this.taken.push(token);
    }
  }
  nextTokenLogitMask() {
    let end = 0;
    const runs = [...this.next()].sort((a, b) => a - b).flatMap((token) => {
      const run = [token - end, 1];
      end = token + 1;
      return run;
    });
    machine.masks++;
    return Uint32Array.from(runs);
  }
  isTerminated() {
    return this.next().size === 1 && this.next().has(STOP);
  }
  [Symbol.dispose]() {}
}

export const createMatcher = (grammar) =>
  new Matcher(grammar.texts.map((text) => Array.from(text, (letter) => letter.charCodeAt(0))));
export const constrain = (pass, matcher) => pass.matchers.push(matcher);
export const fork = (matcher) => matcher.copy();
export const rollback = (matcher, count) => (matcher.taken.length -= count);
export const forcedTokens = () => new Uint32Array();

export function begin(context, tokens, mask, _seed, _sampler) {
  machine.steps++;
  const pass = new ForwardPass();
  pass.logitMask(mask);
  pass.context(context);
  pass.inputTokens(tokens);
  pass.sampler([tokens.length - 1]);
  return pass.execute();
}

/** Blocks the program: nothing else can run meanwhile. */
export function repeat(context, token) {
  machine.repeats++;
  const chosen = begin(context, [token], [], undefined, undefined).get().slots[0].val;
  machine.time_ns += 1_000_000n;
  return chosen;
}
export const problem = () => undefined;

/** Gives its tokens one, then eight at a time. */
export function run(pass, limit, stops) {
  if (machine.chainsOff) throw new Error('chains are switched off');
  const { context, tokens: input, mask } = pass.parts();
  const history = [...context.committed, ...context.working, ...input];
  const matchers = pass.matchers.map((matcher) => matcher.copy());
  const tokens = [];
  let ended;
  while (!ended) {
    tokens.push(choose([...history, ...tokens], mask, matchers));
    if (stops.includes(tokens.at(-1))) ended = 'stop';
    else if (advance(matchers, tokens.at(-1))) ended = 'complete';
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
        if (token !== STOP) advance(pass.matchers, token);
      }
      return { tokens: new Uint32Array(taken), ended: tokens.length > 0 ? undefined : ended };
    },
    [Symbol.dispose]() {},
  };
}

export const failure = () => undefined;
export const seed = () => {};
export const adapterSeed = () => {};
/** The last statement of the program to the market: [passes, variation], a bid, or idle. */
export const market = [];
export const expect = (_context, passes, variation) => market.push([passes, variation]);
export const once = (_context, value) => market.push(value);
export const idle = (_context, isIdle) => market.push(isIdle ? 'idle' : 'as before');
export const releaseWorkingPages = (context, count) => {
  if (count > context.pages) throw new Error(`cannot release ${count} of ${context.pages} working pages`);
  context.pages -= count;
};
export const truncateWorkingPageTokens = (context, count) => {
  if (count > 0) context.truncateWorkingPageTokens(count);
};

export const user = (_model, text) => Uint32Array.from(text, (letter) => letter.charCodeAt(0));
export const system = user;
export const assistant = user;
export const cue = () => Uint32Array.of(256);
/** A template that writes each turn by itself, and remembers what stood before them. */
export const told = { before: [], turns: [] };
export function extend(model, before, turns) {
  told.before = before.slice();
  told.turns = turns.slice();
  if (turns.length > 1 && turns.some(({ text }) => text === 'refused')) throw 'not together';
  return Uint32Array.from(
    turns.flatMap(({ kind, text }) => [...(kind === 'cue' ? cue() : user(model, text))]),
  );
}
/** The options of the template. */
export const options = new Map();
export function setOption(_model, name, value) {
  if (name === 'messages') throw "the option 'messages' is a variable that the engine sets itself";
  options.set(name, value);
}
export const cachedTokens = (context) => BigInt(context.committed.length);
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
/** Fails as the engine does, with the text that the schema is, or allows "ab". */
export function createToolMatcher(_model, [problem]) {
  if (problem !== '{}') throw new Error(problem);
  return createMatcher(new Grammar(['ab']));
}
export const NO_FORM =
  "model 'm' has no form of tool calls that a grammar can hold it to, or no tools are given";
export function createToolGrammar(_model, [problem]) {
  if (problem === NO_FORM) return undefined;
  if (problem !== '{}') throw new Error(problem);
  return new Grammar(['ab']);
}
export const marks = () => undefined;
export const jsonGrammar = unavailable;
