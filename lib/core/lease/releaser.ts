import { handoffLease } from './lease.js';
import { Pauses } from '../time/pauses.js';
import type { Timer } from '../time/clock.js';
import type { LimitedRequest, TimeoutPool } from '../time/timeout-pool.js';
import { LockUnavailableError } from '../errors.js';
import type { LockMode, LockStore } from '../store/lock-store.js';
import { type ReplyListener, whenReplied } from '../store/pending-reply.js';
import type { StoreHealth } from '../store/store-health.js';

/** A lock to release. */
export interface Release {
  readonly resource: string;
  readonly key: string;
  readonly owner: string;
  readonly mode: LockMode;
  /**
   * The longest lease that the lock may have, in milliseconds. A handoff gets no longer lease, and a failed release is
   * repeated for no longer than this.
   */
  readonly leaseMs: number;
  /** The local moment until which the lock stays closed (`minHoldMs`). 0, or a moment in the past: it is free now. */
  readonly closedUntil: number;
}

const FIRST_REPEAT_MS = 100;
const LONGEST_REPEAT_MS = 1000;

/**
 * Releases locks. Repeats a release that failed, or whose connection ended without a reply, until the store has replied
 * or the lease expires. So a lost packet does not keep a lock closed. Releasing twice has no further effect.
 */
