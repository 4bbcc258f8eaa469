/**
 * Characters that cannot be seen, or that change how others are shown: control and format characters, among them those
 * that change the direction of text, white space other than a space, lone surrogates, and stacks of marks.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{DI}\u2800]|[^\S ]|(?<=\p{M}\p{M})\p{M}/gu;
const POLL_MS = 1_000;
const RETRY_MS = 3_000;
const LONGEST_WAIT_MS = 15_000;

const { name: instance, release: allowRelease } = document.body.dataset;
// The page does not know where proxies have put it, and its own address may begin with two slashes.
const base = location.origin + location.pathname.replace(/\/+$/, '');
const byId = (id) => document.getElementById(id);

/** Returns a text with the number of each character that cannot be seen. */
function visible(text) {
  return text.replace(HIDDEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/**
 * Shows lines of text in an element. Leaves equal text as it is, so that a selection stays and a screen reader does not
 * repeat it.
 */
function setText(element, ...lines) {
  const text = lines.map(visible).join('\n');
  if (element.textContent !== text) element.textContent = text;
}

/** Shows an element with a text, or hides it without one. */
function setNotice(element, text) {
  element.hidden = text === undefined;
  setText(element, text ?? '');
}

/** Returns `1 lock`, `2 locks`, `10,000 locks`. */
function count(number, noun) {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

/**
 * Returns a duration: `310 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. Returns `otherwise` if `ms` is not a
 * number.
 */
function duration(ms, otherwise) {
  if (typeof ms !== 'number') return otherwise;
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 0.9995) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const pair = (whole, of, large, small) => `${Math.floor(whole / of)} ${large} ${whole % of} ${small}`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return pair(whole, 60, 'min', 's');
  if (whole < 86_400) return pair(Math.floor(whole / 60), 60, 'h', 'min');
  return pair(Math.floor(whole / 3_600), 24, 'd', 'h');
}

// The table

/** The rows by the key of their lock. */
const rows = new Map();
/** The column titles. On a phone, each cell shows its own. */
const headings = [...document.querySelectorAll('#locks th')].map((cell) => cell.textContent);

/** Shows locks. A row stays the same element while its lock is shown, so that the focus and a selected text stay. */
function showLocks(locks) {
  const body = byId('rows');
  const focused = body.contains(document.activeElement) ? document.activeElement : undefined;
  const gone = new Set(rows.keys());
  let place = body.firstElementChild;
  for (const lock of locks) {
    gone.delete(lock.key);
    if (!rows.has(lock.key)) rows.set(lock.key, createRow());
    const row = rows.get(lock.key);
    fillRow(row, lock);
    if (row.element === place) place = place.nextElementSibling;
    else body.insertBefore(row.element, place);
  }
  for (const key of gone) {
    rows.get(key).element.remove();
    rows.delete(key);
  }
  if (focused === undefined) return;
  // An element that moves loses the focus. If its row or its button is gone, the next Tab goes to the table.
  const isThere = focused.isConnected && !focused.hidden;
  (isThere ? focused : byId('title')).focus({ preventScroll: true });
}

function createRow() {
  const element = document.createElement('tr');
  element.setAttribute('role', 'row');
  const cells = headings.map((heading) => {
    const cell = document.createElement('td');
    cell.dataset.heading = heading;
    // What is displayed as a block on a phone is still a cell to a screen reader.
    cell.setAttribute('role', 'cell');
    return cell;
  });
  element.append(...cells);
  const row = { element, cells };
  for (const cell of cells.slice(0, -1)) cell.append(document.createElement('div'), document.createElement('div'));
  cells[0].firstChild.className = 'resource';
  for (const { lastChild } of cells.slice(0, -1)) lastChild.className = 'muted';
  if (allowRelease === 'true') {
    row.button = document.createElement('button');
    row.button.type = 'button';
    row.button.textContent = 'Release…';
    row.button.addEventListener('click', () => askToRelease(row.lock));
    cells.at(-1).append(row.button);
  }
  return row;
}

function fillRow(row, lock) {
  row.lock = lock;
  const isHeld = lock.holder !== undefined;
  const [resource, holder, held, lease, fencingToken, waiting] = row.cells.map((cell) => cell.firstChild);
  setText(resource, lock.resource);
  setText(holder, ...(isHeld ? withRest(lock.holders, lock.holderCount) : ['Nobody yet']));
  setText(holder.nextSibling, [sharingOf(lock), lock.method, lock.label].filter(Boolean).join(' · '));
  setText(held, duration(lock.heldForMs, '–'));
  setText(lease, isHeld ? duration(lock.expiresInMs, 'never') : '–');
  setText(fencingToken, String(lock.token ?? '–'));
  const queue = lock.waiting.map((each, i) => `${i + 1}. ${each}`);
  setText(waiting, ...withRest(queue, lock.waiterCount));
  const here = lock.waitingHere > 0 ? `${count(lock.waitingHere, 'caller')} of the instance that replied` : '';
  setText(waiting.nextSibling, lock.waiterCount + lock.waitingHere === 0 ? 'Nobody' : here);
  if (row.button === undefined) return;
  row.button.hidden = !isHeld;
  row.button.setAttribute('aria-label', `Release ${visible(lock.resource)} by force`);
}

/** Adds the number of those that the reply does not name. */
function withRest(names, total) {
  return total > names.length ? [...names, `and ${total - names.length} more`] : names;
}

function sharingOf({ mode, permits, holderCount, isDone }) {
  if (isDone) return 'done, until the lease ends';
  return permits === undefined ? mode : `${holderCount} of ${count(permits, 'permit')}`;
}

// The state

let search = '';
let isPaused = false;
/** Rises with each request, so that only the reply to the latest one is shown. */
let requests = 0;
let timer;

/** Requests the state now and then again and again. A paused page requests it once. A hidden page does not. */
async function poll() {
  clearTimeout(timer);
  const mine = ++requests;
  if (document.hidden) return;
  let delayMs = POLL_MS;
  try {
    const state = await read(`${base}/state?${new URLSearchParams({ search })}`);
    if (mine !== requests) return;
    setNotice(byId('trouble'), undefined);
    showState(state);
  } catch (error) {
    if (mine !== requests) return;
    delayMs = RETRY_MS;
    setNotice(byId('trouble'), `${error.message} What you see is not up to date.`);
  }
  if (!isPaused) timer = setTimeout(() => void poll(), delayMs);
}

async function read(address) {
  const signal = AbortSignal.timeout(LONGEST_WAIT_MS);
  const response = await fetch(address, { cache: 'no-store', redirect: 'manual', signal }).catch(() => {
    throw new Error('The application does not reply. This page keeps trying.');
  });
  const isJson = response.headers.get('content-type')?.includes('json');
  if (response.ok && isJson) return response.json();
  if (response.status >= 500 || response.status === 429) {
    throw new Error(`The application replied with the status ${response.status}. This page keeps trying.`);
  }
  throw new Error('You are no longer signed in, or you may not see the locks. Reload the page.');
}

function showState({ problem, isTruncated, held, waiting, found, locks }) {
  setNotice(byId('problem'), problem && `The locks could not be read: ${problem}`);
  showLocks(locks);
  const parts = [`${count(held, 'lock')} held, ${count(waiting, 'instance')} waiting.`];
  if (isTruncated) parts.push('There are more locks, which this page does not read.');
  if (search !== '') parts.push(`${count(found, 'lock')} found.`);
  if (locks.length < found) parts.push(`The first ${locks.length} are shown. Search for the others.`);
  setText(byId('summary'), problem === undefined ? parts.join(' ') : '');
  document.title = problem === undefined ? `${count(held, 'lock')}, ${waiting} waiting` : 'Locks';
  byId('locks').hidden = found === 0;
  const empty = search === '' ? 'No lock is held, and nobody waits for one.' : 'No lock matches the search.';
  setNotice(byId('empty'), found === 0 && problem === undefined ? empty : undefined);
}

function showStatus() {
  setText(byId('status'), isPaused ? 'Paused' : 'Live');
  byId('pause').setAttribute('aria-pressed', String(isPaused));
}

let typing;
byId('search').addEventListener('input', ({ target }) => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    search = target.value.trim();
    void poll();
  }, 200);
});
byId('pause').addEventListener('click', () => {
  isPaused = !isPaused;
  showStatus();
  void poll();
});
document.addEventListener('visibilitychange', () => void poll());

