import { dropOldest } from '../common/drop-oldest.js';
import { LockUnavailableError, messageOf } from '../common/errors.js';

/** What a request to a store does. */
export type StoreOperation = 'acquire' | 'release' | 'extend' | 'transfer';

/** A refusal counts for this long after it was seen, in milliseconds. Nobody may request what was refused again. */
const RECENT_MS = 60_000;

/** How many refusals are remembered. */
const MOST_REFUSALS = 100;

/** In place of the server's error code, if the store failed by itself. */
const STORE_FAILED = 'the store failed';

/** A refusal that was seen. */
interface Refusal {
  readonly line: string;
  /** When it was last seen, on the local clock. */
  lastAt: number;
}

/**
 * Logs one line when a server refuses requests. A refusal with the same error code and server is logged again if it was
 * not seen for a minute.
 */
export class RefusalLog {
  /** By error code and server. */
  private readonly seen = new Map<string, Refusal>();

  /** @param now reads the local clock, in milliseconds. */
  constructor(
    private readonly warn: (message: string) => void,
    private readonly now: () => number,
  ) {}

  /**
   * Records that a request for the key failed. Ignores a failure that is not a refusal.
   *
   * @param server the server of the key. Undefined if the store has only one.
   */
  onFailed(operation: StoreOperation, key: string, error: unknown, server: string | undefined): void {
    const code = refusalOf(error);
    if (code === undefined) return;
    const message = messageOf(error);
    // Another key may be accepted.
    const first = isPermanent(error) ? `, first for ${key}` : '';
    const where = server === undefined || message.includes(` to ${server}: `) ? '' : `${server}: `;
    const line = `Redis refuses requests to ${operation} locks${first}: ${where}${message}`;
    const now = this.now();
    const name = `${code} ${server ?? ''}`;
    const known = this.seen.get(name);
    if (known !== undefined && this.isRecent(known, now)) {
      known.lastAt = now;
      return;
    }
    // Before the warning, which runs the user's logger.
    this.seen.set(name, { line, lastAt: now });
    dropOldest(this.seen, MOST_REFUSALS);
    this.warn(line);
  }

  /** Returns the line about a refusal that was seen in the last minute. Undefined if there is none. */
  recent(): string | undefined {
    const now = this.now();
    return [...this.seen.values()].find((refusal) => this.isRecent(refusal, now))?.line;
  }

  private isRecent(refusal: Refusal, now: number): boolean {
    return now - refusal.lastAt < RECENT_MS;
  }
}

/** Returns the code of the error that the server replied with. Undefined if it did not reply. */
export function refusalOf(error: unknown): string | undefined {
  return error instanceof LockUnavailableError ? error.refusal : STORE_FAILED;
}

/** Returns whether a repeated request would fail as well. */
export function isPermanent(error: unknown): boolean {
  return error instanceof LockUnavailableError && error.permanent;
}
