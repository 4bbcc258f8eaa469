import { setTimeout as sleep } from 'node:timers/promises';

/** Returns what the promise gives, or `otherwise` if it gives nothing within `ms`. Leaves no timer behind. */
export async function withinMs<T>(ms: number, promise: Promise<T>, otherwise: T): Promise<T> {
  const settled = new AbortController();
  const late = sleep(ms, otherwise, { signal: settled.signal });
  // The loser of the race is aborted, and nobody awaits it.
  late.catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    settled.abort();
  }
}
