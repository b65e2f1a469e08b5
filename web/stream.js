// The text of one running inferlet. It is a copy: the client that launched the inferlet still gets all of it.
import { byId, say } from './dom.js';
import { append } from './output.js';

const EVERY_MS = 400;

export class Stream {
  processId;
  #feed;
  #from = 0;
  #hasOutput = false;
  #ended = false;
  #timer;

  constructor(feed) {
    this.#feed = feed;
    byId('stop').addEventListener('click', () => void this.#stop());
  }

  clear() {
    clearTimeout(this.#timer);
    this.processId = undefined;
    byId('stream').replaceChildren();
    say(byId('stream-title'), 'No inferlet is selected');
    say(byId('stream-state'), '');
    byId('stop').hidden = true;
  }

  select(process, name) {
    this.clear();
    this.processId = process.process_id;
    this.#from = 0;
    this.#ended = false;
    this.#hasOutput = process.has_output;
    say(byId('stream-title'), name);
    byId('stop').hidden = !process.has_output;
    if (process.has_output) void this.#look(this.processId);
    else say(byId('stream-state'), 'has no stream of its own: an inferlet launched it, or it answers an HTTP request');
  }

  update(processes) {
    if (!this.processId || this.#hasOutput || processes.some((p) => p.process_id === this.processId)) return;
    say(byId('stream-state'), 'has ended');
  }

  async #look(processId) {
    let seen;
    if (document.hidden) {
      this.#timer = setTimeout(() => void this.#look(processId), EVERY_MS);
      return;
    }
    try {
      seen = await this.#feed.ask('output', `${processId} ${this.#from}`);
    } catch {
      seen = undefined; // it has ended and is forgotten, or the connection is lost
    }
    if (processId !== this.processId) return;
    if (seen) {
      if (seen.cut) append(byId('stream'), '[…]\n');
      append(byId('stream'), seen.text);
      this.#from = seen.next;
      this.#ended = seen.ending !== '';
    }
    if (!seen || this.#ended) {
      say(byId('stream-state'), seen?.ending === 'error' ? 'ended with an error' : 'has ended');
      byId('stop').hidden = true;
      return;
    }
    say(byId('stream-state'), 'runs');
    this.#timer = setTimeout(() => void this.#look(processId), EVERY_MS);
  }

  async #stop() {
    byId('stop').hidden = true;
    await this.#feed.client.terminateProcess(this.processId).catch(() => {});
  }
}