export class Releaser {
  private unanswered = 0;
  private drained: (() => void) | undefined;
  /** The pauses before repetitions. */
  private readonly pauses: Pauses;
  /** The releases that got no reply in time and are not repeated yet. */
  private readonly late = new Set<SentRelease>();
  /** How many releases of each key have to arrive before a later request can be sure of their effect. */
  private readonly underWay = new Map<string, number>();
  private disconnectedAt = -Infinity;
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: TimeoutPool,
    private readonly requestTimeoutMs: number,
    /** How many fencing tokens to reserve for the next holder. */
    private readonly tokens: number,
    /** By how much Redis keeps a lock longer than its lease, in milliseconds (`lockDelayMs`). */
    private readonly lockDelayMs: number,
    private readonly health?: Pick<StoreHealth, 'onFailed'>,
  ) {
    this.pauses = new Pauses(clock);
  }

  /**
   * Sends the release now, and repeats it in the background if it fails. A caller need not handle the rejection.
   *
   * @param now the current time. Default: it is read.
   * @returns whether the store still had the lock.
   * @throws LockUnavailableError if the first request failed or got no reply within `requestTimeoutMs`.
   */
  release(release: Release, now = this.clock.now()): Promise<boolean> {
    // The request that got this lease may still be in flight.
    const leaseOverAt = now + this.requestTimeoutMs + release.leaseMs + this.lockDelayMs;
    const reply = this.send(release);
    this.unanswered += 1;
    const sent = new SentRelease(this, release, now, leaseOverAt);
    sent.timer = this.clock.limitRequest(release.key, sent, now);
    whenReplied(reply, sent);
    return sent.released;
  }

  /** Called with the reply to a release. @internal */
  onReply(sent: SentRelease, wasHeld: boolean): void {
    sent.timer?.cancel();
    if (this.isRepeated(sent)) return;
    this.answered();
    sent.resolve(wasHeld);
  }

  /** Called if a release failed. @internal */
  onFailed(sent: SentRelease, error: unknown): void {
    sent.timer?.cancel();
    if (this.isRepeated(sent)) return;
    this.health?.onFailed('release', sent.release.key, error);
    sent.fail(error);
    void this.repeat(sent.release, sent.leaseOverAt, error);
  }

  /** Called if a release has had no reply for too long. @internal */
  onTimeout(sent: SentRelease): void {
    const { release, sentAt, leaseOverAt } = sent;
    sent.fail(this.noReply(release));
    // The client may have dropped the request with its connection. Otherwise, the reply is late.
    if (this.disconnectedAt >= sentAt) void this.repeat(release, leaseOverAt, sent.error);
    else this.late.add(sent);
  }

  /** Returns whether a late release is being repeated. If it is not, nothing begins to repeat it from now on. */
  private isRepeated(sent: SentRelease): boolean {
    return sent.error !== undefined && !this.late.delete(sent);
  }

  /**
   * Releases in the background, behind a request that was given up.
   *
   * @param isLost whether that request failed. The release may then arrive later than the next request.
   */
  releaseBehind(release: Release, isLost = false): void {
    const released = this.release(release);
    if (!isLost) return;
    const { key } = release;
    this.begin(key);
    const end = (): void => this.end(key);
    released.then(end, end);
  }

  /**
   * Whether a later request may overtake a release of the key, because the release follows a request that failed, or
   * because the release failed and is repeated. Until it arrives, the store may name this instance as the holder.
   */
  isReleasing(key: string): boolean {
    return this.underWay.size > 0 && this.underWay.has(key);
  }

  /** Repeats the releases that got no reply in time, because the connection that ended may never deliver one. */
  onDisconnected(): void {
    this.disconnectedAt = this.clock.now();
    const late = [...this.late];
    this.late.clear();
    for (const { release, leaseOverAt, error } of late) void this.repeat(release, leaseOverAt, error);
  }

  /** Repeats the failed releases now, because their locks stay closed until a release arrives. */
  onReconnected(): void {
    this.pauses.endAll();
  }

  /** Waits until all releases have a reply, for at most `requestTimeoutMs`. */
  async drain(): Promise<void> {
    if (this.unanswered === 0) return;
    const all = new Promise<void>((resolve) => (this.drained = resolve));
    await this.clock.inTime(all, () => undefined);
  }

  /** Stops repeating releases. */
  close(): void {
    this.closed = true;
    this.pauses.endAll();
  }

  private async repeat(release: Release, leaseOverAt: number, failure: unknown): Promise<void> {
    let error = failure;
    this.begin(release.key);
    for (let pauseMs = FIRST_REPEAT_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS)) {
      const permanent = error instanceof LockUnavailableError && error.permanent;
      if (permanent || this.clock.now() + pauseMs >= leaseOverAt) break;
      await this.pauses.pause(pauseMs);
      if (this.closed) break;
      try {
        await this.sendInTime(release);
        break;
      } catch (again) {
        this.health?.onFailed('release', release.key, again);
        error = again;
      }
    }
    this.end(release.key);
    this.answered();
  }

  private begin(key: string): void {
    this.underWay.set(key, (this.underWay.get(key) ?? 0) + 1);
  }

  private end(key: string): void {
    const others = (this.underWay.get(key) ?? 0) - 1;
    if (others > 0) this.underWay.set(key, others);
    else this.underWay.delete(key);
  }

  private answered(): void {
    this.unanswered -= 1;
    if (this.unanswered === 0) this.drained?.();
  }

  private sendInTime(release: Release): Promise<boolean> {
    return this.clock.inTime(Promise.resolve(this.send(release)), () => {
      throw this.noReply(release);
    });
  }

  private send(release: Release): PromiseLike<boolean> {
    const { key, owner, mode, leaseMs, closedUntil } = release;
    const closedForMs = closedUntil === 0 ? 0 : Math.max(0, Math.ceil(closedUntil - this.clock.now()));
    const handoffMs = handoffLease(Math.max(1, leaseMs)) + this.lockDelayMs;
    return this.store.release({ keys: [key], owner, mode, closedForMs, handoffMs, tokens: this.tokens });
  }

  private noReply({ resource }: Release): LockUnavailableError {
    const elapsedMs = this.requestTimeoutMs;
    const message = `The release of ${resource} got no reply within ${this.requestTimeoutMs} ms.`;
    return new LockUnavailableError(message, { resource, elapsedMs });
  }
}

/** A release whose reply is expected. */
class SentRelease implements ReplyListener<boolean>, LimitedRequest {
  readonly released: Promise<boolean>;
  resolve!: (wasHeld: boolean) => void;
  private reject!: (error: unknown) => void;
  timer: Timer | undefined = undefined;
  /** The last failure. Undefined before the first. */
  error: unknown = undefined;

  constructor(
    private readonly releaser: Releaser,
    readonly release: Release,
    readonly sentAt: number,
    /** The local moment from which the lock is free, even if no release arrives. */
    readonly leaseOverAt: number,
  ) {
    this.released = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  onReply(wasHeld: boolean): void {
    this.releaser.onReply(this, wasHeld);
  }

  onFailed(error: unknown): void {
    this.releaser.onFailed(this, error);
  }

  onTimeout(): void {
    this.releaser.onTimeout(this);
  }

  /** Rejects the caller's promise. */
  fail(error: unknown): void {
    this.error = error;
    ignoreRejectionOf(this.released);
    this.reject(error);
  }
}

/** A caller that does not await the promise must not end the process with an unhandled rejection. */
function ignoreRejectionOf(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}
