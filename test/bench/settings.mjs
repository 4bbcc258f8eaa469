// What all entries have in common, and how long the parts of a run take. Nothing here belongs to one entry or one scenario's target.

/** The lease of every lock, in every library. */
export const TTL_MS = 30_000;

/** How long those that poll pause between two tries: the same short time for all, without jitter. */
export const POLL_MS = 5;

/** How many hold a lock with permits at most. */
export const PERMITS = 10;

/** Rounds that count; one more goes before them and is dropped. */
export const roundsOf = (quick) => (quick ? 2 : 5);

/**
 * How long after the end of a round those that wait may still get the lock, which nobody else wants by then: so that no wait
 * is cut short. One that takes even longer is stuck: it missed the release.
 */
export const drainMsOf = (quick) => (quick ? 1_000 : 3_000);
