import { instanceName, lostHash, showInstance } from './overview.js';
import { nameOf, showLocks, tick } from './table.js';
import { announce, byId, count, setNotice, setText, visible, wholeSeconds } from './text.js';

const LONGEST_NEXT_MS = 1_000;
const SHORTEST_NEXT_MS = 100;
/** Behind a load balancer each instance has a state of its own rhythm. The page requests two a second at most. */
const BALANCED_NEXT_MS = 500;
const FIRST_RETRY_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;
const LONGEST_RETRY_MS = 5_000;
const { name, token } = document.body.dataset;
const canRelease = token !== '';
// The page does not know where proxies have put it, and its own address may begin with two slashes.
const base = location.origin + location.pathname.replace(/\/+$/, '');

const view = { search: '', sort: 'waiters', page: 0 };
let last;
let shownAt;
let periodMs = 0;
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

/** Requests the state, and again when the instance may have read it again. `once` requests it on a paused page, too. */
async function poll(once = false) {
  clearTimeout(timer);
  request?.abort();
  request = undefined;
  if ((paused && !once) || document.hidden) return;
  const mine = (request = new AbortController());
  const asked = viewName();
  const limit = setTimeout(() => mine.abort(), LONGEST_WAIT_MS);
  let delayMs;
  try {
    const response = await fetch(addressOf(), { cache: 'no-store', redirect: 'manual', signal: mine.signal });
    const state = await read(response);
    if (request !== mine) return;
    failures = 0;
    const isOther = last !== undefined && last.instance.id !== state.instance.id;
    show(state, asked);
    delayMs = Math.max(isOther ? BALANCED_NEXT_MS : SHORTEST_NEXT_MS, Math.min(LONGEST_NEXT_MS, state.nextMs));
  } catch (error) {
    if (request !== mine) return;
    failures += 1;
    delayMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1));
    showTrouble(error);
  } finally {
    clearTimeout(limit);
  }
  if (!paused) timer = setTimeout(() => void poll(), delayMs);
}

class Refused extends Error {}

async function read(response) {
  const isJson = response.headers.get('content-type')?.includes('json');
  if (response.ok && isJson) return response.json();
  if (response.type === 'opaqueredirect' || [401, 403].includes(response.status) || response.ok) {
    throw new Refused('You are no longer signed in, or you may not see the locks. Reload the page.');
  }
  if (response.status === 429) throw new Refused('The application refuses more requests for now (429).');
  throw new Error(`The application replied with the status ${response.status}.`);
}

/** Shows why there is no reply. The text stays the same, because a screen reader says each new one. */
function showTrouble(error) {
  const isRefused = error instanceof Refused;
  if (failures === 1 && !isRefused && !paused) return;
  const why = isRefused ? error.message : 'The application does not reply. This page keeps trying.';
  setNotice(byId('trouble'), `${why} What you see is not up to date.`);
}

function show(state, asked) {
  const isChanged = last !== undefined && last.view !== asked;
  last = { ...state, view: asked };
  shownAt = performance.now() - (state.ageMs ?? 0);
  periodMs = (state.ageMs ?? 0) + state.nextMs;
  document.body.dataset.version = state.version ?? '';
  setNotice(byId('trouble'), undefined);
  showInstance(state);
  if (state.isKnown === undefined) return setText(byId('summary'), 'Still reading the locks…');
  view.page = state.page;
  last.view = viewName();
  if (state.locks !== undefined) {
    const instance = { id: state.instance.id, name: instanceName(state.instance) };
    const onRelease = canRelease ? askToRelease : undefined;
    showLocks(state.locks, { instance, onRelease, isWhole: state.problem === undefined });
  }
  showSummary(state);
  if (isChanged) announce(view.search === '' ? pageName(state) : `${count(state.found, 'lock')} found`);
  showAge();
}

