import { LockUnavailableError } from '../common/errors.js';
import type { Clock } from '../clock/clock.js';
import type { AcquireReply, Held, LockMode } from '../contract/store.js';
import type { ReplyListener } from '../contract/reply-listener.js';
import type { KeyQueue } from './key-queue.js';
import { AFTER_EXPIRY_MS, deadlineOf, handoffLease } from './lease.js';
import type { Linked } from '../common/linked-list.js';
import type { Lane, Unsent } from './link.js';

/** The pauses between requests that are in no queue: the first, the longest of the first few, and the longest. */
const FIRST_PAUSE_MS = 10;
const STEADY_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 200;
const STEADY_REPEATS = 40;

/**
 * The pauses while a client of another library holds the key, in milliseconds. Such a client often has the key again
 * after a millisecond. A pause is a tenth of the time that it has held the key, because long holders tend to continue.
 */
const FIRST_FOREIGN_PAUSE_MS = 6;
const LONGEST_FOREIGN_PAUSE_MS = 50;

/** Ends of leases that differ by more than this, in milliseconds, are of two leases. */
const SAME_LEASE_MS = 5;

/**
 * How often an owner in the store's queue asks again, in case a message was lost. The first few exclusive owners ask
 * sooner, before the lease of a handoff ends. Behind more than {@link MANY_AHEAD} others, the pause is proportionally
 * longer.
 */
const FIRST_FEW = 8;
const FIRST_FEW_PAUSE_MS = 1_000;
const QUEUED_PAUSE_MS = 2_000;
const MANY_AHEAD = 2_000;
const LONGEST_QUEUED_PAUSE_MS = 40_000;

/** The same for a store without a queue, which notifies all waiters of a release. */
const NOTIFIED_PAUSE_MS = 3_000;

/** Spreads the requests of all instances that wait for the end of one lease. */
const EXPIRY_SPREAD_MS = 10;
const EXPIRY_STEP_MS = 2;
const LONGEST_EXPIRY_STEP_MS = 500;

/**
 * One owner that asks the store for a key: a request and its repetitions, until it is granted or released. The owner is
 * never used again.
 */
export class Attempt implements ReplyListener<AcquireReply>, Unsent {
  previous: Linked<Unsent>['previous'] = undefined;
  next: Linked<Unsent>['next'] = undefined;
  /** See {@link Unsent.lane}. */
  lane: Lane | undefined = undefined;
  /** When the last request was sent, -Infinity before the first. A lease counts from before its request is sent. */
  sentAt = -Infinity;
  /** The lease of the last request. */
  leaseMs = 0;
  /** `unsent`: too many requests of this process have no reply. `idle`: the request is repeated after a pause. */
  state: 'idle' | 'unsent' | 'asking' = 'idle';
  /** Whether the last request was to join the store's queue. */
  asksForPlace = false;
  /** Whether the store may keep something for this owner: a place in its queue, or what a failed request brought. */
  mayBeKept = false;
  /** Whether a request got no reply, and may still run. */
  hasFailed = false;
  /** When the first of the replies came that decide nothing. Undefined: the last reply has decided. */
  undecidedSince: number | undefined = undefined;
  /** Whether a grant came so late that less than half of its lease was left. */
  wasStale = false;
  /** Whether a message came while a reply was expected, so that the reply may be out of date. */
  mustAskAgain = false;
  private repeats = 0;
  /** When another system's client was first seen to hold the key, and when its lease ends. */
  private foreignSince = -Infinity;
  private foreignUntil = -Infinity;

  constructor(
    private readonly queue: KeyQueue,
    readonly owner: string,
    readonly mode: LockMode,
  ) {}

  /** Sends the request, or does so when it may be sent. */
  ask(now: number): void {
    const { queue } = this;
    if (queue.parts.link.queueIfCrowded(queue.key, this)) this.state = 'unsent';
    else this.sendAt(now);
  }

  /** See {@link Unsent.send}. */
  send(): void {
    this.sendAt(this.queue.parts.clock.now());
  }

  private sendAt(now: number): void {
    const { owner, mode, queue } = this;
    const { leaseMs, asksForPlace, method, label } = queue.wanted();
    this.sentAt = now;
    this.leaseMs = leaseMs;
    this.asksForPlace = asksForPlace;
    this.state = 'asking';
    this.mustAskAgain = false;
    const handoffMs = Math.min(AFTER_EXPIRY_MS, handoffLease(leaseMs));
    const { key } = queue;
    queue.parts.link.acquire({ key, owner, mode, leaseMs, wait: asksForPlace, handoffMs, method, label }, this);
  }

