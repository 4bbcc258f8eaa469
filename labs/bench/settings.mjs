// Settings of all entries and scenarios.

/** The lease of every lock, in every library. */
export const TTL_MS = 30_000;

/** The pause between two attempts of all polling entries, without jitter. */
export const POLL_MS = 5;

/**
 * How a scenario is run.
 *
 * @typedef {object} Plan
 * @property {boolean} quick shorter and fewer rounds: to see that it works
 */

/**
 * The rounds that count. One more round precedes them and is dropped.
 *
 * @param {Plan} plan
 */
export const roundsOf = ({ quick }) => (quick ? 2 : 5);

/**
 * How long waiters may still get the lock after a round, so that no wait is cut short. A longer wait is stuck: the
 * waiter missed the release.
 *
 * @param {Plan} plan
 * @param {{ variantOf?: string }} [entry] at their defaults, libraries may wait for longer than a run can
 */
export const drainMsOf = ({ quick }, { variantOf } = {}) => (quick || variantOf !== undefined ? 800 : 2_000);
