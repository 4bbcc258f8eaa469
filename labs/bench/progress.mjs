// How far a run is, and how long it will still take.

/** Reports how much of the running scenario is done, from 0 to 1. Does nothing in a process without a parent. */
export const reportProgress = (share) => process.send?.({ progress: share });

const LINE_EVERY_MS = 20_000;

/** Estimates the time left from the seconds that each scenario is expected to take. */
export class Progress {
  #startedAt = performance.now();
  #shownAt = performance.now();
  #done = 0;
  #current;

  /** @param {readonly { id: string, seconds: number }[]} parts */
  constructor(parts) {
    this.total = parts.reduce((sum, { seconds }) => sum + seconds, 0);
  }

  begin(part) {
    this.#current = { ...part, share: 0 };
  }

  /** Shows one line that is overwritten, or in a log a line now and then. */
  show(share) {
    this.#current.share = Math.max(this.#current.share, share);
    const isTerminal = process.stderr.isTTY;
    if (!isTerminal && performance.now() - this.#shownAt < LINE_EVERY_MS) return;
    this.#shownAt = performance.now();
    const { id } = this.#current;
    const text = `   ${id}: ${Math.round(this.#current.share * 100)} %, ${this.left()}`;
    process.stderr.write(isTerminal ? `\r${text}\u001b[K` : `${text}\n`);
  }

  end() {
    this.#done += this.#current.seconds;
    this.#current = undefined;
    if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  }

  /** Returns the time left, by the speed so far. */
  left() {
    const done = this.#done + (this.#current === undefined ? 0 : this.#current.seconds * this.#current.share);
    const elapsed = (performance.now() - this.#startedAt) / 1000;
    // The first seconds say little about the speed of this machine.
    const pace = done < 20 ? 1 : elapsed / done;
    return `about ${duration((this.total - done) * pace)} left`;
  }

  get seconds() {
    return (performance.now() - this.#startedAt) / 1000;
  }
}

/** Formats seconds: `4:05 min`. */
export const duration = (seconds) =>
  `${Math.floor(Math.round(seconds) / 60)}:${String(Math.round(seconds) % 60).padStart(2, '0')} min`;
