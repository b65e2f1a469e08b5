/**
 * The checks of zod's texts, numbers and lists as keywords of JSON Schema.
 *
 * Version 3 lists them by `kind`, version 4 by `check` and `format`. A check that no keyword stands for is an error:
 * the model would be free to break it. What a check does to a value after it was read (`trim`), and a function of the
 * program (`refine`), are left to `parse`.
 */

export type Json = { [key: string]: unknown };

/** A check as zod keeps it. */
interface Check {
  readonly kind?: string;
  readonly check?: string;
  readonly format?: string;
  readonly value?: unknown;
  readonly minimum?: unknown;
  readonly maximum?: unknown;
  readonly length?: unknown;
  readonly inclusive?: boolean;
  readonly regex?: RegExp;
  readonly pattern?: RegExp;
  readonly prefix?: string;
  readonly suffix?: string;
  readonly includes?: string;
  readonly position?: number;
  readonly version?: string;
  readonly offset?: boolean;
  readonly local?: boolean;
  readonly precision?: number | null;
}

/** Keywords that restrict no document. */
const LEFT_TO_PARSE = new Set(
  ['trim', 'toLowerCase', 'toUpperCase', 'overwrite', 'custom', 'describe', 'meta', 'finite', 'normalize'],
);

/** Formats of JSON Schema, by zod's names. */
const FORMATS: { [name: string]: string } = {
  email: 'email', url: 'uri', uuid: 'uuid', guid: 'uuid', date: 'date', duration: 'duration', ipv4: 'ipv4', ipv6: 'ipv6',
  hostname: 'hostname',
};

/** Patterns of what JSON Schema has no format for. Each allows what zod allows, or a part of it. */
const PATTERNS: { [name: string]: string } = {
  cuid: '^c[0-9a-z]{24}$',
  cuid2: '^[a-z][0-9a-z]{23}$',
  ulid: '^[0-7][0-9A-HJKMNP-TV-Z]{25}$',
  nanoid: '^[0-9A-Za-z_-]{21}$',
  xid: '^[0-9a-v]{20}$',
  ksuid: '^[0-9A-Za-z]{27}$',
  base64: '^([0-9A-Za-z+/]{4})*([0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?$',
  base64url: '^([0-9A-Za-z_-]{4})*([0-9A-Za-z_-]{2}|[0-9A-Za-z_-]{3})?$',
  e164: '^\\+[1-9][0-9]{6,14}$',
  lowercase: '^[^A-Z]*$',
  uppercase: '^[^a-z]*$',
};

const RANGES: { [format: string]: readonly [number, number] } = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
};

/** The name of a check, the same in both versions where both have it. */
function nameOf({ kind, check, format }: Check): string {
  if (kind !== undefined) return kind;
  return check === 'string_format' || check === 'number_format' ? String(format) : String(check);
}

/** All checks of a node. Version 4 has formats that are nodes themselves, such as `z.email()`. */
function checksOf(parts: Json): readonly Check[] {
  const listed = ((parts['checks'] as readonly Check[] | undefined) ?? []).map(
    (check) => (check as { _zod?: { def?: Check } })._zod?.def ?? check,
  );
  return parts['check'] === undefined ? listed : [parts as Check, ...listed];
}

function refuse(what: string, name: string): never {
  throw new TypeError(
    `the check ${name} of ${what} cannot be written as JSON Schema: leave it out and check the result, ` +
      'or pass a JSON Schema of your own',
  );
}

/** Sets a bound, unless there is a tighter one. */
function bound(schema: Json, key: string, value: unknown): void {
  if (typeof value !== 'number' || !Number.isFinite(value)) return;
  const old = schema[key] as number | undefined;
  const pick = key.toLowerCase().includes('min') ? Math.max : Math.min;
  schema[key] = old === undefined ? value : pick(old, value);
}

/** A bound of a length, by check or by the parts of version 3's lists; false: it is another check. */
function boundLength(schema: Json, check: Check, of: 'Length' | 'Items'): boolean {
  switch (nameOf(check)) {
    case 'min':
    case 'min_length':
      bound(schema, `min${of}`, check.minimum ?? check.value);
      return true;
    case 'max':
    case 'max_length':
      bound(schema, `max${of}`, check.maximum ?? check.value);
      return true;
    case 'length':
    case 'length_equals':
      bound(schema, `min${of}`, check.length ?? check.value);
      bound(schema, `max${of}`, check.length ?? check.value);
      return true;
    default:
      return false;
  }
}

