/** What a generation offers for a page unless told otherwise. */

export interface Outlook {
  readonly balance: number;
  readonly dividend: number;
  readonly pagesHeld: number;
  readonly pageSize: number;
  readonly generated: number;
  readonly maxTokens: number | undefined;
  readonly horizon: number | undefined;
}

/**
 * Spends the balance evenly over the steps that are expected to remain: income per step, over the pages
 * held on average until the end. A horizon is taken as certain; a token limit, or nothing at all, as
 * a guess whose deviation is as large as its mean.
 */
export function defaultBid(outlook: Outlook): number {
  const { balance, dividend, pagesHeld, pageSize, generated, maxTokens, horizon } = outlook;
  const [expected, variation] =
    horizon !== undefined
      ? [horizon - generated, 0]
      : maxTokens !== undefined
        ? [maxTokens - generated, 1]
        : [Math.max(64, generated), 1];
  const steps = Math.max(1, expected);
  const growth = (steps * (1 + variation)) / (2 * pageSize);
  return Math.max(0, (balance / steps + dividend) / (pagesHeld + growth));
}
