/** What a generation may say next. */
import type { Brle } from './brle.ts';
import type { Model } from './model.ts';

/** Asked before every step, with the tokens accepted since it was asked last. */
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
  return 'buildConstraint' in from ? from.buildConstraint(model) : from;
}

