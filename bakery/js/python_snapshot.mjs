// Imports a Python program into a prepared interpreter and writes the result as a component.
// bakery calls it as
//
//   node python_snapshot.mjs '{"base": …, "code": …, "mounts": …, "rename": …, "modules": …, "out": …}'
//
// base is the folder with component.wasm, and with the folder node that python_base.mjs has written;
// code is the Python code that imports the program; mounts are the folders that it sees, by their
// paths in the component; rename is [name, new name] of an export, or null; modules is the
// node_modules of the package.json beside this file, and out the component to write.
//
// The component is the base with another memory. That suffices, because a Python program changes
// nothing else: this is checked. The exit status is 20 if the Python code failed; its traceback is then
// on stderr. After any other failure, bakery builds without the base.
import { closeSync, openSync, readFileSync, writevSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { allowExtendedConstants, definesMemory, variablesOf, withMemory } from './core_module.mjs';
import { preamble, readText, section, sections, text } from './wasm.mjs';

const CORE_MODULE_SECTION = 1;
const EXPORT_SECTION = 11;
const PYTHON_FAILED = 20; // Node itself uses the numbers up to 13
const SNAPSHOT_FAILED = 3;
const PARTS_PER_WRITE = 1000; // of writev; Linux allows 1,024
// Interfaces of WASI that a program has while it is imported. It has no network.
const GRANTED = /^wasi:(cli|clocks|filesystem|io|random)\//;

async function load({ base, modules, mounts }) {
  const shim = join(modules, '@bytecodealliance/preview2-shim/lib');
  const from = (file) => import(pathToFileURL(file).href);
  const [{ WASIShim }, cli, { _setPreopens }, { instantiate }] = await Promise.all([
    from(join(shim, 'common/instantiation.js')),
    from(join(shim, 'nodejs/cli.js')),
    from(join(shim, 'nodejs/filesystem.js')),
    from(join(base, 'node', 'base.js')),
  ]);
  cli._setEnv({});
  cli._setArgs([]);
  _setPreopens(mounts);
  const instances = [];
  await instantiate(
    (name) => new WebAssembly.Module(readFileSync(join(base, 'node', name))),
    importsOf(new WASIShim().getImportObject()),
    async (module, imports) => {
      const instance = await WebAssembly.instantiate(module, imports);
      instances.push(instance);
      return instance;
    },
  );
  return instances;
}

/** The imports of the base: parts of WASI, and functions that fail in place of all others. */
function importsOf(wasi) {
  const granted = {};
  for (const [name, functions] of Object.entries(wasi)) {
    if (GRANTED.test(name)) granted[name.split('@')[0]] = functions;
  }
  // Without a terminal, tracebacks have no colours.
  for (const stream of ['Stdin', 'Stdout', 'Stderr']) {
    const none = { [`getTerminal${stream}`]: () => undefined };
    granted[`wasi:cli/terminal-${stream.toLowerCase()}`] = none;
  }
  const { Descriptor } = granted['wasi:filesystem/types'];
  // With links, a program could leave its folders: Node follows them.
  for (const method of ['symlinkAt', 'linkAt']) {
    Descriptor.prototype[method] = () => {
      throw 'not-permitted';
    };
  }
  const absent = (name) => () => {
    throw new Error(`${name} was called while the program was imported`);
  };
  const stubs = { get: (_, name) => (/^[A-Z]/.test(name) ? class {} : absent(name)) };
  return new Proxy(granted, { get: (known, name) => known[name] ?? new Proxy({}, stubs) });
}

function exporting(instances, name) {
  const found = instances.filter(({ exports }) => exports[name] !== undefined);
  if (found.length === 0) throw new Error(`the base does not export ${name}`);
  return found.at(-1).exports;
}

/** Runs Python code in the interpreter and returns whether it succeeded. */
function runPython(instances, memory, code) {
  const libc = exporting(instances, '__wasilibc_reset_preopens');
  const python = exporting(instances, 'PyRun_SimpleString');
  const bytes = Buffer.from(`${code}\0`);
  const place = libc.malloc(bytes.length);
  Buffer.from(memory.buffer).set(bytes, place);
  const held = python.PyGILState_Ensure();
  const result = python.PyRun_SimpleString(place);
  python.PyGILState_Release(held);
  libc.free(place);
  // The files of this machine are forgotten. The engine has others.
  exporting(instances, 'reset_adapter_state').reset_adapter_state();
  libc.__wasilibc_reset_preopens();
  return result === 0;
}

function write(component, memory, rename, out) {
  const parts = [preamble(component)];
  let memories = 0;
  let renamed = rename === null ? 1 : 0;
  for (const { id, body } of sections(component)) {
    if (id === CORE_MODULE_SECTION && definesMemory(body)) {
      parts.push(...section(id, ...withMemory(body, memory)));
      ++memories;
    } else if (id === EXPORT_SECTION && rename !== null && exportedBy(body) === rename[0]) {
      const [, behind] = readText(body, 2);
      parts.push(...section(id, body.subarray(0, 2), text(rename[1]), body.subarray(behind)));
      ++renamed;
    } else {
      parts.push(...section(id, body));
    }
  }
  if (memories !== 1 || renamed !== 1) throw new Error('the base has an unknown structure');
  const file = openSync(out, 'w');
  for (let at = 0; at < parts.length; at += PARTS_PER_WRITE) {
    writeAll(file, parts.slice(at, at + PARTS_PER_WRITE));
  }
  closeSync(file);
}

/** The name of the only export in a section of a component, if it has only one. */
const exportedBy = (body) => (body[0] === 1 && body[1] <= 1 ? readText(body, 2)[0] : undefined);

function writeAll(file, parts) {
  const wanted = parts.reduce((sum, part) => sum + part.length, 0);
  const written = writevSync(file, parts);
  if (written < wanted) writeAll(file, [Buffer.concat(parts).subarray(written)]);
}

async function snapshot(order) {
  allowExtendedConstants();
  const instances = await load(order);
  const { memory } = exporting(instances, 'memory');
  const variables = instances.flatMap(variablesOf);
  const before = variables.map(({ value }) => value);
  if (!runPython(instances, memory, order.code)) return PYTHON_FAILED;
  if (variables.some(({ value }, index) => value !== before[index])) {
    throw new Error('a variable outside the memory has changed');
  }
  const component = readFileSync(join(order.base, 'component.wasm'));
  write(component, Buffer.from(memory.buffer), order.rename, order.out);
  return 0;
}

try {
  process.exit(await snapshot(JSON.parse(process.argv[2])));
} catch (error) {
  console.error(error);
  process.exit(SNAPSHOT_FAILED);
}
