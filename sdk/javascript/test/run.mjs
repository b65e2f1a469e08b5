// Bundles the tests with the SDK, the engine replaced by fake_host.mjs, and runs them under Node.
//   node run.mjs NODE_MODULES [--test-reporter=…]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const [modules, ...nodeOptions] = process.argv.slice(2);
const esbuild = createRequire(join(modules, 'x.js'))('esbuild');
const out = mkdtempSync(join(tmpdir(), 'inferlet-test-'));
const tests = readdirSync(here).filter((name) => name.endsWith('.test.mjs'));

const fakeHost = {
  name: 'fake-host',
  setup({ onResolve }) {
    onResolve({ filter: /^(pie|wasi):/ }, () => ({ path: join(here, 'fake_host.mjs') }));
  },
};

try {
  await esbuild.build({
    entryPoints: tests.map((name) => join(here, name)),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    sourcemap: 'inline',
    logLevel: 'warning',
    plugins: [fakeHost],
  });
  const built = tests.map((name) => join(out, name));
  const done = spawnSync(
    process.execPath,
    ['--enable-source-maps', '--test', ...nodeOptions, ...built],
    { stdio: 'inherit' },
  );
  process.exitCode = done.status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
