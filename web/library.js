// The view "Library": programs, and the user's snapshots, adapters, MCP servers and daemons.
import { byId, bytes, count, date, make, say } from './dom.js';

export class Library {
  #feed;

  constructor(feed) {
    this.#feed = feed;
    byId('refresh').addEventListener('click', () => void this.open());
  }

  clear() {
    for (const id of ['programs', 'snapshots', 'adapters', 'mcp', 'daemons']) byId(id).replaceChildren();
  }

  /** The view is shown. */
  async open() {
    say(byId('library-state'), 'Reading…');
    const library = await this.#feed.ask('library');
    const running = await this.#feed.client.listProcesses();
    table('programs', library.programs, {
      Program: ({ name, version }) => `${name}@${version}`,
      Size: (program) => bytes(program.bytes),
      Installed: (program) => date(program.installed_at) + (program.own ? ' by you' : ''),
    }, 'No program is installed.');
    table('snapshots', library.snapshots, {
      Name: ({ name }) => name,
      Tokens: ({ tokens }) => count(tokens),
      Size: (snapshot) => (snapshot.bytes > 0 ? bytes(snapshot.bytes) : 'in memory'),
      Saved: (snapshot) => (snapshot.saved_at > 0 ? date(snapshot.saved_at) : 'in this run'),
    }, 'You have no snapshots. Inferlets save contexts as snapshots.');
    table('adapters', library.adapters, {
      Name: ({ name }) => name,
      Model: ({ model }) => model,
      Size: (adapter) => bytes(adapter.bytes),
      State: ({ resident }) => (resident ? 'in memory' : 'on disk'),
    }, 'You have no adapters.');
    table('mcp', library.mcp_servers, {
      Name: ({ name }) => name,
      From: ({ from }) => (from === 'config' ? "the engine's config" : 'one of your clients'),
    }, 'None of your connected clients offers an MCP server, and the config has none for you.');
    table('daemons', running.filter(({ port }) => port !== undefined), {
      Program: ({ inferlet }) => inferlet,
      Port: ({ port }) => String(port),
      Change: (daemon) => make('span', { class: 'strip' }, this.#button('Restart', daemon), this.#button('Stop', daemon)),
    }, 'You have no daemons: no HTTP inferlet answers on a port of its own.');
    const left = library.programs_total - library.programs.length;
    say(byId('library-state'), left > 0 ? `${count(left)} more programs are installed.` : 'Things of other users are not shown.');
  }

  /** A button that restarts or stops a daemon. */
  #button(what, { process_id: id, inferlet, port }) {
    const button = make('button', { type: 'button', 'aria-label': `${what} ${inferlet} on port ${port}` }, what);
    button.addEventListener('click', () => void this.#change(what, id));
    return button;
  }

  async #change(what, id) {
    const { client } = this.#feed;
    const changing = what === 'Restart' ? client.restartDaemon(id) : client.terminateProcess(id);
    const failure = await changing.then(() => '', (error) => error.message);
    await this.open();
    if (failure) say(byId('library-state'), failure);
  }
}

function table(id, items, columns, none) {
  if (items.length === 0) return byId(id).replaceChildren(make('p', { class: 'muted' }, none));
  const head = make('tr', {}, ...Object.keys(columns).map((name) => make('th', { scope: 'col' }, name)));
  const rows = items.map((item) => make('tr', {}, ...Object.values(columns).map((show) => make('td', {}, show(item)))));
  return byId(id).replaceChildren(make('div', { class: 'scrolls', tabIndex: 0, role: 'group', 'aria-label': id }, make('table', {}, make('thead', {}, head), make('tbody', {}, ...rows))));
}
