// Improves the bindings that componentize-js 0.23 generates, before they go into the component.
//
// Each change is a search and replacement in generated text. A search that finds nothing means that
// componentize-js has changed, and it fails the build.

/** The bindings run in a realm of their own, but their values must be instances of the program's classes. */
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
  throw new Error('the engine cannot be called while the inferlet is being built; call it in main()');
}
function $gone(resource) {
  const kind = resource.constructor.name.replace(/^.*\\$/, '');
  throw new Error(\`this \${kind} was used after it had been disposed\`);
}
`;

/** `returns`: whether the exported function has a result. The handler of HTTP requests has none. */
export function tune(bindings, { returns }) {
  const [imports, exports] = halves(bindings);
  const changes = returns ? [...EXPORT_CHANGES, KEPT_RESULT] : EXPORT_CHANGES;
  return edit(imports, IMPORT_CHANGES) + edit(exports, changes);
}

// Removes log calls, which cannot be enabled here and allocate two objects per call.
const NO_LOG = [/^ *_debugLog\('\[Instruction::[^;]*?\}\);\n/gm, ''];

const IMPORT_CHANGES = [
  NO_LOG,
  // Makes `error instanceof Error` and `tokens instanceof Uint32Array` true.
  [
    /^let \{ TextEncoder, TextDecoder \} = contentGlobal;/m,
    `let { TextEncoder, TextDecoder, ${SHARED_GLOBALS.join(', ')} } = contentGlobal;`,
  ],
  [/^delete globalThis\.\$bindings;\n/m, (line) => line + HELPERS],
  // A call before `run` would abort the build without naming the line, so it throws instead. Lists and
  // strings passed to the engine are copied into memory, which is freed after the call.
  [
    /^( *)(?:ret = )?\$import_[\w$]+\(.*\);\n/gm,
    (call, indent) => `${indent}$started || $tooEarly();\n${call}${indent}$freeArguments();\n`,
  ],
  // A disposed handle would cause a trap, so it throws instead.
  [
    /^( *)var (handle\d+) = (\w+)\[symbolRscHandle\];\n/gm,
    (line, indent, handle, resource) =>
      `${line}${indent}if (${handle} === undefined) $gone(${resource});\n`,
  ],
  [
    /^( *)(\$resource_import\$[\w$]+\(this\[symbolRscHandle\]\);)/gm,
    '$1if (this[symbolRscHandle] === undefined) return;\n$1$2',
  ],
  // The runtime takes 64-bit numbers as they are without a sign, and would abort on a negative one.
  [/return BigInt\.asIntN\(64, converted\);/g, 'return BigInt.asUintN(64, converted);'],
  // Finalizers never run here, and registering each object is slow.
  [/^ *finalizationRegistry_[\w$]+\.(?:un)?register\(.*\);\n/gm, ''],
  [
    /Object\.defineProperty\((\w+), symbolRscHandle, \{ writable: true, value: (\w+)\s*\}\);/g,
    '$1[symbolRscHandle] = $2;',
  ],
];

const EXPORT_CHANGES = [
  NO_LOG,
  [/^(?:async )?function export_.*\{\n/m, (line) => `${line}  $started = true;\n`],
];

// The memory of `run`'s result must outlive the call.
const KEPT_RESULT = [/\$realloc\b/g, '$reallocKept'];

/** Splits the bindings: the functions that call the engine come first, then those that it calls. */
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
  return new Error(`bakery does not support the bindings of this componentize-js: it found no ${what}`);
}
