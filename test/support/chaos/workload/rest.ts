/** Pauses callers. */
export class Rest {
  private wake: (() => void) | undefined;
  private whenOver: Promise<void> = Promise.resolve();

  /** Waits until the pause is over. */
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
