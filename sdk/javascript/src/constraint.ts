/** Constraints: which tokens a generation may choose next. */
import type { Brle } from './brle.ts';
import { kind } from './check.ts';
import type { Model } from './model.ts';

/** Called before every step, with the tokens accepted since the last call. */
export interface Constraint {
  /** The mask of allowed tokens; an empty one restricts nothing. */
  step(accepted: Uint32Array): Brle;
}

/** A description that becomes a constraint once the model is known. */
export interface Schema {
  /** The constraint for this model. Throws where the description cannot be compiled. */
  buildConstraint(model: Model): Constraint;
}

export function toConstraint(from: Schema | Constraint, model: Model): Constraint {
  if (has(from, 'buildConstraint')) return (from as Schema).buildConstraint(model);
  if (has(from, 'step')) return from as Constraint;
  throw new TypeError(
    `constrain must be a Schema (buildConstraint) or a Constraint (step), not ${kind(from)}`,
  );
}

/** Whether a value has a method of this name. */
function has(value: unknown, method: string): boolean {
  return typeof (value as Record<string, unknown> | null | undefined)?.[method] === 'function';
}

