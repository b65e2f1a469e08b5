/** A WebSocket, in Node or in a browser. */
export interface Socket {
  /** Resolves when there is room for more. */
  send(data: Uint8Array): Promise<void>;
  /** Resolves when the socket is closed. */
  close(): Promise<void>;
  /** Stops reading until `resume`. Does nothing in browsers, which cannot stop. */
  pause(): void;
  resume(): void;
  /** The SHA-256 of the server's certificate, if the connection is encrypted. Node only. */
  readonly certificateHash?: Uint8Array | undefined;
}

export interface SocketHandlers {
  onMessage(data: Uint8Array): void;
  /** Called once, with the reason. */
  onClose(reason: string): void;
}

export interface SocketOptions {
  /** PEM of the authority that signed the server's certificate. Node only. */
  ca?: string;
}

export const OPEN_MS = 20_000;
export const CLOSE_MS = 3_000;

export const closeReason = (code: number, reason: string): string =>
  code === 1006
    ? 'the connection to the server broke'
    : `the server closed the connection: ${reason || 'no reason given'} (${code})`;
