import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile as read } from 'node:fs/promises';
import { TLSSocket } from 'node:tls';
import WebSocket from 'ws';
import { ConnectionLost } from './errors.js';
import { MAX_INCOMING_BYTES } from './limits.js';
import type { Program, ProgramHandlers } from './program.js';
import { CLOSE_MS, closeReason, OPEN_MS } from './socket.js';
import type { Socket, SocketHandlers, SocketOptions } from './socket.js';

const PING_MS = 20_000;

export async function readFile(path: string): Promise<Uint8Array> {
  return read(path.startsWith('~/') ? `${process.env['HOME']}${path.slice(1)}` : path);
}

const STOP_MS = 2_000;

export function startProgram(
  command: string,
  args: string[],
  maxLineBytes: number,
  handlers: ProgramHandlers,
): Promise<Program> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.once('error', reject);
    child.stdin.on('error', () => {}); // `close` reports the end
    let why = 'it has ended';
    const closed = new Promise<void>((ended) => child.once('close', () => ended()));
    let pieces: Buffer[] = [];
    let held = 0;
    child.stdout.on('data', (data: Buffer) => {
      for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10)) {
        const line = Buffer.concat([...pieces, data.subarray(0, end)]).toString();
        pieces = [];
        held = 0;
        data = data.subarray(end + 1);
        handlers.onLine(line);
      }
      pieces.push(data);
      held += data.length;
      if (held > maxLineBytes) {
        why = `it sent a line of more than ${maxLineBytes >> 20} MiB`;
        child.kill('SIGKILL');
      }
    });
    child.once('spawn', () => {
      child.off('error', reject);
      child.on('error', () => {});
      void closed.then(() => handlers.onEnd(why));
      resolve({
        write: (text) => void child.stdin.write(text),
        stop: async () => {
          child.stdin.end();
          const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
          await closed;
          clearTimeout(late);
        },
      });
    });
  });
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
    let certificateHash: Uint8Array | undefined;
    socket.once('upgrade', (response) => (certificateHash = hashOfCertificate(response.socket)));
    socket.once('open', () => {
      socket.off('error', refused);
      resolve({ ...wrap(socket, handlers), certificateHash });
    });
  });
}

function hashOfCertificate(socket: unknown): Uint8Array | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  return createHash('sha256').update(socket.getPeerCertificate().raw).digest();
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
