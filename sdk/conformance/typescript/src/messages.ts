/** Cases about waiting: timers, the session, messages. */
import { messaging, session } from 'inferlet';
import { sleep, type Cases } from './case.ts';

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

  broadcast: async ({ topic }) => {
    using subscription = messaging.subscribe(topic!);
    messaging.broadcast(topic!, 'x');
    return await subscription.next();
  },
};
