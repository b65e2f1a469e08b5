// Builds one TypeScript or JavaScript inferlet. bakery calls it as
//
//   node build.mjs '{"project": …, "entry": …, "wit": …, "sdk": …, "sdkNames": …, "modules": …, "packages": …,
//                    "out": …, "debug": …}'
//
// project is the user's folder, entry the file in it that the user named or null, wit the inferlet's own WIT folder, sdk is sdk/javascript, sdkNames the
// names under which the program may import it, modules the node_modules of the package.json beside this
// file, packages the node_modules with the project's dependencies or null, and out the component to
// write, in a scratch folder. An error in the user's code is printed as one JSON object
// {message, where?, hint?}, and the exit status is 1.
import { createRequire } from 'node:module';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bundle } from './bundle.mjs';
import { Fault } from './fault.mjs';
import { sourceLineTable, whereInSource } from './source_lines.mjs';
import { keeping } from './splice.mjs';
import { tune } from './bindings.mjs';

const WORLD = 'inferlet';
const HTTP_WORLD = 'http-inferlet';
const BUNDLE_NAME = 'inferlet.js';

async function build({ project, entry, wit, sdk, sdkNames, modules, packages, out, debug }) {
  const esbuild = createRequire(join(modules, 'x.js'))('esbuild');
  const { code, map, handles } = await bundle(esbuild, { project, entry, sdk, sdkNames, packages, debug });
  const table = sourceLineTable(map, { project, sdk, packages });
  const source = join(dirname(out), BUNDLE_NAME);
  // The table follows the bundle, so that the bundle's lines keep their numbers.
  await writeFile(source, `${code}\nglobalThis.__pieSourceLines = ${JSON.stringify(table)};\n`);
  await writeFile(out, await componentize(modules, source, wit, handles ? HTTP_WORLD : WORLD, table));
}

async function componentize(modules, sourcePath, witPath, worldName, table) {
  const home = join(modules, '@bytecodealliance', 'componentize-js');
  const load = (file) => import(pathToFileURL(join(home, file)).href);
  const { splicer } = await load('lib/spidermonkey-embedding-splicer.js');
  const splice = keeping(splicer.spliceBindings, join(dirname(modules), 'spliced'));
  splicer.spliceBindings = (...args) => {
    const spliced = splice(...args);
    const returns = worldName !== HTTP_WORLD;
    return { ...spliced, jsBindings: tune(spliced.jsBindings, { returns }) };
  };
  const { componentize: run } = await load('src/componentize.js');
  try {
    const disableFeatures = ['http', 'fetch-event'];
    const made = await run({ sourcePath, witPath, worldName, disableFeatures });
    return made.component;
  } catch (error) {
    throw startFault(error, table);
  }
}

/** Module-level code fails here, because componentize runs the module once and keeps the result. */
function startFault(error, table) {
  const text = String(error?.message ?? error);
  if (!text.includes('Failed to initialize component')) return error;
  const thrown =
    /^\S+\.js:\d+:\d+ (.*)$/m.exec(text) ?? /^uncaught exception: (.*)$/m.exec(text);
  const frames = [...text.matchAll(/inferlet\.js:(\d+)/g)];
  return new Fault(`module-level code failed: ${thrown ? thrown[1] : text}`, {
    where: frames.map((frame) => whereInSource(table, Number(frame[1]))).find(Boolean),
    hint: startHint(thrown?.[1] ?? ''),
  });
}

function startHint(thrown) {
  const missing = /^ReferenceError: (process|require|__dirname|__filename|global|window|document) is not/.exec(thrown);
  if (missing) {
    const from = ['window', 'document'].includes(missing[1]) ? 'browsers' : 'Node';
    return `${missing[1]} is a name of ${from}, which inferlets do not have; use a web API or another npm package`;
  }
  return (
    'module-level code runs once, while the inferlet is built, and has no engine and no timers; ' +
    'move code that needs them into main()'
  );
}

try {
  await build(JSON.parse(process.argv[2]));
} catch (error) {
  if (!(error instanceof Fault)) throw error;
  console.log(JSON.stringify({ message: error.message, where: error.where, hint: error.hint }));
  process.exitCode = 1;
}
