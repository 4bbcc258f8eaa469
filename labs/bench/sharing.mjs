// Several processes with several tasks each want one lock that some tasks may share.
import { deepStrictEqual } from 'node:assert';
import { now, sleep } from './clock.mjs';
import { contend, figuresOf, stuckIn, waitsIn } from './contention.mjs';
import { open } from './entries/index.mjs';
import { interleaved, rowsOf, tailOf } from './measure.mjs';
import { Worker } from './processes.mjs';
import { startRedis } from './redis.mjs';
import { drainMsOf, roundsOf } from './settings.mjs';

export const PROCESSES = 4;
export const TASKS = 10;

const locks = new Map();

/** The operations of the forked processes. */
export const ops = {
  async open(names, url) {
    for (const name of names) locks.set(name, await open(name, url));
  },
  contend(name, { sectionMs, writersPercent, seed, ...plan }) {
    const random = randomFrom(seed);
    const wayOf = () => (random() * 100 < writersPercent ? 1 : 0);
    const section = sectionMs > 0 ? () => sleep(sectionMs) : undefined;
    return contend(locks.get(name), { ...plan, section, wayOf });
  },
};

/** Opens the entries in forked processes. */
export async function openShared(scenario, entries) {
  checkExclusion();
  const redis = await startRedis();
  const workers = Array.from({ length: PROCESSES }, () => new Worker(scenario));
  const names = entries.map(({ name }) => name);
  await Promise.all(workers.map((worker) => worker.call('open', names, redis.url)));
  const close = async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await redis.stop();
  };
  return { workers, entries, close };
}

/**
 * Measures the entries in turns.
 *
 * @param {Awaited<ReturnType<typeof openShared>>} opened
 * @param {object} plan
 * @param {import('./settings.mjs').Plan} plan.plan
 * @param {number} plan.sectionMs how long each task holds the lock
 * @param {number} plan.writersPercent the percentage of locks in way 1
 * @param {Record<string, number>} plan.ways the ways whose waits are reported
 * @param {(way: number, inside: readonly number[]) => boolean} plan.admits whether one more may be inside
 * @param {[number, number]} [plan.part] for the progress
 */
export async function measureShared(
  { workers, entries },
  { plan, lengthMs, sectionMs, writersPercent, ways, admits, part },
) {
  const seen = new Map(entries.map(({ name }) => [name, []]));
  const turn = async ({ name }, round) => {
    const startAt = now() + 30;
    const stopAt = startAt + lengthMs;
    const key = `goods:${sectionMs}-${round}`;
    const how = { key, tasks: TASKS, startAt, stopAt, drainMs: drainMsOf(plan), sectionMs, writersPercent };
    const seedOf = (process) => (round + 1) * PROCESSES + process + 1;
    const records = await Promise.all(
      workers.map((worker, process) => worker.call('contend', name, { ...how, seed: seedOf(process) })),
    );
    if (round >= 0) seen.get(name).push(records);
    const { msPerHandoff, commands } = figuresOf(records, stopAt);
    const figures = { perSecond: 1000 / msPerHandoff, commands, inside: meanInside(records, stopAt) };
    return { figures, stuck: stuckIn(records) };
  };
  const measured = await interleaved({ entries, rounds: roundsOf(plan), turn, part });
  const extra = ({ name }) => {
    const rounds = seen.get(name);
    const tails = Object.entries(ways).map(([of, way]) => [of, tailIn(rounds.flat(), way)]);
    return { waits: Object.fromEntries(tails), exclusion: exclusionIn(rounds, admits) };
  };
  return { measured, rows: rowsOf(entries, measured, extra) };
}

function tailIn(records, way) {
  const stuck = records.reduce((total, { stuckWay }) => total + stuckWay.filter((one) => one === way).length, 0);
  return { ...tailOf(waitsIn(records, way)), ...(stuck > 0 ? { stuck } : {}) };
}

/** Returns the mean number of tasks inside. */
function meanInside(records, stopAt) {
  const from = Math.max(...records.map(({ startedAt }) => startedAt));
  const total = records.reduce(
    (sum, { granted, ended }) =>
      sum + granted.reduce((own, at, i) => own + Math.max(0, Math.min(ended[i], stopAt) - Math.max(at, from)), 0),
    0,
  );
  return total / (stopAt - from);
}

/**
 * Returns the violations: tasks that were inside together but must not be. All processes read one clock, after the
 * grant and before the release.
 */
function exclusionIn(rounds, admits) {
  let [violations, sections] = [0, 0];
  for (const records of rounds) {
    const inside = [0, 0];
    for (const { way, enters } of eventsOf(records)) {
      if (enters) {
        sections += 1;
        if (!admits(way, inside)) violations += 1;
      }
      inside[way] += enters ? 1 : -1;
    }
  }
  return { violations, sections };
}

/** Verifies that violations are found, in one process or in two. */
function checkExclusion() {
  const record = (...visits) => {
    const [way, granted, ended] = [0, 1, 2].map((i) => Float64Array.from(visits, (visit) => visit[i]));
    return { way, granted, ended };
  };
  const alone = (way, [readers, writers]) => writers === 0 && (way === 0 || readers === 0);
  const atMostTwo = (_, [inside]) => inside < 2;
  // A writer leaves as a reader enters. Then a writer enters while two readers are inside, and a reader enters after
  // it.
  const rounds = [[record([1, 0, 1], [0, 1, 4], [0, 5.5, 9]), record([0, 2, 8], [1, 3, 6], [1, 7, 7])]];
  deepStrictEqual(exclusionIn(rounds, alone), { violations: 2, sections: 5 });
  const three = [record([0, 0, 9], [0, 3, 5]), record([0, 1, 3], [0, 4, 6])];
  deepStrictEqual(exclusionIn([three, three], atMostTwo), { violations: 2, sections: 8 });
}

/** Returns the entries and exits in order. At one moment, exits come first. */
function eventsOf(records) {
  const events = records.flatMap(({ way, granted, ended }) =>
    Array.from(way, (one, i) => {
      // An empty interval overlaps with nothing.
      if (granted[i] === ended[i]) return [];
      const enters = { at: granted[i], way: one, enters: true };
      return [enters, { at: ended[i], way: one, enters: false }];
    }).flat(),
  );
  return events.toSorted((a, b) => a.at - b.at || a.enters - b.enters);
}

/** Returns the same random numbers for all entries, from 0 to 1 (mulberry32). */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