// Releases by force

const dialog = byId('confirm');
let chosen;

function askToRelease(lock) {
  chosen = lock;
  setText(byId('confirm-resource'), lock.resource);
  const [first] = lock.holders;
  const holder = lock.holderCount === 1 ? first : `${count(lock.holderCount, 'instance')}, which all lose it`;
  const risk = 'Work that does not stop at once continues without the lock, while the next holder works.';
  const text = lock.isDone ? `Its work is done, by ${holder}. The next call does it again.` : undefined;
  setText(byId('confirm-text'), text ?? `It is held by ${holder}. ${risk}`);
  setNotice(byId('confirm-error'), undefined);
  byId('release').disabled = false;
  dialog.showModal();
  byId('cancel').focus();
}

async function release({ resource, holder, token }) {
  const response = await fetch(`${base}/release`, {
    method: 'POST',
    cache: 'no-store',
    redirect: 'manual',
    signal: AbortSignal.timeout(LONGEST_WAIT_MS),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ resource, holder, token }),
  });
  if (response.ok) return;
  const { error = `The application replied with the status ${response.status}.` } = await response
    .json()
    .catch(() => ({}));
  throw new Error(error);
}

byId('cancel').addEventListener('click', () => dialog.close());

byId('release').addEventListener('click', ({ currentTarget }) => void releaseChosen(currentTarget));
async function releaseChosen(button) {
  const lock = chosen;
  // A disabled button has no focus.
  byId('cancel').focus();
  button.disabled = true;
  try {
    await release(lock);
    setText(byId('said'), `${lock.resource} was released by force.`);
    if (chosen === lock) dialog.close();
    void poll();
  } catch (error) {
    const text = `The release of ${lock.resource} failed. ${error.message}`;
    setText(byId('said'), text);
    // Meanwhile the viewer may have closed the dialog, or opened it for another lock.
    if (chosen !== lock) return;
    setNotice(byId('confirm-error'), text);
    button.disabled = false;
    if (!dialog.open) dialog.showModal();
  }
}
dialog.addEventListener('close', () => {
  // The row of the button may be gone.
  if (document.activeElement === document.body) byId('title').focus({ preventScroll: true });
});

setText(byId('title'), instance === 'default' ? 'Locks' : `Locks of ${instance}`);
showStatus();
void poll();
