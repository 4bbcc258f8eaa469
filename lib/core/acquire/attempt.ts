import type { Clock } from '../time/clock.js';
import { deadlineOf } from '../lease/grant.js';
import type { Handoff, Held, RetryPolicy } from '../store/lock-store.js';

/** The lease of a lock that was handed over: long enough to be noticed, short enough if its new owner is dead. */
export const HANDOFF_MS = 3_000;

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

/** How far those who wait for the same expiry are spread out. */
const EXPIRY_SPREAD_MS = 10;

/** One try to get a key; repeated with the same owner until it is granted or given up. */
export class Attempt {
  /** When it was sent last: leases are counted from before the request left. */
  sentAt = 0;
  /** The lease that was asked for last. */
  leaseMs = 0;
  /** It was sent last to wait in the store's queue. */
  forQueue = false;
  /** Something of it may stand in the store: a place in the queue, or a grant that came too late. */
  standing = false;
  /** It was granted before its answer has come, which will say nothing new: the next ask need not wait for that. */
  grantedAhead = false;
  /** It was told of a hand-off whose age it could not tell: the store has to be asked. */
  handedBlindly = false;
  /** How often it was answered that others hold the key, or not at all. */
  refusals = 0;

  constructor(readonly owner: string) {}

  /** How long to wait before asking again, after a refusal. */
  pauseAfter({ queued, remainingMs = Infinity }: Held, clock: Clock, pace?: RetryPolicy): number {
    const expiresInMs = remainingMs + 1 + clock.random() * EXPIRY_SPREAD_MS;
    // In the queue the lock comes by itself; asking is for what gets lost on the way, and for holders that are dead.
    const pauseMs = queued ? HANDOFF_MS * jitter(clock) : this.backoff(clock, pace);
    return Math.min(pauseMs, expiresInMs);
  }

  /** How long to wait before asking again: each time longer, or as the store wants it. */
  backoff(clock: Clock, pace?: RetryPolicy): number {
    const pauseMs = pace?.pauseMs ?? Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.refusals);
    this.refusals += 1;
    return pauseMs * jitter(clock);
  }
}

/** How long to wait before asking anew, after an ask without an answer. */
export function pauseAfterSilence(clock: Clock): number {
  return LONGEST_PAUSE_MS * jitter(clock);
}

/** From when the lease of a hand-off counts; undefined if it cannot be believed in. */
export function startOf({ grantedAt, leaseMs }: Handoff, now: number): number | undefined {
  // Granted after it was heard of: the server's clock was set, so that its age is not known.
  if (grantedAt === undefined || grantedAt > now) return undefined;
  return now < deadlineOf(grantedAt, leaseMs) ? grantedAt : undefined;
}

/** So that contenders do not ask in step. */
function jitter(clock: Clock): number {
  return 0.5 + clock.random() / 2;
}

/** The lease that whoever is next gets from one who asks for `leaseMs`. */
export function handoffLease(leaseMs: number): number {
  return Math.min(HANDOFF_MS, leaseMs);
}
