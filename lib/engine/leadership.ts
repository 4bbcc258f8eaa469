import { AsyncLocalStorage } from 'node:async_hooks';
import { onAbort } from '../common/abort-signals.js';
import { runOutside } from '../common/async-context.js';
import { LockClosedError, LockLostError, LockTimeoutError, messageOf } from '../common/errors.js';
import { nextCall, type Target } from '../events/call.js';
import { runInHold } from './call-context.js';
import type { Lock } from './lock.js';
import type { LockEngine } from './lock-engine.js';
import type { AcquireOptions } from './options.js';

/** The callbacks of a leadership, which catches what they throw. */
export interface LeaderCallbacks {
  readonly onElected?: ((lock: Lock) => unknown) | undefined;
  readonly onDeposed?: ((reason: unknown) => unknown) | undefined;
}

/** A candidate to start. */
export interface Candidacy extends LeaderCallbacks {
  /** Names the work of the leader in the log and in events. Default: "The leader of" the resource. */
  readonly name?: string | undefined;
}

/** The longest pause before a new campaign without failures, in milliseconds. Each failure in a row doubles it. */
const FIRST_PAUSE_MS = 1_000;
/** The limit of that pause. A term that lasts longer ends the row of failures before it. */
const LONGEST_PAUSE_MS = 30_000;

/** How long callbacks may run after the end of their term until a warning is logged, in milliseconds. */
const LATE_MS = 10_000;

/** The leadership whose callback the caller runs in. */
const inside = new AsyncLocalStorage<Leadership>();

/**
 * A candidate for the leadership of a resource, from `LockService.lead()` until `close()`. It holds the lock of the
 * resource while it leads, waits for it otherwise, and campaigns again after each term.
 *
 * At most one candidate in all processes leads, as far as a lock can guarantee that. A leader that was paused may
 * notice the end of its term late. If a late write would do harm, pass `lock.fencingToken` to the resource.
 *
 * @publicApi
 */
export class Leadership {
  /** The resource that the caller named, `report`. */
  readonly resource: string;
  private readonly closing = new AbortController();
  private readonly finished: Promise<void>;
  private term: LeaderTerm | undefined = undefined;
  /** How many terms or campaigns failed in a row. */
  private failures = 0;

  /** @internal */
  constructor(
    private readonly engine: LockEngine,
    private readonly target: Target,
    /** How it acquires the lock. The signal ends the leadership. */
    private readonly options: AcquireOptions,
    private readonly candidacy: Candidacy,
  ) {
    const { signal } = options;
    this.resource = target.resource;
    if (signal?.aborted) this.closing.abort(signal.reason);
    const subscription = onAbort(signal, (reason) => this.closing.abort(reason));
    // The caller's holds are not the candidate's.
    this.finished = runOutside(() => this.campaign()).finally(() => subscription.stop());
  }

  /**
   * Whether this candidate leads. False from the local deadline of the lock on, even if `signal` has not aborted yet.
   * Sends no request.
   */
  get isLeader(): boolean {
    return this.term?.isLeading === true;
  }

  /** The lock of the current term, for its fencing token. Undefined while this candidate does not lead. */
  get lock(): Lock | undefined {
    return this.isLeader ? this.term?.lock : undefined;
  }

  /**
   * The signal of the current term. It aborts at the end of the term: with a `LockLostError` if the lock was lost, with
   * a `LockClosedError` if the leadership was closed, or with the error of `onElected`. While the candidate does not
   * lead, the signal is one that has aborted.
   */
  get signal(): AbortSignal {
    return this.term?.signal ?? AbortSignal.abort(notElected(this));
  }

  /**
   * Steps down, and does not campaign again. The signal of the term aborts immediately. The lock is released after
   * `onElected` and `onDeposed` have settled, so that the next leader does not work at the same time.
   *
   * Resolves when both callbacks have settled and the store has replied to the release, or has not replied in time.
   * Never rejects. A second call also waits. A call inside a callback of this leadership does not wait, because the
   * callback would wait for itself. A warning is logged if the callbacks have not settled after 10 s.
   */
  close(): Promise<void> {
    if (!this.closing.signal.aborted) {
      const { resource } = this;
      this.closing.abort(new LockClosedError(`The leadership of ${resource} was closed.`, { resource }));
    }
    const wouldWaitForItself = inside.getStore() === this && this.term?.isSettled === false;
    return wouldWaitForItself ? Promise.resolve() : this.finished;
  }

  /** Closes the leadership at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Resolves when the leadership is closed and its lock is released. @internal */
  get ended(): Promise<void> {
    return this.finished;
  }

  private get isClosed(): boolean {
    return this.closing.signal.aborted;
  }

  private async campaign(): Promise<void> {
    // The caller gets the leadership before its first callback.
    await Promise.resolve();
    while (!this.isClosed) {
      try {
        await this.serve(await this.acquire());
      } catch (error) {
        this.onRefused(error);
      }
      if (!this.isClosed) await this.pause();
    }
  }

  /** Waits for the lock without a limit, or returns a nested hold inside one. Each is a call of its own. */
  private acquire(): Promise<Lock> {
    const { engine, target, options, candidacy, closing } = this;
    const waiting = { ...options, method: candidacy.name, signal: closing.signal };
    return engine.acquire({ ...target, call: nextCall() }, waiting);
  }

