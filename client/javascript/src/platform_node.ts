import { readFile as read } from 'node:fs/promises';
import WebSocket from 'ws';
import { ConnectionLost } from './errors.js';
import { MAX_INCOMING_BYTES } from './limits.js';
import { CLOSE_MS, closeReason, OPEN_MS } from './socket.js';
import type { Socket, SocketHandlers, SocketOptions } from './socket.js';

const PING_MS = 20_000;

export async function readFile(path: string): Promise<Uint8Array> {
  return read(path.startsWith('~/') ? `${process.env['HOME']}${path.slice(1)}` : path);
}

export function openSocket(
  uri: string,
  handlers: SocketHandlers,
  options: SocketOptions,
): Promise<Socket> {
  const socket = new WebSocket(uri, {
    perMessageDeflate: false,
    maxPayload: MAX_INCOMING_BYTES,
    handshakeTimeout: OPEN_MS,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
  socket.binaryType = 'nodebuffer';
  return new Promise((resolve, reject) => {
    const refused = (error: Error) =>
      reject(new ConnectionLost(`cannot connect to ${uri}: ${error.message || 'no answer'}`));
    socket.once('error', refused);
    socket.once('open', () => {
      socket.off('error', refused);
      resolve(wrap(socket, handlers));
    });
  });
}

function wrap(socket: WebSocket, handlers: SocketHandlers): Socket {
  let heard = true;
  let paused = false;
  // A missing pong reveals a server that has vanished.
  const timer = setInterval(() => {
    if (!heard && !paused) return socket.terminate();
    heard = paused;
    if (!paused) socket.ping();
  }, PING_MS);
  timer.unref();
  let fault = '';
  socket.on('pong', () => (heard = true));
  socket.on('message', (data) => {
    heard = true;
    handlers.onMessage(data as Buffer);
  });
  socket.on('error', (error) => (fault = error.message));
  const closed = new Promise<void>((resolve) => {
    socket.once('close', (code, reason) => {
      clearInterval(timer);
      const words = closeReason(code, reason.toString());
      handlers.onClose(fault ? `${words}: ${fault}` : words);
      resolve();
    });
  });
  return {
    send: (data) =>
      new Promise((resolve) => {
        // The close event reports errors.
        socket.send(data, () => resolve());
      }),
    close: async () => {
      socket.resume();
      socket.close();
      const late = setTimeout(() => socket.terminate(), CLOSE_MS);
      await closed;
      clearTimeout(late);
    },
    pause: () => {
      paused = true;
      socket.pause();
    },
    resume: () => {
      paused = false;
      heard = true;
      socket.resume();
    },
  };
}
