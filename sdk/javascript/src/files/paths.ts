/** Which folder of the inferlet a path lies in, and what a failure with it is called. */
import { getDirectories } from 'wasi:filesystem/preopens@0.2.12';
import type { Descriptor, ErrorCode } from 'wasi:filesystem/types@0.2.12';
import { payloadOf } from '../http/errors.ts';

/** A place below one of the inferlet's folders. */
export interface Place {
  readonly folder: Descriptor;
  /** Relative to the folder; `.` is the folder itself. */
  readonly path: string;
}

let folders: Array<[Descriptor, string]> | undefined;

/** Finds the folder (`/scratch`, `/data`) of a path. The paths of a program begin at `/`. */
export function placeOf(call: string, path: string | URL): Place {
  const wanted = normal(path);
  folders ??= getDirectories();
  for (const [folder, name] of folders) {
    if (wanted === name) return { folder, path: '.' };
    if (wanted.startsWith(`${name}/`)) return { folder, path: wanted.slice(name.length + 1) };
  }
  throw fault('no-entry', call, path);
}

function normal(path: string | URL): string {
  const text = path instanceof URL ? decodeURIComponent(path.pathname) : String(path);
  const parts: string[] = [];
  for (const part of text.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

/** Calls the engine. Its error becomes one with Node's `code`, `syscall` and `path`. */
export function attempt<T>(call: string, path: string | URL, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw fault(payloadOf<ErrorCode>(error), call, path);
  }
}

const CODES: Partial<Record<ErrorCode, [code: string, text: string]>> = {
  access: ['EACCES', 'permission denied'],
  busy: ['EBUSY', 'resource busy or locked'],
  exist: ['EEXIST', 'file already exists'],
  'file-too-large': ['EFBIG', 'file too large'],
  'insufficient-space': ['ENOSPC', 'no space left on device'],
  invalid: ['EINVAL', 'invalid argument'],
  'is-directory': ['EISDIR', 'illegal operation on a directory'],
  loop: ['ELOOP', 'too many symbolic links encountered'],
  'name-too-long': ['ENAMETOOLONG', 'name too long'],
  'no-entry': ['ENOENT', 'no such file or directory'],
  'not-directory': ['ENOTDIR', 'not a directory'],
  'not-empty': ['ENOTEMPTY', 'directory not empty'],
  'not-permitted': ['EPERM', 'operation not permitted'],
  quota: ['EDQUOT', 'disk quota exceeded'],
  'read-only': ['EROFS', 'read-only file system'],
  unsupported: ['ENOTSUP', 'operation not supported'],
};

/** The error that Node would throw. */
export function fault(code: ErrorCode, syscall: string, path: string | URL): Error {
  const [name, text] = CODES[code] ?? ['EIO', code.replaceAll('-', ' ')];
  const error = new Error(`${name}: ${text}, ${syscall} '${path}'`);
  return Object.assign(error, { code: name, syscall, path: String(path) });
}
