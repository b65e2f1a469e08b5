import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowOnly, allowsNone, intersect } from '../src/brle.ts';
import { describe } from '../src/failure.ts';
import { encode, encodeReturn, encodeSchemas } from '../src/json.ts';
import { McpError } from '../src/mcp.ts';
import { Distribution, Entropy, Logprob, Logprobs } from '../src/probe.ts';
import { draftsFrom, draftsKept } from '../src/speculation.ts';
import { TokenList } from '../src/tokens.ts';

const expand = (mask) => Array.from(mask).flatMap((length, run) => Array(length).fill(run % 2 === 1));
const u32 = (...values) => Uint32Array.from(values);

test('allowOnly is true at the given ids alone', () => {
  assert.deepEqual([...allowOnly([5, 2, 3, 2])], [2, 2, 1, 1]);
  assert.deepEqual([...allowOnly([0])], [0, 1]);
});

test('intersect is the AND of both masks', () => {
  let state = 1;
  const random = (below) => (state = (state * 48271) % 2147483647) % below;
  for (let round = 0; round < 500; round++) {
    const make = () => Uint32Array.from({ length: 1 + random(6) }, () => random(4));
    const [a, b] = [make(), make()];
    const [x, y] = [expand(a), expand(b)];
    const got = expand(intersect(a, b));
    for (let i = 0; i < Math.max(x.length, y.length); i++) {
      assert.equal(got[i] ?? false, Boolean(x[i] && y[i]), `${a} & ${b} at ${i}`);
    }
  }
});

test('an empty mask restricts nothing; masks that exclude each other allow nothing', () => {
  assert.deepEqual([...intersect(u32(), u32(1, 2))], [1, 2]);
  assert.deepEqual([...intersect(u32(1, 2), u32())], [1, 2]);
  const none = intersect(allowOnly([1]), allowOnly([2]));
  assert.ok(none.length > 0 && !expand(none).includes(true));
});

test('drafts are cut where they cannot be accepted, and keep their positions', () => {
  const drafts = draftsFrom([u32(1, 2, 3), u32()], 10, 2);
  assert.deepEqual([[...drafts.tokens], [...drafts.positions], drafts.drafted], [[1, 2], [10, 11], 3]);
  assert.deepEqual([...draftsFrom([u32(1, 2), u32(7, 9)], 10, 5).positions], [7, 9]);
  assert.throws(() => draftsFrom([u32(1, 2), u32(7)], 10, 5), /2 tokens but 1 positions/);
});

test('of the drafts the cache keeps what the context would hold without them', () => {
  assert.equal(draftsKept(0, 1, false), 0); // no draft was right: the token waits in the buffer
  assert.equal(draftsKept(2, 3, false), 2); // two were; the third token is the model's own
  assert.equal(draftsKept(2, 2, false), 1); // cut by the limit: the last accepted one waits
  assert.equal(draftsKept(2, 2, true), 2); // cut by a stop: both accepted ones are computed
  assert.equal(draftsKept(2, 0, true), 0);
});

test('a mask that allows nothing is known', () => {
  assert.ok(allowsNone(u32(7)) && allowsNone(u32(3, 0, 4)));
  assert.ok(!allowsNone(u32()) && !allowsNone(u32(0, 1)) && !allowsNone(u32(3, 0, 4, 1)));
});

test('strings leave verbatim, tokens as arrays, nothing as null', () => {
  assert.equal(encode('a "b"'), 'a "b"');
  assert.equal(encode({ tokens: u32(1, 2), logprobs: Float32Array.of(0.5) }), '{"tokens":[1,2],"logprobs":[0.5]}');
  assert.equal(encode(undefined), 'null');
  assert.equal(encodeReturn(undefined), '');
  assert.equal(encodeReturn(null), 'null');
  assert.equal(encodeReturn('a'), 'a');
});

test('schemas are a list', () => {
  assert.deepEqual(encodeSchemas(['{}', { name: 'f' }]), ['{}', '{"name":"f"}']);
  assert.throws(() => encodeSchemas('{"name":"f"}'), /^TypeError: schemas must be a list/);
  assert.throws(() => encodeSchemas({ name: 'f' }), /^TypeError: schemas must be a list/);
});

test('probes check what they are given, and may be made with new', () => {
  assert.deepEqual(Distribution(1, 5).raw, { tag: 'dist', val: [1, 5] });
  assert.deepEqual(new Entropy(), Entropy());
  assert.throws(() => Distribution('hot', 5), /^TypeError: temperature must be a number/);
  assert.throws(() => Distribution(1, 0.5), /^RangeError: k must be a whole number/);
  assert.throws(() => Logprob('a'), /^TypeError: token must be a number/);
  assert.throws(() => Logprobs('ab'), /^TypeError: tokens must be a list/);
});

test('a trace names the user\'s files, and only those', () => {
  globalThis.__pieSourceLines = { files: ['index.ts'], lines: [-1, 0, 0, 12] };
  const error = new TypeError('wrong');
  error.stack = 'deep@inferlet.js:2:7\nsdk@inferlet.js:1:1\nrun@/x/initializer.js:2:3\n';
  assert.deepEqual(describe(error), {
    message: 'wrong',
    text: 'wrong\n    at deep (index.ts:12)',
    stack: 'TypeError: wrong\n    at deep (index.ts:12)',
  });
  assert.deepEqual(describe('text'), { message: 'text', text: 'text', stack: 'text' });
  assert.equal(describe({ code: 3 }).message, '{"code":3}');
  assert.equal(describe({}).message, '{}');
  class Refusal {
    get message() {
      return 'timed out';
    }
  }
  assert.equal(describe(new Refusal()).message, 'timed out'); // DOMException is like that
});

test('a trace goes on with what caused the error, and is cut where it is long', () => {
  globalThis.__pieSourceLines = { files: ['index.ts'], lines: [0, 11, 0, 12] };
  const cause = new RangeError('too deep');
  cause.stack = 'deep@inferlet.js:1:7\n'.repeat(100);
  const error = new Error('wrong', { cause });
  error.stack = 'main@inferlet.js:2:7\n';
  const lines = describe(error).text.split('\n');
  assert.deepEqual(lines.slice(0, 4), [
    'wrong',
    '    at main (index.ts:12)',
    'caused by RangeError: too deep',
    '    at deep (index.ts:11)',
  ]);
  assert.equal(lines.length, 3 + 16 + 1 + 4);
  assert.equal(lines[3 + 16], '    ... 80 more');
  error.cause = error;
  assert.ok(describe(error).text.length < 1000);
  const several = new AggregateError([cause, 'text'], 'all failed');
  several.stack = '';
  const parts = describe(several).text.split('\n').filter((line) => !line.startsWith(' '));
  assert.deepEqual(parts, ['all failed', 'one of them: RangeError: too deep', 'one of them: text']);
});

test('the text of an MCP error has its code and data', () => {
  const error = new McpError({ code: -7, message: 'no', data: '{"why":1}' });
  assert.equal(error.message, 'no');
  assert.equal(String(error), 'no (code -7): {"why":1}');
  assert.equal(String(new McpError({ code: -7, message: 'no', data: undefined })), 'no (code -7)');
  error.stack = '';
  assert.equal(describe(error).text.trimEnd(), 'no (code -7): {"why":1}');
});

test('a token list takes long prompts', () => {
  const list = new TokenList();
  list.push(new Uint32Array(300_000).fill(7));
  list.unshift(u32(1));
  list.drop(1);
  assert.equal(list.length, 300_000);
  assert.equal(list.take()[0], 7);
  assert.equal(list.length, 0);
});
