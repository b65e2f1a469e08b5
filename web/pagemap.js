// The map of a device's KV pages. Each cell is a page, or several where there are many.
import { byId, colour, count, fit, make } from './dom.js';

export const OWN = 4; // cells from here on belong to the user's own inferlets
const FREE = 0, CACHED = 1, OTHERS = 2, SHARED = 3;
const NAMES = { [SHARED]: 'shared by your contexts', [OTHERS]: 'other users', [CACHED]: 'cached', [FREE]: 'free' };
const CLASSES = { [SHARED]: 'shared', [OTHERS]: 'others', [CACHED]: 'cached', [FREE]: 'free' };
const HUES = 8;
const MOST_OUTSIDE = 512;

/** The colours of the user's inferlets, which stay while they run. */
export class Hues {
  #taken = new Map();

  /** The number of a process's colour. */
  of(processId) {
    return this.#taken.get(processId);
  }

  update(processIds) {
    for (const id of [...this.#taken.keys()]) if (!processIds.includes(id)) this.#taken.delete(id);
    // The oldest first, so that colours do not depend on when the page was opened.
    for (const id of processIds.toReversed()) {
      if (this.#taken.has(id)) continue;
      const used = [...this.#taken.values()];
      const free = [...Array(HUES).keys()].find((hue) => !used.includes(hue));
      this.#taken.set(id, free ?? this.#taken.size % HUES);
    }
  }
}

export function drawMap(view, hues, nameOf) {
  const hueOf = (state) => hues.of(view.owners[state - OWN]) ?? 0;
  const colourOf = (state) => (state >= OWN ? colour(`c${hueOf(state)}`) : colour(CLASSES[state]));
  const cells = view.cells.reduce((sum, [, length]) => sum + length, 0);
  const outside = outsideOf(view);
  const outsideCells = Math.min(MOST_OUTSIDE, outside.reduce((sum, [, pages]) => sum + pages, 0));

  const canvas = byId('map');
  const width = canvas.clientWidth;
  const size = Math.max(4, Math.min(14, Math.floor(Math.sqrt((width * 230) / Math.max(1, cells)))));
  const columns = Math.max(1, Math.floor(width / size));
  const rows = Math.ceil(cells / columns);
  const outsideRows = Math.ceil(outsideCells / columns);
  const context = fit(canvas, (rows + outsideRows) * size + (outsideRows > 0 ? 10 : 0));
  const gap = size > 5 ? 1.5 : 1;
  const put = (index, top) => {
    const x = (index % columns) * size;
    const y = top + Math.floor(index / columns) * size;
    context.fillRect(x, y, size - gap, size - gap);
    return [x, y];
  };
  let at = 0;
  for (const [state, length] of view.cells) {
    context.fillStyle = colourOf(state);
    for (let i = 0; i < length; i++) put(at++, 0);
  }
  // Pages outside of the device are hatched, below a gap.
  let done = 0;
  for (const [state, pages] of outside) {
    for (let i = 0; i < pages && done < outsideCells; i++, done++) {
      context.fillStyle = colourOf(state);
      const [x, y] = put(done, rows * size + 10);
      context.strokeStyle = colour('surface');
      context.lineWidth = 1.2;
      context.beginPath();
      context.moveTo(x, y + size - gap);
      context.lineTo(x + size - gap, y);
      context.stroke();
    }
  }
  const shown = legend(view, nameOf, hueOf);
  canvas.setAttribute('aria-label', `Map of KV pages: ${shown.join('; ')}`);
}

/** [state, pages] of what is stored outside of the device. */
function outsideOf(view) {
  const own = view.accounts.map((account, index) => [OWN + index, account.pages_stored]);
  const others = view.outside.stored - own.reduce((sum, [, pages]) => sum + pages, 0);
  return [...own, [OTHERS, others]].filter(([, pages]) => pages > 0);
}

function legend(view, nameOf, hueOf) {
  const entries = view.totals.toSorted(([a], [b]) => rank(a) - rank(b)).map(([state, pages]) => ({
    name: state >= OWN ? nameOf(view.owners[state - OWN]) : NAMES[state],
    swatch: state >= OWN ? `c${hueOf(state)}` : CLASSES[state],
    text: count(pages),
  }));
  const { stored, dropped } = view.outside;
  if (stored > 0) entries.push({ name: 'swapped out or in a file', swatch: 'others hatched', text: count(stored) });
  if (dropped > 0) entries.push({ name: 'to be computed again', swatch: 'dropped', text: count(dropped) });
  byId('map-legend').replaceChildren(
    ...entries.map(({ name, swatch, text }) =>
      make('li', {}, make('span', { class: `swatch ${swatch}` }), `${name} `, make('b', {}, text)),
    ),
  );
  return entries.map(({ name, text }) => `${name} ${text}`);
}

const rank = (state) => (state >= OWN ? state - 1000 : -state); // own, shared, others, cached, free
