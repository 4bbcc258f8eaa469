import { deferred } from '../../support/async.js';
import { eventually } from '../../support/redis-locks.js';

/** Runs a statement of PostgreSQL with parameters in a transaction. Returns its rows. */
export type Query = (sql: string, params: number[]) => Promise<unknown>;

/** Reads how many goods are sold and writes one more. Needs a lock, or it overwrites what another caller wrote. */
export async function sellOne(query: Query, id: number, onRead?: () => void): Promise<void> {
  const [{ sold }] = (await query('SELECT sold FROM goods WHERE id = $1', [id])) as [{ sold: number }];
  onRead?.();
  await query('UPDATE goods SET sold = $2 WHERE id = $1', [id, sold + 1]);
}

/** A sale whose commit the test stops. */
export interface StoppedSale {
  readonly end: Promise<unknown>;
  /** Resolves when all work of the transaction is done and the commit is due. */
  due(): Promise<void>;
  resumeCommit(): void;
}

/** What the next sale does to the rows, and whether it waits for the lock. */
export interface NextSale {
  readonly sell: (onRead: () => void) => Promise<unknown>;
  readonly isWaiting: () => Promise<boolean>;
}

/**
 * Lets another caller sell while the commit of a sale is stopped. Resumes the commit once the other caller has read the
 * rows, or waits in the queue of the lock. Returns which of the two it was.
 */
export async function sellDuring(sale: StoppedSale, next: NextSale): Promise<'has read' | 'waits'> {
  await Promise.race([sale.due(), sale.end.then(() => Promise.reject(new Error('it has committed before')))]);
  const read = deferred();
  const end = next.sell(() => read.resolve());
  let other: 'has read' | 'waits' | undefined;
  void read.promise.then(() => (other ??= 'has read'));
  await eventually('the other caller reads or waits', async () => {
    if (other === undefined && (await next.isWaiting())) other ??= 'waits';
    return other !== undefined;
  });
  sale.resumeCommit();
  await Promise.all([sale.end, end]);
  return other as 'has read' | 'waits';
}
