/**
 * The functions of `node:fs`, for the folders of an inferlet: `/scratch`, which ends with it, and `/data`, which
 * its user keeps. Contents are `Uint8Array`s, whose `toString()` decodes them, or texts where an encoding is given.
 */
import type { Descriptor, DescriptorFlags, DescriptorStat, OpenFlags } from 'wasi:filesystem/types@0.2.12';
import { attempt, fault, placeOf } from './paths.ts';

export type Path = string | URL;
export type Encoding = 'utf8' | 'utf-8';
export type Data = string | ArrayBufferView | ArrayBuffer;

const PIECE_BYTES = 1024 * 1024;
const FOLLOW = { symlinkFollow: true };

/** The properties of a file. */
export class Stats {
  readonly size: number;
  readonly mtimeMs: number;
  readonly #kind: string;

  constructor(raw: DescriptorStat) {
    this.size = Number(raw.size);
    const changed = raw.dataModificationTimestamp;
    this.mtimeMs = changed ? Number(changed.seconds) * 1000 + changed.nanoseconds / 1e6 : 0;
    this.#kind = raw.type;
  }
  get mtime(): Date {
    return new Date(this.mtimeMs);
  }
  isFile(): boolean {
    return this.#kind === 'regular-file';
  }
  isDirectory(): boolean {
    return this.#kind === 'directory';
  }
  isSymbolicLink(): boolean {
    return this.#kind === 'symbolic-link';
  }
}

/** An entry of a folder, as `readdir` gives it with `withFileTypes`. */
export class Dirent {
  constructor(
    readonly name: string,
    readonly parentPath: string,
    readonly kind: string,
  ) {}
  isFile(): boolean {
    return this.kind === 'regular-file';
  }
  isDirectory(): boolean {
    return this.kind === 'directory';
  }
  isSymbolicLink(): boolean {
    return this.kind === 'symbolic-link';
  }
}

function open(call: string, path: Path, how: OpenFlags, flags: DescriptorFlags): Descriptor {
  const place = placeOf(call, path);
  return attempt(call, path, () => place.folder.openAt(FOLLOW, place.path, how, flags));
}