  /** Leads until the term ends. Rejects only if the lock was lost before the term began. */
  private async serve(own: Lock): Promise<void> {
    // The callbacks get a hold of their own, so the term continues if they release it.
    const lock = await runInHold(own, () => this.acquire()).catch(async (error: unknown) => {
      await own.release().catch(() => undefined);
      throw error;
    });
    const term = new LeaderTerm(own, lock, this.engine.now());
    const subscription = onAbort(this.closing.signal, (reason) => term.end(reason));
    if (this.isClosed) term.end(this.closing.signal.reason);
    else await this.runTerm(term);
    subscription.stop();
    await term.release();
  }

  private async runTerm(term: LeaderTerm): Promise<void> {
    const { onElected, onDeposed } = this.candidacy;
    const { clock } = this.engine;
    const { lock } = term;
    this.term = term;
    let hasFailed = false;
    const work = this.run(() => runInHold(lock, () => onElected?.(lock))).catch((error: unknown) => {
      hasFailed = term.end(error);
      if (!hasFailed && !isConsequence(error, lock.signal.reason)) this.logFailure('failed after its term', error);
    });
    const reason = await term.over;
    this.failures = hasFailed ? this.failuresAfter(clock.now() - term.startedAt) : 0;
    if (hasFailed) this.logFailure('failed and steps down', reason);
    const farewell = this.run(() => onDeposed?.(reason)).catch((error: unknown) => {
      this.logFailure('failed in onDeposed', error);
    });
    const timer = clock.schedule(LATE_MS, () => this.warnOfLateWork(reason), true);
    await Promise.all([work, farewell]);
    timer.cancel();
  }

  /** Runs a callback. Rejects with what it throws. */
  private async run(callback: () => unknown): Promise<void> {
    await inside.run(this, callback);
  }

  private failuresAfter(lastedMs: number): number {
    return lastedMs < LONGEST_PAUSE_MS ? this.failures + 1 : 1;
  }

  /** Called if there was no term. */
  private onRefused(error: unknown): void {
    if (error instanceof LockClosedError) this.closing.abort(error);
    if (this.isClosed) return;
    // A store without a queue may limit its requests.
    if (error instanceof LockTimeoutError || error instanceof LockLostError) return;
    // The store's health logs why.
    this.failures += 1;
  }

  private logFailure(what: string, error: unknown): void {
    this.engine.onCallbackError(`${this.name} ${what}: ${messageOf(error)}`, error);
  }

  private warnOfLateWork(reason: unknown): void {
    const effect = reason instanceof LockLostError ? 'This process does not lead again' : 'Its lock is not released';
    this.engine.warn(`${this.name} has not ended ${LATE_MS / 1_000} s after its term. ${effect} until it has.`);
  }

  private get name(): string {
    return this.candidacy.name ?? `The leader of ${this.resource}`;
  }

  /** Waits before the next campaign, so that others can lead and a failure is not repeated without a pause. */
  private pause(): Promise<void> {
    const { clock } = this.engine;
    const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures);
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        subscription.stop();
        resolve();
      };
      const timer = clock.schedule(longestMs * (0.5 + clock.random() / 2), end);
      const subscription = onAbort(this.closing.signal, end);
    });
  }
}

function notElected({ resource }: Leadership): LockLostError {
  return new LockLostError(`This candidate does not lead ${resource} yet.`, { resource });
}

/** Returns whether work failed because its signal aborted with `reason`. */
function isConsequence(error: unknown, reason: unknown): boolean {
  if (error === reason || error instanceof LockLostError || error instanceof LockClosedError) return true;
  return (error as Partial<Error> | null | undefined)?.name === 'AbortError';
}

/** One term of a leader: from the grant of the lock until it is lost, or until the leader steps down. */
class LeaderTerm {
  /** The signal of the callbacks' hold. Aborts at the end of the term. */
  readonly signal: AbortSignal;
  /** Resolves with the reason when the term has ended. */
  readonly over: Promise<unknown>;
  /** Whether the callbacks have settled and the lock is to be released. */
  isSettled = false;
  private hasEnded = false;
  private onOver!: (reason: unknown) => void;

  constructor(
    /** The hold of the candidate. */
    private readonly own: Lock,
    /** The hold of the callbacks, of the same grant. */
    readonly lock: Lock,
    readonly startedAt: number,
  ) {
    this.over = new Promise((resolve) => (this.onOver = resolve));
    // Made before the term can end, because a signal made later would not abort for a reason that is `undefined`.
    this.signal = lock.signal;
    const { signal } = own;
    if (signal.aborted) this.end(signal.reason);
    else onAbort(signal, (reason) => this.end(reason));
  }

  /** Whether the term continues, by the local deadline of the lock. */
  get isLeading(): boolean {
    return !this.hasEnded && this.own.expiresInMs > 0;
  }

  /** Ends the term, and aborts its signals. Returns false if it had already ended. */
  end(reason: unknown): boolean {
    if (this.hasEnded) return false;
    this.hasEnded = true;
    this.lock.abort(reason);
    this.own.abort(reason);
    this.onOver(reason);
    return true;
  }

  /** Releases the lock. Does not reject, because a failed release is repeated in the background. */
  async release(): Promise<void> {
    this.isSettled = true;
    await Promise.allSettled([this.lock.release(), this.own.release()]);
  }
}
