// Bundles the user's modules, their npm packages and the SDK into one ES module that exports `run`, or
// the handler of HTTP requests.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, normalize } from 'node:path';
import { Fault } from './fault.mjs';

const ENTRY_NAMES = ['index', 'main', 'src/index', 'src/main', 'app', 'src/app'].flatMap((stem) =>
  ['.ts', '.mts', '.js', '.mjs'].map((extension) => stem + extension),
);
const SOURCE = /\.m?[jt]s$/;
export const GLUE = 'pie-entry.js';
const SHOWN_ERRORS = 5;

/** The entry file of the user's project, relative to its folder. */
function findEntry(project) {
  const manifest = join(project, 'package.json');
  const isFile = (name) =>
    typeof name === 'string' && statSync(join(project, name), { throwIfNoEntry: false })?.isFile();
  const { source, main, module } = existsSync(manifest) ? readManifest(manifest) : {};
  const named = [source, main, module].find(isFile);
  if (named !== undefined) return normalize(named);
  // `npm init` and compilers name a .js file, which may not be there: the source beside it is the entry.
  if (main === undefined || /\.[cm]?js$/.test(main)) {
    const entry = ENTRY_NAMES.find(isFile) ?? onlySource(project);
    if (entry) return entry;
  }
  if (main !== undefined) {
    throw new Fault(`"main" in package.json names ${main}, which does not exist`, {
      where: 'package.json',
    });
  }
  throw new Fault('the project has no entry file: there is no index.ts, main.ts, app.ts or src/index.ts', {
    hint: 'add one that exports main, or name your file in "main" of package.json',
  });
}

/** The one source file beside package.json or in src/; undefined if there are several. */
function onlySource(project) {
  for (const folder of ['', 'src']) {
    const place = join(project, folder);
    const names = existsSync(place) ? readdirSync(place) : [];
    const sources = names.filter((name) => SOURCE.test(name) && !/\.(d|test|spec|config)\.\w+$/.test(name));
    if (sources.length === 1) return join(folder, sources[0]);
  }
  return undefined;
}

function readManifest(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new Fault(`package.json is not JSON: ${error.message}`, { where: 'package.json' });
  }
}

export async function bundle(esbuild, { project, entry: named, sdk, sdkNames, packages, debug }) {
  const entry = named ?? findEntry(project);
  const options = {
    absWorkingDir: project,
    outfile: 'inferlet.js',
    write: false,
    bundle: true,
    format: 'esm',
    target: 'es2022',
    // A package that has one form for Node and one for browsers gives the latter. esbuild reads the field
    // "browser" for this platform only.
    platform: 'browser',
    mainFields: ['browser', 'module', 'main'],
    conditions: ['worker', 'module'],
    // Where bakery has installed the dependencies of the project. Its own node_modules comes first.
    nodePaths: packages ? [packages] : [],
    alias: Object.fromEntries(sdkNames.map((name) => [name, join(sdk, 'src', 'index.ts')])),
    define: { 'process.env.NODE_ENV': debug ? '"development"' : '"production"' },
    charset: 'utf8',
    sourcemap: 'external',
    sourcesContent: false,
    logLevel: 'silent',
    metafile: true,
    plugins: [hostModules, nodeModules(sdk)],
  };
  try {
    const { handles, main } = await entryPoint(esbuild, options, entry);
    const contents = (handles ? handlerGlue : mainGlue)(sdk, join(project, entry), main);
    const stdin = { contents, resolveDir: project, sourcefile: GLUE };
    const result = await esbuild.build({ ...options, stdin });
    // esbuild accepts a file without any export or require, which is not a module, and only warns of a
    // module without any export.
    const isModule = result.metafile.inputs[normalize(entry)]?.format;
    const isEmpty = ({ id, location }) => id === 'import-is-undefined' && location?.file === GLUE;
    if (!isModule || result.warnings.some(isEmpty)) throw noMain(entry);
    const output = (suffix) => result.outputFiles.find((file) => file.path.endsWith(suffix)).text;
    return { code: output('.js'), map: JSON.parse(output('.map')), handles };
  } catch (error) {
    if (!error.errors) throw error;
    throw asFault(error.errors, entry);
  }
}

/**
 * Finds the export that is the program. `main` comes first. If a module has no `main`, a default export that
 * is a function takes its place, and any other default export answers HTTP requests.
 */
async function entryPoint(esbuild, options, entry) {
  const build = { ...options, entryPoints: [entry], sourcemap: false };
  const { metafile, outputFiles } = await esbuild.build(build);
  const [{ exports }] = Object.values(metafile.outputs);
  const isModule = metafile.inputs[normalize(entry)]?.format === 'esm';
  if (!isModule || exports.includes('main') || !exports.includes('default')) {
    return { handles: false, main: 'main' };
  }
  return { handles: !hasDefaultFunction(outputFiles[0].text), main: 'default' };
}

