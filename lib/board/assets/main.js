import { lostHash, showInstance, showServers } from './overview.js';
import { nameOf, showLocks, tick } from './table.js';
import { announce, byId, count, duration, setNotice, setText, visible } from './text.js';

const PAUSE_MS = 900;
const LONGEST_WAIT_MS = 15_000;
const LONGEST_PAUSE_MS = 5_000;
const { name, token } = document.body.dataset;
const canRelease = token !== '';
// The page does not know where proxies have put it, and its own address may begin with two slashes.
const base = location.origin + location.pathname.replace(/\/+$/, '');

const view = { search: '', sort: 'waiters', page: 0 };
let last;
let shownAt;
let failures = 0;
let paused = false;
let request;
let timer;

setText(byId('name'), name === 'default' ? '' : `of ${name}`);

function addressOf() {
  const { search, sort, page } = view;
  const query = new URLSearchParams({ search, sort, page });
  if (last?.view === viewName()) {
    query.set('after', last.version);
    query.set('locks', last.locksHash);
  }
  const lost = last && lostHash(last.instance.id);
  if (lost) query.set('lost', lost);
  return `${base}/state?${query}`;
}

const viewName = () => JSON.stringify(view);

/** Asks for the state, and again after a pause. `once` asks although the page is paused. */
async function poll(once = false) {
  clearTimeout(timer);
  request?.abort();
  request = undefined;
  if ((paused && !once) || document.hidden) return;
  const mine = (request = new AbortController());
  const startedAt = performance.now();
  const asked = viewName();
  const limit = setTimeout(() => mine.abort(), LONGEST_WAIT_MS);
  let delayMs = PAUSE_MS;
  try {
    const response = await fetch(addressOf(), { cache: 'no-store', redirect: 'manual', signal: mine.signal });
    const state = await read(response);
    if (request !== mine) return;
    failures = 0;
    show(state, asked);
  } catch (error) {
    if (request !== mine) return;
    failures += 1;
    delayMs = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** failures);
    showTrouble(error);
  } finally {
    clearTimeout(limit);
  }
  if (!paused) timer = setTimeout(poll, Math.max(100, delayMs - (performance.now() - startedAt)));
}

class Refused extends Error {}

async function read(response) {
  const isJson = response.headers.get('content-type')?.includes('json');
  if (response.ok && isJson) return response.json();
  if (response.type === 'opaqueredirect' || [401, 403].includes(response.status) || response.ok) {
    throw new Refused('You are not signed in any more, or you may not see the locks. Reload the page.');
  }
  if (response.status === 429) throw new Refused('The application refuses more requests for now (429).');
  throw new Error(`The application replied with the status ${response.status}.`);
}

function showTrouble(error) {
  const why = error instanceof Refused ? error.message : 'The application does not reply. This page keeps trying.';
  const old = shownAt === undefined ? '' : ` What you see is ${duration(performance.now() - shownAt)} old.`;
  if (failures > 1 || error instanceof Refused) setNotice(byId('trouble'), why + old);
}

function show(state, asked) {
  const isFirst = last?.view !== asked;
  last = { ...state, view: asked };
  shownAt = performance.now() - (state.ageMs ?? 0);
  document.body.dataset.version = state.version ?? '';
  setNotice(byId('trouble'), undefined);
  showServers(state.servers);
  showInstance(state);
  if (state.isKnown === undefined) return setText(byId('summary'), 'Still reading the locks…');
  view.page = state.page;
  last.view = viewName();
  if (state.locks !== undefined) showLocks(state.locks, canRelease, askToRelease);
  showSummary(state);
  if (isFirst && view.search !== '') announce(`${count(state.found, 'lock')} found`);
  showAge();
}

