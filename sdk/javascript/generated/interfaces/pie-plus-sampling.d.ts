/// <reference path="./pie-core-inference.d.ts" />
declare module 'pie:plus/sampling' {
  /**
   * Draw this pass's random choices from `seed` (and the row and draw) alone.
   */
  export function seed(pass: ForwardPass, seed: bigint): void;
  export type ForwardPass = import('pie:core/inference').ForwardPass;
}
