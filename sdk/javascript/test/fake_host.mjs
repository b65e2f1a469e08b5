// The clock and the pollables of a machine whose time passes only while a program waits.
export const machine = {
  time_ns: 0n,
  polls: 0,
  open: 0,
  chains: 0,
  chainsOff: false,
  steps: 0,
  repeats: 0,
  masks: 0,
  drafts: [],
  schemas: [],
  document: null,
  folders: [],
};

export class Pollable {
  constructor(isReady, due_ns) {
    this.isReady = isReady;
    this.due_ns = due_ns;
    machine.open++;
  }
  [Symbol.dispose]() {
    machine.open--;
  }
}

export const now = () => machine.time_ns;
export const subscribeInstant = (due_ns) => new Pollable(() => machine.time_ns >= due_ns, due_ns);
export const after_ms = (ms) => subscribeInstant(machine.time_ns + BigInt(ms) * 1_000_000n);

export function poll(pollables) {
  machine.polls++;
  const ready = () => pollables.flatMap((pollable, index) => (pollable.isReady() ? [index] : []));
  if (ready().length === 0) {
    const dues = pollables.flatMap(({ due_ns }) => (due_ns === undefined ? [] : [due_ns]));
    if (dues.length === 0) throw new Error('would wait for ever');
    machine.time_ns = dues.reduce((a, b) => (a < b ? a : b));
  }
  return Uint32Array.from(ready());
}

export * from './fake_engine.mjs';

// No MCP server is there.
export const availableServers = () => [];
export const connect = () => {
  throw Object.assign(new Error(), { payload: { code: -32002, message: 'there is no such server' } });
};

export const getDirectories = () => machine.folders;
export const httpErrorCode = () => undefined;