export function textOf(parts: Json): Json {
  const schema: Json = { type: 'string' };
  const all: Json[] = [];
  for (const check of checksOf(parts)) {
    if (boundLength(schema, check, 'Length') || LEFT_TO_PARSE.has(nameOf(check))) continue;
    all.push(keywordsOf(check));
  }
  // One keyword of each kind beside the type; the others in `allOf`.
  const beside: Json[] = [];
  for (const keywords of all) {
    if (Object.keys(keywords).some((key) => key in schema)) beside.push(keywords);
    else Object.assign(schema, keywords);
  }
  return beside.length > 0 ? { ...schema, allOf: beside } : schema;
}

/** The keywords of a format or a pattern. */
function keywordsOf(check: Check): Json {
  const name = nameOf(check);
  const format = FORMATS[name];
  if (format) return { format };
  const pattern = PATTERNS[name];
  if (pattern) return { pattern };
  switch (name) {
    case 'regex':
      return { pattern: sourceOf(check.regex ?? check.pattern) };
    case 'startsWith':
    case 'starts_with':
      return { pattern: `^${escaped(check.prefix ?? check.value)}` };
    case 'endsWith':
    case 'ends_with':
      return { pattern: `${escaped(check.suffix ?? check.value)}$` };
    case 'includes':
      if (check.position !== undefined) refuse('a text', 'includes with a position');
      return { pattern: escaped(check.includes ?? check.value) };
    case 'ip':
      if (check.version === 'v4' || check.version === 'v6') return { format: `ip${check.version}` };
      return { anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }] };
    case 'datetime':
    case 'time':
      return { pattern: timePattern(name, check) };
    default:
      return refuse('a text', name);
  }
}

function sourceOf(regex: RegExp | undefined): string {
  const flags = regex?.flags.replace(/[dgu]/g, '');
  if (!regex || flags) refuse('a text', `regex with the flag ${flags}`);
  return regex.source;
}

function escaped(value: unknown): string {
  return String(value).replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

const DAY =
  '((19|20)[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))' +
  '|20([02468][048]|[13579][26])-02-29)';

/** zod's times end in Z, unless the check asks for an offset or for none. */
function timePattern(name: string, { precision, local }: Check): string {
  const fraction = typeof precision === 'number' ? (precision > 0 ? `\\.[0-9]{${precision}}` : '') : '(\\.[0-9]{1,9})?';
  const time = `([01][0-9]|2[0-3]):[0-5][0-9]${precision === -1 ? '' : `:[0-5][0-9]${fraction}`}`;
  return name === 'time' ? `^${time}$` : `^${DAY}T${time}${local ? 'Z?' : 'Z'}$`;
}

export function numberOf(parts: Json): Json {
  const schema: Json = { type: 'number' };
  for (const check of checksOf(parts)) {
    const name = nameOf(check);
    const exclusive = check.inclusive === false;
    if (name === 'min' || name === 'greater_than') {
      bound(schema, exclusive ? 'exclusiveMinimum' : 'minimum', check.value);
    } else if (name === 'max' || name === 'less_than') {
      bound(schema, exclusive ? 'exclusiveMaximum' : 'maximum', check.value);
    } else if (name === 'int' || name === 'safeint' || RANGES[name]) {
      schema['type'] = 'integer';
      const [least, most] = RANGES[name] ?? [];
      bound(schema, 'minimum', least);
      bound(schema, 'maximum', most);
    } else if (name === 'multipleOf' || name === 'multiple_of') {
      if (schema['multipleOf'] !== undefined) refuse('a number', 'multipleOf, twice');
      schema['multipleOf'] = check.value;
    } else if (!['float32', 'float64'].includes(name) && !LEFT_TO_PARSE.has(name)) {
      refuse('a number', name);
    }
  }
  return schema;
}

/** The bounds of a list's length. */
export function countsOf(parts: Json): Json {
  const schema: Json = {};
  const given = (name: string) => (parts[name] as { value?: number } | null | undefined)?.value;
  bound(schema, 'minItems', given('minLength') ?? given('exactLength'));
  bound(schema, 'maxItems', given('maxLength') ?? given('exactLength'));
  for (const check of checksOf(parts)) {
    if (!boundLength(schema, check, 'Items') && !LEFT_TO_PARSE.has(nameOf(check))) {
      refuse('a list', nameOf(check));
    }
  }
  return schema;
}
