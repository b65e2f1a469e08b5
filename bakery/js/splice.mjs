// Keeps what the splicer makes of a WIT folder. Splicing takes seconds, and gives the same for every
// program of the same world: the JavaScript engine with the world's imports and exports, and the
// source of the bindings.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** `spliceBindings` of componentize-js, with results kept in `folder`. */
export function keeping(spliceBindings, folder) {
  return (engine, features, witWorld, witPath, worldName, debug) => {
    const arguments_ = [engine, features, witWorld, witPath, worldName, debug];
    const kept = join(folder, keyOf(...arguments_));
    const known = read(kept);
    if (known) return known;
    const made = spliceBindings(...arguments_);
    write(kept, made);
    return made;
  };
}

function keyOf(engine, features, witWorld, witPath, worldName, debug) {
  const hash = createHash('sha256').update(engine);
  hash.update(JSON.stringify([features, witWorld, worldName, debug]));
  for (const name of witPath ? readdirSync(witPath, { recursive: true }).sort() : []) {
    if (!name.endsWith('.wit')) continue;
    const text = readFileSync(join(witPath, name));
    hash.update(JSON.stringify([name, text.length])).update(text);
  }
  return hash.digest('hex').slice(0, 32);
}

function read(kept) {
  if (!existsSync(kept)) return undefined;
  try {
    const rest = JSON.parse(readFileSync(join(kept, 'rest.json'), 'utf8'));
    return { ...rest, wasm: readFileSync(join(kept, 'engine.wasm')) };
  } catch {
    return undefined; // the file is damaged: it is made again
  }
}

/** Others may build at the same time, so the folder appears as a whole. */
function write(kept, { wasm, ...rest }) {
  const scratch = `${kept}.${randomUUID()}`;
  try {
    mkdirSync(scratch, { recursive: true });
    writeFileSync(join(scratch, 'engine.wasm'), wasm);
    writeFileSync(join(scratch, 'rest.json'), JSON.stringify(rest));
    rmSync(kept, { recursive: true, force: true });
    renameSync(scratch, kept);
  } catch {
    rmSync(scratch, { recursive: true, force: true }); // a read-only cache only costs time
  }
}
