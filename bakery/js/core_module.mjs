// Changes core modules: exports their variables, and replaces their memory.
import { setFlagsFromString } from 'node:v8';
import {
  preamble, readUnsigned, section, sections, signed, text, unsigned,
} from './wasm.mjs';

const MEMORY_SECTION = 5;
const GLOBAL_SECTION = 6;
const EXPORT_SECTION = 7;
const DATA_SECTION = 11;
const DATA_COUNT_SECTION = 12;
const I32_CONST = 0x41;
const I64_CONST = 0x42;
const GLOBAL_GET = 0x23;
const END = 0x0b;
const ARITHMETIC = new Set([0x6a, 0x6b, 0x6c]); // of extended constant expressions
const GLOBAL_EXPORT = 3;
const VARIABLE_PREFIX = 'pie-variable-';
const PAGE_BYTES = 65536;
// Zeros up to this length stay in a data segment: a segment of its own costs about as much.
const BLOCK_BYTES = 64;
const MAX_SEGMENTS = 50_000; // WebAssembly allows 100,000

/** CPython's module computes addresses in constant expressions. Node 20 needs a flag for that. */
export function allowExtendedConstants() {
  const module = Buffer.concat([
    Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
    ...section(GLOBAL_SECTION, Buffer.from([1, 0x7f, 0, I32_CONST, 1, I32_CONST, 1, 0x6a, END])),
  ]);
  if (!WebAssembly.validate(module)) setFlagsFromString('--experimental-wasm-extended-const');
}

/** Returns the module with an export for each variable that it defines. */
export function exportVariables(bytes) {
  const all = [...sections(bytes)];
  const globals = all.find(({ id }) => id === GLOBAL_SECTION);
  if (!globals) return bytes;
  const imported = WebAssembly.Module.imports(new WebAssembly.Module(bytes));
  const first = imported.filter(({ kind }) => kind === 'global').length;
  const added = variablesIn(globals.body).map((index) =>
    Buffer.concat([
      text(VARIABLE_PREFIX + index), Buffer.from([GLOBAL_EXPORT]), unsigned(first + index),
    ]));
  if (added.length === 0) return bytes;
  const parts = [preamble(bytes)];
  for (const { id, body } of all) {
    if (id === EXPORT_SECTION) {
      const [count, begin] = readUnsigned(body, 0);
      parts.push(...section(id, unsigned(count + added.length), body.subarray(begin), ...added));
    } else {
      parts.push(...section(id, body));
    }
  }
  return Buffer.concat(parts);
}

/** The variables that `exportVariables` has exported. */
export function variablesOf(instance) {
  const names = Object.keys(instance.exports).filter((name) => name.startsWith(VARIABLE_PREFIX));
  return names.map((name) => instance.exports[name]);
}

/** The indices of the variables among the globals of a section. */
function variablesIn(body) {
  const found = [];
  let [count, at] = readUnsigned(body, 0);
  for (let index = 0; index < count; ++index) {
    if (body[at + 1] === 1) found.push(index);
    at += 2;
    while (body[at] !== END) {
      const operation = body[at++];
      if ([I32_CONST, I64_CONST, GLOBAL_GET].includes(operation)) [, at] = readUnsigned(body, at);
      else if (!ARITHMETIC.has(operation)) throw new Error(`unknown constant ${operation}`);
    }
    ++at;
  }
  return found;
}

export const definesMemory = (bytes) =>
  [...sections(bytes)].some(({ id }) => id === MEMORY_SECTION);

/** Returns the module as a list of buffers, with `memory` as its memory's initial contents. */
export function withMemory(bytes, memory) {
  const segments = segmentsOf(memory);
  const parts = [preamble(bytes)];
  for (const { id, body } of sections(bytes)) {
    if (id === MEMORY_SECTION) parts.push(...section(id, withSize(body, memory.length)));
    else if (id === DATA_COUNT_SECTION) parts.push(...section(id, unsigned(segments.length)));
    else if (id === DATA_SECTION) parts.push(...section(id, ...dataOf(memory, segments)));
    else parts.push(...section(id, body));
  }
  return parts;
}

function withSize(body, bytes) {
  const [count, kindAt] = readUnsigned(body, 0);
  if (count !== 1 || body[kindAt] > 1) throw new Error('the module has an unusual memory');
  const [, behind] = readUnsigned(body, kindAt + 1);
  return Buffer.concat([
    body.subarray(0, kindAt + 1), unsigned(bytes / PAGE_BYTES), body.subarray(behind),
  ]);
}

function dataOf(memory, segments) {
  const parts = [unsigned(segments.length)];
  for (const [begin, end] of segments) {
    const active = Buffer.from([0, I32_CONST]);
    const head = [active, signed(begin | 0), Buffer.from([END]), unsigned(end - begin)];
    parts.push(Buffer.concat(head), memory.subarray(begin, end));
  }
  return parts;
}

/** The parts of the memory that are not zero, as [begin, end]. */
function segmentsOf(memory) {
  for (let block = BLOCK_BYTES; ; block *= 2) {
    const found = runsOf(memory, block);
    if (found.length <= MAX_SEGMENTS) return found;
  }
}

function runsOf(memory, block) {
  const words = new BigUint64Array(memory.buffer, memory.byteOffset, memory.length / 8);
  const step = block / 8;
  const runs = [];
  for (let at = 0; at < words.length; at += step) {
    let word = at;
    while (word < at + step && words[word] === 0n) ++word;
    if (word === at + step) continue;
    const begin = at * 8;
    if (runs.length > 0 && runs.at(-1)[1] === begin) runs.at(-1)[1] = begin + block;
    else runs.push([begin, begin + block]);
  }
  return runs;
}
