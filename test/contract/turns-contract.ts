import { ok } from 'node:assert/strict';
import { LockEngine } from '../../lib/engine/lock-engine.js';
import type { AcquireOptions } from '../../lib/engine/options.js';
import { noQueue } from './needs.js';
import type { ContractPart, StoreFixture, StoreUnderTest } from './store-fixture.js';

const CALLERS = 3;
const WORK_MS = 2;

/** The polling interval of a client that knows nothing about this library, in milliseconds. */
const POLL_MS = 100;

/**
 * The test ends when each instance and the polling client have had this many grants, or after the limit. They are the
 * grants of many turns, because a single turn may be long.
 */
const ENOUGH = 200;
const ENOUGH_POLLS = 2;
const LIMIT_MS = 10_000;

/**
 * The largest ratio between the grants of the two instances. Grants count once both instances have had the key. Until
 * then, the first one sees no others, and its turns are longer.
 */
const LARGEST_RATIO = 5;

/** An instance whose callers request the key again and again. */
class BusyInstance {
  grants = 0;
  private readonly engine: LockEngine;

  constructor(
    private readonly under: StoreUnderTest,
    private readonly key: string,
  ) {
    const nothing = (): void => undefined;
    this.engine = new LockEngine({
      store: under.store,
      clock: under.clock,
      instance: 'contract',
      requestTimeoutMs: 1_000,
      lockDelayMs: 0,
      passing: { maxLocalPasses: 16, maxLocalHoldMs: 50 },
      checkLease: (_, given) => given,
      warn: nothing,
      info: nothing,
      onCallbackError: nothing,
    });
  }

  async run(isOver: () => boolean): Promise<void> {
    await Promise.all(Array.from({ length: CALLERS }, () => this.call(isOver)));
    await this.engine.close(0);
  }

  private async call(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const lock = await this.engine.acquire({ resource: this.key, key: this.key }, optionsOf(this.under));
      this.grants += 1;
      await after(this.under, WORK_MS);
      await lock.release();
    }
  }
}

/** Counts the grants of instances from the time when each has had the key. */
class Tally {
  private atStart: readonly number[] | undefined;

  constructor(private readonly instances: readonly BusyInstance[]) {}

  /** The grants of each instance, the fewest first. Read it after each grant, because it detects when to start. */
  get counts(): readonly number[] {
    const grants = this.instances.map((instance) => instance.grants);
    if (grants.every((count) => count > 0)) this.atStart ??= grants;
    const { atStart = grants } = this;
    return grants.map((count, index) => count - atStart[index]).toSorted((one, other) => one - other);
  }
}

/** Acquires and releases without the engine, as another client does. */
async function poll(fixture: StoreFixture, isOver: () => boolean): Promise<number> {
  let grants = 0;
  for (let attempt = 0; !isOver(); attempt += 1) {
    const name = `poller${attempt}`;
    if ((await fixture.statusOf(name)) === 'granted') {
      grants += 1;
      await fixture.release(name);
    }
    if (grants === ENOUGH_POLLS) break;
    await after(fixture.under, POLL_MS);
  }
  return grants;
}

/** Tests that a store without a queue lets the engine share a key. */
export const turnsContract: ContractPart = {
  subject: 'turns',
  needs: [noQueue],
  tests: {
    'two busy instances and a client that polls all get the key': async (fixture) => {
      const { under, key } = fixture;
      // An engine listens to its own store.
      const neighbours = [await fixture.createNeighbour(), await fixture.createNeighbour()];
      try {
        const instances = neighbours.map((neighbour) => new BusyInstance(neighbour, key));
        const until = under.clock.now() + LIMIT_MS;
        let polls: number | undefined;
        const tally = new Tally(instances);
        const isOver = (): boolean => (tally.counts[0] >= ENOUGH && polls !== undefined) || under.clock.now() >= until;
        const polling = poll(fixture, () => under.clock.now() >= until).then((grants) => (polls = grants));
        await whileTimePasses(under, [polling, ...instances.map((instance) => instance.run(isOver))]);
        ok(polls === ENOUGH_POLLS, `the client that polls was granted the key ${polls} times`);
        const [less, more] = tally.counts;
        ok(
          less >= ENOUGH && more <= less * LARGEST_RATIO,
          `the instances were granted the key ${less} and ${more} times`,
        );
      } finally {
        for (const neighbour of neighbours) await neighbour.close();
      }
    },
  },
};

function optionsOf({ store }: StoreUnderTest): AcquireOptions {
  const ttlMs = Math.max(30_000, store.capabilities.resolutionMs);
  const hold = { mode: 'exclusive', ttlMs, maxHoldMs: Infinity, minHoldMs: 0 } as const;
  return { ...hold, waitMs: LIMIT_MS, signal: undefined };
}

/** Lets time pass until all of the work has ended. */
async function whileTimePasses(under: StoreUnderTest, work: readonly Promise<unknown>[]): Promise<void> {
  const ended = new AbortController();
  const all = Promise.all(work).finally(() => ended.abort());
  const passing = async (): Promise<void> => {
    while (!ended.signal.aborted) await under.pass(WORK_MS);
  };
  await Promise.all([all, passing()]);
}

function after({ clock }: StoreUnderTest, ms: number): Promise<void> {
  return new Promise((resolve) => clock.schedule(ms, resolve));
}
