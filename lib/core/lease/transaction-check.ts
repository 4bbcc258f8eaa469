import { callerInProgram, shortSite } from '../context/call-site.js';
import { messageOf } from '../errors.js';
import type { Grant } from './grant.js';

/** At most this many places are named. */
const MOST_PLACES = 100;

/** Warns about locks that end while their caller's transaction is open, once for each place in the program. */
export class TransactionCheck {
  private readonly reported = new Set<string>();

  /** @param inTransaction returns whether the current code runs in a transaction. What it throws is reported once. */
  constructor(
    private readonly inTransaction: () => boolean,
    private readonly warn: (message: string) => void,
  ) {}

  /** Called before the last hold of a grant ends, in the context of the code that ends it. */
  look({ resource, options: { method } }: Grant): void {
    const isOpen = this.isOpen();
    if (!isOpen) return;
    const caller = method === undefined ? callerInProgram() : undefined;
    const place = method ?? (caller && shortSite(caller)) ?? 'the program';
    const advice = 'Another holder may read the old rows before the commit. See docs/transactions.md';
    this.report(place, `The lock on ${resource} ends in a transaction, at ${place}. ${advice}.`);
  }

  private isOpen(): boolean {
    try {
      return this.inTransaction();
    } catch (error) {
      this.report('', `inTransaction() threw: ${messageOf(error)}. Whether locks end in a transaction is not known.`);
      return false;
    }
  }

  private report(name: string, message: string): void {
    if (this.reported.has(name) || this.reported.size >= MOST_PLACES) return;
    this.reported.add(name);
    this.warn(message);
  }
}
