/** Runs calls one after the other. */
export class CallQueue {
  private last: Promise<void> | undefined;

  /** True while a call runs or waits. */
  get busy(): boolean {
    return this.last !== undefined;
  }

  /**
   * Runs `begin` after the calls before it, at once without such calls. Returns its result.
   *
   * @param onSettled called after the call. The next call waits until the promise that it returns has resolved.
   * @param onFulfilled called after `onSettled` if the call has succeeded.
   */
  run<T>(begin: () => Promise<T>, onSettled: () => void | Promise<void>, onFulfilled: (result: T) => void): Promise<T> {
    const result = this.last === undefined ? begin() : this.last.then(begin);
    const leave = (): void => {
      if (this.last === ended) this.last = undefined;
    };
    const settle = (): void | Promise<void> => {
      const rest = onSettled();
      // Without a wait, so that a caller that awaits the result finds the queue empty.
      return rest === undefined ? leave() : rest.then(leave);
    };
    const ended = result.then((value) => {
      const settled = settle();
      onFulfilled(value);
      return settled;
    }, settle);
    this.last = ended;
    return result;
  }

  /** Resolves when no call runs or waits any more. */
  async idle(): Promise<void> {
    while (this.last !== undefined) await this.last;
  }
}
