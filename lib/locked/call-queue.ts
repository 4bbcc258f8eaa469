/** Runs the calls of one caller one after the other. */
export class CallQueue {
  /** Whether the caller may still make calls. */
  isOpen = true;
  private last: Promise<void> | undefined;

  /** True while a call runs or waits. */
  get isBusy(): boolean {
    return this.last !== undefined;
  }

  /**
   * Runs a call after the calls before it, or immediately if there are none. Returns the result of the call.
   *
   * @param inner the calls that this call makes. It ends after them, but passes its result on earlier.
   */
  run<T>(call: () => Promise<T>, inner?: CallQueue): Promise<T> {
    const result = this.last === undefined ? call() : this.last.then(call);
    // Does not wait, so that the caller finds the queue empty when it has the result.
    const end = (): void | Promise<void> => {
      if (inner?.isBusy === true) return inner.idle().then(end);
      if (inner !== undefined) inner.isOpen = false;
      if (this.last === ended) this.last = undefined;
    };
    const ended = result.then(end, end);
    this.last = ended;
    return result;
  }

  /** Resolves when no call runs or waits. */
  async idle(): Promise<void> {
    while (this.last !== undefined) await this.last;
  }
}
