import { type Clock, withTimeout } from '../../core/time/clock.js';

/** How long other waiters get, in milliseconds: a message has to arrive there, and their request in Redis. */
const YIELD_MS = 5;

/**
 * Delays an acquire that follows a release of the same key in this instance, so that waiters of other processes come
 * first. Without it this instance would be first every time, because it does not need to wait for the message.
 */
export class Yield {
  /** The releases without a reply and the pauses after them, by key. */
  private readonly releasing = new Map<string, Promise<void>>();

  constructor(
    private readonly clock: Clock,
    /** The limit for the reply to a release. Some clients never settle a request that was lost with its connection. */
    private readonly requestTimeoutMs: number,
  ) {}

  /** Returns what an acquire of the key has to wait for. Undefined if nothing. Never rejects. */
  beforeAcquire(key: string): Promise<void> | undefined {
    return this.releasing.get(key);
  }

  /**
   * Is called with a release of the key.
   * @param reachedOthers resolves to whether other processes have received its message.
   */
  onRelease(key: string, reachedOthers: Promise<boolean>): void {
    const before = withTimeout(this.clock, this.requestTimeoutMs, reachedOthers, () => false).then(
      (reached) => (reached ? this.pause() : undefined),
      () => undefined,
    );
    this.releasing.set(key, before);
    void before.finally(() => {
      if (this.releasing.get(key) === before) this.releasing.delete(key);
    });
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(YIELD_MS, resolve));
  }
}
