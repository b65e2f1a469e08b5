/// <reference path="./pie-instruct-tool-use.d.ts" />
declare module 'pie:plus/calls' {
  /**
   * Returns whether a call has begun. `feed` also returns `start` for text without a call.
   */
  export function assembling(decoder: Decoder): boolean;
  export type Decoder = import('pie:instruct/tool-use').Decoder;
}
