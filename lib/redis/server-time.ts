/** A server's clock may run this much faster or slower than ours, as a fraction. */
const DRIFT_RATE = 0.001;

/** A reading that contradicts the kept one by more than this means that the server's clock was set. */
const STEP_MS = 5;

/**
 * Estimates a server's clock from one reading, and the local moments before and after the reading was taken. Keeps the
 * tightest reading until a new one is tighter after drift, or contradicts it. Server times are milliseconds since 1970.
 */
export class ServerTime {
  private reading: { readonly serverMs: number; readonly sentAt: number; readonly receivedAt: number } | undefined;

  /** Whether there is a reading. */
  get known(): boolean {
    return this.reading !== undefined;
  }

  /** Records that a request sent at `sentAt` and answered at `receivedAt` found the server's clock at `serverMs`. */
  learn(serverMs: number, sentAt: number, receivedAt: number): void {
    const kept = this.reading;
    if (kept !== undefined) {
      const age = receivedAt - kept.receivedAt;
      const width = kept.receivedAt - kept.sentAt + age * DRIFT_RATE;
      const slack = age * DRIFT_RATE + STEP_MS;
      const contradicts =
        serverMs < kept.serverMs + (sentAt - kept.receivedAt) - slack ||
        serverMs > kept.serverMs + (receivedAt - kept.sentAt) + slack;
      if (!contradicts && receivedAt - sentAt > width) return;
    }
    this.reading = { serverMs, sentAt, receivedAt };
  }

  /** Returns a local moment that is not later than the server's `serverMs`. Undefined without a reading. */
  localLowerBound(serverMs: number): number | undefined {
    if (this.reading === undefined) return undefined;
    const age = serverMs - this.reading.serverMs;
    return this.reading.sentAt + age - Math.abs(age) * DRIFT_RATE;
  }

  /**
   * Returns a server time that is not later than the local moment `at`. Undefined without a reading. What ends at that
   * server time is over by `at` on the local clock.
   */
  serverLowerBound(at: number): number | undefined {
    if (this.reading === undefined) return undefined;
    const age = at - this.reading.receivedAt;
    return this.reading.serverMs + age - Math.abs(age) * DRIFT_RATE;
  }

  /** Drops the reading, because the next reply may come from another server. */
  forget(): void {
    this.reading = undefined;
  }
}
