import { LockUnavailableError, withoutStack } from '../errors.js';
import { deadlineOf, handoffLeaseAfterExpiry, type StoreGrant } from '../lease/lease.js';
import { instanceOf } from '../store/instance-id.js';
import type { AcquireReply, Granted, GrantedTokens, Handoff, Held, LockMode } from '../store/lock-store.js';
import { type ReplyListener, whenReplied } from '../store/pending-reply.js';
import type { Clock, Timer } from '../time/clock.js';
import type { LimitedRequest } from '../time/timeout-pool.js';
import { heldUntil, type LastReply, type NotYet, unavailable } from './acquire-errors.js';
import type { AcquireDeps } from './acquire-options.js';
import { type Lane, MOST_IN_FLIGHT } from './admission.js';

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

/** The longest of the first `STEADY_RETRIES` pauses. So older waiters request a busy key as often as newer ones. */
const STEADY_PAUSE_MS = 50;
const STEADY_RETRIES = 40;

/**
 * The pauses while a client of another library holds the key, in milliseconds. Such a client often has the key again
 * after a millisecond. A pause is a tenth of the time that it has held the key, because long holders tend to continue.
 */
const FIRST_FOREIGN_PAUSE_MS = 6;
const LONGEST_FOREIGN_PAUSE_MS = 50;

/** Two lease ends that differ by more than this, in milliseconds, belong to two leases. A reply takes some time. */
const SAME_LEASE_MS = 5;

/** How far instances that wait for the same expiry are spread out. */
const EXPIRY_SPREAD_MS = 10;

/**
 * How often an attempt in a queue repeats its request, in case a message was lost or the lock was handed off to an
 * instance that is gone or frozen. The first few exclusive attempts repeat it sooner, before the lease of a handoff
 * ends. Each of the others repeats it at least every 2 s, because all attempts ahead of it may be frozen. Behind more
 * than {@link MANY_AHEAD} others, it pauses proportionally longer. The scripts keep a queue without requests for 60 s.
 */
const FIRST_FEW = 8;
const FIRST_FEW_REPEAT_MS = 1_000;
const QUEUED_REPEAT_MS = 2_000;
const MANY_AHEAD = 2_000;
const LONGEST_REPEAT_MS = 40_000;

/** The same for a store without a queue, which notifies all waiters of a release. */
const NOTIFIED_REPEAT_MS = 3_000;

/** By how much the requests of waiters behind the first few are staggered after the end of a lease, in milliseconds. */
const EXPIRY_STEP_MS = 2;
const LONGEST_EXPIRY_STEP_MS = 500;

/** Receives the outcome of each request of an attempt. */
export interface AttemptListener {
  /** The resource that errors name. */
  readonly resource: string;
  /** Called with a reply that arrived in time. */
  onAcquireReply(attempt: Attempt, reply: AcquireReply): void;
  /** Called if the store failed or the connection ended. */
  onFailure(attempt: Attempt, error: LockUnavailableError): void;
  /** Called if the server was silent for `requestTimeoutMs` after the request was sent. The request may still run. */
  onTimeout(attempt: Attempt, error: LockUnavailableError): void;
  /** Called with the reply to a request that was given up, or without a reply if that request failed. */
  onLateReply(attempt: Attempt, reply?: AcquireReply): void;
}

/** What differs between the requests of an attempt. */
interface Requested {
  readonly leaseMs: number;
  readonly tokens: number;
}

/**
 * Acquires some keys for one owner. Its request may be repeated, but never before the previous request has its outcome.
 * Each request has one outcome: a reply, a failure or a timeout.
 */
