import { onAbort } from '../context/abort-signals.js';
import type { Lock } from '../hold/lock.js';

/** One term of a leader: from the grant of the lock until it is lost, or until the leader steps down. */
export class LeaderTerm {
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
