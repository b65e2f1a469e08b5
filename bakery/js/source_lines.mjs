// Maps lines of the bundle to lines of the user's files.
//
// The table is part of the inferlet. The SDK uses it to show the user's own file:line in the stack of
// an error. Lines are enough for that, and the table is much smaller than a source map.
import { resolve, sep } from 'node:path';
import { GLUE } from './bundle.mjs';

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const DIGITS = new Map([...BASE64].map((character, value) => [character, value]));

/** Returns {files, lines}. `lines` holds a pair (file index or -1, line) for each line of the bundle. */
export function sourceLineTable(map, { project, sdk, packages }) {
  const files = [];
  const indices = map.sources.map((source) => {
    const path = resolve(project, source);
    if (source === GLUE || path.startsWith(sdk + sep)) return -1;
    // A component names no folder of the machine that built it.
    const installed = packages && path.startsWith(packages + sep);
    return files.push(installed ? `node_modules${path.slice(packages.length)}` : source) - 1;
  });
  const lines = [];
  let source = 0;
  let sourceLine = 0;
  for (const generated of map.mappings.split(';')) {
    let found = [-1, 0];
    for (const segment of generated.split(',')) {
      const fields = decode(segment);
      if (fields.length < 4) continue;
      source += fields[1];
      sourceLine += fields[2];
      if (found[0] < 0) found = [indices[source], sourceLine + 1];
    }
    lines.push(...found);
  }
  return { files, lines };
}

/** Returns "file:line" for a line of the bundle, or undefined. */
export function whereInSource(table, line) {
  const file = table.files[table.lines[(line - 1) * 2]];
  return file === undefined ? undefined : `${file}:${table.lines[(line - 1) * 2 + 1]}`;
}

/** Decodes the numbers of one segment of a source map (base64 VLQ). */
function decode(segment) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const character of segment) {
    const digit = DIGITS.get(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >>> 1) : value >>> 1);
    value = shift = 0;
  }
  return numbers;
}
