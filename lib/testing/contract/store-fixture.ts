import { ok, strictEqual } from 'node:assert/strict';
import type { Clock } from '../../core/time/clock.js';
import type { AcquireReply, Handoff, LockMode, LockStore, StoreListener } from '../../core/store/lock-store.js';

/**
 * A store in front of the contract.
 *
 * @publicApi
 */
export interface StoreUnderTest {
  readonly store: LockStore;
  /** The clock that the store was made with. */
  readonly clock: Clock;
  /** Lets time pass, for the clock and for the store alike. */
  pass(ms: number): Promise<void>;
  /** Ends all that was opened. */
  close(): Promise<void>;
}

/** Registers one test of the contract. */
export type FixtureTest = (name: string, body: (bench: StoreFixture) => Promise<void>) => void;

/** A lease that outlives any test. */
export const LONG_MS = 60_000;
const SHORT_MS = 100;
export const TIMEOUT_MS = 1_000;

/** An asker of this name is of another instance, one that nobody listens for (any more). */
export const DEAD = 'dead';

const HAND_OFF = { handoffMs: 3_000, tokens: 4 };

/** What an ask may be for, in place of the test's key. */
interface AcquireDetails {
  readonly key?: string;
  /** All of them, or none. */
  readonly keys?: readonly string[];
  readonly queue?: boolean;
}

/** One test's view of the store: keys of its own, one owner for each name, which may listen for hand-offs. */
export class StoreFixture {
  readonly key: string;
  readonly instanceId: string;
  /** What was told, in order. */
  readonly handoffs: Handoff[] = [];
  private readonly names: string[] = [];
  private readonly modes = new Map<string, LockMode>();
  private readonly heard = new Set<() => void>();
  private readonly listening = new Set<() => void>();
  private queueing = false;

  constructor(
    readonly under: StoreUnderTest,
    id: string,
  ) {
    this.key = `{contract}:${process.pid}:${id}`;
    this.instanceId = `contract-${process.pid}-${id}`;
  }

  /** A short lease, as short as the store keeps them apart. */
  get shortMs(): number {
    return Math.max(SHORT_MS, this.under.store.capabilities.resolutionMs);
  }

  /** How much longer than asked for a lease may be kept: it ends, and others come, at whole multiples of the resolution. */
  get surplusMs(): number {
    const { resolutionMs } = this.under.store.capabilities;
    return resolutionMs * 2;
  }

  /** Waits until a lease is over, and others may come. */
  outlast(leaseMs: number): Promise<void> {
    return this.under.pass(leaseMs + this.surplusMs + 50);
  }

  /** These names ask for the lock in that mode; all others want it alone. */
  sharing(mode: LockMode, ...names: readonly string[]): void {
    for (const name of names) this.modes.set(name, mode);
  }

  /** From now on all names listen: they are asks of one instance. Answers how to stop, as a process that dies does. */
  async listen(): Promise<() => void> {
    const listening = new Promise<void>((resolve) => this.listening.add(resolve));
    const stop = this.under.store.listen(this.listener());
    // A store may begin to listen when it is needed first: behind somebody else's lock.
    const behind = { key: `${this.key}:listening` };
    await this.ask('holder', LONG_MS, TIMEOUT_MS, behind);
    const reply = await this.ask('waiter', LONG_MS, TIMEOUT_MS, { ...behind, queue: true });
    if (reply.status === 'held' && !reply.queued) await listening;
    await this.release('waiter', 0, behind);
    await this.release('holder', 0, behind);
    this.queueing = true;
    return stop;
  }

  ask(
    owner: string,
    leaseMs: number = LONG_MS,
    expiresInMs: number = TIMEOUT_MS,
    { key = this.key, keys = [key], queue = this.queueing }: AcquireDetails = {},
  ): Promise<AcquireReply> {
    const expiresAt = this.under.clock.now() + expiresInMs;
    return this.under.store.acquire({
      ...this.of(owner, key),
      ...HAND_OFF,
      keys,
      leaseMs,
      queue,
      expiresAt,
    });
  }

  async statusOf(owner: string): Promise<string> {
    return (await this.ask(owner)).status;
  }

  async tokenFor(owner: string, leaseMs?: number): Promise<number> {
    const reply = await this.ask(owner, leaseMs);
    strictEqual(reply.status, 'granted');
    ok(typeof reply.token === 'number', 'a store with fencing gives a number with every grant');
    return reply.token;
  }

  release(owner: string, keepMs = 0, { key = this.key }: { readonly key?: string } = {}): Promise<boolean> {
    return this.under.store.release({ ...this.of(owner, key), ...HAND_OFF, keepMs });
  }

  async extend(owner: string, leaseMs: number): Promise<string> {
    const [reply] = await this.under.store.extend([{ ...this.of(owner, this.key), leaseMs }]);
    return reply;
  }

  /** Waits until so many hand-offs were told in all; answers whose they were. */
  async handedTo(count: number): Promise<string[]> {
    while (this.handoffs.length < count) await new Promise<void>((resolve) => this.heard.add(resolve));
    return this.handoffs.map(({ owner }) => this.names[Number(owner.split(':')[1])]);
  }

  private listener(): StoreListener {
    const nothing = (): void => undefined;
    return {
      instanceId: this.instanceId,
      onHandoff: (handoff) => {
        this.handoffs.push(handoff);
        for (const resolve of this.heard) resolve();
      },
      onSubscribed: () => {
        for (const resolve of this.listening) resolve();
      },
      onReleased: nothing,
      onDegraded: nothing,
      onDisconnected: nothing,
      onUnreachable: nothing,
      onReachable: nothing,
    };
  }

  /** Whose lock a request is about. */
  of(name: string, key: string = this.key, mode: LockMode = this.modes.get(name) ?? 'exclusive') {
    if (!this.names.includes(name)) this.names.push(name);
    const instanceId = name === DEAD ? `${this.instanceId}-${DEAD}` : this.instanceId;
    return { keys: [key], owner: `${instanceId}:${this.names.indexOf(name)}`, mode };
  }
}
