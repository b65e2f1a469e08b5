/**
 * Which chat turns a context has, so that the next one is written as the model's template writes it there.
 *
 * A template renders whole conversations, and what a turn adds depends on where it stands. Turns whose tokens
 * are still the end of the buffer are pending: they are rendered together, so that the buffer is the
 * template's own rendering as long as nothing is flushed. Any other use of the buffer settles them: from
 * then on only their kinds are known.
 */
import { extend, type Kind, type Turn } from 'pie:plus/turns';
import type { Model } from './model.ts';
import type { TokenList } from './tokens.ts';

export class Turns {
  #settled: Kind[] = [];
  #pending: Turn[] = [];
  /** Where the pending turns' tokens begin and end in the buffer. */
  #start = 0;
  #end = 0;

  /** For a context whose turns are unknown: a conversation is assumed to be under way. */
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

  /** Adds a turn's tokens to the buffer, and renders the pending turns again. */
  add(model: Model, buffer: TokenList, turn: Turn): void {
    if (this.#pending.length > 0 && buffer.length !== this.#end) this.settle();
    if (this.#pending.length === 0) this.#start = buffer.length;
    let tokens: Uint32Array;
    try {
      tokens = extend(model.raw, this.#settled, [...this.#pending, turn]);
    } catch {
      // The turns cannot be written together, for example because they are too many: the new one by itself.
      this.settle();
      this.#start = buffer.length;
      tokens = extend(model.raw, this.#settled, [turn]);
    }
    buffer.shorten(buffer.length - this.#start);
    buffer.push(tokens);
    this.#pending.push(turn);
    this.#end = buffer.length;
  }

  /** Ends the pending turns: from here on only their kinds are known. */
  settle(): void {
    if (this.#pending.length === 0) return;
    for (const turn of this.#pending) this.#settled.push(turn.kind);
    this.#pending = [];
  }

  /** Closes the model's turn. */
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
