// The view "Live": charts, the page map, the market, batches, and running inferlets.
import { Chart, percentile } from './charts.js';
import { age, byId, count, make, milliseconds, say, short } from './dom.js';
import { drawMap, Hues } from './pagemap.js';
import { Stream } from './stream.js';
import { Timeline } from './timeline.js';

export class Live {
  #tokens = new Chart(byId('chart-tokens'), 'Tokens per second over two minutes', ['computed'], count);
  #ttft = new Chart(byId('chart-ttft'), 'Time to first token over two minutes', ['median', 'p95'], milliseconds);
  #tpot = new Chart(byId('chart-tpot'), 'Time per output token over two minutes', ['median', 'p95'], milliseconds);
  #price = new Chart(byId('chart-price'), 'Price of a page over two minutes', ['price'], (n) => (n === 0 ? '0' : n.toPrecision(3)));
  #timeline = new Timeline();
  #hues = new Hues();
  #stream;
  #before;
  #model = 0;
  #seen;

  constructor(feed) {
    this.#stream = new Stream(feed);
    byId('model').addEventListener('change', () => {
      this.#model = Number(byId('model').value);
      this.#forget();
      if (this.#seen) this.show(this.#seen);
    });
    const redraw = () => this.#seen && this.#draw(this.#seen);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    window.addEventListener('resize', redraw);
  }

  /** Another user has logged in. */
  clear() {
    this.#before = this.#seen = undefined;
    this.#forget();
    this.#ttft.clear();
    this.#tpot.clear();
    this.#stream.clear();
  }

  #forget() {
    this.#before = undefined;
    this.#timeline.clear();
    this.#tokens.clear();
    this.#price.clear();
  }

  show(seen) {
    this.#seen = seen;
    const model = seen.models[this.#model] ?? seen.models[0];
    if (!model) return;
    this.#chart(seen, model);
    this.#hues.update(seen.processes.map((process) => process.process_id));
    if (model.view) this.#timeline.add(model.view.batches, seen.now_us);
    this.#draw(seen);
    this.#before = seen;
  }

  #chart(seen, model) {
    const before = this.#before;
    if (!before || before.now_us >= seen.now_us) return;
    const now = seen.now_us / 1000;
    const seconds = (seen.now_us - before.now_us) / 1e6;
    const earlier = before.models[this.#model] ?? before.models[0];
    this.#tokens.add(now, [(model.tokens_total - earlier.tokens_total) / seconds], 'computed');
    for (const [chart, name] of [[this.#ttft, 'first_token'], [this.#tpot, 'next_token']]) {
      const counts = seen[name].map((n, i) => n - before[name][i]);
      const [median, p95] = [0.5, 0.95].map((p) => percentile(counts, p, seen.first_bound_ms));
      chart.add(now, [median, p95], median === undefined ? 'median' : `median, p95 ${milliseconds(p95)}`);
    }
    this.#price.add(now, [model.price], model.price > 0 ? 'credits a page and tick' : 'credits: memory is not short');
  }

  #draw(seen) {
    const model = seen.models[this.#model] ?? seen.models[0];
    this.#models(seen.models);
    facts({
      device: model.device,
      pages: `${count(model.pages_used)} of ${count(model.pages_total)} used`,
      contexts: count(model.contexts),
      queued: count(model.queued),
      inferlets: count(seen.inferlets),
      clients: count(seen.connections),
    });
    const names = new Map(seen.processes.map((process) => [process.process_id, nameOf(process)]));
    if (model.view) {
      drawMap(model.view, this.#hues, (id) => names.get(id) ?? short(id));
      this.#accounts(model.view.accounts, names);
    }
    this.#processes(seen);
  }

  #models(models) {
    const select = byId('model');
    if (select.options.length === models.length) return;
    select.replaceChildren(...models.map(({ name }, index) => make('option', { value: String(index) }, name)));
  }

  #accounts(accounts, names) {
    const rows = accounts.map((account) =>
      make('tr', {},
        make('td', {}, this.#swatch(account.process_id), names.get(account.process_id) ?? short(account.process_id)),
        make('td', { class: 'number' }, account.balance.toFixed(1)),
        make('td', { class: 'number' }, account.dividend.toFixed(3))),
    );
    const none = make('tr', {}, make('td', { colSpan: 3, class: 'muted' }, 'None of your inferlets holds a context.'));
    byId('accounts').tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [none]));
  }

  #swatch(processId) {
    return make('span', { class: `swatch c${this.#hues.of(processId) ?? 0}` });
  }

  #processes(seen) {
    const list = byId('processes');
    const focused = document.activeElement?.dataset?.process;
    const items = seen.processes.map((process) => {
      const details = [age(process.age_ms), `${count(process.tokens)} tokens`];
      if (process.waits) details.push('waits for a place');
      const chosen = process.process_id === this.#stream.processId;
      const button = make('button', { type: 'button', class: 'process', 'aria-pressed': String(chosen) },
        this.#swatch(process.process_id), make('span', { class: 'name' }, nameOf(process)),
        make('span', { class: 'muted small' }, details.join(' · ')));
      button.dataset.process = process.process_id;
      button.addEventListener('click', () => {
        this.#stream.select(process, nameOf(process));
        this.#processes(this.#seen);
      });
      return make('li', {}, button);
    });
    if (items.length === 0) items.push(make('li', { class: 'muted' }, 'Nothing of yours runs. Launch something in the playground.'));
    const more = seen.processes_total - seen.processes.length;
    if (more > 0) items.push(make('li', { class: 'muted' }, `and ${count(more)} more`));
    list.replaceChildren(...items);
    if (focused) list.querySelector(`[data-process="${CSS.escape(focused)}"]`)?.focus();
    this.#stream.update(seen.processes);
  }
}

const nameOf = (process) => `${process.inferlet} #${short(process.process_id)}`;

function facts(values) {
  const list = byId('facts');
  if (list.children.length === 0) {
    for (const name of Object.keys(values)) list.append(make('div', {}, make('dt', {}, name), make('dd', {})));
  }
  Object.values(values).forEach((value, index) => say(list.children[index].lastChild, value));
}