/** Whether the default export of a bundle is a function. esbuild writes `export { NAME as default };`. */
function hasDefaultFunction(code) {
  const quoted = (name) => name.replaceAll('$', '\\$&');
  let name = /([\w$]+) as default\b/.exec(code)?.[1];
  // `export default run` becomes `var index_default = run;`.
  const named = name && new RegExp(`^var ${quoted(name)} = ([\\w$]+);$`, 'm').exec(code);
  name = named?.[1] ?? name;
  if (name === undefined) return false;
  const declared = `^(async )?function\\*? ${quoted(name)}\\(`;
  const assigned = `^(var|let|const) ${quoted(name)} = (async )?(function\\b|\\((?!0, ))`;
  return new RegExp(`${declared}|${assigned}`, 'm').test(code);
}

const sdkFile = (sdk, name) => JSON.stringify(join(sdk, 'src', name));

// These come first, because libraries that keep a reference to setTimeout or fetch must find ours.
const globals = (sdk) => `
    import ${sdkFile(sdk, 'timers.ts')};
    import ${sdkFile(sdk, 'http/clone.ts')};
    import ${sdkFile(sdk, 'http/fetch.ts')};`;

const mainGlue = (sdk, entry, name) => `${globals(sdk)}
    import { serve } from ${sdkFile(sdk, 'entry.ts')};
    import { ${name} as main } from ${JSON.stringify(entry)};
    export const run = { run: (input) => serve(main, input) };`;

const handlerGlue = (sdk, entry) => `${globals(sdk)}
    import { answer } from ${sdkFile(sdk, 'http/serve.ts')};
    import program from ${JSON.stringify(entry)};
    export const incomingHandler = { handle: (request, out) => answer(program, request, out) };`;

/** The engine provides `pie:…` and `wasi:…`. Unused imports of them are dropped. */
const hostModules = {
  name: 'host-modules',
  setup({ onResolve }) {
    onResolve({ filter: /^(pie|wasi):/ }, ({ path }) => ({
      path,
      external: true,
      sideEffects: false,
    }));
  },
};

/** The modules of Node that the SDK has, by their names without `node:`. */
const OF_THE_SDK = {
  buffer: 'node/buffer.ts',
  fs: 'node/fs.ts',
  'fs/promises': 'files/promises.ts',
  path: 'node/path.ts',
  'path/posix': 'node/path.ts',
  'timers/promises': 'node/timers.ts',
};

const nodeModules = (sdk) => ({
  name: 'node-modules',
  setup({ onResolve }) {
    const builtins = new Set(builtinModules);
    onResolve({ filter: /^(node:)?[a-z_]+(\/[a-z]+)?$/ }, ({ path, importer }) => {
      const ours = OF_THE_SDK[path.replace(/^node:/, '')];
      // A package may depend on a package with the name of a builtin (events, buffer, …), or do without one (fs).
      const packaged = importer.includes('node_modules');
      if (ours && !(packaged && ['buffer', 'fs'].includes(path))) return { path: join(sdk, 'src', ours) };
      const bare = builtins.has(path) && !packaged;
      if (!path.startsWith('node:') && !bare) return undefined;
      const text = `${path} is a module of Node, but inferlets do not run in Node`;
      const notes = [{ text: 'use a web API or an npm package instead' }];
      return { errors: [{ text, notes }] };
    });
  },
});

function asFault(errors, entry) {
  const [first] = errors;
  if (first.location?.file === GLUE && /No matching export .* for import "main"/.test(first.text)) {
    return noMain(entry);
  }
  const others = errors.slice(1, SHOWN_ERRORS).map((error) => `${place(error)}: ${error.text}`);
  if (errors.length > SHOWN_ERRORS) others.push(`and ${errors.length - SHOWN_ERRORS} more`);
  const lines = [first.text, first.location?.lineText?.trim(), ...others];
  return new Fault(lines.filter(Boolean).join('\n'), {
    where: place(first),
    hint: hintFor(first),
  });
}

function noMain(entry) {
  return new Fault(`${entry} does not export main`, {
    where: `${entry}:1`,
    hint: 'add export async function main(input) { … }, or export default { fetch(request) { … } } to answer HTTP',
  });
}

function hintFor({ text, notes }) {
  const unresolved = /^Could not resolve "([^"]+)"/.exec(text)?.[1];
  if (unresolved === undefined) return notes?.[0]?.text;
  return /^[./]/.test(unresolved) ? 'the file does not exist' : `npm install ${unresolved}`;
}

function place({ location }) {
  return location ? `${location.file}:${location.line}` : undefined;
}
