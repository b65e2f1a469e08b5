import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drive, ready } from '../src/reactor.ts';
import { startTimers } from '../src/timers.ts';
import { after_ms, machine, Pollable } from './fake_host.mjs';

startTimers();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const run = (main) => drive(Promise.resolve().then(main));

test('timers and host futures fire in the order in which they are due', async () => {
  const order = [];
  const note = (name) => () => order.push(name);
  await run(() =>
    Promise.all([
      sleep(30).then(note('timer 30')),
      ready(after_ms(20)).then(note('host 20')),
      sleep(10).then(note('timer 10')),
      ready(after_ms(40)).then(note('host 40')),
    ]),
  );
  assert.deepEqual(order, ['timer 10', 'host 20', 'timer 30', 'host 40']);
});

test('a race is won by whichever is first; what lost is dropped at the end', async () => {
  const never = () => ready(new Pollable(() => false)).then(() => 'host');
  assert.equal(await run(() => Promise.race([never(), sleep(5).then(() => 'timeout')])), 'timeout');
  assert.equal(machine.open, 0);
});

test('everything that can run does so before the program blocks', async () => {
  let handed = false;
  const result = await run(async () => {
    const mailbox = ready(new Pollable(() => handed)).then(() => 'delivered');
    const sender = (async () => {
      for (let i = 0; i < 100; i++) await null; // a long chain of microtasks
      handed = true;
    })();
    await sender;
    return mailbox;
  });
  assert.equal(result, 'delivered');
});

test('an interval repeats until it is cleared', async () => {
  const began_ns = machine.time_ns;
  let rounds = 0;
  await run(
    () =>
      new Promise((resolve) => {
        const id = setInterval(() => {
          if (++rounds < 3) return;
          clearInterval(id);
          resolve();
        }, 10);
      }),
  );
  assert.equal(rounds, 3);
  assert.equal(machine.time_ns - began_ns, 30_000_000n);
});

test('a cleared timer does not fire', async () => {
  let fired = false;
  await run(async () => {
    const id = setTimeout(() => (fired = true), 5);
    clearTimeout(id);
    await sleep(20);
  });
  assert.equal(fired, false);
});

test('an aborted wait lets go of its pollable', async () => {
  await run(async () => {
    const waiting = ready(new Pollable(() => false), AbortSignal.timeout(5));
    await assert.rejects(waiting, { name: 'TimeoutError' });
    assert.equal(machine.open, 1); // the clock's
  });
});

test('a promise that nothing can resolve is an error, not a hang', async () => {
  await assert.rejects(run(() => new Promise(() => {})), /nothing can resolve/);
});

test('an error in a timer fails the run', async () => {
  const failing = run(async () => {
    setTimeout(() => {
      throw new Error('in a timer');
    }, 1);
    await sleep(10);
  });
  await assert.rejects(failing, /in a timer/);
});
