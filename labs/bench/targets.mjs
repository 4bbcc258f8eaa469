// Every figure to reach, in one place. A scenario measures a figure of this name, and its limit stands here. A target
// that is missed is shown as missed: the library is tuned, never the scenario.

export const ONE_PEER = 'ms a handoff ÷ best peer';
export const COMMANDS = 'commands an acquisition';

/** @type {Record<string, Record<string, ['≤' | '≥', number]>>} the figures of each scenario */
const TARGETS = {
  1: {
    '÷ raw pair': ['≤', 1.2],
    'µs over the raw pair': ['≤', 35],
    '`awaitRelease: false` ÷ raw pair': ['≤', 0.65],
  },
  '1b': { '÷ raw pair': ['≤', 1.4] },
  2: {
    'cycles/s ÷ raw pair': ['≥', 1.7],
    'CPU a cycle ÷ raw pair': ['≤', 0.55],
    "the server's CPU a cycle ÷ raw pair": ['≤', 1.1],
  },
  3: { [ONE_PEER]: ['≤', 0.08], [COMMANDS]: ['≤', 0.15] },
  4: { [ONE_PEER]: ['≤', 0.2], [COMMANDS]: ['≤', 0.4] },
  5: { 'commands/s': ['≤', 1] },
  6: { '÷ (message + round trip)': ['≤', 1.15] },
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
export const judged = (id, name, value, detail) =>
  TARGETS[id]?.[name] === undefined
    ? stated(detail === undefined ? name : `${name} (${detail})`, value)
    : target(id, name, value, detail);

/** Returns a figure without a target. */
export const stated = (name, value, unit = '') => ({ name, value, unit });

function limitOf(id, name) {
  const found = TARGETS[id]?.[name];
  if (found === undefined) throw new Error(`targets.mjs has no figure "${name}" of the scenario ${id}.`);
  return found;
}