function showSummary(state) {
  const { total, held, waiting, found, isTruncated, isKnown, problem, page, pages } = state;
  const scope = isKnown ? 'Only what this instance holds and waits for is shown.' : 'None can be shown.';
  setNotice(
    byId('locks-problem'),
    problem === undefined ? undefined : `The locks could not be read: ${problem} ${scope}`,
  );
  const locks = `${count(held, 'lock')} held, ${count(waiting, 'instance')} waiting`;
  const parts = [isKnown ? `${locks}.` : ''];
  if (view.search !== '') parts.push(`${count(found, 'lock')} found.`);
  if (isTruncated) parts.push(`There are more than ${count(total, 'lock')}. The others are not shown.`);
  if (isRare()) parts.push(`They are read every ${wholeSeconds(periodMs)}, because a read of all locks takes long.`);
  setText(byId('summary'), parts.join(' '));
  document.title = isKnown ? `${count(held, 'lock')}, ${waiting} waiting` : 'Locks';
  const empty = view.search === '' ? 'No lock is held, and nobody waits for one.' : 'No lock matches the search.';
  byId('locks').hidden = found === 0;
  setNotice(byId('empty'), isKnown && found === 0 ? empty : undefined);
  byId('pager').hidden = pages === 1;
  setText(byId('pages'), pageName(state));
  const [back, forth] = [byId('back'), byId('forth')];
  back.disabled = forth.disabled = false;
  disable(back, page === 0, forth);
  disable(forth, page === pages - 1, back);
}

const pageName = ({ page, pages }) => `Page ${page + 1} of ${pages.toLocaleString('en')}`;

/** A disabled button has no focus, so the other one gets it. */
function disable(button, isDisabled, other) {
  if (isDisabled && document.activeElement === button) other.focus();
  button.disabled = isDisabled;
}

/** Returns whether the instance reads the locks more rarely than a viewer expects. */
const isRare = () => periodMs >= 2_000;

function showAge() {
  if (shownAt === undefined) return;
  const ageMs = performance.now() - shownAt;
  const rhythm = isRare() ? `Updated every ${wholeSeconds(periodMs)}` : 'Live';
  const isOld = ageMs >= Math.max(3_000, 1.5 * periodMs);
  const age = isOld ? `As of ${wholeSeconds(ageMs)} ago` : rhythm;
  setText(byId('age'), paused ? `Paused. ${age}` : age);
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
let chosen;

function askToRelease(lock) {
  chosen = lock;
  byId('confirm-resource').replaceChildren(...visible(lock.resource));
  const holders = lock.holderCount === 1 ? nameOf(lock.holders[0]) : `${lock.holderCount} instances, which all lose it`;
  const risk = 'Work that does not stop at once continues without the lock, while the next holder works.';
  setText(byId('confirm-text'), `It is held by ${holders}. ${risk} ${nextOf(lock)}`);
  setNotice(byId('confirm-error'), undefined);
  byId('release').disabled = false;
  dialog.showModal();
  byId('cancel').focus();
}

function nextOf({ waiterCount, waiting, callers }) {
  if (waiterCount > 0) return `${nameOf(waiting[0])} gets it next.`;
  if (callers === undefined) return 'Nobody waits for it.';
  return `${count(callers.count, 'caller')} of one instance wait for it.`;
}

/** The lock was certainly not released. */
class NotReleased extends Error {}

async function release(lock) {
  const response = await fetch(`${base}/release`, {
    method: 'POST',
    cache: 'no-store',
    redirect: 'manual',
    headers: { 'content-type': 'application/json', 'x-lock-board-token': token },
    body: JSON.stringify({ resource: lock.resource, token: lock.token, shared: lock.mode === 'shared' }),
  });
  if (response.ok) return;
  if (response.type === 'opaqueredirect') throw new NotReleased('You are no longer signed in. Reload the page.');
  const { error, message } = await response.json().catch(() => ({}));
  const why = String(error ?? message ?? `The application replied with the status ${response.status}.`);
  throw response.status < 500 || response.status === 501 ? new NotReleased(why) : new Error(why);
}

byId('cancel').addEventListener('click', () => dialog.close());
async function confirm(button) {
  const lock = chosen;
  // A disabled button has no focus.
  byId('cancel').focus();
  button.disabled = true;
  try {
    await release(lock);
    announce(`${lock.resource} was released by force.`);
    // Meanwhile the viewer may have closed the dialog and opened it for another lock.
    if (chosen === lock) dialog.close();
    void poll(true);
  } catch (error) {
    const what = error instanceof NotReleased ? 'was not released' : 'may have been released';
    const text = `The lock ${what}: ${error.message}`;
    if (chosen !== lock || !dialog.open) return announce(text);
    setNotice(byId('confirm-error'), text);
    button.disabled = false;
  }
}

byId('release').addEventListener('click', ({ currentTarget }) => void confirm(currentTarget));
dialog.addEventListener('close', () => {
  // The row of the button may be gone.
  if (document.activeElement === document.body) byId('locks-title').focus({ preventScroll: true });
});

void poll();
