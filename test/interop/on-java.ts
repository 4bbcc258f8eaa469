import { expect, it } from '@jest/globals';
import { eventually } from '../support/redis-locks.js';
import { missingForJava } from './maven.js';
import type { Peer } from './peer.js';

/** The tool that is missing to run Redisson here. Undefined if none is. */
export const missing = missingForJava();

/** Adds a test that needs Java. Without Java it prints that the test did not run. In CI it fails. */
export function itOnJava(name: string, body: () => Promise<void>): void {
  // oxlint-disable-next-line jest/valid-title -- the caller has it
  it(name, async () => {
    if (missing === undefined) return body();
    if (process.env['CI'] === 'true') throw new Error(`${missing} is missing: install JDK 17 and Maven`);
    process.stdout.write(`NOT RUN, because ${missing} is missing: ${expect.getState().currentTestName}\n`);
  });
}

/** Longer than a test may take. Without a message, Redisson would wait for the end of the lease. */
const LEASE_MS = '3600000';

/** Lets the waiter wait for the holder's lock, until the release wakes it up. */
export async function wakeUp(
  holder: Peer,
  waiter: Peer,
  name: string,
  isSubscribed: () => Promise<boolean>,
): Promise<void> {
  await holder.call('lockFor', name, LEASE_MS);
  const granted = waiter.call('lock', name);
  await eventually('the waiter has subscribed', isSubscribed);
  await holder.call('unlock', name);
  await granted;
  await waiter.call('unlock', name);
}
