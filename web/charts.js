// Line charts of the last two minutes, in SVG.
import { make, say } from './dom.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 300;
const HEIGHT = 72;
const SPAN_MS = 120_000;

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** One chart. `lines` are the names of its lines, the main one first. */
export class Chart {
  #points = []; // [time, value of each line or undefined]
  #now;
  #lines;
  #dots;
  #most;
  #show;
  #svg;
  #value;
  #note;

  constructor(place, label, lines, show) {
    this.#show = show;
    this.#lines = lines.map((_, index) => svg('path', { class: `line line-${index}` }));
    this.#dots = lines.map((_, index) => svg('path', { class: `dots line-${index}` }));
    this.#svg = svg('svg', {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label,
    });
    for (const y of [0.5, HEIGHT / 2, HEIGHT - 0.5]) {
      this.#svg.append(svg('line', { x1: 0, x2: WIDTH, y1: y, y2: y, class: 'grid' }));
    }
    this.#svg.append(...this.#lines.toReversed(), ...this.#dots.toReversed());
    const key = (name, index) => make('span', { class: `key key-${index}` }, name);
    const keys = lines.length > 1 ? lines.map(key) : [];
    this.#value = make('span', { class: 'value' }, '–');
    this.#note = make('span', { class: 'muted small' });
    this.#most = make('span', { class: 'most muted small' });
    place.append(
      make('p', { class: 'figure' }, this.#value, ' ', this.#note),
      make('div', { class: 'plot' }, this.#svg, this.#most),
      make('p', { class: 'axis muted small' }, make('span', {}, '2 min ago'), ...keys, make('span', {}, 'now')),
    );
  }

  /** Adds a point. Undefined values leave a gap. */
  add(timeMs, values, note = '') {
    this.#now = timeMs;
    this.#points.push([timeMs, values]);
    while (this.#points[0][0] < timeMs - SPAN_MS) this.#points.shift();
    if (values[0] !== undefined) say(this.#value, this.#show(values[0]));
    say(this.#note, note);
    this.#draw();
  }

  clear() {
    this.#points = [];
    say(this.#value, '–');
    say(this.#note, '');
    this.#draw();
  }

  #draw() {
    const highest = Math.max(0, ...this.#points.flatMap(([, values]) => values.filter((v) => v !== undefined)));
    const top = nice(highest);
    say(this.#most, highest > 0 ? this.#show(top) : '');
    this.#lines.forEach((line, index) => {
      let [path, dots] = ['', ''];
      this.#points.forEach(([time, values], at) => {
        if (values[index] === undefined) return;
        const x = WIDTH * (1 - (this.#now - time) / SPAN_MS);
        const y = HEIGHT - 1 - (values[index] / top) * (HEIGHT - 3);
        const has = (other) => this.#points[other]?.[1][index] !== undefined;
        if (has(at - 1)) path += `L${x.toFixed(1)} ${y.toFixed(1)}`;
        else if (has(at + 1)) path += `M${x.toFixed(1)} ${y.toFixed(1)}`;
        else dots += `M${x.toFixed(1)} ${y.toFixed(1)}h0.01`; // a line of one point would not be seen
      });
      line.setAttribute('d', path);
      this.#dots[index].setAttribute('d', dots);
    });
  }
}

/** The next number above that begins with 1, 2 or 5. */
function nice(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((digit) => digit * power).find((limit) => limit >= number);
}

/** The p-th percentile in milliseconds of counts in buckets whose bounds double. */
export function percentile(counts, p, firstBoundMs) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return undefined;
  let below = 0;
  for (let i = 0; i < counts.length; i++) {
    if (below + counts[i] < p * total) {
      below += counts[i];
      continue;
    }
    const high = firstBoundMs * 2 ** i;
    const part = counts[i] === 0 ? 1 : (p * total - below) / counts[i];
    return (high / 2) * 2 ** part;
  }
  return firstBoundMs * 2 ** (counts.length - 1);
}
