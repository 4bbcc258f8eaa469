import { isRecent } from './overview.js';
import { byId, count, duration, el, resourceElement, setText, visible, visibleText } from './text.js';

const rowsByKey = new Map();
/** How many waiting instances are shown before a click. */
const FIRST_WAITERS = 5;
/** The words before a comma: on a phone they stand beside each cell. */
const labels = [...document.querySelectorAll('#locks th')].map((cell) => cell.textContent.split(',')[0]);

/**
 * Shows one page of locks. A row stays the same element while its lock is on the page, so that the focus and an open
 * text stay. `given` has the instance that replied, whether its list is whole, and `onRelease`, which adds a button to
 * each row and is called with the lock.
 */
export function showLocks(locks, given) {
  const body = byId('rows');
  const focused = body.contains(document.activeElement) ? document.activeElement : undefined;
  const before = new Set(rowsByKey.keys());
  const receivedAt = performance.now();
  let place = body.firstElementChild;
  for (const lock of locks) {
    before.delete(lock.key);
    let row = rowsByKey.get(lock.key);
    if (row === undefined) rowsByKey.set(lock.key, (row = createRow(lock, given.onRelease)));
    fillRow(row, lock, receivedAt, given);
    if (row.element === place) place = place.nextElementSibling;
    else body.insertBefore(row.element, place);
  }
  for (const key of before) {
    rowsByKey.get(key).element.remove();
    rowsByKey.delete(key);
  }
  const { activeElement } = document;
  if (focused === undefined || (body.contains(activeElement) && !activeElement.hidden)) return;
  // An element that moves loses the focus. If its row or its button is gone, the next Tab goes to the table.
  if (focused.isConnected && !focused.hidden) focused.focus({ preventScroll: true });
  else byId('locks-title').focus({ preventScroll: true });
}

/** Shows how long locks are held and how long leases last, between two replies. */
export function tick() {
  for (const row of rowsByKey.values()) showTimes(row);
}

function createRow(lock, onRelease) {
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
  action.className = 'action';
  for (const cell of [held, lease, token]) cell.className = 'narrow';
  resource.append(resourceElement(lock.resource, lock.family));
  const leaseText = el('span');
  const bar = el('i');
  const rail = el('div', 'bar', bar);
  rail.setAttribute('aria-hidden', 'true');
  lease.append(leaseText, rail);
  const row = { element, holder, held, leaseText, rail, bar, token, waiting, action, lock };
  // By instance: behind a load balancer each of them knows its own callers.
  row.callers = new Map();
  row.callerTimes = [];
  if (onRelease) {
    row.button = el('button', '', 'Release…');
    row.button.type = 'button';
    row.button.setAttribute('aria-label', `Release ${visibleText(lock.resource)} by force`);
    row.button.addEventListener('click', () => onRelease(row.lock));
    action.append(row.button);
  }
  return row;
}

function fillRow(row, received, receivedAt, { instance, isWhole }) {
  const lock = withKnown(received, row, receivedAt);
  row.lock = lock;
  row.receivedAt = receivedAt;
  if (lock.callers === undefined) row.callers.delete(instance.id);
  else row.callers.set(instance.id, { ...lock.callers, receivedAt, by: instance.name });
  showHolders(row, lock, isWhole ? 'Nobody yet' : 'Not known');
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

function showHolders(row, { holders, holderCount, mode, permits, method, label }, nobody) {
  const shown = JSON.stringify([holders, holderCount, mode, permits, method, label, nobody]);
  if (row.shownHolders === shown) return;
  row.shownHolders = shown;
  if (holderCount === 0) {
    row.holder.replaceChildren(nobody);
    return;
  }
  const names = holders.map((holder) => el('div', '', ...visible(nameOf(holder))));
  if (holderCount > holders.length) names.push(el('div', 'muted', `and ${holderCount - holders.length} more`));
  const sharing = permits === undefined ? mode : `${holderCount} of ${count(permits, 'permit')}`;
  row.holder.replaceChildren(...names, el('span', 'tag', sharing));
  for (const detail of [method, label]) {
    if (detail !== undefined) row.holder.append(' ', el('span', 'muted small', ...visible(detail)));
  }
}

function showWaiting(row, { waiting, waiterCount }) {
  for (const id of row.callers.keys()) if (!isRecent(id)) row.callers.delete(id);
  const callers = [...row.callers];
  const details = callers.map(([id, { count: number, method, label, by }]) => [id, number, method, label, by]);
  const shown = JSON.stringify([waiting, waiterCount, details]);
  if (row.shownWaiting === shown) return;
  row.shownWaiting = shown;
  const isOpen = row.waiting.querySelector('details')?.open ?? false;
  const hadFocus = row.waiting.contains(document.activeElement);
  row.waiting.replaceChildren(...queueOf(waiting, waiterCount, isOpen));
  row.callerTimes = callers.map(([id, each]) => {
    const time = el('span');
    const work = [each.method, each.label].filter((detail) => detail !== undefined).join(' ');
    const whose = `${count(each.count, 'caller')} of ${each.by}, the first for `;
    const line = el('div', 'muted small', ...visible(whose), time);
    if (work !== '') line.append(': ', ...visible(work));
    row.waiting.append(line);
    return [id, time];
  });
  if (waiterCount === 0 && callers.length === 0) row.waiting.append(el('span', 'muted', 'Nobody'));
  if (hadFocus) row.waiting.querySelector('summary')?.focus({ preventScroll: true });
}

/** Returns the elements that show the instances in the queue. */
function queueOf(waiting, waiterCount, isOpen) {
  if (waiterCount === 0) return [];
  const places = waiting.map(placeOf);
  const first = el('ol', '', ...places.slice(0, FIRST_WAITERS));
  if (waiterCount <= FIRST_WAITERS) return [first];
  const others = el('ol', '', ...places.slice(FIRST_WAITERS));
  others.start = FIRST_WAITERS + 1;
  const more = el('details', '', el('summary', 'muted', `and ${waiterCount - FIRST_WAITERS} more`), others);
  if (waiterCount > waiting.length) more.append(el('div', 'muted', `and ${waiterCount - waiting.length} more`));
  more.open = isOpen;
  return [first, more];
}

function placeOf(waiter) {
  const wants = waiter.permits === undefined ? waiter.mode : 'permit';
  const item = el('li', '', ...visible(nameOf(waiter)));
  if (wants !== 'exclusive') item.append(' ', el('span', 'tag', wants));
  return item;
}

/** Returns what others know an instance by, or the start of its id. */
export function nameOf({ identity, id, wireVersion }) {
  const name = identity ?? (id.length > 40 ? `${id.slice(0, 40)}…` : id);
  return wireVersion === undefined ? name : `${name} (another version: wire ${wireVersion})`;
}

function showTimes({ held, leaseText, rail, bar, lock, receivedAt, callers, callerTimes }) {
  const now = performance.now();
  const passed = now - receivedAt;
  setText(held, lock.heldMs === undefined ? '–' : heldTime(lock.heldMs + passed, lock.atLeast));
  for (const [id, time] of callerTimes) {
    const each = callers.get(id);
    if (each !== undefined) setText(time, duration(each.waitedMs + now - each.receivedAt));
  }
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
