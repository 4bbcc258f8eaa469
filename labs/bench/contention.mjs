// Tasks that compete for one key.
import { now, sleep } from './clock.mjs';
import { commandsSent } from './commands.mjs';

/** The columns of the figures below. */
export const contendedColumns = [
  { figure: 'msPerHandoff', title: 'ms a handoff', digits: 4 },
  { figure: 'commands', title: 'commands an acquisition', digits: 2 },
  { figure: 'backPercent', title: '% straight back to the task that gave it', digits: 0 },
  { figure: 'gaveUp', title: 'gave up', digits: 0 },
];

/**
 * Runs tasks that acquire and release one lock in a loop from `startAt` to `stopAt`. Tasks that still wait may get it
 * for `drainMs` more. A longer wait is counted as `stuck` with its duration so far: the waiter missed the release.
 *
 * @param {import('./entries/index.mjs').Opened} lock
 * @param {object} plan
 * @param {(handle: unknown) => Promise<void>} [plan.section] the work under the lock. Default: none
 */
export async function contend(lock, { key, tasks, startAt, stopAt, drainMs, section }) {
  const record = { task: [], began: [], granted: [], ended: [], token: [] };
  let commands;
  let acquisitions;
  const stop = () => {
    if (commands !== undefined) return;
    commands = commandsSent() - commandsAtStart;
    acquisitions = record.granted.length;
  };
  await sleep(Math.max(0, startAt - now()));
  const startedAt = now();
  const commandsAtStart = commandsSent();
  const gaveUpBefore = lock.gaveUp?.() ?? 0;
  const timer = setTimeout(stop, stopAt - now());
  const waiting = new Map();
  let over = false;
  const run = async (task) => {
    for (;;) {
      const began = now();
      if (began >= stopAt) return stop();
      waiting.set(task, began);
      const handle = await lock.acquire(key);
      const granted = now();
      if (over) return lock.release(handle);
      waiting.delete(task);
      if (section !== undefined) await section(handle);
      const ended = now();
      record.task.push(task);
      record.began.push(began);
      record.granted.push(granted);
      record.ended.push(ended);
      if (lock.tokenOf !== undefined) record.token.push(lock.tokenOf(handle));
      await lock.release(handle);
    }
  };
  const running = Promise.all(Array.from({ length: tasks }, (_, task) => run(task)));
  await Promise.race([running, sleep(stopAt + drainMs - now(), undefined, { ref: false })]);
  over = true;
  running.catch(() => undefined);
  clearTimeout(timer);
  stop();
  const stuck = Array.from(waiting.values(), (began) => now() - began);
  const packed = Object.fromEntries(Object.entries(record).map(([name, values]) => [name, Float64Array.from(values)]));
  const gaveUp = (lock.gaveUp?.() ?? 0) - gaveUpBefore;
  return { ...packed, stuck, startedAt, commands, acquisitions, gaveUp };
}

/**
 * Returns the figures of one round.
 *
 * @param {Awaited<ReturnType<typeof contend>>[]} records one per process
 */
export function figuresOf(records, stopAt) {
  const from = Math.max(...records.map(({ startedAt }) => startedAt));
  const handoffs = records.reduce((n, { granted }) => n + granted.filter((at) => at >= from && at <= stopAt).length, 0);
  const order = records.flatMap(({ task, granted }, process) =>
    Array.from(granted, (at, i) => ({ at, who: process * 1_000 + task[i] })).filter(({ at }) => at <= stopAt),
  );
  order.sort((a, b) => a.at - b.at);
  const back = order.filter(({ who }, i) => i > 0 && who === order[i - 1].who).length;
  const sum = (field) => records.reduce((total, record) => total + record[field], 0);
  return {
    msPerHandoff: (stopAt - from) / handoffs,
    commands: sum('commands') / sum('acquisitions'),
    backPercent: order.length < 2 ? 0 : (back / (order.length - 1)) * 100,
    gaveUp: sum('gaveUp'),
  };
}

export const waitsOf = (records) =>
  records.flatMap(({ began, granted, stuck }) => [...Array.from(granted, (at, i) => at - began[i]), ...stuck]);

export const stuckIn = (records) => records.reduce((total, { stuck }) => total + stuck.length, 0);

/** Returns a section that checks over its own connection whether another task is inside. */
export function exclusionCheck(client, name) {
  const found = { violations: 0, sections: 0 };
  const section = async () => {
    const inside = await client.incr(name);
    found.sections += 1;
    if (inside !== 1) found.violations += 1;
    await client.decr(name);
  };
  return { found, section };
}

/** Returns what the checks of all processes have found, and how many grants had no higher token than the one before. */
export function foundIn(records) {
  const grants = records.flatMap(({ granted, token }) => Array.from(token, (value, i) => ({ at: granted[i], value })));
  grants.sort((a, b) => a.at - b.at);
  const fallingTokens = grants.filter(({ value }, i) => i > 0 && !(value > grants[i - 1].value)).length;
  const sum = (field) => records.reduce((total, record) => total + record[field], 0);
  const found = { violations: sum('violations'), sections: sum('sections') };
  return grants.length === 0 ? found : { ...found, fallingTokens };
}
