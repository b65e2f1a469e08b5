// Makes a component from a core module. bakery calls it as
//
//   node component.mjs '{"core": …, "wit": …, "world": …, "modules": …, "out": …}'
//
// core is a WASI reactor module whose imports and exports have the names of the canonical ABI, wit the
// inferlet's own WIT folder, world the name of its world, and modules the node_modules of the package.json beside this file.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { core, wit, world, modules, out } = JSON.parse(process.argv[2]);
const jco = await import(pathToFileURL(join(modules, '@bytecodealliance/jco/src/api.js')).href);

try {
  const binary = await readFile(core);
  const typed = await jco.componentEmbed({ binary, witPath: wit, world });
  const adapter = await readFile(jco.preview1AdapterReactorPath());
  await writeFile(out, await jco.componentNew(typed, [['wasi_snapshot_preview1', adapter]]));
} catch (error) {
  // jco throws an object whose payload is the error text.
  console.error(String(error?.payload ?? error?.message ?? error));
  process.exit(1);
}
