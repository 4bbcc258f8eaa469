import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { eventually } from '../support/redis-locks.js';
import { missingForJava } from './maven.js';
import type { Peer } from './peer.js';

/** The limit for a wake-up by message. Without one, this library polls after 1.5 s, and Redisson after the lease. */
export const WOKEN_WITHIN_MS = 500;

/** The tool that is missing to run Redisson here. Undefined if none is. */
export const missing = missingForJava();

/** Wraps a test that needs Java. Without Java it prints that the test did not run. In CI it fails. */
export function onJava(body: () => Promise<void>): () => Promise<void> {
  if (missing === undefined) return body;
  return () => {
    if (process.env['CI'] === 'true') throw new Error(`${missing} is missing: install JDK 17 and Maven`);
    say(`NOT RUN, because ${missing} is missing: ${expect.getState().currentTestName}`);
    return Promise.resolve();
  };
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Lets the waiter wait for the holder's lock. Returns the time from the release to the grant. */
export async function wakeUpMs(
  holder: Peer,
  waiter: Peer,
  name: string,
  isSubscribed: () => Promise<boolean>,
): Promise<number> {
  await holder.call('lock', name);
  const granted = waiter.call('lock', name);
  await eventually('the waiter has subscribed', isSubscribed);
  await sleep(500);
  const releasedAt = performance.now();
  await holder.call('unlock', name);
  await granted;
  const wokenMs = performance.now() - releasedAt;
  await waiter.call('unlock', name);
  return wokenMs;
}
