/** `node:path`, for the paths of an inferlet: they are separated by `/`, and the working folder is `/`. */

/** The parts of a path, as `parse` gives them and `format` takes them. */
export interface ParsedPath {
  root: string;
  dir: string;
  base: string;
  name: string;
  ext: string;
}

export const sep = '/';
export const delimiter = ':';

function checked(path: string, name: string): string {
  if (typeof path === 'string') return path;
  throw new TypeError(`the ${name} must be a string, not ${String(path)}`);
}

/** Whether the path begins at the root. */
export function isAbsolute(path: string): boolean {
  return checked(path, 'path').startsWith('/');
}

/** The path without empty parts, `.`, and `..` behind a folder. */
export function normalize(path: string): string {
  const absolute = isAbsolute(path);
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.length > 0 && parts.at(-1) !== '..') parts.pop();
    else if (!absolute) parts.push(part);
  }
  const joined = parts.join('/');
  const end = joined !== '' && path.endsWith('/') ? '/' : '';
  if (absolute) return `/${joined}${end}`;
  if (joined !== '') return joined + end;
  return path.endsWith('/') ? './' : '.';
}

/** Joins the paths by `/`, and normalizes the result. */
export function join(...paths: string[]): string {
  const joined = paths.filter((path) => checked(path, 'path') !== '').join('/');
  return joined === '' ? '.' : normalize(joined);
}

/** The absolute path that the last of the paths has, seen from those before it. */
export function resolve(...paths: string[]): string {
  const first = paths.findLastIndex((path) => isAbsolute(path));
  const whole = normalize(`/${paths.slice(Math.max(first, 0)).join('/')}`);
  return whole.length > 1 && whole.endsWith('/') ? whole.slice(0, -1) : whole;
}

/** The way from one path to the other. */
export function relative(from: string, to: string): string {
  const parts = (path: string): string[] => resolve(path).split('/').filter(Boolean);
  const [here, there] = [parts(from), parts(to)];
  let shared = 0;
  while (shared < here.length && here[shared] === there[shared]) shared++;
  return [...here.slice(shared).fill('..'), ...there.slice(shared)].join('/');
}

/** The path without slashes at its end. */
function trimmed(path: string): string {
  return checked(path, 'path').replace(/\/+$/, '');
}

/** The folder of a path. */
export function dirname(path: string): string {
  const whole = trimmed(path);
  if (whole === '') return path === '' ? '.' : '/';
  const slash = whole.lastIndexOf('/');
  if (slash === -1) return '.';
  // `//a` keeps both slashes, as POSIX leaves the meaning of two leading slashes to the system.
  if (slash === 1 && whole.startsWith('//')) return '//';
  return whole.slice(0, slash) || '/';
}

/** The last part of a path, without `suffix` if it ends with it. */
export function basename(path: string, suffix = ''): string {
  const whole = trimmed(path);
  const base = whole.slice(whole.lastIndexOf('/') + 1);
  const cut = checked(suffix, 'suffix') !== '' && base !== suffix && base.endsWith(suffix);
  return cut ? base.slice(0, -suffix.length) : base;
}

/** The end of a path from its last dot on. */
export function extname(path: string): string {
  const base = basename(path);
  const dot = base.lastIndexOf('.');
  return dot <= 0 || base === '..' ? '' : base.slice(dot);
}

/** Takes a path apart. */
export function parse(path: string): ParsedPath {
  const root = isAbsolute(path) ? '/' : '';
  const base = basename(path);
  const ext = extname(path);
  const dir = path.slice(0, Math.max(trimmed(path).lastIndexOf('/'), 0)) || root;
  return { root, dir, base, ext, name: base.slice(0, base.length - ext.length) };
}

/** Puts together what `parse` took apart. */
export function format(parts: Partial<ParsedPath>): string {
  const ext = parts.ext ? `${parts.ext.startsWith('.') ? '' : '.'}${parts.ext}` : '';
  const base = parts.base || `${parts.name ?? ''}${ext}`;
  const folder = parts.dir || parts.root;
  if (!folder) return base;
  return folder === parts.root ? `${folder}${base}` : `${folder}/${base}`;
}

const path = {
  sep,
  delimiter,
  isAbsolute,
  normalize,
  join,
  resolve,
  relative,
  dirname,
  basename,
  extname,
  parse,
  format,
};
export const posix = path;
export default path;
