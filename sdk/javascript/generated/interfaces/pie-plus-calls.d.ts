/// <reference path="./pie-instruct-tool-use.d.ts" />
declare module 'pie:plus/calls' {
  /**
   * Whether a call has begun: `start` is also what `feed` says of text without one.
   */
  export function assembling(decoder: Decoder): boolean;
  export type Decoder = import('pie:instruct/tool-use').Decoder;
}
