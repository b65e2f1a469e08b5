/**
 * What `collectJson({ schema })` takes: a schema for the engine, and a parser of the value.
 *
 * A JSON Schema is its text or the object (TypeBox's schemas are such objects). A schema object of a library
 * parses the value itself. Where it cannot write its JSON Schema either, it is read as zod builds it.
 */
import { kind } from './check.ts';
import type { Schema } from './constraint.ts';
import { anyJson, jsonSchema } from './grammar.ts';

/** A schema object like zod's. */
export interface Shaped<T> {
  /** The value as the library's own type. Throws where it does not fit. */
  parse(value: unknown): T;
}

export interface Shape<T> {
  readonly schema: Schema;
  /** The text of the JSON Schema; undefined for a `Schema` of the program's own. */
  readonly source: string | undefined;
  readonly parse: (value: unknown) => T;
}

type Json = { [key: string]: unknown };

export function shapeOf<T>(given: string | object | undefined): Shape<T> {
  const asItIs = (value: unknown) => value as T;
  if (given === undefined) return { schema: anyJson(), source: '{}', parse: asItIs };
  if (typeof given !== 'string' && (typeof given !== 'object' || given === null)) {
    throw new TypeError(
      `schema must be a JSON Schema (its text, or the object) or a schema object like zod's, not ${kind(given)}`,
    );
  }
  if (typeof given === 'object' && 'buildConstraint' in given) {
    return { schema: given as Schema, source: undefined, parse: asItIs };
  }
  const shaped = typeof given === 'object' && isShaped<T>(given) ? given : undefined;
  const source = typeof given === 'string' ? given : JSON.stringify(shaped ? written(given) : given);
  const parse = shaped ? (value: unknown) => shaped.parse(value) : asItIs;
  return { schema: jsonSchema(source), source, parse };
}

function isShaped<T>(given: object): given is Shaped<T> {
  return 'parse' in given && typeof given.parse === 'function';
}

/** The JSON Schema that a schema object writes of itself, or else that of its parts. */
function written(given: object): Json {
  for (const method of ['toJSONSchema', 'toJsonSchema'] as const) {
    const write = (given as { [name: string]: unknown })[method];
    if (typeof write === 'function') return write.call(given) as Json;
  }
  return described(given);
}

/** How zod keeps the parts of a schema: version 4 names its type, version 3 its class. */
interface Definition extends Json {
  readonly type?: unknown;
  readonly typeName?: string;
}

function definitionOf(node: unknown): Definition {
  const definition = (node as { _def?: Definition } | undefined)?._def;
  if (!definition) throw new TypeError('the schema object cannot be read as a JSON Schema');
  return definition;
}

/** `ZodObject` and `object` are the same. */
function kindOf({ type, typeName }: Definition): string {
  return (typeName ?? String(type)).replace(/^Zod/, '').toLowerCase();
}

function described(node: unknown): Json {
  const parts = definitionOf(node);
  switch (kindOf(parts)) {
    case 'object':
      return objectOf(parts);
    case 'array': {
      const items = parts['element'] ?? parts.type;
      const bound = (name: string) => (parts[name] as { value?: number } | null | undefined)?.value;
      return defined({
        type: 'array',
        items: described(items),
        minItems: bound('minLength'),
        maxItems: bound('maxLength'),
      });
    }
    case 'tuple': {
      const items = (parts['items'] as unknown[]).map(described);
      const count = items.length;
      return { type: 'array', prefixItems: items, minItems: count, maxItems: count };
    }
    case 'record':
      return { type: 'object', additionalProperties: described(parts['valueType']) };
    case 'string':
      return { type: 'string', ...boundsOf(node, parts, 'Length') };
    case 'number': {
      const isWhole = checksOf(parts).some(({ kind, format }) => kind === 'int' || format === 'safeint');
      const type = isWhole || parts['format'] === 'safeint' ? 'integer' : 'number';
      return { type, ...boundsOf(node, parts, 'imum') };
    }
    case 'boolean':
      return { type: 'boolean' };
    case 'null':
      return { type: 'null' };
    case 'any':
    case 'unknown':
      return {};
    case 'literal':
      return { enum: (parts['values'] as unknown[] | undefined) ?? [parts['value']] };
    case 'enum':
    case 'nativeenum':
      return { enum: Object.values((parts['entries'] ?? parts['values']) as object) };
    case 'union':
    case 'discriminatedunion': {
      const options = parts['options'] as Iterable<unknown>;
      return { anyOf: Array.from(options, described) };
    }
    case 'nullable':
      return { anyOf: [described(parts['innerType']), { type: 'null' }] };
    case 'optional':
    case 'default':
    case 'readonly':
      return described(parts['innerType']);
    case 'effects':
      return described(parts['schema']);
    case 'lazy':
      throw new TypeError('a schema that contains itself cannot be read: pass its JSON Schema');
    default:
      throw new TypeError(`a schema of kind ${kindOf(parts)} cannot be read as a JSON Schema`);
  }
}

function objectOf(parts: Definition): Json {
  const shape = parts['shape'];
  const fields = (typeof shape === 'function' ? shape() : shape) as { [name: string]: unknown };
  const properties: Json = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(fields)) {
    properties[name] = described(field);
    if (!['optional', 'default'].includes(kindOf(definitionOf(field)))) required.push(name);
  }
  return { type: 'object', properties, required, additionalProperties: false };
}

interface Check {
  readonly kind?: string;
  readonly value?: unknown;
  readonly format?: string;
}

function checksOf(parts: Definition): readonly Check[] {
  return ((parts['checks'] as readonly Check[] | undefined) ?? []).map((check) => {
    const inner = (check as { _zod?: { def?: Check } })._zod?.def;
    return inner ?? check;
  });
}

/** The bounds of a text's length or a number: version 3 lists them, version 4 gives them as properties. */
function boundsOf(node: unknown, parts: Definition, ending: 'Length' | 'imum'): Json {
  const named = node as { [name: string]: unknown };
  const listed = (kind: string) => checksOf(parts).find((check) => check.kind === kind)?.value;
  const finite = (value: unknown) => (Number.isFinite(value) ? value : undefined);
  const [least, most] = ending === 'Length' ? ['minLength', 'maxLength'] : ['minValue', 'maxValue'];
  return defined({
    [`min${ending}`]: finite(listed('min') ?? named[least!]),
    [`max${ending}`]: finite(listed('max') ?? named[most!]),
  });
}

function defined(json: Json): Json {
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== undefined));
}
