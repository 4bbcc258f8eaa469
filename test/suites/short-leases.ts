import { expect } from '@jest/globals';
import { SystemClock } from '../../lib/clock/clock.js';
import type { Lease } from '../../lib/engine/lease.js';
import { Renewer } from '../../lib/engine/renewer.js';

/** A shorter lease may be over when the machine stops for a moment. */
const SHORTEST_LEASE_MS = 30_000;

/** The tests that held a lock with a short lease on the clock of the machine. */
const found = new Set<string>();

/** Records such tests from now on in this environment of jest. */
export function recordShortLeases(): void {
  const watch: (this: Renewer, lease: Lease, now: number) => void = Reflect.get(Renewer.prototype, 'watch');
  Renewer.prototype.watch = function (lease, now) {
    const shortest = lease.locks.find(({ ttlMs }) => ttlMs < SHORTEST_LEASE_MS)?.ttlMs;
    if (this['clock'] instanceof SystemClock && shortest !== undefined) {
      found.add(`a lease of ${shortest} ms: ${expect.getState().currentTestName ?? 'a hook'}`);
    }
    watch.call(this, lease, now);
  };
}

/** Returns the tests that were recorded since the last call. */
export function shortLeases(): readonly string[] {
  const all = [...found];
  found.clear();
  return all;
}
