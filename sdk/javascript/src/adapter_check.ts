/**
 * Tells adapters from other values without importing their class: a program that uses no adapters then does not
 * import the engine's interface of adapters.
 */
import type { Adapter } from './adapter.ts';
import { kind } from './check.ts';

/** The base class of `Adapter`. No other class is derived from it. */
export abstract class AdapterBase {}

/** An argument that must be an adapter. */
export function checkAdapter(value: Adapter): Adapter {
  if (value instanceof AdapterBase) return value;
  throw new TypeError(`adapter must be an Adapter (Adapter.create or Adapter.open), not ${kind(value)}`);
}
