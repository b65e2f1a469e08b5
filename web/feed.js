// The connection to the server: logs in, asks for a view of the engine a few times a second while
// the page is visible, and reconnects after an interruption.
import { AuthError, PieClient } from './pie-client.js';

const EVERY_MS = 400;
const RETRY_MS = 2000;
const STORED = 'pie-login';

const uri = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}`;

export class Feed {
  client;
  onSeen = () => {}; // an answer of the query `watch`
  onState = () => {}; // 'live', 'lost'
  #sinceUs = 0;
  #running = 0;

  /** The login of this tab, which a reload keeps: {token} or {username}. */
  static stored() {
    try {
      return JSON.parse(sessionStorage.getItem(STORED)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  /** Logs in. Throws AuthError if the server refuses. */
  async open(login) {
    this.close();
    const client = new PieClient(uri, login);
    await client.connect();
    this.client = client;
    sessionStorage.setItem(STORED, JSON.stringify(login));
    void this.#run(++this.#running);
  }

  close() {
    this.#running++;
    void this.client?.close();
    this.client = undefined;
    this.#sinceUs = 0;
  }

  leave() {
    this.close();
    sessionStorage.removeItem(STORED);
  }

  /** JSON of a query. */
  async ask(subject, record = '') {
    return JSON.parse(await this.client.query(subject, record));
  }

  async #run(number) {
    const over = () => number !== this.#running;
    while (!over()) {
      try {
        if (!document.hidden) await this.#look(over);
        await sleep(EVERY_MS);
      } catch (error) {
        if (over()) return;
        this.onState('lost', error.message);
        await sleep(RETRY_MS);
        if (!over()) await this.client.reconnect(1).catch(() => {});
      }
    }
  }

  async #look(over) {
    const seen = await this.ask('watch', String(this.#sinceUs));
    if (over()) return;
    for (const model of seen.models) {
      const last = model.view?.batches.at(-1);
      if (last) this.#sinceUs = Math.max(this.#sinceUs, last[0]);
    }
    this.onState('live');
    this.onSeen(seen);
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export { AuthError };
