// Improves the bindings that componentize-js 0.23 generates, before they go into the component.
//
// Each change is a search in generated text; one that finds nothing means that componentize-js has
// changed, and fails the build rather than being lost in silence.

/** The script runs in a realm of its own: what it makes must be the program's own kind of thing. */
const SHARED_GLOBALS = ['Error', 'TypeError', 'Uint8Array', 'Uint32Array', 'Float32Array'];

const HELPERS = `
const $reallocKept = $realloc;
const $arguments = [];
$realloc = (pointer, size, alignment, newSize) => {
  const memory = $reallocKept(pointer, size, alignment, newSize);
  if (newSize > 0) $arguments.push(memory);
  return memory;
};
function $freeArguments() {
  while ($arguments.length > 0) $dealloc($arguments.pop());
}
let $started = false;
function $tooEarly() {
  throw new Error('the engine was called while the inferlet is still being built');
}
function $gone(resource) {
  const kind = resource.constructor.name.replace(/^.*\\$/, '');
  throw new Error(\`this \${kind} was used after it had been disposed\`);
}
`;

export function tune(bindings) {
  const [imports, exports] = halves(bindings);
  return edit(imports, IMPORT_CHANGES) + edit(exports, EXPORT_CHANGES);
}

// Two objects a call for a log that nobody can turn on here.
const NO_LOG = [/^ *_debugLog\('\[Instruction::[^;]*?\}\);\n/gm, ''];

const IMPORT_CHANGES = [
  NO_LOG,
  // `error instanceof Error` and `tokens instanceof Uint32Array` hold.
  [
    /^let \{ TextEncoder, TextDecoder \} = contentGlobal;/m,
    `let { TextEncoder, TextDecoder, ${SHARED_GLOBALS.join(', ')} } = contentGlobal;`,
  ],
  [/^delete globalThis\.\$bindings;\n/m, (line) => line + HELPERS],
  // A call before `run` would abort the build without a word of where it stands. And lists and
  // strings passed to the engine are copied into memory that nobody freed.
  [
    /^( *)(?:ret = )?\$import_[\w$]+\(.*\);\n/gm,
    (call, indent) => `${indent}$started || $tooEarly();\n${call}${indent}$freeArguments();\n`,
  ],
  // A handle that is gone would be a trap.
  [
    /^( *)var (handle\d+) = (\w+)\[symbolRscHandle\];\n/gm,
    (line, indent, handle, resource) =>
      `${line}${indent}if (${handle} === undefined) $gone(${resource});\n`,
  ],
  [
    /^( *)(\$resource_import\$[\w$]+\(this\[symbolRscHandle\]\);)/gm,
    '$1if (this[symbolRscHandle] === undefined) return;\n$1$2',
  ],
  // The engine never calls back for what was collected; keeping the books costs three steps a pass.
  [/^ *finalizationRegistry_[\w$]+\.(?:un)?register\(.*\);\n/gm, ''],
  [
    /Object\.defineProperty\((\w+), symbolRscHandle, \{ writable: true, value: (\w+)\s*\}\);/g,
    '$1[symbolRscHandle] = $2;',
  ],
];

const EXPORT_CHANGES = [
  NO_LOG,
  [/^(?:async )?function export_.*\{\n/m, (line) => `${line}  $started = true;\n`],
  // What `run` returns must outlive it.
  [/\$realloc\b/g, '$reallocKept'],
];

/** The functions that call the engine come first, then those that it calls. */
function halves(bindings) {
  const at = bindings.search(/^(async )?function export_/m);
  if (at < 0) throw changed('the exported function');
  return [bindings.slice(0, at), bindings.slice(at)];
}

function edit(text, changes) {
  for (const [pattern, replacement] of changes) {
    const edited = text.replace(pattern, replacement);
    if (edited === text) throw changed(String(pattern));
    text = edited;
  }
  return text;
}

function changed(what) {
  return new Error(`componentize-js generates other bindings than bakery knows: no ${what}`);
}
