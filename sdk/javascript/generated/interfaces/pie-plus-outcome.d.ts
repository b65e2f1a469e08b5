/// <reference path="./pie-core-inference.d.ts" />
declare module 'pie:plus/outcome' {
  /**
   * The failure of a pass that was queued and then could not run. `get` gives such a pass no slots.
   */
  export function failure(output: FutureOutput): string | undefined;
  export type FutureOutput = import('pie:core/inference').FutureOutput;
}