export class Attempt implements ReplyListener<AcquireReply>, LimitedRequest {
  /** When the last request was sent. A lease counts from before its request is sent. */
  sentAt = 0;
  /** The lease of the last request. */
  leaseMs = 0;
  /** Whether the last request was to join the store's queue. */
  queueRequested = false;
  /** Whether the store may keep a queue entry of this owner, or a grant that came too late. */
  needsRelease = false;
  /** Whether a handoff granted the attempt before its reply, so that the next attempt need not wait for that reply. */
  grantedBeforeReply = false;
  /**
   * Whether a handoff of unknown age arrived since the last request. Only the store knows if this attempt has the lock.
   */
  unverifiedHandoff = false;
  /** How many times the attempt has backed off. */
  private retries = 0;
  /** When a foreign client was first seen to hold the key, and when its lease ends. */
  private foreignSince = -Infinity;
  private foreignUntil = -Infinity;
  /** Runs while a reply is expected. */
  private timer: Timer | undefined = undefined;
  /** Where its requests wait until they may be sent. */
  private lane: Lane | undefined = undefined;

  constructor(
    readonly owner: string,
    readonly keys: readonly string[],
    private readonly mode: LockMode,
    private readonly deps: AcquireDeps,
    private readonly listener: AttemptListener,
  ) {}

  /** Whether a reply is expected. */
  get isPending(): boolean {
    return this.timer !== undefined;
  }

  /**
   * Sends a request. The listener is called with its outcome, immediately if the request cannot be sent.
   *
   * @param now the current time. Default: it is read.
   * @returns false if it was not sent, because too many requests have no reply. Then call {@link waitToSend}.
   */
  send(requested: Requested, queue: boolean, now?: number): boolean {
    try {
      this.lane ??= this.deps.admission?.laneOf(this.keys[0]);
      if (this.lane?.tryEnter() === false) return false;
    } catch (cause) {
      this.onNotSent(cause);
      return true;
    }
    this.sendAdmitted(requested, queue, now);
    return true;
  }

  /** Calls `send` when a request may be sent. `send` then calls {@link sendAdmitted}. */
  waitToSend(send: () => void): Timer {
    return (this.lane as Lane).wait(send);
  }

  /** Returns the last reply for waiters while the request waits for others before it is sent. */
  crowdedOut(): LastReply {
    const why = `its request was not sent, because ${MOST_IN_FLIGHT} requests of this process have no reply yet`;
    // Each request in a crowd has such an error, and few of the errors reach a caller.
    return this.notDelivered(withoutStack(() => unavailable(this.listener.resource, why)));
  }

  /** Like {@link send}, for a request that has waited for its turn. */
  sendAdmitted({ leaseMs, tokens }: Requested, queue: boolean, now = this.deps.clock.now()): void {
    this.sentAt = now;
    this.leaseMs = leaseMs;
    this.queueRequested = queue;
    this.unverifiedHandoff = false;
    try {
      this.request(tokens);
    } catch (cause) {
      this.onNotSent(cause);
    }
  }

  /** The local moment from which the last request has no effect. */
  get expiresAt(): number {
    return this.sentAt + this.deps.requestTimeoutMs;
  }

  /** Stops expecting a reply. A reply that still arrives is late. */
  ignoreReply(): void {
    if (this.timer !== undefined) this.abandon();
  }

  /** Fails the request, if there is one, because its reply may be lost with the connection. */
  onDisconnected(): void {
    if (!this.isPending) return;
    this.ignoreReply();
    const error = this.unavailable('the connection ended before the reply');
    this.listener.onFailure(this, error);
  }

