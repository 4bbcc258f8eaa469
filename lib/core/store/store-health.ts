/**
 * Whether the store answers, as far as is known, and who is told if not: one line when it goes silent, until it answers
 * again. Where keys are on several servers, that is known of each.
 */
export class StoreHealth {
  /** Servers that were told to be silent, and have not answered since; undefined stands for the store as a whole. */
  private readonly silences = new Map<string | undefined, Error | undefined>();

  constructor(
    private readonly warn: (message: string) => void,
    private readonly serverOf: (key: string) => string | undefined = () => undefined,
  ) {}

  /** Why the key's server cannot be reached; undefined while it can, as far as is known. */
  outageOf(key: string): Error | undefined {
    if (this.silences.size === 0) return undefined;
    return this.silences.get(this.serverOf(key)) ?? this.silences.get(undefined);
  }

  onUnreachable(error: Error, server?: string): void {
    this.warnOnce(error.message, server);
    this.silences.set(server, error);
  }

  /** A request for the key was not answered in time. */
  silent(key: string, why: string): void {
    const server = this.serverOf(key);
    this.warnOnce(why, server);
    this.silences.set(server, this.silences.get(server));
  }

  /** A request for the key was answered, whatever it was. */
  answered(key: string): void {
    if (this.silences.size > 0) this.onReachable(this.serverOf(key));
  }

  /** It has answered, whatever it was. */
  onReachable(server?: string): void {
    if (this.silences.size === 0) return;
    this.silences.delete(server);
    this.silences.delete(undefined);
  }

  private warnOnce(why: string, server: string | undefined): void {
    if (this.silences.has(server) || this.silences.has(undefined)) return;
    const what = server === undefined ? why : `${server}: ${why}`;
    this.warn(`Redis cannot be reached, locks are unavailable until it answers: ${what}`);
  }
}
