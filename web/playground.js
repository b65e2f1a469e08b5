// The view "Playground": installs, launches and talks to a program.
import { byId, make, say } from './dom.js';
import { append } from './output.js';

export class Playground {
  #feed;
  #process;
  #parameters = [];

  constructor(feed) {
    this.#feed = feed;
    byId('program').addEventListener('change', () => void this.#choose());
    on('launch', () => this.#launch());
    on('talk', () => this.#talk());
    on('install', () => this.#install());
    byId('end').addEventListener('click', () => void this.#process?.terminate().catch(() => {}));
  }

  /** The view is shown. */
  async open() {
    const { programs } = await this.#feed.ask('library');
    const select = byId('program');
    const before = select.value;
    const ids = programs.map(({ name, version }) => `${name}@${version}`);
    select.replaceChildren(...ids.map((id) => make('option', { value: id }, id)));
    if (ids.length === 0) say(byId('about'), 'No program is installed yet. Install one first.');
    if (ids.includes(before)) select.value = before;
    if (select.value !== before) await this.#choose();
  }

  /** Another user has logged in. */
  clear() {
    this.#process = undefined;
    byId('program').replaceChildren();
    byId('output').replaceChildren();
    this.#runs(false, '');
  }

  async #choose() {
    const chosen = byId('program').value;
    if (!chosen) return;
    const program = await this.#feed.ask('program', chosen);
    // Required parameters come first.
    this.#parameters = program.parameters.toSorted((a, b) => Number(a.optional) - Number(b.optional));
    say(byId('about'), program.description);
    byId('parameters').replaceChildren(...this.#parameters.map(field));
  }

  #input() {
    const input = byId('json').value.trim() === '' ? {} : JSON.parse(byId('json').value);
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      throw new Error('the further keys must be a JSON object');
    }
    for (const { name, type } of this.#parameters) {
      const { value } = byId(`parameter-${name}`);
      if (value === '') continue;
      input[name] = valueOf(value, type);
    }
    return input;
  }

  async #launch() {
    this.#process?.discard();
    const output = byId('output');
    output.replaceChildren();
    const budget = byId('budget').value;
    let launched;
    try {
      const program = byId('program').value;
      launched = await this.#feed.client.launchProcess(program, this.#input(), true, budget === '' ? undefined : Number(budget));
    } catch (error) {
      this.#runs(false, 'was not launched');
      append(output, `${error.message}\n`, 'fault');
      return;
    }
    this.#process = launched;
    this.#runs(true, 'runs');
    try {
      for await (const { event, value } of launched) {
        if (launched !== this.#process) return;
        if (event === 'file') append(output, `[a file of ${value.length} bytes]\n`, 'note');
        else if (event === 'return') append(output, value === '' ? '' : `\n${value}\n`, 'result');
        else append(output, value, { stderr: 'note', error: 'fault' }[event] ?? '');
        if (event === 'return') this.#runs(false, 'has returned');
        if (event === 'error') this.#runs(false, 'ended with an error');
      }
    } catch (error) {
      if (launched === this.#process) this.#runs(false, error.message);
    }
  }

  #runs(yes, text) {
    say(byId('output-state'), text);
    for (const control of [byId('end'), byId('message'), byId('talk').querySelector('button')]) {
      control.disabled = !yes;
    }
  }

  async #talk() {
    const text = byId('message').value;
    byId('message').value = '';
    append(byId('output'), `› ${text}\n`, 'note');
    try {
      await this.#process.signal(text);
    } catch (error) {
      append(byId('output'), `${error.message}\n`, 'fault');
    }
  }

  async #install() {
    const says = byId('installed');
    const [component, manifest] = [byId('component').files[0], byId('manifest').files[0]];
    says.className = 'muted';
    say(says, 'Installing…');
    try {
      const bytes = new Uint8Array(await component.arrayBuffer());
      await this.#feed.client.installProgram(bytes, await manifest.text(), byId('overwrite').checked);
      await this.open();
      say(says, 'Installed.');
    } catch (error) {
      says.className = 'error';
      say(says, error.message);
    }
  }
}

/** Calls `action` when a form is submitted. */
function on(form, action) {
  byId(form).addEventListener('submit', (event) => {
    event.preventDefault();
    void action();
  });
}

/**
 * Returns the value of a field's text. In a field of any type, the text is JSON, or else stands for itself.
 */
function valueOf(text, type) {
  if (type === 'string') return text;
  if (type === 'bool') return text === 'true';
  if (type !== 'any') return Number(text);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The field of one parameter of the manifest. */
function field({ name, type, optional, description }) {
  const id = `parameter-${name}`;
  const about = `${id}-about`;
  const common = { id, name, required: !optional, 'aria-describedby': description ? about : undefined };
  let control;
  if (type === 'string' || type === 'any') control = make('textarea', { ...common, rows: 2 });
  else if (type === 'bool') {
    const values = optional ? ['', 'true', 'false'] : ['true', 'false'];
    control = make('select', common, ...values.map((value) => make('option', { value }, value || 'not given')));
  } else control = make('input', { ...common, type: 'number', step: type === 'int' ? '1' : 'any' });
  const label = make('label', { for: id }, name, make('span', { class: 'muted' }, ` ${type}${optional ? ', optional' : ''}`));
  return make('div', { class: 'field' }, label, control, description ? make('p', { id: about, class: 'muted small' }, description) : '');
}
