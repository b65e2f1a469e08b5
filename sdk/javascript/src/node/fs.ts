/** `node:fs`: its promises, and the functions that wait. Streams, file handles and callbacks are not here. */
import promises from '../files/promises.ts';
import * as sync from '../files/sync.ts';
import type { Path } from '../files/sync.ts';

export { promises };
export { Dirent, Stats } from '../files/sync.ts';
export {
  access as accessSync,
  appendFile as appendFileSync,
  copyFile as copyFileSync,
  lstat as lstatSync,
  mkdir as mkdirSync,
  readdir as readdirSync,
  readFile as readFileSync,
  rename as renameSync,
  rm as rmSync,
  rmdir as rmdirSync,
  stat as statSync,
  unlink as unlinkSync,
  writeFile as writeFileSync,
} from '../files/sync.ts';

export function existsSync(path: Path): boolean {
  try {
    sync.access(path);
    return true;
  } catch {
    return false;
  }
}

export default {
  promises,
  existsSync,
  accessSync: sync.access,
  appendFileSync: sync.appendFile,
  copyFileSync: sync.copyFile,
  lstatSync: sync.lstat,
  mkdirSync: sync.mkdir,
  readdirSync: sync.readdir,
  readFileSync: sync.readFile,
  renameSync: sync.rename,
  rmSync: sync.rm,
  rmdirSync: sync.rmdir,
  statSync: sync.stat,
  unlinkSync: sync.unlink,
  writeFileSync: sync.writeFile,
};
