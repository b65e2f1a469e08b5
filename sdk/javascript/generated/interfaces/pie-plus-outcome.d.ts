/// <reference path="./pie-core-inference.d.ts" />
declare module 'pie:plus/outcome' {
  /**
   * The reason why a queued pass failed. The output of such a pass has no slots.
   */
  export function failure(output: FutureOutput): string | undefined;
  export type FutureOutput = import('pie:core/inference').FutureOutput;
}
