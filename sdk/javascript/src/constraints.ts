/** The constraints of one generation, and the mask of its next step. They all hold together. */
import { allowsNone, intersect, type Brle } from './brle.ts';
import type { Constraint } from './constraint.ts';
import { GrammarConstraint, type Matcher } from './grammar.ts';
import { toU32 } from './tokens.ts';

export class Constraints {
  /** A mask for every step. */
  fixed: Brle = new Uint32Array();
  readonly #list: Constraint[] = [];
  /** Of the next step; undefined while it is not known. */
  #mask: Brle | undefined;

  add(constraint: Constraint): void {
    this.#list.push(constraint);
    this.#mask = undefined;
  }

  /** Whether the engine can apply all of them by itself. */
  get areMatchers(): boolean {
    return this.#list.every(isMatcher);
  }

  get matchers(): readonly Matcher[] {
    return this.#list.filter(isMatcher).map((constraint) => constraint.matcher);
  }

  /** The tokens that the program itself allows in the next step. */
  get mask(): Brle {
    return this.#mask ?? this.fixed;
  }

  /**
   * Tells what was accepted, and works out the mask, unless the engine applies the constraints. `position` is
   * the length of the text. Returns whether the text is complete.
   */
  advance(accepted: Uint32Array, engineMatches: boolean, position: number): boolean {
    if (this.#mask && (accepted.length === 0 || this.#list.length === 0)) return false;
    let mask = this.fixed;
    if (!engineMatches) {
      for (const constraint of this.#list) {
        mask = intersect(mask, toU32(constraint.step(accepted)));
      }
    } else if (accepted.length > 0) {
      for (const matcher of this.matchers) matcher.acceptTokens(accepted);
    }
    this.#mask = engineMatches ? undefined : mask;
    if (this.#isComplete()) return true;
    if (allowsNone(mask)) throw new Error(this.#nothingAllowed(position));
    return false;
  }

  /** Whether all grammars say that the text is complete. One that has ended before allows the end only. */
  #isComplete(): boolean {
    let grammars = 0;
    for (const constraint of this.#list) {
      if (!(constraint instanceof GrammarConstraint)) continue;
      if (!constraint.isTerminated()) return false;
      grammars++;
    }
    return grammars > 0;
  }

  #nothingAllowed(position: number): string {
    const names = this.#list.map(nameOf);
    if (this.fixed.length > 0) names.push('the logit mask');
    return `no token is allowed at position ${position} of the text by all of: ${names.join(', ')}`;
  }
}

/** A subclass that overrides `step` wants to be asked. */
function isMatcher(constraint: Constraint): constraint is GrammarConstraint {
  return (
    constraint instanceof GrammarConstraint && constraint.step === GrammarConstraint.prototype.step
  );
}

function nameOf(constraint: Constraint): string {
  if (constraint instanceof GrammarConstraint) return constraint.name;
  return constraint.constructor === Object ? 'constraint' : constraint.constructor.name;
}
