/** Cases about waiting: timers, the session, messages. */
import { messaging, session } from 'inferlet';
import { failureOf, sleep, type Cases } from './case.ts';

export const messageCases: Cases = {
  sleep_order: async () => {
    const ended: number[] = [];
    await Promise.all(
      [30, 10, 20].map(async (ms) => {
        await sleep(ms);
        ended.push(ms);
      }),
    );
    return ended;
  },

  timeout: ({ ms }) => Promise.race([session.receive(), sleep(ms!).then(() => 'timeout')]),

  push_pull: async ({ topic }) => {
    messaging.push(topic!, 'one');
    messaging.push(topic!, 'two');
    return [await messaging.pull(topic!), await messaging.pull(topic!)];
  },

  overflow: async ({ topic, n }) => {
    using subscription = messaging.subscribe(topic!);
    const before = subscription.dropped;
    for (let i = 0; i < n!; i++) messaging.broadcast(topic!, String(i));
    return { before, dropped: subscription.dropped, first: await subscription.next() };
  },

  push_wait: async ({ topic }) => {
    const refused = async (): Promise<boolean> =>
      (await failureOf(() => messaging.push(topic!, 'message'))) !== '';
    let queued = 0;
    while (!(await refused())) queued++;
    const [, first] = await Promise.all([messaging.pushWait(topic!, 'last'), messaging.pull(topic!)]);
    const again = await refused();
    let last = '';
    for (; queued > 0; queued--) last = await messaging.pull(topic!);
    return { refused: true, first, refused_again: again, last };
  },

  broadcast: async ({ topic }) => {
    using subscription = messaging.subscribe(topic!);
    messaging.broadcast(topic!, 'x');
    return await subscription.next();
  },
};
