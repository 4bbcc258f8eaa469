import { expect } from '@jest/globals';
import type { Grant } from '../../lib/core/lease/grant.js';
import { Watchdog } from '../../lib/core/lease/watchdog.js';
import { SystemClock } from '../../lib/core/time/clock.js';
import { TimeoutPool } from '../../lib/core/time/timeout-pool.js';

/** A shorter lease may be over when the machine stops for a moment. */
const SHORTEST_LEASE_MS = 30_000;

/** Returns the clock of a watchdog or of a pool of timeouts. */
const clockOf = (owner: object): unknown => Reflect.get(owner, 'clock');

/** The tests that held a lock with a short lease on the clock of the machine. */
const found = new Set<string>();

/** Records such tests from now on in this environment of jest. */
export function recordShortLeases(): void {
  const watch: (this: Watchdog, grant: Grant) => boolean = Reflect.get(Watchdog.prototype, 'watch');
  Watchdog.prototype.watch = function (grant) {
    const own = clockOf(this);
    const clock = own instanceof TimeoutPool ? clockOf(own) : own;
    if (clock instanceof SystemClock && grant.ttlMs < SHORTEST_LEASE_MS) {
      found.add(`a lease of ${grant.ttlMs} ms: ${expect.getState().currentTestName ?? 'a hook'}`);
    }
    return watch.call(this, grant);
  };
}

/** Returns the tests that were recorded since the last call. */
export function shortLeases(): readonly string[] {
  const all = [...found];
  found.clear();
  return all;
}
