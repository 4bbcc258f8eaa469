import type { Grant } from './grant.js';

/**
 * The pause before an unanswered renewal is repeated, and its lower limit near the deadline, as fractions of the lease.
 * Both are at most 1 s, because a restarted cluster node refuses requests for a few seconds.
 */
const RETRY_AFTER = 1 / 10;
const RETRY_AFTER_AT_LEAST = 1 / 50;
const RETRY_AFTER_AT_MOST_MS = 1_000;

/** Returns when a renewal without a reply is repeated: after a pause, which is shorter near the deadline. */
export function retryMoment({ ttlMs, deadline }: Grant, now: number): number {
  const longestMs = Math.min(ttlMs * RETRY_AFTER, RETRY_AFTER_AT_MOST_MS);
  const shortestMs = Math.min(ttlMs * RETRY_AFTER_AT_LEAST, RETRY_AFTER_AT_MOST_MS);
  const delayMs = Math.max(shortestMs, Math.min(longestMs, (deadline - now) / 2));
  // Rounded up, so that the pause is never zero.
  return Math.ceil((now + delayMs) / shortestMs) * shortestMs;
}
