/** The market for KV pages, read from inside. */
import * as raw from 'pie:core/scheduling';
import { instance } from './check.ts';
import { Context } from './context.ts';
import { rawOf, type Model } from './model.ts';

/** The credits of this inferlet. */
export const balance = (model: Model): number => raw.balance(rawOf(model));
/** The clearing price of the last auction. */
export const rent = (context: Context): number => raw.rent(rawContext(context));
/** This inferlet's share of the last revenue. */
export const dividend = (model: Model): number => raw.dividend(rawOf(model));
/** The duration of the last batch, in seconds. */
export const latency = (context: Context): number => raw.latency(rawContext(context));
/** The credits that a new page costs. */
export const price = (): number => raw.price();

function rawContext(context: Context): Context['raw'] {
  return instance('context', context, Context, 'new Context(model)').raw;
}
