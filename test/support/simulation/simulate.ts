import { createTestLocks } from 'nestjs-redis-lock/testing';
import { VirtualClock } from './virtual-clock.js';
import { type Costs, VirtualRedis } from './virtual-redis.js';

/** How many instances contend for what. */
export interface Scenario {
  readonly name: string;
  readonly instances: number;
  readonly keys: number;
  readonly masters: number;
  readonly mode: 'exclusive' | 'shared';
  /** How many locks each instance acquires, one after another. */
  readonly rounds: number;
  /** How long another instance holds all keys exclusively, while all instances wait. */
  readonly heldMs: number;
  /** How long each holds its lock. */
  readonly workMs: number;
}

/** What one server had to do, per second of the virtual time. */
export interface Load {
  readonly requests: number;
  readonly repeats: number;
  /** The server's share of the time. */
  readonly busy: number;
}

export interface Outcome {
  readonly scenario: Scenario;
  readonly locks: number;
  /** While all wait. Undefined if nobody holds the keys first. Of the busiest master, as are all figures. */
  readonly waiting: Load | undefined;
  /** From then on until the last lock is released. */
  readonly serving: Load;
  readonly servedMs: number;
  readonly requestsPerLock: number;
  readonly longestQueue: number;
  readonly requestsBySecond: readonly number[];
}

/** The instances arrive within this time. */
const ARRIVAL_MS = 1_000;

/** Runs a scenario with the library's own engine, the steps of its scripts, and a virtual clock. */
export async function simulate(scenario: Scenario, costs: Costs, seed: number): Promise<Outcome> {
  const clock = new VirtualClock(seed);
  const redis = new VirtualRedis(clock, costs, scenario.masters);
  const { instances, heldMs, rounds, workMs, mode } = scenario;
  const start = () => createTestLocks({ clock, store: () => redis.connect(), waitMs: Infinity });
  const resourceOf = (nth: number): string => `stock-${nth}:1`;
  const count = () =>
    redis.nodes.map(({ requests, repeats, busyMs }) => ({ at: clock.now(), requests, repeats, busyMs }));
  let locks = 0;
  let served = 0;
  let failure: unknown;

  const fail = (error: unknown): void => void (failure ??= error);
  const hold = async (): Promise<void> => {
    const first = start();
    const held = Array.from({ length: scenario.keys }, (_, nth) => first.acquire(resourceOf(nth)));
    await clock.sleep(heldMs);
    await Promise.all(held.map(async (lock) => (await lock).release()));
  };
  const contend = async (): Promise<void> => {
    const service = start();
    await clock.sleep(1 + clock.random() * ARRIVAL_MS);
    for (let round = 0; round < rounds; round += 1) {
      const lock = await service.acquire(resourceOf(Math.floor(clock.random() * scenario.keys)), { mode });
      await clock.sleep(workMs);
      await lock.release();
      locks += 1;
    }
    served += 1;
  };

  if (heldMs > 0) hold().catch(fail);
  for (let i = 0; i < instances; i += 1) contend().catch(fail);
  const isOver = (): boolean => served === instances || failure !== undefined;
  const until = (ms: number) => clock.runUntil(() => isOver() || clock.now() >= ms);
  await until(Math.min(2 * ARRIVAL_MS, heldMs));
  const arrived = count();
  await until(heldMs);
  const released = count();
  await clock.runUntil(isOver);
  if (failure !== undefined) throw failure as Error;
  const ended = count();

  const loadBetween = (from: typeof ended, to: typeof ended): Load => {
    const loads = from.map((before, nth) => {
      const after = to[nth];
      const ms = after.at - before.at;
      const perSecond = (field: 'requests' | 'repeats'): number => ((after[field] - before[field]) * 1_000) / ms;
      return {
        requests: perSecond('requests'),
        repeats: perSecond('repeats'),
        busy: (after.busyMs - before.busyMs) / ms,
      };
    });
    return loads.toSorted((a, b) => b.requests - a.requests)[0];
  };
  return {
    scenario,
    locks,
    waiting: heldMs > 0 ? loadBetween(arrived, released) : undefined,
    serving: loadBetween(released, ended),
    servedMs: clock.now() - heldMs,
    requestsPerLock: redis.nodes.reduce((sum, { requests }) => sum + requests, 0) / locks,
    longestQueue: Math.max(...redis.nodes.map((node) => node.longestQueue)),
    requestsBySecond: redis.nodes.reduce<number[]>((most, { requestsBySecond }) => {
      return Array.from({ length: Math.max(most.length, requestsBySecond.length) }, (_, second) =>
        Math.max(most[second] ?? 0, requestsBySecond[second] ?? 0),
      );
    }, []),
  };
}
