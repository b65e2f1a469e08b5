// The page: logs in, and shows one of its views.
import { byId, say } from './dom.js';
import { AuthError, Feed } from './feed.js';
import { Library } from './library.js';
import { Live } from './live.js';
import { Playground } from './playground.js';

const feed = new Feed();
const views = { live: new Live(feed), playground: new Playground(feed), library: new Library(feed) };

feed.onSeen = (seen) => {
  say(byId('version'), seen.version);
  say(byId('user'), seen.user);
  views.live.show(seen);
};
feed.onState = (state, why) => {
  byId('state').className = `state ${state}`;
  say(byId('state'), state === 'live' ? 'Connected' : 'Disconnected');
  byId('state').title = why ?? '';
};

/** Shows the view that the address names. */
function show() {
  const name = location.hash.slice(1) in views ? location.hash.slice(1) : 'live';
  for (const view of Object.keys(views)) byId(`view-${view}`).hidden = !feed.client || view !== name;
  for (const link of byId('views').children) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (feed.client) void views[name].open?.().catch(() => {});
}

function askForLogin(needsKey, why = '') {
  feed.leave();
  for (const view of Object.values(views)) view.clear();
  byId('views').hidden = byId('leave').hidden = true;
  byId('login').hidden = false;
  byId('login-key').hidden = !needsKey;
  byId('login-name').hidden = needsKey;
  byId('state').className = 'state';
  say(byId('state'), 'Not logged in');
  say(byId('user'), '');
  say(byId('login-error'), why);
  show();
  byId(needsKey ? 'key' : 'name').focus();
}

async function enter(login) {
  try {
    await feed.open(login);
  } catch (error) {
    if (error instanceof AuthError) return askForLogin(true, login.token ? 'The server does not know this key.' : '');
    return askForLogin(login.token !== undefined, error.message);
  }
  byId('key').value = '';
  byId('login').hidden = true;
  byId('views').hidden = byId('leave').hidden = false;
  say(byId('leave'), login.token ? 'Log out' : 'Switch user');
  show();
}

byId('login-key').addEventListener('submit', (event) => {
  event.preventDefault();
  void enter({ token: byId('key').value.trim() });
});
byId('login-name').addEventListener('submit', (event) => {
  event.preventDefault();
  void enter({ username: byId('name').value.trim() });
});
byId('leave').addEventListener('click', () => askForLogin(byId('leave').textContent === 'Log out'));
window.addEventListener('hashchange', show);

// Without authentication a client is the user that it names; HTTP requests run as `local`.
void enter(Feed.stored() ?? { username: 'local' });
