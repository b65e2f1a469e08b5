/** Values that leave the inferlet: strings verbatim, everything else as JSON. */

/** Typed arrays (token ids, say) become JSON arrays instead of objects with numbered keys. */
function plain(_key: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(value as unknown as ArrayLike<number>);
  }
  return value;
}

export function encode(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, plain) ?? 'null';
}
