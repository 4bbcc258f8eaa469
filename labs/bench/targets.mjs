// Every figure to reach, in one place. A scenario measures a figure of this name, and its limit stands here. A target
// that is missed is shown as missed: the library is tuned, never the scenario.

export const ONE_PEER = 'ms a handoff ÷ best peer';
export const COMMANDS = 'commands an acquisition';
export const BEFORE = "acquisitions of other processes before a process by the server's order, at most in one wait";
export const OVERTAKEN = "overtakes of a process by the server's order, at most in one wait";

/** @type {Record<string, Record<string, ['≤' | '≥', number]>>} the figures of each scenario */
const TARGETS = {
  1: {
    '÷ bare scripts': ['≤', 1.1],
    '÷ raw pair': ['≤', 1.25],
    'µs over the raw pair': ['≤', 45],
    '`awaitRelease: false` ÷ raw pair': ['≤', 0.7],
    '`awaitRelease: false`, another key each time ÷ raw pair': ['≤', 0.7],
  },
  '1b': { '÷ raw pair': ['≤', 1.5] },
  2: {
    'cycles/s ÷ bare scripts': ['≥', 0.9],
    'cycles/s ÷ raw pair': ['≥', 1.5],
    'cycles/s ÷ best peer': ['≥', 1],
    'CPU a cycle ÷ raw pair': ['≤', 0.6],
    "the server's CPU a cycle ÷ raw pair": ['≤', 1.2],
  },
  '2b': { '10 tasks: cycles/s ÷ raw pair': ['≥', 1], '1000 tasks: cycles/s ÷ raw pair': ['≥', 1.5] },
  '2c': {
    '100 tasks, 100 slots: cycles/s ÷ raw pair': ['≥', 0.95],
    '1000 tasks, 1000 slots: cycles/s ÷ raw pair': ['≥', 0.95],
  },
  3: { [ONE_PEER]: ['≤', 0.1], [COMMANDS]: ['≤', 0.15] },
  4: { [ONE_PEER]: ['≤', 0.2], [COMMANDS]: ['≤', 0.4], [BEFORE]: ['≤', 64] },
  '4b': { [ONE_PEER]: ['≤', 2.2], [COMMANDS]: ['≤', 2.5], [OVERTAKEN]: ['≤', 0] },
  5: { 'commands/s': ['≤', 1] },
  '5b': {
    'server calls a release, all ÷ few instances': ['≤', 1.5],
    'requests a second of all waiters': ['≤', 50],
  },
  6: { '÷ raw PUBLISH → message': ['≤', 2.4] },
  7: {
    'commands ÷ raw pipeline': ['≤', 1.3],
    'CPU ÷ raw pipeline': ['≤', 1.3],
    'timers for 10,000 locks, more than for one': ['≤', 0],
  },
  9: {
    'bytes of heap left per key': ['≤', 1],
    'bytes of Redis memory left per key': ['≤', 1],
    'keys left in Redis: the fence clock': ['≤', 1],
  },
  // What arithmetic allows in order of arrival, see README.md.
  10: { 'locks/s ÷ before': ['≥', 1.4], 'commands a lock': ['≤', 2.5] },
  '10b': { 'locks/s ÷ our own exclusive mode': ['≥', 1], 'commands a lock': ['≤', 2.5] },
  11: {
    // What arithmetic allows, see README.md.
    'locks/s ÷ redis-semaphore': ['≥', 1.1],
    'p99 of a wait ÷ before': ['≤', 1],
    'commands a lock': ['≤', 2.5],
  },
  12: {
    'seconds until all are served, lock free': ['≤', 2],
    'seconds until all are served, behind a writer': ['≤', 2],
    'commands a reader, lock free': ['≤', 0.05],
    'commands a reader, behind a writer': ['≤', 0.05],
  },
  '12b': { 'ms of the longest script': ['≤', 5] },
  14: {
    'checks without a subscriber ÷ CPU of a lock in memory': ['≤', 0.02],
    'bytes that the checks of a lock allocate': ['≤', 1],
  },
};

/**
 * Returns a figure beside its target.
 *
 * @param {string} id the scenario
 * @param {string} name the figure in `TARGETS`
 * @param {string} [detail] what it was compared with
 */
export function target(id, name, value, detail) {
  const [comparison, limit] = limitOf(id, name);
  const met = comparison === '≤' ? value <= limit : value >= limit;
  return { name: detail === undefined ? name : `${name} (${detail})`, value, comparison, limit, met };
}

/** Returns a figure beside its target if it has one. Otherwise the figure is only stated. */
export const judged = (id, name, value) =>
  TARGETS[id]?.[name] === undefined ? stated(name, value) : target(id, name, value);

/** Returns a target without its figure, which counts as missed. */
export function unmeasured(id, name, reason) {
  const [comparison, limit] = limitOf(id, name);
  return { name, comparison, limit, met: false, unmeasured: reason };
}

/** Returns a figure without a target. */
export const stated = (name, value, unit = '') => ({ name, value, unit });

function limitOf(id, name) {
  const found = TARGETS[id]?.[name];
  if (found === undefined) throw new Error(`targets.mjs has no figure "${name}" of the scenario ${id}.`);
  return found;
}