function showSummary(state) {
  const { total, held, waiting, found, isTruncated, isKnown, problem, page, pages } = state;
  const scope = isKnown ? 'Only those that this instance holds are shown.' : 'None can be shown.';
  setNotice(
    byId('locks-problem'),
    problem === undefined ? undefined : `The locks could not be read: ${problem} ${scope}`,
  );
  const locks = `${count(held, 'lock')} held, ${count(waiting, 'instance')} waiting`;
  const parts = [isKnown ? `${locks}.` : ''];
  if (view.search !== '') parts.push(`${count(found, 'lock')} found.`);
  if (isTruncated) parts.push(`There are more than ${count(total, 'lock')}. The others are not shown.`);
  setText(byId('summary'), parts.join(' '));
  document.title = isKnown ? `${count(held, 'lock')}, ${waiting} waiting` : 'Locks';
  const empty = view.search === '' ? 'No lock is held, and nobody waits for one.' : 'No lock matches the search.';
  byId('locks').hidden = found === 0;
  setNotice(byId('empty'), isKnown && found === 0 ? empty : undefined);
  byId('pager').hidden = pages === 1;
  setText(byId('pages'), `Page ${page + 1} of ${pages.toLocaleString('en')}`);
  byId('back').disabled = page === 0;
  byId('forth').disabled = page === pages - 1;
}

function showAge() {
  if (shownAt === undefined) return;
  const age = Math.round((performance.now() - shownAt) / 1000);
  const old = age < 3 ? 'Live' : `As of ${duration(age * 1000)} ago`;
  setText(byId('age'), paused ? `Paused. ${old}` : old);
}

function change(changes) {
  Object.assign(view, { page: 0 }, changes);
  void poll(true);
}

let typing;
byId('search').addEventListener('input', ({ target }) => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ search: target.value.trim() }), 200);
});
byId('sort').addEventListener('change', ({ target }) => change({ sort: target.value }));
byId('back').addEventListener('click', () => change({ page: Math.max(0, view.page - 1) }));
byId('forth').addEventListener('click', () => change({ page: view.page + 1 }));
byId('pause').addEventListener('click', ({ currentTarget }) => {
  paused = !paused;
  currentTarget.setAttribute('aria-pressed', String(paused));
  showAge();
  void poll();
});
document.addEventListener('visibilitychange', () => void poll());
setInterval(() => {
  if (document.hidden) return;
  if (!paused) tick();
  showAge();
}, 500);

const dialog = byId('confirm');
let target;

function askToRelease(lock) {
  target = lock;
  byId('confirm-resource').replaceChildren(...visible(lock.resource));
  const holders = lock.holderCount === 1 ? nameOf(lock.holders[0]) : `${lock.holderCount} instances, which all lose it`;
  const next = lock.waiterCount === 0 ? 'Nobody waits for it.' : `${nameOf(lock.waiting[0])} gets it next.`;
  const risk = 'Work that does not stop at once goes on without the lock, beside that of the next holder.';
  setText(byId('confirm-text'), `It is held by ${holders}. ${risk} ${next}`);
  setNotice(byId('confirm-error'), undefined);
  byId('release').disabled = false;
  dialog.showModal();
  byId('cancel').focus();
}

byId('cancel').addEventListener('click', () => dialog.close());
byId('release').addEventListener('click', async ({ currentTarget }) => {
  const lock = target;
  currentTarget.disabled = true;
  try {
    const response = await fetch(`${base}/release`, {
      method: 'POST',
      cache: 'no-store',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', 'x-lock-board-token': token },
      body: JSON.stringify({ resource: lock.resource, token: lock.token }),
    });
    if (!response.ok) throw new Error(await errorOf(response));
    dialog.close();
    announce(`${lock.resource} was released by force.`);
    void poll(true);
  } catch (error) {
    setNotice(byId('confirm-error'), `The lock was not released: ${error.message}`);
    currentTarget.disabled = false;
  }
});

async function errorOf(response) {
  const { error, message } = await response.json().catch(() => ({}));
  return String(error ?? message ?? `the application replied with the status ${response.status}.`);
}

void poll();
