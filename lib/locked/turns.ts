/** Runs calls one after the other. */
export class Turns {
  private last: Promise<void> | undefined;

  /** True while a call runs or waits for its turn. */
  get busy(): boolean {
    return this.last !== undefined;
  }

  /**
   * Runs `begin` after the calls before it, at once without such calls. Returns its result.
   *
   * @param onSettled called after the call. The turn lasts until the promise that it returns has resolved.
   * @param onFulfilled called after `onSettled` if the call has succeeded.
   */
  take<T>(
    begin: () => Promise<T>,
    onSettled: () => void | Promise<void>,
    onFulfilled: (result: T) => void,
  ): Promise<T> {
    const result = this.last === undefined ? begin() : this.last.then(begin);
    const leave = (): void => {
      if (this.last === turn) this.last = undefined;
    };
    const settle = (): void | Promise<void> => {
      const rest = onSettled();
      // Without a wait, so that who awaits the result finds the turn over.
      return rest === undefined ? leave() : rest.then(leave);
    };
    const turn = result.then((value) => {
      const settled = settle();
      onFulfilled(value);
      return settled;
    }, settle);
    this.last = turn;
    return result;
  }

  /** Resolves when no call runs or waits any more. */
  async over(): Promise<void> {
    while (this.last !== undefined) await this.last;
  }
}
