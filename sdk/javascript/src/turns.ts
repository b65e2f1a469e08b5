/**
 * Which chat turns a context has, so that the next one is written as the model's template writes it there.
 *
 * A template renders whole conversations: where a turn stands changes what it adds. Turns whose tokens are
 * still the end of the buffer are pending and are rendered together, so while nothing is flushed the buffer
 * is the template's own rendering. Anything else that touches the buffer settles them: from then on only
 * their kinds are known.
 */
import * as rawChat from 'pie:instruct/chat';
import * as rawTools from 'pie:instruct/tool-use';
import { extend, type Kind, type Turn } from 'pie:plus/turns';
import type { Model } from './model.ts';
import type { TokenList } from './tokens.ts';

export class Turns {
  #settled: Kind[] = [];
  #pending: Turn[] = [];
  /** Where the pending turns' tokens begin and end in the buffer. */
  #start = 0;
  #end = 0;

  /** Of a context whose turns nobody knows. */
  static inTheMiddle(): Turns {
    const turns = new Turns();
    turns.#settled = ['user', 'assistant'];
    return turns;
  }

  copy(): Turns {
    const clone = new Turns();
    clone.#settled = this.#settled.slice();
    clone.#pending = this.#pending.slice();
    clone.#start = this.#start;
    clone.#end = this.#end;
    return clone;
  }

  /** Adds a turn's tokens to the buffer, and writes those of the pending ones anew. */
  add(model: Model, buffer: TokenList, turn: Turn): void {
    if (this.#pending.length > 0 && buffer.length !== this.#end) this.settle();
    if (this.#pending.length === 0) this.#start = buffer.length;
    let tokens: Uint32Array;
    try {
      tokens = extend(model.raw, this.#settled, [...this.#pending, turn]);
    } catch {
      // The template refuses these turns together: the new one by itself.
      this.settle();
      this.#start = buffer.length;
      tokens = alone(model, turn);
    }
    buffer.shorten(buffer.length - this.#start);
    buffer.push(tokens);
    this.#pending.push(turn);
    this.#end = buffer.length;
  }

  /** The buffer goes its own way: only the kinds of the turns are known from here on. */
  settle(): void {
    for (const turn of this.#pending) this.#settled.push(turn.kind);
    this.#pending = [];
  }

  /** The model's turn is closed. */
  seal(): void {
    this.settle();
    const last = this.#settled.length - 1;
    if (this.#settled[last] === 'cue') this.#settled[last] = 'assistant';
    else if (this.#settled[last] !== 'assistant') this.#settled.push('assistant');
  }
}

export function turn(kind: Kind, text = '', name = '', tools: string[] = []): Turn {
  return { kind, text, name, tools };
}

function alone(model: Model, { kind, text, name, tools }: Turn): Uint32Array {
  switch (kind) {
    case 'system':
      return rawChat.system(model.raw, text);
    case 'user':
      return rawChat.user(model.raw, text);
    case 'assistant':
      return rawChat.assistant(model.raw, text);
    case 'tools':
      return rawTools.equip(model.raw, tools);
    case 'answer':
      return rawTools.answer(model.raw, name, text);
    case 'cue':
      return rawChat.cue(model.raw);
  }
}