  /** Stops waiting to be sent. */
  dropUnsent(): void {
    if (this.state !== 'unsent') return;
    this.state = 'idle';
    this.queue.parts.link.drop(this);
  }

  /** Whether less than half of a lease that was just granted has passed. */
  isFresh(now: number): boolean {
    return now <= this.sentAt + this.leaseMs / 2 && now < deadlineOf(this.sentAt, this.leaseMs);
  }

  onReply(reply: AcquireReply): void {
    this.state = 'idle';
    this.mayBeKept ||= reply.status === 'granted' || (reply.status === 'held' && reply.queued);
    this.queue.onReply(this, reply);
  }

  onFailed(error: unknown): void {
    this.state = 'idle';
    // A request that the server has refused does not run later, and leaves nothing.
    const isRefused = error instanceof LockUnavailableError && error.refusal !== undefined;
    this.mayBeKept ||= !isRefused;
    this.hasFailed ||= !isRefused;
    this.queue.onFailed(this, error);
  }

  /** Whether the owner got no place in a queue, although it asked for one if the store has a queue. */
  isUnqueued({ queued, isFree }: Held): boolean {
    if (!this.queue.parts.link.store.capabilities.queue) return true;
    return this.asksForPlace && !queued && isFree !== true;
  }

  /** Returns how long to wait before the request is repeated, in milliseconds. */
  pauseAfter({ queued, isFree, isForeign, remainingMs = Infinity, ahead = 0 }: Held): number {
    const { clock, link } = this.queue.parts;
    const { retry } = link.store.capabilities;
    const spreadMs = 1 + clock.random() * EXPIRY_SPREAD_MS;
    // The next request removes more of the waiters that are gone.
    if (isFree === true) return spreadMs;
    const expiresInMs = remainingMs + spreadMs;
    // Another system's client frees the lock without a message.
    if (isForeign === true) return Math.min(this.foreignPause(remainingMs, clock) * jitter(clock), expiresInMs);
    const pauseMs = queued ? this.queuedPause(ahead) * jitter(clock) : this.backoff(retry?.pauseMs);
    const stepsMs = Math.max(0, ahead - FIRST_FEW + 1) * EXPIRY_STEP_MS;
    return Math.min(pauseMs, expiresInMs + Math.min(LONGEST_EXPIRY_STEP_MS, stepsMs));
  }

  /** Returns how long to wait, each time longer, or about `pauseMs` milliseconds. */
  backoff(pauseMs?: number): number {
    const longestMs = this.repeats < STEADY_REPEATS ? STEADY_PAUSE_MS : LONGEST_PAUSE_MS;
    const nextMs = pauseMs ?? Math.min(longestMs, FIRST_PAUSE_MS * 2 ** this.repeats);
    this.repeats += 1;
    return nextMs * jitter(this.queue.parts.clock);
  }

  private queuedPause(ahead: number): number {
    if (!this.queue.parts.link.store.capabilities.queue) return NOTIFIED_PAUSE_MS;
    if (this.mode === 'exclusive' && ahead < FIRST_FEW) return FIRST_FEW_PAUSE_MS;
    return Math.min(LONGEST_QUEUED_PAUSE_MS, QUEUED_PAUSE_MS * Math.max(1, ahead / MANY_AHEAD));
  }

  /** Returns the longest pause while another system's client holds the key. @param remainingMs its lease's rest. */
  private foreignPause(remainingMs: number, clock: Clock): number {
    const now = clock.now();
    // As far as is known, a holder does not change the end of its lease. So a different end means a different holder.
    if (Math.abs(now + remainingMs - this.foreignUntil) > SAME_LEASE_MS) this.foreignSince = now;
    this.foreignUntil = now + remainingMs;
    return Math.min(LONGEST_FOREIGN_PAUSE_MS, Math.max(FIRST_FOREIGN_PAUSE_MS, (now - this.foreignSince) / 10));
  }
}

/** Returns how long to wait after a failure before the same owner asks again, in milliseconds. */
export function pauseAfterFailure(clock: Clock): number {
  return LONGEST_PAUSE_MS * jitter(clock);
}

/** Keeps instances from sending in step. */
function jitter(clock: Clock): number {
  return 0.5 + clock.random() / 2;
}
