import type { ExtendReply, LockStore } from '../store/lock-store.js';
import type { Clock } from '../time/clock.js';
import { repliesRead } from '../time/replies-read.js';
import type { InTime } from '../time/timeout-pool.js';
import type { Grant, Ownership } from './grant.js';
import { CHECK_MS } from './watchdog.js';

/** What the checks need of the lease manager. */
export interface ForceCheckDeps {
  /** Returns the ownerships of a key whose grants are held. */
  ownershipsOf(key: string): readonly Ownership[];
  lose(grant: Grant, why: string): void;
}

const FORCED = 'it was released by force';

/**
 * Finds out whether locks were released by force. Any client that may publish messages can report a release, but only
 * the store knows. So a message is followed by one request for the locks of its key.
 */
export class ForceChecks {
  /** The keys that are being checked, and whether another message has arrived since the request. */
  private readonly running = new Map<string, boolean>();

  constructor(
    private readonly store: Pick<LockStore, 'extend'>,
    private readonly clock: Clock,
    private readonly inTime: InTime,
    private readonly deps: ForceCheckDeps,
  ) {}

  /**
   * Checks the ownerships of a key in the store. Loses the grants of those that the store does not have. Never rejects.
   */
  async check(key: string): Promise<void> {
    // However many messages arrive, only one request is on its way.
    if (this.running.has(key)) return void this.running.set(key, true);
    try {
      do {
        this.running.set(key, false);
        await this.checkOnce(key);
      } while (this.running.get(key));
    } finally {
      this.running.delete(key);
    }
  }

  private async checkOnce(key: string): Promise<void> {
    // After a blocked event loop, the message may be read before the reply that has granted the lock.
    if (this.deps.ownershipsOf(key).length === 0) await repliesRead(this.clock);
    const ownerships = this.deps.ownershipsOf(key);
    if (ownerships.length === 0) return;
    const requests = ownerships.map(({ owner, mode }) => ({ keys: [key], owner, mode, leaseMs: CHECK_MS }));
    const replies = await this.ask(requests);
    ownerships.forEach(({ grants }, i) => {
      // A lock that was passed on locally keeps its owner, but has another grant by now.
      if (replies[i] === 'lost') for (const grant of Array.from(grants)) this.deps.lose(grant, FORCED);
    });
  }

  /** Without a reply, the next renewal shows the loss. */
  private ask(requests: Parameters<LockStore['extend']>[0]): Promise<readonly ExtendReply[]> {
    const none = (): readonly ExtendReply[] => [];
    return this.inTime(this.store.extend(requests), none).catch(none);
  }
}
