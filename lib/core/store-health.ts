/**
 * Whether the store answers, as far as is known, and who is told if not: one line when it goes silent, until it answers
 * again.
 */
export class StoreHealth {
  /** Why the store cannot be reached; undefined while it can, as far as is known. */
  outage: Error | undefined;
  private warned = false;

  constructor(private readonly warn: (message: string) => void) {}

  unreachable(error: Error): void {
    this.outage = error;
    this.warnOnce(error.message);
  }

  /** A request was not answered in time. */
  silent(why: string): void {
    this.warnOnce(why);
  }

  /** It has answered, whatever it was. */
  reachable(): void {
    this.outage = undefined;
    this.warned = false;
  }

  private warnOnce(why: string): void {
    if (!this.warned) this.warn(`Redis cannot be reached, locks are unavailable until it answers: ${why}`);
    this.warned = true;
  }
}
