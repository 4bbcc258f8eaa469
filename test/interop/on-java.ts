import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { eventually } from '../support/redis-locks.js';
import { missingForJava } from './maven.js';
import type { Peer } from './peer.js';

/** Both wait for much longer by themselves: ours for 1.5 s at least, Redisson for the rest of the lease. */
export const WOKEN_WITHIN_MS = 500;

/** What is missing to run Redisson here; undefined if nothing is. */
export const missing = missingForJava();

/** A test that needs Java: elsewhere it may be missing, in CI it must not. */
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

/** Lets one wait for what the other holds; answers how long after the release it had the lock. */
export async function wakeUpMs(
  holder: Peer,
  waiter: Peer,
  name: string,
  listens: () => Promise<boolean>,
): Promise<number> {
  await holder.call('lock', name);
  const granted = waiter.call('lock', name);
  await eventually('it listens', listens);
  await sleep(500);
  const releasedAt = performance.now();
  await holder.call('unlock', name);
  await granted;
  const wokenMs = performance.now() - releasedAt;
  await waiter.call('unlock', name);
  return wokenMs;
}
