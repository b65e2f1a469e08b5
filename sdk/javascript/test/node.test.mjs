import assert from 'node:assert/strict';
import { posix as theirs } from 'node:path';
import { test } from 'node:test';
import { setTimeout as theirWait } from 'node:timers/promises';
import promises from '../src/files/promises.ts';
import { Buffer as OurBuffer } from '../src/node/buffer.ts';
import fs, * as named from '../src/node/fs.ts';
import ours from '../src/node/path.ts';
import timers, { scheduler, setInterval, setTimeout } from '../src/node/timers.ts';
import { machine } from './fake_host.mjs';

/** A folder of WASI that holds files. */
class Folder {
  files = new Map();
  #find(path) {
    if (!this.files.has(path)) throw Object.assign(new Error(), { payload: 'no-entry' });
    return this.files.get(path);
  }
  statAt(_how, path) {
    return { type: 'regular-file', size: BigInt(this.#find(path).length) };
  }
  openAt(_follow, path, how) {
    if (how.create && !this.files.has(path)) this.files.set(path, []);
    const bytes = this.#find(path);
    if (how.truncate) bytes.length = 0;
    return {
      stat: () => ({ size: BigInt(bytes.length) }),
      read: (count, at) => [Uint8Array.from(bytes.slice(Number(at), Number(at + count))), true],
      write: (piece, at) => {
        bytes.splice(Number(at), piece.length, ...piece);
        return BigInt(piece.length);
      },
      [Symbol.dispose]() {},
    };
  }
}

const PARTS = ['', '/', '//', '.', '..', 'a', 'b.txt', '.c', 'd.', 'e.tar.gz', '/a/', 'a//b', '../x', '...'];
// Node itself gives "/.." the extension ".".
const PATHS = PARTS.flatMap((a) => PARTS.flatMap((b) => [a + b, `${a}/${b}`])).filter(
  (path) => theirs.basename(path) !== '..',
);

test('functions of one path answer as those of Node do', () => {
  for (const path of PATHS) {
    for (const name of ['normalize', 'dirname', 'basename', 'extname', 'isAbsolute', 'parse']) {
      assert.deepEqual(ours[name](path), theirs[name](path), `${name}(${JSON.stringify(path)})`);
    }
    assert.equal(ours.format(ours.parse(path)), theirs.format(theirs.parse(path)), `format of ${path}`);
  }
  for (const path of ['a/b.txt', '/b.txt/', 'a/.txt', 'b.txt.', 'a']) {
    assert.equal(ours.basename(path, '.txt'), theirs.basename(path, '.txt'), `basename of ${path}`);
  }
});

test('functions of several paths answer as those of Node do', () => {
  for (const a of PARTS) {
    for (const b of PARTS) {
      assert.equal(ours.join(a, b), theirs.join(a, b), `join(${a}, ${b})`);
      assert.equal(ours.resolve(a, b), theirs.resolve('/', a, b), `resolve(${a}, ${b})`);
      const [from, to] = [`/${a}`, `/${b}`];
      assert.equal(ours.relative(from, to), theirs.relative(from, to), `relative(${from}, ${to})`);
    }
  }
  assert.equal(ours.join(), theirs.join());
  assert.equal(ours.format({ name: 'a', ext: 'txt' }), theirs.format({ name: 'a', ext: 'txt' }));
  assert.throws(() => ours.join('a', undefined), /must be a string/);
});

test('awaited timers give their value, and end with a signal', async () => {
  assert.equal(await setTimeout(1, 'x'), 'x');
  assert.equal(await timers.setImmediate(3), 3);
  await scheduler.wait(1);
  const ticks = [];
  for await (const tick of setInterval(1, 't')) if (ticks.push(tick) === 3) break;
  assert.deepEqual(ticks, ['t', 't', 't']);
  for (const wait of [setTimeout, theirWait]) {
    const stopped = new AbortController();
    const waiting = wait(60_000, null, { signal: stopped.signal });
    stopped.abort('enough');
    await assert.rejects(waiting, { name: 'AbortError', code: 'ABORT_ERR', cause: 'enough' });
    await assert.rejects(wait(1, null, { signal: stopped.signal }), { name: 'AbortError' });
  }
});

test('buffers show and read texts as those of Node do', () => {
  const texts = ['', 'a', 'ab', 'abc', 'abcd', 'ünïcödé 🥧', '\ufeffbom', 'aGVsbG8=', 'aGV_bG-8', 'c0ffee', 'c0fx', 'abc0f'];
  for (const text of texts) {
    for (const encoding of ['utf8', 'hex', 'base64', 'base64url', 'latin1']) {
      // No promise of Node says what letters outside ASCII are in base64.
      if (encoding.startsWith('base64') && /[^\0-\x7f]/.test(text)) continue;
      const [mine, yours] = [OurBuffer.from(text, encoding), Buffer.from(text, encoding)];
      assert.deepEqual([...mine], [...yours], `${text} from ${encoding}`);
      for (const shown of ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'ascii']) {
        assert.equal(mine.toString(shown), yours.toString(shown), `${text} from ${encoding} as ${shown}`);
      }
      assert.equal(OurBuffer.byteLength(text, encoding), yours.length);
    }
  }
  assert.throws(() => OurBuffer.from('a', 'utf7'), /unknown encoding: utf7/);
  assert.throws(() => OurBuffer.from(3), /takes a string, bytes or numbers/);
});

test('buffers are cut and joined as those of Node are', () => {
  const whole = OurBuffer.concat([OurBuffer.from('pie'), Uint8Array.of(33), OurBuffer.alloc(2, 46)]);
  assert.equal(String(whole), 'pie!..');
  assert.equal(String(OurBuffer.concat([whole], 3)), 'pie');
  assert.deepEqual([...OurBuffer.concat([OurBuffer.from('a')], 3)], [97, 0, 0]);
  const part = whole.slice(0, 3);
  assert.ok(part instanceof OurBuffer && OurBuffer.isBuffer(part) && !OurBuffer.isBuffer(Uint8Array.of(1)));
  part[0] = 80;
  assert.equal(whole.toString('utf8', 0, 4), 'Pie!', 'a slice is another view of the same bytes');
  assert.ok(part.equals(OurBuffer.from([80, 105, 101])));
  assert.equal(JSON.stringify(part), JSON.stringify(Buffer.from('Pie')));
});

test('node:fs has the promises, and functions that wait', async () => {
  assert.equal(fs.promises, promises);
  assert.equal(named.promises, promises);
  for (const name of Object.keys(promises)) assert.equal(fs[`${name}Sync`], named[`${name}Sync`], name);
  const folder = new Folder();
  machine.folders = [[folder, '/data']];
  assert.equal(fs.existsSync('/data/a.txt'), false);
  assert.throws(() => fs.readFileSync('/data/a.txt'), { code: 'ENOENT', syscall: 'open', path: '/data/a.txt' });
  await assert.rejects(fs.promises.readFile('/other/a.txt'), { code: 'ENOENT' });
  fs.writeFileSync('/data/a.txt', 'pie');
  fs.appendFileSync('/data/a.txt', new Uint8Array([33]));
  assert.equal(fs.readFileSync('/data/a.txt', 'utf8'), 'pie!');
  assert.equal(await fs.promises.readFile('/data/a.txt', 'utf8'), 'pie!');
  assert.ok(fs.existsSync('/data/a.txt') && fs.statSync('/data/a.txt').isFile());
});
