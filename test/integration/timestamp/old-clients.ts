import type { Redis } from 'ioredis';
import type { LockStore } from '../../../lib/contract/store.js';
import type { TimestampLocks } from '../../support/timestamp-locks.js';

/** The client that was granted the lock last, as the server saw it. Undefined after a release. */
interface Referee {
  holder: string | undefined;
  readonly faults: string[];
}

/**
 * A client of the articles, one command a step, in milliseconds. It may rest for any time between two steps, even while
 * its lease ends. It deletes its lock only before its expiry, and only if its next step comes in time.
 */
class OldClient {
  phase: 'setnx' | 'get' | 'compute' | 'getset' | 'expire' | 'del' = 'setnx';
  private read = '';
  private expiry = 0;

  constructor(
    private readonly name: string,
    private readonly locks: TimestampLocks,
    private readonly leaseMs: number,
    private readonly referee: Referee,
    /** Whether it gives its lock a TTL, as some of the articles do. */
    private readonly setsTtl: boolean,
  ) {}

  async step(): Promise<void> {
    const { admin, key, clock } = this.locks;
    if (this.phase === 'compute') {
      this.expiry = clock.wallMs + this.leaseMs + 1;
      this.phase = 'getset';
    } else if (this.phase === 'setnx') await this.setnx(admin, key, clock.wallMs);
    else if (this.phase === 'get') {
      const held = await admin.get(key);
      this.read = held ?? '';
      this.phase = held !== null && clock.wallMs > Number(held) ? 'compute' : 'setnx';
    } else if (this.phase === 'getset') {
      if ((await admin.getset(key, this.expiry)) === this.read) this.onGranted();
      else this.phase = 'setnx';
    } else if (this.phase === 'expire') {
      if (this.setsTtl) await admin.pexpire(key, this.leaseMs + 1);
      this.phase = 'del';
    } else {
      if (this.referee.holder === this.name && clock.wallMs < this.expiry) {
        await admin.del(key);
        this.referee.holder = undefined;
      }
      this.phase = 'setnx';
    }
  }

  private async setnx(admin: Redis, key: string, now: number): Promise<void> {
    this.expiry = now + this.leaseMs + 1;
    if ((await admin.setnx(key, this.expiry)) === 1) this.onGranted();
    else this.phase = 'get';
  }

  private onGranted(): void {
    this.referee.holder = this.name;
    this.phase = 'expire';
  }
}

/** One client of this library, one request a step. */
class OurClient {
  private owner: string | undefined;

  constructor(
    private readonly store: LockStore,
    private readonly locks: TimestampLocks,
    private readonly leaseMs: number,
    private readonly referee: Referee,
  ) {}

  async step(verb: 'extend' | 'release'): Promise<void> {
    const { locks, store, owner, referee } = this;
    if (owner === undefined) {
      const next = locks.nextOwner();
      if ((await locks.status(store, next, this.leaseMs)) !== 'granted') return;
      this.owner = referee.holder = next;
      return;
    }
    const changed =
      verb === 'extend'
        ? (await locks.extend(store, owner, this.leaseMs)) === 'renewed'
        : await locks.release(store, owner);
    if (changed && referee.holder !== owner) referee.faults.push(`${verb} of the lock of ${referee.holder}`);
    if (verb === 'release') {
      this.owner = undefined;
      if (changed) referee.holder = undefined;
    }
  }
}

/** The steps of a run. `+5` lets 5 ms pass. */
export type Step = 'ours: extend' | 'ours: release' | 'old' | 'other' | `+${number}`;

/**
 * Runs steps on a key whose lock has just expired. Returns each deletion or renewal of a lock that another client was
 * granted.
 */
export async function faultsOf(
  locks: TimestampLocks,
  store: LockStore,
  leaseMs: number,
  setsTtl: boolean,
  steps: Iterable<Step>,
): Promise<readonly string[]> {
  const referee: Referee = { holder: undefined, faults: [] };
  const ours = new OurClient(store, locks, leaseMs, referee);
  const [old, other] = ['old', 'other'].map((name) => new OldClient(name, locks, leaseMs, referee, setsTtl));
  // It has seen the lock.
  old.phase = 'get';
  await locks.admin.del(locks.key, `{${locks.key}}||holder`);
  await locks.admin.set(locks.key, locks.clock.wallMs - 1);
  for (const step of steps) {
    if (step === 'old') await old.step();
    else if (step === 'other') await other.step();
    else if (step === 'ours: extend' || step === 'ours: release')
      await ours.step(step === 'ours: extend' ? 'extend' : 'release');
    else locks.clock.wallMs += Number(step);
  }
  return referee.faults;
}
