/** The market for KV pages, read from inside. */
import * as raw from 'pie:core/scheduling';
import type { Context } from './context.ts';
import { rawOf, type Model } from './model.ts';

/** Credits left. */
export const balance = (model: Model): number => raw.balance(rawOf(model));
/** The clearing price of the last auction. */
export const rent = (context: Context): number => raw.rent(context.raw);
/** This inferlet's share of the last revenue. */
export const dividend = (model: Model): number => raw.dividend(rawOf(model));
/** Seconds a tick takes. */
export const latency = (context: Context): number => raw.latency(context.raw);
/** Credits that a new page costs. */
export const price = (): number => raw.price();
