/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/session' {
  /**
   * Sends a message to the client.
   */
  export function send(message: string): void;
  /**
   * Receives the client's next message or signal. Gives none, once, each time the client disconnects.
   */
  export function receive(): FutureString;
  /**
   * Sends a file to the client.
   */
  export function sendFile(data: Blob): void;
  /**
   * Receives the client's next file.
   */
  export function receiveFile(): FutureBlob;
  export type FutureString = import('pie:core/types').FutureString;
  export type FutureBlob = import('pie:core/types').FutureBlob;
  export type Blob = import('pie:core/types').Blob;
}
