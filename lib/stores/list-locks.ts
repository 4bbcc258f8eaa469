import { dropOldest } from '../common/drop-oldest.js';
import type { ListedLock, ListRequest } from '../contract/lock-listing.js';
import type { LockState } from '../contract/lock-state.js';
import { listingFailed } from '../redis/key-scan.js';

/** How a store lists its locks. */
export interface LockSource {
  /** The names of keys, page by page. A name may come twice. */
  readonly pages: AsyncIterable<readonly string[]>;
  /**
   * Returns the key of the lock that the name belongs to. Undefined for another key. Default: the name itself, unless
   * it names a helper key.
   */
  lockOf?(name: string): string | undefined;
  /** Returns the state of each key, or an error. */
  inspectAll(keys: readonly string[]): Promise<readonly (LockState | null | Error)[]>;
  /**
   * Returns whether a lock is also found in another way, by which it is yielded. It is called if not all yielded locks
   * are remembered. Default: no.
   *
   * @param byOwnKey whether it was found by its own key, not by a helper key.
   */
  isFoundElsewhere?(key: string, state: LockState, byOwnKey: boolean): boolean;
}

/** How many locks are inspected together: one packet. */
const BATCH = 128;

/** How many yielded keys are remembered. These take about 20 MB. */
const REMEMBERED = 100_000;

/**
 * Yields the selected locks that are held or waited for. Up to 100,000 are yielded exactly once. Of more, only the last
 * 100,000 are remembered, so that memory is bounded. That is enough for keys that SCAN returns twice: it does so if the
 * server shrinks its table, with keys of the few buckets before the cursor.
 */
export async function* listLocks(
  { selects }: Pick<ListRequest, 'selects'>,
  source: LockSource,
): AsyncGenerator<ListedLock> {
  const yielded = new RecentKeys(REMEMBERED);
  for await (const names of source.pages) {
    const found = new Map<string, boolean>();
    for (const name of names) {
      const key = source.lockOf === undefined ? lockNamed(name) : source.lockOf(name);
      if (key === undefined || yielded.has(key) || !selects(key)) continue;
      found.set(key, found.get(key) === true || name === key);
    }
    for (const keys of batchesOf([...found.keys()])) {
      const states = await source.inspectAll(keys);
      for (const [i, key] of keys.entries()) {
        const state = stateIn(states[i]);
        if (state === null) continue;
        if (yielded.hasForgotten && source.isFoundElsewhere?.(key, state, found.get(key) === true)) continue;
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

/** The keys that were added last. */
class RecentKeys {
  private readonly keys = new Set<string>();
  /** Whether keys were forgotten, because there were too many. */
  hasForgotten = false;

  constructor(private readonly limit: number) {}

  has(key: string): boolean {
    return this.keys.has(key);
  }

  add(key: string): void {
    this.keys.add(key);
    if (dropOldest(this.keys, this.limit)) this.hasForgotten = true;
  }
}
