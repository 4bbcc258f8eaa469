import { runOutside } from '../common/async-context.js';
import { LockUnavailableError, messageOf } from '../common/errors.js';
import { dropPromise, secondsOf } from '../common/format-value.js';
import type { Clock, Timer } from '../clock/clock.js';
import { type LockMode, type TransferReply, type TransferRequest, UnansweredError } from '../contract/store.js';
import type { ReplyListener } from '../contract/reply-listener.js';
import { HANDOFF_MS, handoffLease } from './lease.js';
import { closedError } from './lifecycle.js';
import type { Link } from './link.js';

/** What is released: a lock, a place in the store's queue, or whatever a request without a reply has left. */
export interface Release {
  /** Names the lock in errors and log lines. Undefined if no caller has the lock. */
  readonly resource?: string | undefined;
  readonly key: string;
  readonly owner: string;
  readonly mode: LockMode;
  /** The longest lease that the store may keep. A failed release is repeated for no longer than this. */
  readonly leaseMs: number;
  /** The local moment until which the key stays closed. A moment in the past: it is free now. */
  readonly closedUntil: number;
  /** Whether the key stays closed because the work is done. Default: false. */
  readonly isDone?: boolean;
  /** Whom the lock is given to. Undefined: it is released. */
  readonly heir?: Heir | undefined;
}

/** The owner that a lock is given to. */
export interface Heir extends Pick<TransferRequest, 'token' | 'restMs'> {
  readonly owner: string;
  readonly leaseMs: number;
}

/** The first and the longest pause before a request is repeated, in milliseconds. */
export const FIRST_REPEAT_MS = 100;
export const LONGEST_REPEAT_MS = 1_000;

/**
 * When the release of an owner whose request has failed is sent again, in milliseconds after the first reply. The bytes
 * of a dead connection may still arrive. The lease may be over by then, but the request may join the store's queue.
 */
const AGAIN_AFTER_MS = [1_000, 3_000, 9_000];

/**
 * Sends releases. Repeats a release that failed until the store has replied or the lease is over, so that a lost packet
 * does not keep a lock closed. Releasing twice has no further effect.
 */
export class Releaser {
  private readonly unanswered = new Set<PendingRelease>();
  /** The releases that are sent again after their reply, by their timers. */
  private readonly again = new Map<Timer, Release>();
  private isClosed = false;

  /** @param onLeft is called if a lock may stay behind. @param onEnded is called when a release has ended. */
  constructor(
    readonly link: Link,
    readonly clock: Clock,
    readonly onLeft: (message: string) => void,
    private readonly onEnded: () => void,
  ) {}

  /**
   * Sends a release. It is sent before any later request of this tick. A caller need not handle the rejection.
   *
   * @param now the current time.
   * @param hasFailed whether a request of the owner has failed, and may still run.
   * @returns whether the store still had the lock.
   * @throws LockUnavailableError if the first request failed. The release is then repeated in the background. With an
   * heir, only once the request is not repeated any longer.
   */
  release(release: Release, now: number, hasFailed = false): Promise<boolean> {
    // What was on its way at the end of the shutdown has been released before it.
    if (this.isClosed) return Promise.resolve(false);
    const pending = new PendingRelease(this, release, now, hasFailed);
    this.unanswered.add(pending);
    this.send(pending, now);
    return pending.released;
  }

  /**
   * Releases an owner again that was woken although it is over. Its place in the store's queue has outlasted its
   * release, or its request has run late.
   */
  releaseAgain(owner: string, key: string, mode: LockMode): void {
    for (const pending of this.unanswered) if (pending.release.owner === owner) return pending.repeatNow();
    const release = { key, owner, mode, leaseMs: HANDOFF_MS, closedUntil: 0 };
    this.release(release, this.clock.now()).catch(() => undefined);
  }

  /**
   * Sends the transfers to an owner again that have no reply, or had failed before their reply.
   *
   * @returns whether one of them has given a lock to that owner.
   * @throws LockUnavailableError if {@link release} does.
   */
  async giveAgain(heir: string): Promise<boolean> {
    const pending = Array.from(this.unanswered).filter(({ release }) => release.heir?.owner === heir);
    const others = new Set([...this.again.values()].filter((release) => release.heir?.owner === heir));
    for (const each of pending) {
      others.delete(each.release);
      each.repeatNow();
    }
    const now = this.clock.now();
    const replies = [...pending.map(({ released }) => released), ...[...others].map((each) => this.release(each, now))];
    return (await Promise.all(replies)).includes(true);
  }

  /** Whether a release of the key has no reply yet. Until it arrives, the store may name this instance as holder. */
  isReleasing(key: string): boolean {
    for (const { release } of this.unanswered) if (release.key === key) return true;
    return false;
  }

  /** Repeats the failed releases now, because their locks stay closed until a release arrives. */
  onReconnected(): void {
    for (const pending of Array.from(this.unanswered)) pending.repeatNow();
  }

