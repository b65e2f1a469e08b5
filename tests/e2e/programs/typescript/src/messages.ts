import { Subscription, messaging, runtime } from 'inferlet';

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
async function timeout<T>(p: Promise<T>, ms: number): Promise<T | 'timeout'> {
  return Promise.race([p, sleep(ms).then(() => 'timeout' as const)]);
}

export async function main(): Promise<object> {
  const topic = `${runtime.instanceId()}/news`;
  using sub: Subscription = messaging.subscribe(topic);
  const other = messaging.subscribe(topic);
  const got: string[] = [];
  const listener = (async () => {
    for await (const msg of sub) {
      got.push(msg);
      if (msg === 'end') break;
    }
  })();
  for (const m of ['a', 'b', 'end']) { messaging.broadcast(topic, m); await Promise.resolve(); }
  await listener;
  if (got.join() !== 'a,b,end') throw new Error(got.join());
  const seen = [await other.next(), await other.next(), await other.next()];
  if (seen.join() !== 'a,b,end') throw new Error(seen.join());
  if ((await timeout(other.next(), 30)) !== 'timeout') throw new Error('nothing was sent');
  other.unsubscribe();
  if ((await other.next()) !== undefined) throw new Error('after unsubscribe');
  // a queue with concurrent consumers
  const q = `${topic}/q`;
  const consumers = Array.from({ length: 3 }, () => messaging.pull(q));
  for (let i = 0; i < 3; i++) messaging.push(q, JSON.stringify({ i }));
  const jobs = (await Promise.all(consumers)).map((m) => (JSON.parse(m) as { i: number }).i).sort();
  if (jobs.join() !== '0,1,2') throw new Error(jobs.join());
  if ((await timeout(messaging.pull(`${topic}/never`), 30)) !== 'timeout') throw new Error('empty queue');
  const t0 = Date.now();
  await Promise.all([sleep(20), sleep(20), sleep(20)]);
  return { got, jobs, fast: Date.now() - t0 < 500 };
}
