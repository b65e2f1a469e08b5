// The conformance driver of the JavaScript client. See README.md. Its second argument is the package's folder.
import { readFile, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder, source = process.env.PIE_CLIENT_JS] = process.argv.slice(2);
const pie = await import(pathToFileURL(`${source}/dist/index.js`));

const KINDS = [
  [pie.AuthError, 'auth'],
  [pie.ServerError, 'refused'],
  [pie.ConnectionLost, 'connection'],
  [pie.RequestTimeout, 'timeout'],
  [pie.ProcessError, 'process'],
  [pie.ProcessEnded, 'ended'],
  [pie.IntegrityError, 'integrity'],
  [pie.TooLarge, 'too_large'],
  [pie.KeyError, 'key'],
];
const clients = new Map();
const processes = new Map();
let received = 0;

async function shown({ event, value }) {
  if (event !== pie.Event.File) return [event, value];
  const path = `${folder}/received-${++received}`;
  await writeFile(path, value);
  return ['file', path];
}

async function connect({ client, uri, username, key, token, timeout, ca }) {
  const options = { timeoutMs: timeout * 1000 };
  if (username !== undefined) options.username = username;
  if (key !== undefined) options.key = key;
  if (token !== undefined) options.token = token;
  if (ca !== undefined) options.ca = await readFile(ca, 'utf8');
  clients.set(client, await pie.PieClient.connect(uri, options));
}

const ofClient = {
  authenticate: (client, { username, key }) => client.authenticate(username, key),
  auth_by_token: (client, { token }) => client.authByToken(token),
  reconnect: (client) => client.reconnect(),
  close: (client) => client.close(),
  ping: async (client) => void (await client.ping()),
  query: (client, { subject, record }) => client.query(subject, record),
  resolve_version: (client, { name }) => client.resolveVersion(name),
  check: (client, { program, wasm, manifest }) => client.checkProgram(program, wasm, manifest),
  install: (client, { wasm, manifest, force }) => client.installProgram(wasm, manifest, force),
  launch: async (client, { program, input, capture, budget, process }) => {
    const launched = await client.launchProcess(program, input, capture, budget);
    processes.set(process, launched);
    return launched.processId;
  },
  attach: async (client, { pid, seen, process }) => {
    processes.set(process, await client.attachProcess(pid, seen));
  },
  list: (client) => client.listProcesses(),
  signal_pid: (client, { pid, message }) => client.signalProcess(pid, message),
  terminate_pid: (client, { pid }) => client.terminateProcess(pid),
  launch_daemon: (client, { program, port }) => client.launchDaemon(program, port),
  restart_daemon: (client, { pid }) => client.restartDaemon(pid),
  register_mcp: (client, { name, command, args }) =>
    client.registerMcpServer(name, 'stdio', command, args),
};

const ofProcess = {
  signal: (process, { message }) => process.signal(message),
  transfer: async (process, { path }) => process.transferFile(await readFile(path)),
  terminate: (process) => process.terminate(),
  discard: (process) => process.discard(),
  seen: (process) => process.seen,
  recv: async (process, { timeout = Infinity }) => shown(await process.recv(timeout * 1000)),
  drain: async (process, command) => {
    command.events = [];
    for await (const said of process) command.events.push(await shown(said));
    return command.events;
  },
  text: (process) => process.text(),
  result: (process) => process.result(),
};

async function handle(command) {
  const answer = { id: command.id };
  try {
    if (command.op === 'connect') await connect(command);
    else if (command.client) {
      answer.ok = await ofClient[command.op](clients.get(command.client), command);
    } else answer.ok = await ofProcess[command.op](processes.get(command.process), command);
    answer.ok ??= null;
  } catch (error) {
    const kind = KINDS.find(([type]) => error instanceof type)?.[1] ?? 'bug';
    const message = kind === 'bug' ? String(error?.stack ?? error) : error.message;
    answer.error = { kind, message, events: command.events };
  }
  console.log(JSON.stringify(answer));
}

for await (const line of createInterface({ input: process.stdin })) void handle(JSON.parse(line));
await Promise.all([...clients.values()].map((client) => client.close()));