  /** Whether all releases have a reply, or are not repeated any longer. */
  get isIdle(): boolean {
    return this.unanswered.size === 0;
  }

  /** Stops repeating releases. */
  close(): void {
    this.isClosed = true;
    for (const pending of Array.from(this.unanswered)) pending.stop();
    for (const timer of this.again.keys()) timer.cancel();
  }

  /** @internal */
  send(pending: PendingRelease, now: number): void {
    const { key, owner, mode, leaseMs, closedUntil, isDone, heir } = pending.release;
    if (heir !== undefined) {
      const request = { ...heir, key, from: owner, to: heir.owner };
      const onReply = ({ status }: TransferReply): void => pending.onReply(status === 'transferred');
      return this.link.transfer(request, { onReply, onFailed: (error) => pending.onFailed(error) });
    }
    const closedForMs = Math.max(0, Math.ceil(closedUntil - now));
    this.link.release({ key, owner, mode, closedForMs, isDone, handoffMs: handoffLease(leaseMs) }, pending);
  }

  /** Returns whether a request that failed may be repeated at `at`. @internal */
  mayRepeat(error: unknown, at: number, leaseOverAt: number): boolean {
    const isPermanent = error instanceof LockUnavailableError && error.permanent;
    return !this.isClosed && !isPermanent && at < leaseOverAt;
  }

  /** @internal */
  onOver(pending: PendingRelease): void {
    this.unanswered.delete(pending);
    this.onEnded();
    if (!pending.mayRunLate || this.isClosed) return;
    for (const afterMs of AGAIN_AFTER_MS) {
      const send = (): void => {
        this.again.delete(timer);
        this.release(pending.release, this.clock.now()).catch(() => undefined);
      };
      const timer = runOutside(() => this.clock.schedule(afterMs, send, true));
      this.again.set(timer, pending.release);
    }
  }
}

/** A release that has no reply yet. */
class PendingRelease implements ReplyListener<boolean> {
  readonly released: Promise<boolean>;
  /** The local moment from which the store keeps no lock for the owner, even if no release arrives. */
  private readonly leaseOverAt: number;
  private resolve!: (wasHeld: boolean) => void;
  private reject!: (error: unknown) => void;
  private pauseMs = FIRST_REPEAT_MS;
  private timer: Timer | undefined = undefined;
  private hasFailed = false;

  constructor(
    private readonly releaser: Releaser,
    readonly release: Release,
    sentAt: number,
    /** Whether a request of the owner may run after the release. */
    readonly mayRunLate: boolean,
  ) {
    // The request that got the lease may have been on its way until now.
    this.leaseOverAt = sentAt + releaser.link.limitMs + releaser.link.delayed(release.leaseMs);
    this.released = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  onReply(wasHeld: boolean): void {
    this.resolve(wasHeld);
    this.releaser.onOver(this);
  }

  onFailed(error: unknown): void {
    const { releaser, pauseMs, leaseOverAt, release } = this;
    const mayRepeat = releaser.mayRepeat(error, releaser.clock.now() + pauseMs, leaseOverAt);
    // The caller of a transfer waits for its outcome.
    if (release.heir === undefined || !mayRepeat) this.tellCaller(error);
    if (!mayRepeat) return releaser.onOver(this);
    this.pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS);
    this.timer = runOutside(() => releaser.clock.schedule(pauseMs, () => this.repeat(), true));
  }

  /** Ends the pause before the next request, if there is one. */
  repeatNow(): void {
    if (this.timer === undefined) return;
    this.timer.cancel();
    this.repeat();
  }

  stop(): void {
    this.timer?.cancel();
    const { key, resource = key, heir } = this.release;
    if (heir !== undefined) this.tellCaller(closedError(resource));
  }

  private get verb(): 'release' | 'transfer' {
    return this.release.heir === undefined ? 'release' : 'transfer';
  }

  private repeat(): void {
    this.timer = undefined;
    this.releaser.send(this, this.releaser.clock.now());
  }

  private tellCaller(error: unknown): void {
    if (this.hasFailed) return;
    this.hasFailed = true;
    const reason = error instanceof UnansweredError ? this.noReply(error) : error;
    dropPromise(this.released);
    this.reject(reason);
    const { resource, leaseMs } = this.release;
    const { onLeft, link, clock } = this.releaser;
    if (resource === undefined || clock.now() >= this.leaseOverAt) return;
    const why = `its ${this.verb} failed during the shutdown: ${messageOf(reason).replace(/\.$/, '')}`;
    onLeft(`${resource} may stay locked for ${secondsOf(link.delayed(leaseMs))}, because ${why}.`);
  }

  private noReply({ message }: UnansweredError): LockUnavailableError {
    const { key, resource = key } = this.release;
    const elapsedMs = this.releaser.link.limitMs;
    return new LockUnavailableError(`The ${this.verb} of ${resource} failed: ${message}.`, { resource, elapsedMs });
  }
}
