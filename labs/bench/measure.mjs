// Rounds and their evaluation.

/** An entry that takes longer for its turn has failed. */
const TURN_LIMIT_MS = 60_000;

/** Returns the value below which that share of the values lies. */
function quantile(values, share) {
  const sorted = Float64Array.from(values).toSorted();
  if (sorted.length === 0) return Number.NaN;
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)];
  return below + (sorted[Math.ceil(place)] - below) * (place - Math.floor(place));
}

const median = (values) => quantile(values, 0.5);

/**
 * The measurements of an entry.
 *
 * @typedef {object} Measured
 * @property {Record<string, number>[]} rounds the figures of each round
 * @property {number[]} waits every single wait of all rounds, in ms
 * @property {number} stuck waits that did not end with their round
 * @property {string} [failed] why there are no (more) figures
 */

/**
 * Runs every entry once per round. Rotates the order from round to round, and drops the first round.
 *
 * @typedef {{ figures: Record<string, number>, waits?: ArrayLike<number>, stuck?: number }} Turn
 * @param {object} plan
 * @param {readonly { name: string, kind: string }[]} plan.entries
 * @param {number} plan.rounds
 * @param {number} [plan.slices] divides each round into this many short turns, which spreads a disturbance
 * @param {(entry: object, round: number) => Promise<Turn>} plan.turn
 * @returns {Promise<Map<string, Measured>>}
 */
export async function interleaved({ entries, rounds, turn, slices = 1 }) {
  /** @type {Map<string, Measured>} */
  const measured = new Map(entries.map(({ name }) => [name, { rounds: [], waits: [], stuck: 0 }]));
  for (let round = -1; round < rounds; round++) {
    const turns = new Map(entries.map(({ name }) => [name, []]));
    for (let slice = 0; slice < slices; slice++) {
      for (const entry of rotated(entries, round + 1 + slice)) {
        const own = measured.get(entry.name);
        if (own.failed !== undefined) continue;
        if (slices === 1) globalThis.gc?.();
        try {
          turns.get(entry.name).push(await within(TURN_LIMIT_MS, turn(entry, round)));
        } catch (error) {
          if (entry.kind === 'ours' || entry.kind === 'floor') throw error;
          own.failed = error.message;
        }
      }
    }
    if (round < 0) continue;
    for (const [name, own] of turns) if (own.length === slices) takeIn(measured.get(name), own);
  }
  return measured;
}

function rotated(entries, by) {
  const first = by % entries.length;
  return [...entries.slice(first), ...entries.slice(0, first)];
}

/** @param {Measured} all @param {Turn[]} turns the turns of one round */
function takeIn(all, turns) {
  const mean = (figure) => turns.reduce((total, { figures }) => total + figures[figure], 0) / turns.length;
  all.rounds.push(Object.fromEntries(Object.keys(turns[0].figures).map((figure) => [figure, mean(figure)])));
  for (const { waits = [], stuck = 0 } of turns) {
    for (let i = 0; i < waits.length; i++) all.waits.push(waits[i]);
    all.stuck += stuck;
  }
}

/** @template T @param {number} ms @param {Promise<T>} promise */
export async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`did not finish within ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the median of a figure over the rounds. */
export const medianOf = ({ rounds }, figure) => median(rounds.map((figures) => figures[figure]));

/** Returns the median of the rounds' quotients. A disturbance of a whole round cancels out. */
export function ratio(of, to, figure) {
  const both = Math.min(of.rounds.length, to.rounds.length);
  return median(of.rounds.slice(0, both).map((figures, i) => figures[figure] / to.rounds[i][figure]));
}

/** Returns the name of the peer with the lowest figure, or with the highest. Its other settings do not count. */
export function bestPeer(entries, measured, figure, better = 'less') {
  const peers = entries.filter(
    ({ name, kind, variantOf }) =>
      kind === 'peer' && variantOf === undefined && measured.get(name).failed === undefined,
  );
  const ranked = peers.map(({ name }) => ({ name, value: medianOf(measured.get(name), figure) }));
  const sign = better === 'less' ? 1 : -1;
  return ranked.toSorted((a, b) => sign * (a.value - b.value))[0]?.name;
}

/** Returns the rows of the result, one per entry. */
export function rowsOf(entries, measured, extra = () => ({})) {
  return entries.map((entry) => {
    const { rounds, waits, stuck, failed } = measured.get(entry.name);
    const { name, kind, variantOf } = entry;
    const row = { name, kind, ...(variantOf && { variantOf }), ...(failed === undefined ? {} : { failed }) };
    if (failed !== undefined || rounds.length === 0) return row;
    const figures = {};
    for (const figure of Object.keys(rounds[0])) {
      const perRound = rounds.map((each) => each[figure]);
      figures[figure] = { median: median(perRound), rounds: perRound };
    }
    return { ...row, figures, ...tailOf(waits), ...(stuck > 0 ? { stuck } : {}), ...extra(entry) };
  });
}

/** Returns the percentiles of the waits. */
function tailOf(waits) {
  return waits.length === 0 ? {} : { p50: median(waits), p99: quantile(waits, 0.99), longest: quantile(waits, 1) };
}
