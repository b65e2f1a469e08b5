/**
 * What `collectJson({ schema })` takes: a schema for the engine, and a parser of the value.
 *
 * A JSON Schema is its text or the object (TypeBox's schemas are such objects). A schema object of a library
 * parses the value itself. Where it cannot write its JSON Schema either, it is read as zod builds it.
 */
import { kind } from './check.ts';
import type { Schema } from './constraint.ts';
import { anyJson, jsonSchema } from './grammar.ts';
import { countsOf, numberOf, textOf, type Json } from './shape_checks.ts';

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
    case 'array':
      return { type: 'array', items: described(parts['element'] ?? parts.type), ...countsOf(parts) };
    case 'tuple': {
      const items = (parts['items'] as unknown[]).map(described);
      const rest = parts['rest'] ? { items: described(parts['rest']) } : { maxItems: items.length };
      return { type: 'array', prefixItems: items, minItems: items.length, ...rest };
    }
    case 'record':
      return recordOf(parts);
    case 'string':
      return textOf(parts);
    case 'number':
      return numberOf(parts);
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
      return { enum: membersOf((parts['entries'] ?? parts['values']) as object) };
    case 'union':
    case 'discriminatedunion': {
      const options = parts['options'] as Iterable<unknown>;
      return { anyOf: Array.from(options instanceof Map ? options.values() : options, described) };
    }
    case 'nullable':
      return { anyOf: [described(parts['innerType']), { type: 'null' }] };
    case 'optional':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'catch':
    case 'readonly':
      return described(parts['innerType']);
    case 'branded':
      return described(parts.type);
    case 'pipe': // the document is what goes in; a function that comes first takes anything
      return described(kindOf(definitionOf(parts['in'])) === 'transform' ? parts['out'] : parts['in']);
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
    if (!['optional', 'default', 'prefault', 'catch'].includes(kindOf(definitionOf(field)))) required.push(name);
  }
  return { type: 'object', properties, required, additionalProperties: false };
}

/** A record whose keys are listed is an object with these properties. Version 4 demands all of them. */
function recordOf(parts: Definition): Json {
  const values = described(parts['valueType']);
  const names = parts['keyType'] === undefined ? {} : described(parts['keyType']);
  if (Array.isArray(names['enum'])) {
    const keys = names['enum'].map(String);
    const required = parts.typeName === undefined ? { required: keys } : {};
    const properties = Object.fromEntries(keys.map((key) => [key, values]));
    return { type: 'object', properties, ...required, additionalProperties: false };
  }
  const { type, ...bounds } = names;
  if (type !== undefined && type !== 'string') {
    throw new TypeError(`the keys of a JSON object are texts, not of the type ${String(type)}`);
  }
  const named = Object.keys(bounds).length > 0 ? { propertyNames: bounds } : {};
  return { type: 'object', additionalProperties: values, ...named };
}

/** The values of an enum. TypeScript's enums of numbers also hold the way back, from numbers to names. */
function membersOf(entries: object): unknown[] {
  if (Array.isArray(entries)) return entries;
  const numbers = new Set(Object.values(entries).filter((value) => typeof value === 'number').map(String));
  return Object.entries(entries).flatMap(([name, value]) => (numbers.has(name) ? [] : [value]));
}
