/// <reference path="./pie-core-inference.d.ts" />
declare module 'pie:plus/sampling' {
  /**
   * Makes the pass's random draws depend on `seed`, the row and the number of the draw alone.
   */
  export function seed(pass: ForwardPass, seed: bigint): void;
  export type ForwardPass = import('pie:core/inference').ForwardPass;
}
