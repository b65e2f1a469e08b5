/** Values as people read them, for `console`. */
import { describe } from './failure.ts';

const MAX_DEPTH = 4;
const MAX_ITEMS = 100;

/** The text of a call: values with spaces between them, or the first one with its `%s` filled in. */
export function format(values: readonly unknown[]): string {
  const [first, ...rest] = values;
  if (typeof first !== 'string') return values.map(shown).join(' ');
  const head = first.replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === '%%') return '%';
    if (rest.length === 0) return mark;
    return filled(mark, rest.shift());
  });
  return [head, ...rest.map(shown)].join(' ');
}

function filled(mark: string, value: unknown): string {
  switch (mark) {
    case '%d':
    case '%f':
      return typeof value === 'bigint' ? `${value}n` : String(Number(value));
    case '%i':
      return typeof value === 'bigint' ? `${value}n` : String(Math.trunc(Number(value)));
    case '%j':
      return JSON.stringify(value) ?? 'undefined';
    case '%c':
      return ''; // styles, which a text does not have
    default:
      return shown(value);
  }
}

const shown = (value: unknown): string => (typeof value === 'string' ? value : inspect(value, []));

function inspect(value: unknown, above: readonly object[]): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'bigint':
      return `${value}n`;
    case 'function':
      return inspectFunction(value);
    case 'object':
      return value === null ? 'null' : inspectObject(value, above);
    default:
      return Object.is(value, -0) ? '-0' : String(value);
  }
}

function inspectFunction(value: Function): string {
  const kind = Function.prototype.toString.call(value).startsWith('class') ? 'class' : 'Function';
  return value.name ? `[${kind} ${value.name}]` : `[${kind}]`;
}

function inspectObject(value: object, above: readonly object[]): string {
  if (above.includes(value)) return '[Circular]';
  if (value instanceof Error) return describe(value).stack;
  if (value instanceof Date) return isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (value instanceof RegExp) return String(value);
  const name = nameOf(value);
  if (above.length > MAX_DEPTH) return `[${name || 'Object'}]`;
  const inner = (item: unknown): string => inspect(item, [...above, value]);
  if (Array.isArray(value)) return list('', '[', value.length, items(value, inner), ']');
  if (ArrayBuffer.isView(value) && 'length' in value) {
    const numbers = value as unknown as ArrayLike<number | bigint>;
    return list(`${name}(${numbers.length}) `, '[', numbers.length, items(numbers, inner), ']');
  }
  if (value instanceof Map) {
    const pairs = Array.from(value).slice(0, MAX_ITEMS);
    const texts = pairs.map(([key, item]) => `${inner(key)} => ${inner(item)}`);
    return list(`Map(${value.size}) `, '{ ', value.size, texts, ' }');
  }
  if (value instanceof Set) {
    const texts = Array.from(value).slice(0, MAX_ITEMS).map(inner);
    return list(`Set(${value.size}) `, '{ ', value.size, texts, ' }');
  }
  const keys = Object.keys(value);
  const texts = keys.slice(0, MAX_ITEMS).map((key) => {
    const spelled = /^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key);
    return `${spelled}: ${inner((value as Record<string, unknown>)[key])}`;
  });
  return list(name === 'Object' || !name ? '' : `${name} `, '{ ', keys.length, texts, ' }');
}

function nameOf(value: object): string {
  const maker = Object.getPrototypeOf(value)?.constructor;
  return typeof maker === 'function' ? maker.name : '';
}

function items(values: ArrayLike<unknown>, inner: (item: unknown) => string): string[] {
  const texts: string[] = [];
  for (let i = 0; i < Math.min(values.length, MAX_ITEMS); i++) texts.push(inner(values[i]));
  return texts;
}

function list(name: string, open: string, count: number, texts: string[], close: string): string {
  if (count === 0) return `${name}${open.trim()}${close.trim()}`;
  const left = count - texts.length;
  const all = left > 0 ? [...texts, `… ${left} more`] : texts;
  return `${name}${open}${all.join(', ')}${close}`;
}
