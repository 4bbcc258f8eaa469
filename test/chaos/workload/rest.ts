/** Keeps callers from going on. */
export class Rest {
  private wake: (() => void) | undefined;
  private whenOver: Promise<void> = Promise.resolve();

  /** Waits until it is over. */
  over(): Promise<void> {
    return this.whenOver;
  }

  begin(): void {
    if (this.wake === undefined) this.whenOver = new Promise((resolve) => (this.wake = resolve));
  }

  end(): void {
    this.wake?.();
    this.wake = undefined;
  }
}
