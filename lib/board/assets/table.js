import { byId, count, duration, el, resourceElement, setText, visible, visibleText } from './text.js';

const rowsByKey = new Map();
/** How many waiting instances are shown before a click. */
const FIRST_WAITERS = 5;
/** The words before a comma: on a phone they stand beside each cell. */
const labels = [...document.querySelectorAll('#locks th')].map((cell) => cell.textContent.split(',')[0]);

/**
 * Shows one page of locks. A row stays the same element while its lock is on the page, so that the focus and an open
 * text stay. `canRelease` adds a button to each row, which calls `onRelease` with the lock.
 */
export function showLocks(locks, canRelease, onRelease) {
  const body = byId('rows');
  const focused = body.contains(document.activeElement) ? document.activeElement : undefined;
  const before = new Set(rowsByKey.keys());
  const receivedAt = performance.now();
  let place = body.firstElementChild;
  for (const lock of locks) {
    before.delete(lock.key);
    let row = rowsByKey.get(lock.key);
    if (row === undefined) rowsByKey.set(lock.key, (row = createRow(lock, canRelease, onRelease)));
    fillRow(row, lock, receivedAt);
    if (row.element === place) place = place.nextElementSibling;
    else body.insertBefore(row.element, place);
  }
  for (const key of before) {
    rowsByKey.get(key).element.remove();
    rowsByKey.delete(key);
  }
  if (focused === undefined) return;
  // An element that moves loses the focus. If its row is gone, the next Tab goes to the table.
  if (focused.isConnected) focused.focus({ preventScroll: true });
  else byId('locks-title').focus({ preventScroll: true });
}

/** Shows how long locks are held and how long leases last, between two replies. */
export function tick() {
  for (const row of rowsByKey.values()) showTimes(row);
}

function createRow(lock, canRelease, onRelease) {
  const cells = labels.map((label) => {
    const cell = el('td');
    cell.dataset.label = label;
    // What is displayed as a block on a phone is still a cell to a screen reader.
    cell.setAttribute('role', 'cell');
    return cell;
  });
  const [resource, holder, held, lease, token, waiting, action] = cells;
  const element = el('tr', '', ...cells);
  element.setAttribute('role', 'row');
  element.dataset.key = lock.key;
  action.className = 'action';
  for (const cell of [held, lease, token]) cell.className = 'narrow';
  resource.append(resourceElement(lock.resource, lock.family));
  const leaseText = el('span');
  const bar = el('i');
  const rail = el('div', 'bar', bar);
  rail.setAttribute('aria-hidden', 'true');
  lease.append(leaseText, rail);
  const row = { element, holder, held, leaseText, rail, bar, token, waiting, action, lock };
  if (canRelease) {
    row.button = el('button', '', 'Release…');
    row.button.type = 'button';
    row.button.setAttribute('aria-label', `Release ${visibleText(lock.resource)} by force`);
    row.button.addEventListener('click', () => onRelease(row.lock));
    action.append(row.button);
  }
  return row;
}

function fillRow(row, given, receivedAt) {
  const lock = withKnown(given, row, receivedAt);
  row.lock = lock;
  row.receivedAt = receivedAt;
  showHolders(row, lock);
  showWaiting(row, lock);
  setText(row.token, lock.token === undefined ? '–' : String(lock.token));
  if (row.button) row.button.hidden = lock.holderCount === 0;
  showTimes(row);
}

/**
 * Adds what an earlier reply said of the same hold. Only the instance of the holder knows the method, the label and the
 * time, and behind a load balancer the replies come from several instances.
 */
function withKnown(lock, { lock: before, receivedAt: at }, receivedAt) {
  if (before.token !== lock.token || before.holders[0]?.id !== lock.holders[0]?.id) return lock;
  const { method = before.method, label = before.label } = lock;
  const heldMs = before.heldMs + receivedAt - (at ?? receivedAt);
  const isLonger = lock.atLeast && (!before.atLeast || heldMs > lock.heldMs);
  return { ...lock, method, label, ...(isLonger && { heldMs, atLeast: before.atLeast }) };
}

function showHolders(row, { holders, holderCount, mode, permits, method, label }) {
  const shown = JSON.stringify([holders, holderCount, mode, permits, method, label]);
  if (row.shownHolders === shown) return;
  row.shownHolders = shown;
  if (holderCount === 0) return row.holder.replaceChildren('Nobody yet');
  const names = holders.map((holder) => el('div', '', ...visible(nameOf(holder))));
  if (holderCount > holders.length) names.push(el('div', 'muted', `and ${holderCount - holders.length} more`));
  const sharing = permits === undefined ? mode : `${holderCount} of ${count(permits, 'permit')}`;
  row.holder.replaceChildren(...names, el('span', 'tag', sharing));
  for (const detail of [method, label]) {
    if (detail !== undefined) row.holder.append(' ', el('span', 'muted small', ...visible(detail)));
  }
}

function showWaiting(row, { waiting, waiterCount }) {
  const shown = JSON.stringify([waiting, waiterCount]);
  if (row.shownWaiting === shown) return;
  row.shownWaiting = shown;
  if (waiterCount === 0) return row.waiting.replaceChildren(el('span', 'muted', 'Nobody'));
  const isOpen = row.waiting.querySelector('details')?.open ?? false;
  const places = waiting.map(placeOf);
  row.waiting.replaceChildren(el('ol', '', ...places.slice(0, FIRST_WAITERS)));
  if (waiterCount <= FIRST_WAITERS) return;
  const others = el('ol', '', ...places.slice(FIRST_WAITERS));
  others.start = FIRST_WAITERS + 1;
  const more = el('details', '', el('summary', 'muted', `and ${waiterCount - FIRST_WAITERS} more`), others);
  if (waiterCount > waiting.length) more.append(el('div', 'muted', `and ${waiterCount - waiting.length} more`));
  more.open = isOpen;
  row.waiting.append(more);
}

function placeOf(waiter) {
  const wants = waiter.permits === undefined ? waiter.mode : 'permit';
  const item = el('li', '', ...visible(nameOf(waiter)));
  if (wants !== 'exclusive') item.append(' ', el('span', 'tag', wants));
  return item;
}

/** Returns what others know an instance by, or the start of its id. */
export function nameOf({ identity, id }) {
  return identity ?? (id.length > 40 ? `${id.slice(0, 40)}…` : id);
}

function showTimes({ held, leaseText, rail, bar, lock, receivedAt }) {
  const passed = performance.now() - receivedAt;
  setText(held, lock.heldMs === undefined ? '–' : heldTime(lock.heldMs + passed, lock.atLeast));
  rail.hidden = typeof lock.expiresInMs !== 'number';
  if (lock.expiresInMs === undefined) setText(leaseText, '–');
  else if (lock.expiresInMs === null) setText(leaseText, 'never');
  else {
    const rest = Math.max(0, lock.expiresInMs - passed);
    const share = lock.leaseMs > 0 ? Math.min(1, rest / lock.leaseMs) : 0;
    setText(leaseText, duration(rest));
    bar.style.transform = `scaleX(${share.toFixed(3)})`;
    rail.dataset.low = String(share < 0.2);
  }
}

function heldTime(ms, atLeast) {
  if (!atLeast) return duration(ms);
  return `at least ${ms < 1_000 ? '0 s' : duration(ms)}`;
}