  /**
   * Sends a release of each key, which undoes a request that runs before it.
   *
   * @param isLost whether that request failed.
   */
  releaseBehind(isLost = false): void {
    const { keys, owner, mode, leaseMs } = this;
    for (const key of keys) {
      this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, closedUntil: 0 }, isLost);
    }
  }

  /** Returns the grant of a reply, or undefined if its lease has already expired. */
  grantOf({ token, tokens }: GrantedTokens, now: number): StoreGrant | undefined {
    const { owner, sentAt, leaseMs } = this;
    return now < deadlineOf(sentAt, leaseMs) ? { owner, sentAt, leaseMs, token, tokens } : undefined;
  }

  /** Returns the error for a grant whose lease had expired when it arrived. */
  tooLate(): LockUnavailableError {
    return this.unavailable(`the reply took longer than the lease of ${this.leaseMs} ms`);
  }

  /** Returns the last reply for waiters, from a reply that grants nothing. */
  lastReplyOf(reply: Exclude<AcquireReply, Granted>): LastReply {
    // Nothing was granted, so nothing is known about the lock, and the request is repeated.
    if (reply.status === 'expired')
      return this.notDelivered(this.unavailable('the request could not be delivered in time'));
    if (reply.status === 'permits-mismatch') return { kind: 'permits-mismatch', permits: reply.permits };
    const notYet = this.notYetOf(reply);
    if (notYet !== undefined) return { kind: 'held', until: undefined, notYet };
    const { remainingMs, holder, ahead } = reply;
    const until = remainingMs === undefined ? undefined : this.deps.clock.now() + remainingMs;
    const isOwn = holder?.instanceId === instanceOf(this.owner);
    return heldUntil(until, holder && { ...holder, isOwn }, ahead);
  }

  /** Returns how long to wait before the request is repeated, in milliseconds, if others hold the lock. */
  pauseAfter({ queued, isForeign, remainingMs = Infinity, ahead = 0 }: Held): number {
    const { clock } = this.deps;
    const expiresInMs = remainingMs + 1 + clock.random() * EXPIRY_SPREAD_MS;
    const { retry } = this.deps.store.capabilities;
    // A foreign client frees the lock without a message.
    if (isForeign === true) return Math.min(this.foreignPause(remainingMs) * jitter(clock), expiresInMs);
    // A queued attempt gets the lock by handoff. Its requests only find lost handoffs and dead holders.
    const pauseMs = queued ? this.repeatMs(ahead) * jitter(clock) : this.backoff(retry?.pauseMs);
    const stepsMs = Math.max(0, ahead - FIRST_FEW + 1) * EXPIRY_STEP_MS;
    return Math.min(pauseMs, expiresInMs + Math.min(LONGEST_EXPIRY_STEP_MS, stepsMs));
  }

  /** Returns how long to wait before the request is repeated: each time longer, or about `pauseMs` milliseconds. */
  backoff(pauseMs?: number): number {
    const longest = this.retries < STEADY_RETRIES ? STEADY_PAUSE_MS : LONGEST_PAUSE_MS;
    const longestMs = pauseMs ?? Math.min(longest, FIRST_PAUSE_MS * 2 ** this.retries);
    this.retries += 1;
    return longestMs * jitter(this.deps.clock);
  }

  /** Returns the longest pause while a foreign client holds the key. @param remainingMs the rest of its lease. */
  private foreignPause(remainingMs: number): number {
    const now = this.deps.clock.now();
    // As far as is known, a holder does not change the end of its lease. So a different end means a different holder.
    if (Math.abs(now + remainingMs - this.foreignUntil) > SAME_LEASE_MS) this.foreignSince = now;
    this.foreignUntil = now + remainingMs;
    return Math.min(LONGEST_FOREIGN_PAUSE_MS, Math.max(FIRST_FOREIGN_PAUSE_MS, (now - this.foreignSince) / 10));
  }

  private repeatMs(ahead: number): number {
    if (!this.deps.store.capabilities.queue) return NOTIFIED_REPEAT_MS;
    if (this.mode === 'exclusive' && ahead < FIRST_FEW) return FIRST_FEW_REPEAT_MS;
    return Math.min(LONGEST_REPEAT_MS, QUEUED_REPEAT_MS * Math.max(1, ahead / MANY_AHEAD));
  }

  /** Called with the reply to a request, even a late one. */
  onReply(reply: AcquireReply): void {
    // A late reply also shows that the server works.
    if (reply.status !== 'expired') this.deps.health.onReply(this.keys[0]);
    if (!this.isPending) return this.listener.onLateReply(this, reply);
    this.ignoreReply();
    this.listener.onAcquireReply(this, reply);
  }

  /** Called if a request failed, even late. */
  onFailed(error: unknown): void {
    if (!this.isPending) return this.listener.onLateReply(this);
    this.ignoreReply();
    this.deps.health.onFailed('acquire', this.keys[0], error);
    const known = error instanceof LockUnavailableError ? error : this.unavailable('the store failed', error);
    this.listener.onFailure(this, known);
  }

  /** See {@link LimitedRequest}. */
  onTimeout(): void {
    this.endRequest();
    const why = `no reply within ${this.deps.requestTimeoutMs} ms`;
    this.deps.health.onNoReply(this.keys[0], why);
    const error = this.unavailable(why);
    this.listener.onTimeout(this, error);
  }

  private request(tokens: number): void {
    const { keys, owner, mode, expiresAt, queueRequested: queue } = this;
    const { store, limitRequest, health, lockDelayMs } = this.deps;
    if (health.isAnySilent) health.onRetry(keys[0]);
    const leaseMs = this.leaseMs + lockDelayMs;
    const handoffMs = handoffLeaseAfterExpiry(this.leaseMs) + lockDelayMs;
    const reply = store.acquire({ keys, owner, mode, leaseMs, queue, handoffMs, tokens, expiresAt });
    // Starts after the request, because a store that gives up at `expiresAt` by itself must do so first.
    this.timer = limitRequest(keys[0], this, this.sentAt);
    whenReplied(reply, this);
  }

  /** Without an outcome, the attempt would block its key permanently. */
  private onNotSent(cause: unknown): void {
    this.abandon();
    this.listener.onFailure(this, this.unavailable('the request could not be sent', cause));
  }

  private abandon(): void {
    this.timer?.cancel();
    this.endRequest();
  }

  /** @param error the error for a caller whose time elapses before a request is delivered. */
  private notDelivered(error: LockUnavailableError): LastReply {
    return { kind: 'undelivered', error, since: this.deps.clock.now() };
  }

  private endRequest(): void {
    this.timer = undefined;
    this.lane?.leave();
  }

  /** Returns the error for a caller without `waitMs` if nobody else seems to have the lock, otherwise undefined. */
  private notYetOf({ isFree, holder, key = this.keys[0] }: Held): NotYet | undefined {
    const { releaser, requestTimeoutMs } = this.deps;
    if (isFree === true) {
      const error = this.unavailable('waiters that are gone are being removed from its queue');
      return { error, leastMs: requestTimeoutMs };
    }
    if (holder?.instanceId !== instanceOf(this.owner) || !releaser.isReleasing(key)) return undefined;
    const error = this.unavailable('the release of an earlier request of this instance has not arrived yet');
    return { error, leastMs: 0 };
  }

  private unavailable(why: string, cause?: unknown): LockUnavailableError {
    return unavailable(this.listener.resource, why, { cause: cause ?? this.deps.health.outageOf(this.keys[0]) });
  }
}

/** Returns how long to wait before the next attempt, in milliseconds, after one without a reply. */
export function pauseAfterFailure(clock: Clock): number {
  return LONGEST_PAUSE_MS * jitter(clock);
}

/** Returns the moment from which a handoff's lease counts, or undefined if it is unknown or the lease has expired. */
export function leaseStartOf({ grantedAt, leaseMs }: Handoff, now: number): number | undefined {
  // A grant in the future means that the server's clock was set, so the age of the grant is unknown.
  if (grantedAt === undefined || grantedAt > now) return undefined;
  return now < deadlineOf(grantedAt, leaseMs) ? grantedAt : undefined;
}

/** Keeps instances from sending in step. */
function jitter(clock: Clock): number {
  return 0.5 + clock.random() / 2;
}
