import { type Clock, withTimeout } from '../clock/clock.js';
import { LockUnavailableError } from '../common/errors.js';
import { escapeGlob } from '../keys/glob.js';
import type { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';

/** What SCAN is to look for. */
export interface ScanRequest {
  /** A glob over keys, without the prefix that the client puts before each. */
  readonly pattern: string;
  /** About how many keys the server looks at in one step. */
  readonly count: number;
}

export interface ScanTimes {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
}

/**
 * Yields the keys of one server, page by page, without the client's prefix. A key may be yielded twice. A key that
 * exists throughout the scan is yielded, or the scan throws: a cursor is not valid on another server or after a
 * restart.
 *
 * @throws LockUnavailableError if a step fails or takes longer than `requestTimeoutMs`, or if the connection ends.
 */
export async function* scanKeys(
  connection: RedisConnection,
  { pattern, count }: ScanRequest,
): AsyncGenerator<readonly string[]> {
  const { keyPrefix } = connection.client;
  const match = escapeGlob(keyPrefix) + pattern;
  let cursor = '0';
  let losses: number | undefined;
  do {
    const step = connection.client.send('scan', [], [cursor, 'MATCH', match, 'COUNT', String(count)]);
    const [next, names] = (await withinTime(step, connection)) as [string, string[]];
    // A client repeats a command over the next connection.
    losses ??= connection.losses;
    if (connection.losses !== losses) throw listingFailed(new Error('the connection ended during the scan'));
    cursor = next;
    const own = names.filter((name) => name.startsWith(keyPrefix));
    yield own.map((name) => name.slice(keyPrefix.length));
  } while (cursor !== '0');
}

/** Returns the reply to a request of a listing. @throws LockUnavailableError if there is none in time. */
export async function withinTime<T>(reply: Promise<T>, { clock, requestTimeoutMs }: ScanTimes): Promise<T> {
  try {
    return await withTimeout(clock, requestTimeoutMs, reply, () => {
      throw new Error(`no reply within ${requestTimeoutMs} ms`);
    });
  } catch (error) {
    throw listingFailed(error);
  }
}

/** Converts the error of a failed listing. */
export function listingFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a listing of locks');
}
