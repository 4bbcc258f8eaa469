import type { ListedLock, ListRequest } from '../contract/lock-listing.js';
import type { LockState } from '../contract/lock-state.js';
import { listingFailed, type ScanTimes, withinTime } from '../redis/key-scan.js';
import { toError } from '../redis/redis-errors.js';

/** How a store lists its locks. */
export interface LockSource {
  /** The names of keys, page by page. A name may come twice. */
  readonly pages: AsyncIterable<readonly string[]>;
  /**
   * Returns the key of the lock that the name belongs to. Undefined for another key. Default: the name itself, unless
   * it names a helper key.
   */
  lockOf?(name: string): string | undefined;
  /** Returns the state of a lock. Requests of one tick leave in one packet. */
  inspect(key: string): Promise<LockState | null>;
}

/** How many locks are inspected together: one packet. */
const BATCH = 128;

/**
 * Yields the selected locks that are held or waited for, each once. It remembers all keys that it has yielded: 100,000
 * take about 20 MB.
 *
 * @throws LockUnavailableError if a lock cannot be inspected within `requestTimeoutMs`.
 */
export async function* listLocks(
  { selects }: Pick<ListRequest, 'selects'>,
  source: LockSource,
  times: ScanTimes,
): AsyncGenerator<ListedLock> {
  const yielded = new Set<string>();
  for await (const names of source.pages) {
    const found = new Set<string>();
    for (const name of names) {
      const key = source.lockOf === undefined ? lockNamed(name) : source.lockOf(name);
      if (key !== undefined && !yielded.has(key) && selects(key)) found.add(key);
    }
    for (const keys of batchesOf([...found])) {
      const states = await withinTime(Promise.all(keys.map((key) => source.inspect(key).catch(toError))), times);
      for (const [i, key] of keys.entries()) {
        const state = stateIn(states[i]);
        if (state === null) continue;
        yielded.add(key);
        yield { key, state };
      }
    }
  }
}

function lockNamed(name: string): string | undefined {
  return name.includes('|') ? undefined : name;
}

/** Returns the state. Null for a key of another type. @throws LockUnavailableError for other errors. */
function stateIn(state: LockState | null | Error): LockState | null {
  if (!(state instanceof Error)) return state;
  const failure = listingFailed(state);
  if (failure.refusal === 'WRONGTYPE') return null;
  throw failure;
}

function* batchesOf(keys: readonly string[]): Generator<readonly string[]> {
  for (let i = 0; i < keys.length; i += BATCH) yield keys.slice(i, i + BATCH);
}
