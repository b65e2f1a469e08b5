import assert from 'node:assert/strict';
import { test } from 'node:test';
import { format } from '../src/inspect.ts';

test('values stand beside each other, strings as they are', () => {
  assert.equal(format(['one', 2, true, null, undefined, 3n, -0]), 'one 2 true null undefined 3n -0');
  assert.equal(format([]), '');
  assert.equal(format([['a', 1], { b: 'x', 'c d': [] }]), '["a", 1] { b: "x", "c d": [] }');
});

test('marks of the first text are filled in', () => {
  assert.equal(format(['%s is %d, %i, %j and %o; 100%%', 'a', 5, 6.7, [1], { x: 1 }, 'rest']),
    'a is 5, 6, [1] and { x: 1 }; 100% rest');
  assert.equal(format(['%s and %s', 'one']), 'one and %s');
});

test('collections and classes say what they are', () => {
  class Point {
    x = 1;
  }
  assert.equal(format([new Map([['k', 1]]), new Set(), new Uint8Array(2)]),
    'Map(1) { "k" => 1 } Set(0) {} Uint8Array(2) [0, 0]');
  assert.equal(format([new Point(), () => 1, Point, new Date(0), /a/g]),
    'Point { x: 1 } [Function] [class Point] 1970-01-01T00:00:00.000Z /a/g');
});

test('what is deep, long or circular is cut', () => {
  const self = {};
  self.self = self;
  assert.equal(format([self]), '{ self: [Circular] }');
  assert.ok(format([Array(1000).fill(0)]).endsWith(', … 900 more]'));
  assert.equal(format([{ a: { b: { c: { d: { e: {} } } } } }]), '{ a: { b: { c: { d: { e: [Object] } } } } }');
});
