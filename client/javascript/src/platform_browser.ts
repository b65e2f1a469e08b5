import { ConnectionLost, PieError } from './errors.js';
import type { Program, ProgramHandlers } from './program.js';
import { CLOSE_MS, closeReason } from './socket.js';
import type { Socket, SocketHandlers, SocketOptions } from './socket.js';

const MOST_BUFFERED_BYTES = 4 << 20;
const LOOK_MS = 10;

export function readFile(path: string): Promise<Uint8Array> {
  return Promise.reject(new PieError(`a browser cannot read files: pass the content of '${path}' instead`));
}

export function startProgram(
  command: string,
  _args: string[],
  _maxLineBytes: number,
  _handlers: ProgramHandlers,
): Promise<Program> {
  return Promise.reject(new PieError(`a browser cannot start '${command}'`));
}

export function openSocket(
  uri: string,
  handlers: SocketHandlers,
  _options: SocketOptions,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let socket: WebSocket;
    try {
      socket = new WebSocket(uri);
    } catch (error) {
      reject(new ConnectionLost(`cannot connect to ${uri}: ${String(error)}`));
      return;
    }
    socket.binaryType = 'arraybuffer';
    // Browsers do not report the reason.
    socket.onerror = () => reject(new ConnectionLost(`cannot connect to ${uri}`));
    socket.onopen = () => resolve(wrap(socket, handlers));
  });
}

function wrap(socket: WebSocket, handlers: SocketHandlers): Socket {
  socket.onerror = null;
  socket.onmessage = ({ data }) =>
    handlers.onMessage(data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array());
  const closed = new Promise<void>((resolve) => {
    socket.onclose = ({ code, reason }) => {
      handlers.onClose(closeReason(code, reason));
      resolve();
    };
  });
  return {
    send: async (data) => {
      if (socket.readyState !== WebSocket.OPEN) return; // `onclose` reports the reason
      socket.send(data as Uint8Array<ArrayBuffer>);
      while (socket.bufferedAmount > MOST_BUFFERED_BYTES) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    },
    close: async () => {
      socket.close();
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, CLOSE_MS))]);
    },
    pause: () => {},
    resume: () => {},
  };
}
