// Reads and writes the sections of WebAssembly modules and components.

const PREAMBLE_BYTES = 8;

/** Yields the sections of the module or component `bytes` as {id, body}. */
export function* sections(bytes) {
  let at = PREAMBLE_BYTES;
  while (at < bytes.length) {
    const id = bytes[at];
    const [size, begin] = readUnsigned(bytes, at + 1);
    at = begin + size;
    if (at > bytes.length) throw new Error('truncated section');
    yield { id, body: bytes.subarray(begin, at) };
  }
}

export const preamble = (bytes) => bytes.subarray(0, PREAMBLE_BYTES);

/** A section from the parts of its body, as a list of buffers. */
export function section(id, ...parts) {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  return [Buffer.from([id]), unsigned(size), ...parts];
}

/** Returns the LEB128 number at `at` and the place behind it. */
export function readUnsigned(bytes, at) {
  let value = 0;
  for (let factor = 1; ; factor *= 128) {
    if (at >= bytes.length) throw new Error('truncated number');
    const byte = bytes[at++];
    value += (byte & 127) * factor;
    if (byte < 128) return [value, at];
  }
}

/** Returns the text at `at`, which follows its length, and the place behind it. */
export function readText(bytes, at) {
  const [length, begin] = readUnsigned(bytes, at);
  return [bytes.toString('utf8', begin, begin + length), begin + length];
}

export function unsigned(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

export function signed(value) {
  const bytes = [];
  for (; value < -64 || value > 63; value >>= 7) bytes.push((value & 127) | 128);
  return Buffer.from([...bytes, value & 127]);
}

export function text(value) {
  const bytes = Buffer.from(value);
  return Buffer.concat([unsigned(bytes.length), bytes]);
}
