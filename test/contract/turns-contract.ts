import { ok } from 'node:assert/strict';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { silent } from '../support/silent-logger.js';
import { noQueue } from './needs.js';
import type { ContractPart } from './store-fixture.js';

const CALLERS = 3;
const WORK_MS = 2;
const LIMIT_MS = 10_000;

/** The polling interval of a client that knows nothing about this library, in milliseconds. */
const POLL_MS = 100;

/** The grants of each instance and of the polling client after which the test ends. A single turn may be long. */
const ENOUGH = 200;
const ENOUGH_POLLS = 2;

/** The largest ratio between the grants of the two instances. */
const LARGEST_RATIO = 5;

/** Tests that a store without a queue lets the engine share a key. */
export const turnsContract: ContractPart = {
  subject: 'turns',
  needs: [noQueue],
  tests: {
    'two busy instances and a client that polls all get the key': async (fixture) => {
      const { clock } = fixture.under;
      const grants = [0, 0];
      let polls = 0;
      const endsAt = clock.now() + LIMIT_MS;
      const isOver = (): boolean =>
        clock.now() >= endsAt || (polls >= ENOUGH_POLLS && grants.every((count) => count >= ENOUGH));
      const pass = (ms: number): Promise<void> => new Promise((resolve) => void clock.schedule(ms, resolve));

      // An engine listens to its own store.
      const neighbours = [await fixture.createNeighbour(), await fixture.createNeighbour()];
      const instances = neighbours.map(({ store }) => {
        const options = { store: () => store, key: () => fixture.key, waitMs: LIMIT_MS };
        return LockRuntime.start(options, undefined, { clock, logger: silent }).service;
      });
      const served = new Set<number>();
      const call = async (instance: number): Promise<void> => {
        while (!isOver()) {
          await instances[instance].using('turns', () => {
            // Until both instances have had the key, the first one sees no others, and its turns are longer.
            served.add(instance);
            if (served.size === instances.length) grants[instance] += 1;
            return pass(WORK_MS);
          });
        }
      };
      const poll = async (): Promise<void> => {
        for (let attempt = 0; polls < ENOUGH_POLLS && !isOver(); attempt += 1) {
          if ((await fixture.statusOf(`poller${attempt}`)) === 'granted') {
            polls += 1;
            await fixture.release(`poller${attempt}`);
          }
          await pass(POLL_MS);
        }
      };

      const callers = [0, 1].flatMap((instance) => Array.from({ length: CALLERS }, () => call(instance)));
      const ended = new AbortController();
      const work = Promise.all([poll(), ...callers])
        .then(() => Promise.all(instances.map(({ engine }) => engine.close(0))))
        .finally(() => ended.abort());
      while (!ended.signal.aborted) await fixture.under.pass(WORK_MS);
      await work;
      for (const neighbour of neighbours) await neighbour.close();
      const [less, more] = grants.toSorted((one, other) => one - other);
      ok(polls >= ENOUGH_POLLS, `the client that polls was granted the key ${polls} times`);
      ok(
        less >= ENOUGH && more <= less * LARGEST_RATIO,
        `the instances were granted the key ${less} and ${more} times`,
      );
    },
  },
};
