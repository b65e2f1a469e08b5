/** `node:fs/promises`: the functions of `sync.ts`, whose failures reject a promise. */
import * as sync from './sync.ts';
import type { Data, Dirent, Encoding, Path, Stats, WriteOptions } from './sync.ts';

export { Dirent, Stats } from './sync.ts';

export function readFile(path: Path, options: Encoding | { encoding: Encoding }): Promise<string>;
export function readFile(path: Path, options?: { encoding?: null } | null): Promise<Uint8Array>;
export async function readFile(
  path: Path,
  options?: Encoding | { encoding?: Encoding | null } | null,
): Promise<string | Uint8Array> {
  return sync.readFile(path, options as Encoding);
}

export async function writeFile(path: Path, data: Data, options?: WriteOptions): Promise<void> {
  sync.writeFile(path, data, options);
}

export async function appendFile(path: Path, data: Data, options?: WriteOptions): Promise<void> {
  sync.appendFile(path, data, options);
}

export function readdir(path: Path, options: { withFileTypes: true; recursive?: boolean }): Promise<Dirent[]>;
export function readdir(path: Path, options?: { withFileTypes?: false; recursive?: boolean }): Promise<string[]>;
export async function readdir(
  path: Path,
  options: { withFileTypes?: boolean; recursive?: boolean } = {},
): Promise<Dirent[] | string[]> {
  return sync.readdir(path, options as { withFileTypes?: false });
}

export async function mkdir(path: Path, options: { recursive?: boolean } = {}): Promise<string | undefined> {
  return sync.mkdir(path, options);
}

export async function stat(path: Path): Promise<Stats> {
  return sync.stat(path);
}

export async function lstat(path: Path): Promise<Stats> {
  return sync.lstat(path);
}

/** Resolves if there is such a file. */
export async function access(path: Path): Promise<void> {
  sync.access(path);
}

export async function unlink(path: Path): Promise<void> {
  sync.unlink(path);
}

export async function rmdir(path: Path): Promise<void> {
  sync.rmdir(path);
}

export async function rm(path: Path, options: { recursive?: boolean; force?: boolean } = {}): Promise<void> {
  sync.rm(path, options);
}

export async function rename(from: Path, to: Path): Promise<void> {
  sync.rename(from, to);
}

export async function copyFile(from: Path, to: Path): Promise<void> {
  sync.copyFile(from, to);
}

export default {
  access,
  appendFile,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
  writeFile,
};
