/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/session' {
  export function send(message: string): void;
  /**
   * The client's next message (signals too); none once the client is gone for good.
   */
  export function receive(): FutureString;
  export function sendFile(data: Blob): void;
  export function receiveFile(): FutureBlob;
  export type FutureString = import('pie:core/types').FutureString;
  export type FutureBlob = import('pie:core/types').FutureBlob;
  export type Blob = import('pie:core/types').Blob;
}