export function readFile(path: Path, options: Encoding | { encoding: Encoding }): string;
export function readFile(path: Path, options?: { encoding?: null } | null): Uint8Array;
export function readFile(
  path: Path,
  options?: Encoding | { encoding?: Encoding | null } | null,
): string | Uint8Array {
  using file = open('open', path, {}, { read: true });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (let ended = false; !ended; ) {
    const [piece, last] = attempt('read', path, () => file.read(BigInt(PIECE_BYTES), BigInt(size)));
    pieces.push(piece);
    size += piece.length;
    ended = last || piece.length === 0;
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return encodingOf(options) ? new TextDecoder().decode(all) : readable(all);
}

/** Bytes whose `toString` gives their text, like that of Node's Buffer. */
function readable(bytes: Uint8Array): Uint8Array {
  const toString = (encoding?: Encoding): string => {
    encodingOf(encoding);
    return new TextDecoder().decode(bytes);
  };
  return Object.defineProperty(bytes, 'toString', { value: toString });
}

function encodingOf(options?: Encoding | { encoding?: Encoding | null } | null): Encoding | undefined {
  const encoding = (typeof options === 'string' ? options : options?.encoding) ?? undefined;
  if (encoding !== undefined && !/^utf-?8$/i.test(encoding)) {
    throw new TypeError(`the encoding '${encoding}' is not known here; use 'utf8', or none for bytes`);
  }
  return encoding;
}

function bytesOf(data: Data): Uint8Array {
  if (typeof data === 'string') return new TextEncoder().encode(data);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

export type WriteOptions = Encoding | { encoding?: Encoding | null; flag?: 'w' | 'wx' | 'a' } | null;

export function writeFile(path: Path, data: Data, options?: WriteOptions): void {
  encodingOf(options as Encoding);
  const flag = (typeof options === 'object' && options?.flag) || 'w';
  if (flag === 'a') return appendFile(path, data);
  if (flag !== 'w' && flag !== 'wx') throw new TypeError(`the flag '${flag}' is not one of w, wx, a`);
  const how = { create: true, truncate: flag === 'w', exclusive: flag === 'wx' };
  using file = open('open', path, how, { write: true });
  writeAll(file, path, bytesOf(data), 0);
}

export function appendFile(path: Path, data: Data, options?: WriteOptions): void {
  encodingOf(options as Encoding);
  using file = open('open', path, { create: true }, { write: true });
  writeAll(file, path, bytesOf(data), Number(attempt('stat', path, () => file.stat()).size));
}

function writeAll(file: Descriptor, path: Path, bytes: Uint8Array, from: number): void {
  for (let at = 0; at < bytes.length; ) {
    const piece = bytes.subarray(at, at + PIECE_BYTES);
    at += Number(attempt('write', path, () => file.write(piece, BigInt(from + at))));
  }
}

export function readdir(path: Path, options: { withFileTypes: true; recursive?: boolean }): Dirent[];
export function readdir(path: Path, options?: { withFileTypes?: false; recursive?: boolean }): string[];
export function readdir(
  path: Path,
  options: { withFileTypes?: boolean; recursive?: boolean } = {},
): Dirent[] | string[] {
  const found = entriesOf(path, options.recursive ?? false, '');
  return options.withFileTypes ? found.map(([entry]) => entry) : found.map(([, relative]) => relative);
}

function entriesOf(path: Path, recursive: boolean, before: string): Array<[Dirent, string]> {
  using folder = open('scandir', path, { directory: true }, { read: true });
  using stream = attempt('scandir', path, () => folder.readDirectory());
  const found: Array<[Dirent, string]> = [];
  for (;;) {
    const entry = attempt('scandir', path, () => stream.readDirectoryEntry());
    if (!entry) return found;
    found.push([new Dirent(entry.name, String(path), entry.type), before + entry.name]);
    if (recursive && entry.type === 'directory') {
      found.push(...entriesOf(`${path}/${entry.name}`, true, `${before}${entry.name}/`));
    }
  }
}

export function mkdir(path: Path, options: { recursive?: boolean } = {}): string | undefined {
  const place = placeOf('mkdir', path);
  if (!options.recursive) {
    attempt('mkdir', path, () => place.folder.createDirectoryAt(place.path));
    return undefined;
  }
  let first: string | undefined;
  const parts = place.path.split('/');
  for (let depth = 1; depth <= parts.length; depth++) {
    const part = parts.slice(0, depth).join('/');
    if (exists(place.folder, part)) continue;
    attempt('mkdir', path, () => place.folder.createDirectoryAt(part));
    first ??= part;
  }
  return first;
}

function exists(folder: Descriptor, path: string): boolean {
  try {
    return folder.statAt(FOLLOW, path).type === 'directory';
  } catch {
    return false;
  }
}

export function stat(path: Path): Stats {
  const place = placeOf('stat', path);
  return new Stats(attempt('stat', path, () => place.folder.statAt(FOLLOW, place.path)));
}

export function lstat(path: Path): Stats {
  const place = placeOf('lstat', path);
  return new Stats(attempt('lstat', path, () => place.folder.statAt({}, place.path)));
}

/** Throws if there is no such file. */
export function access(path: Path): void {
  const place = placeOf('access', path);
  attempt('access', path, () => place.folder.statAt(FOLLOW, place.path));
}

export function unlink(path: Path): void {
  const place = placeOf('unlink', path);
  attempt('unlink', path, () => place.folder.unlinkFileAt(place.path));
}

export function rmdir(path: Path): void {
  const place = placeOf('rmdir', path);
  attempt('rmdir', path, () => place.folder.removeDirectoryAt(place.path));
}

export function rm(path: Path, options: { recursive?: boolean; force?: boolean } = {}): void {
  let found: Stats;
  try {
    found = lstat(path);
  } catch (error) {
    if (options.force && (error as { code?: string }).code === 'ENOENT') return;
    throw error;
  }
  if (!found.isDirectory()) return unlink(path);
  if (!options.recursive) throw fault('is-directory', 'rm', path);
  for (const entry of readdir(path)) rm(`${path}/${entry}`, options);
  rmdir(path);
}

export function rename(from: Path, to: Path): void {
  const [old, made] = [placeOf('rename', from), placeOf('rename', to)];
  attempt('rename', from, () => old.folder.renameAt(old.path, made.folder, made.path));
}

export function copyFile(from: Path, to: Path): void {
  writeFile(to, readFile(from));
}
