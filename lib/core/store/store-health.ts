/**
 * Knows which servers of a store are silent. Warns once for each outage: when a server falls silent, and not again
 * until it has replied. Where keys are on several servers, each has its own outage.
 */
export class StoreHealth {
  /** The servers that have not replied since they fell silent, and why. Undefined stands for the whole store. */
  private readonly silences = new Map<string | undefined, Error | undefined>();

  constructor(
    private readonly warn: (message: string) => void,
    private readonly serverOf: (key: string) => string | undefined = () => undefined,
  ) {}

  /** Returns why the key's server cannot be reached. Undefined if it can, as far as is known. */
  outageOf(key: string): Error | undefined {
    if (this.silences.size === 0) return undefined;
    return this.silences.get(this.serverOf(key)) ?? this.silences.get(undefined);
  }

  /** Records that a server, or without `server` the whole store, cannot be reached. */
  onUnreachable(error: Error, server?: string): void {
    this.fallSilent(server, error.message, error);
  }

  /** Records that a request for the key got no reply in time. */
  silent(key: string, why: string): void {
    const server = this.serverOf(key);
    this.fallSilent(server, why, this.silences.get(server));
  }

  /** Records that a request for the key got a reply, of whatever kind. */
  answered(key: string): void {
    if (this.silences.size > 0) this.onReachable(this.serverOf(key));
  }

  /** Records that a server, or without `server` the whole store, has replied. */
  onReachable(server?: string): void {
    if (this.silences.size === 0) return;
    this.silences.delete(server);
    this.silences.delete(undefined);
  }

  private fallSilent(server: string | undefined, why: string, error: Error | undefined): void {
    const isKnown = this.silences.has(server) || this.silences.has(undefined);
    // Before the warning, which runs the user's logger.
    this.silences.set(server, error);
    if (isKnown) return;
    const what = server === undefined ? why : `${server}: ${why}`;
    this.warn(`Redis cannot be reached, locks are unavailable until it replies: ${what}`);
  }
}
