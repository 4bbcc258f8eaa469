import { type Clock, withTimeout } from '../../core/time/clock.js';

/** Long enough for a message to arrive and for an ask to come back. */
const YIELD_MS = 5;

/**
 * Lets others who hear of a release ask first, where it was ours and we want the lock again: our ask, which needs no message
 * to set out, would be the first each time.
 */
export class Yield {
  /** Releases on their way, by key. */
  private readonly releasing = new Map<string, Promise<void>>();

  constructor(
    private readonly clock: Clock,
    /** How long a release is waited for: there are clients that never answer one which a lost connection took along. */
    private readonly requestTimeoutMs: number,
  ) {}

  /** What an ask for the key has to wait for; undefined if nothing. Never rejects. */
  before(key: string): Promise<void> | undefined {
    return this.releasing.get(key);
  }

  /** A release of the key is on its way, and will answer whether others were told of it. */
  after(key: string, toldOthers: Promise<boolean>): void {
    const ahead = withTimeout(this.clock, this.requestTimeoutMs, toldOthers, () => false).then(
      (told) => (told ? this.pause() : undefined),
      () => undefined,
    );
    this.releasing.set(key, ahead);
    void ahead.finally(() => {
      if (this.releasing.get(key) === ahead) this.releasing.delete(key);
    });
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(YIELD_MS, resolve));
  }
}
