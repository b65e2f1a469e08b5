// Prepares a Python component so that Node can run it. bakery calls it as
//
//   node python_base.mjs '{"component": …, "modules": …, "out": …}'
//
// component is a file that componentize-py has made, modules the node_modules of the package.json
// beside this file, and out the folder to write: base.js, which links the component's core modules,
// and these modules. Each module exports its variables, so that python_snapshot.mjs sees whether one
// of them has changed.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { allowExtendedConstants, exportVariables } from './core_module.mjs';

const { component, modules, out } = JSON.parse(process.argv[2]);
const jco = await import(pathToFileURL(join(modules, '@bytecodealliance/jco/src/api.js')).href);

allowExtendedConstants();
const options = { name: 'base', instantiation: 'async', nodejsCompat: false };
const { files } = await jco.transpile(await readFile(component), options);
await mkdir(out, { recursive: true });
await writeFile(join(out, 'package.json'), '{"type": "module"}\n');
for (const [name, bytes] of Object.entries(files)) {
  if (name.endsWith('.wasm')) await writeFile(join(out, name), exportVariables(Buffer.from(bytes)));
  else if (name.endsWith('.js')) await writeFile(join(out, name), bytes);
}
