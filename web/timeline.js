// The timeline of batches: each bar is as wide as the device was busy, and as high as tokens ran.
import { byId, colour, count, fit, milliseconds, say } from './dom.js';

const SPAN_US = 20_000_000;
const HEIGHT = 96;

export class Timeline {
  #bars = new Map(); // by the time of their beginning: [begin, busy, batches, members, rows]

  add(bars, nowUs) {
    for (const bar of bars) this.#bars.set(bar[0], bar);
    for (const begin of this.#bars.keys()) if (begin < nowUs - SPAN_US) this.#bars.delete(begin);
    this.draw(nowUs);
  }

  clear() {
    this.#bars.clear();
  }

  draw(nowUs) {
    const context = fit(byId('timeline'), HEIGHT);
    const width = byId('timeline').clientWidth;
    const bars = [...this.#bars.values()];
    const rowsOf = ([, , batches, , rows]) => rows / batches;
    const most = Math.max(1, ...bars.map(rowsOf));
    context.fillStyle = colour('line');
    context.fillRect(0, HEIGHT - 1, width, 1);
    for (const bar of bars) {
      const [begin, busy, batches, members] = bar;
      const x = width * (1 - (nowUs - begin) / SPAN_US);
      const wide = Math.max(1, (width * busy) / SPAN_US);
      // The square root shows a batch of one token beside a prompt of thousands.
      const high = (rows) => (HEIGHT - 6) * Math.sqrt(rows / most);
      context.fillStyle = colour('accent-soft');
      context.fillRect(x, HEIGHT - 1 - high(rowsOf(bar)), wide, high(rowsOf(bar)));
      const steps = Math.min(members / batches, rowsOf(bar));
      context.fillStyle = colour('accent');
      context.fillRect(x, HEIGHT - 1 - high(steps), wide, high(steps));
    }
    say(byId('timeline-text'), this.#summary(bars));
  }

  #summary(bars) {
    if (bars.length === 0) return 'No batch ran in the last 20 seconds.';
    const sum = (index) => bars.reduce((total, bar) => total + bar[index], 0);
    const batches = sum(2);
    return (
      `Last 20 seconds: ${count(batches)} batches, ${(sum(3) / batches).toFixed(1)} sequences and ` +
      `${(sum(4) / batches).toFixed(1)} tokens each on average, ${milliseconds(sum(1) / batches / 1000)} each. ` +
      'Strong: one token a sequence. Pale: further tokens, of prompts and drafts.'
    );
  }
}
