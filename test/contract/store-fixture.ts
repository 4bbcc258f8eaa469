import { ok, strictEqual } from 'node:assert/strict';
import type {
  AcquireReply,
  Handoff,
  LockMode,
  LockStore,
  StoreCapabilities,
  StoreListener,
} from '../../lib/core/store/lock-store.js';
import type { Clock } from '../../lib/core/time/clock.js';
import type { Need } from './needs.js';

/** A client of another library that locks the same keys by its own rules. */
export interface OtherClient {
  /** Requests a key that is held, and leaves behind whatever that library leaves after a refusal or a lost race. */
  lose(key: string): Promise<void>;
  /** Acquires a key if it is free by the rules of that library. Returns whether it was free. */
  acquire(key: string): Promise<boolean>;
  /** Returns whether the lock taken by `acquire` still exists, unchanged. */
  holds(key: string): Promise<boolean>;
}

/** A store that the contract tests. */
export interface StoreUnderTest {
  readonly store: LockStore;
  /** The clock that the store was created with. */
  readonly clock: Clock;
  /** Lets `ms` milliseconds pass, for the clock and for the store. */
  pass(ms: number): Promise<void>;
  /** Closes everything that was opened for the test. */
  close(): Promise<void>;
}

/** What a test does. */
export type Run = (fixture: StoreFixture) => Promise<void>;

/** A test that only some stores can run. */
interface ConditionalTest {
  readonly needs: readonly Need[];
  readonly run: Run;
}

/** A test of the contract. */
export type ContractTest = Run | ConditionalTest;

/** One part of the contract: tests of one subject, by their names. */
export interface ContractPart {
  readonly subject: string;
  /** What all of these tests need. Default: nothing. */
  readonly needs?: readonly Need[];
  readonly tests: Readonly<Record<string, ContractTest>>;
}

/** Returns a test that is registered only for stores that can run it. */
export function onlyWith(needs: readonly Need[], run: Run): ConditionalTest {
  return { needs, run };
}

/** A lease that is longer than any test, in milliseconds. */
export const LONG_MS = 60_000;
/** The deadline of an acquire request, in milliseconds. */
export const TIMEOUT_MS = 5_000;

/** How much two clocks may differ within a test, in milliseconds. */
const TOLERANCE_MS = 20;

/** The name of a caller whose instance has no subscriber. */
export const DEAD = 'dead';

/** The lease of a handoff, in milliseconds. */
export const HANDOFF_MS = 30_000;

const HANDOFF = { handoffMs: HANDOFF_MS, tokens: 4 };

/** The details of an acquire request. Defaults: the test's key, no queue before `listen()`, 4 tokens. */
interface AcquireDetails {
  readonly key?: string;
  readonly keys?: readonly string[];
  readonly queue?: boolean;
  readonly tokens?: number;
}

/** What a test needs besides the store. Only tests that need the last two use them. */
interface Harness {
  readonly shortLeaseMs: number;
  readonly createNeighbour: () => Promise<StoreUnderTest>;
  readonly otherClient: (() => OtherClient) | undefined;
  readonly turnBack: ((ms: number) => void) | undefined;
}

/** One test's access to the store: a key of its own, and one owner for each caller's name. */
export class StoreFixture {
  readonly key: string;
  readonly instanceId: string;
  /** The handoffs that were received, in order. */
  readonly handoffs: Handoff[] = [];
  private readonly names: string[] = [];
  private readonly modes = new Map<string, LockMode>();
  private readonly forced: string[] = [];
  private readonly onForced = new Set<() => void>();
  private readonly onHandoff = new Set<() => void>();
  private readonly onSubscribed = new Set<() => void>();
  private readonly startedAt: number;
  private queueing = false;

  constructor(
    readonly under: StoreUnderTest,
    id: string,
    private readonly harness: Harness,
  ) {
    this.startedAt = under.clock.now();
    this.key = `{contract}:${process.pid}:${id}`;
    this.instanceId = `contract-${process.pid}-${id}`;
  }

  get capabilities(): StoreCapabilities {
    return this.under.store.capabilities;
  }

  /** A lease that a test lets expire: as requested, or what the store needs. */
  get shortMs(): number {
    const { resolutionMs, shortestLease } = this.capabilities;
    return Math.max(this.harness.shortLeaseMs, resolutionMs, 2 * (shortestLease?.ms ?? 0));
  }

  /** By how much a lease may be longer than requested, in milliseconds. */
  get surplusMs(): number {
    return this.capabilities.resolutionMs * 2;
  }

  /** The client of another library that locks the same keys. */
  get otherClient(): OtherClient {
    const { otherClient } = this.harness;
    if (otherClient === undefined) throw new Error('there is no client of another library');
    return otherClient();
  }

  /** Sets the wall clock of the store back. */
  turnBack(ms: number): void {
    const { turnBack } = this.harness;
    if (turnBack === undefined) throw new Error('the wall clock cannot be set');
    turnBack(ms);
  }

  /** Creates a store with the same locks, for another instance. The caller closes it. */
  createNeighbour(): Promise<StoreUnderTest> {
    return this.harness.createNeighbour();
  }

  /** Waits until a lease has expired. */
  outlast(leaseMs: number): Promise<void> {
    return this.under.pass(leaseMs + this.surplusMs + 50);
  }

  /** Sets the mode of these callers. Default: exclusive. */
  setMode(mode: LockMode, ...names: readonly string[]): void {
    for (const name of names) this.modes.set(name, mode);
  }

  /** Ends all holds of a key by force. Call it only if the store can do that. */
  forceRelease(ifToken?: number, key: string = this.key): Promise<boolean> {
    const { store } = this.under;
    if (store.forceRelease === undefined) throw new Error('the store cannot release by force');
    return store.forceRelease({ ...HANDOFF, key, ifToken });
  }

  /** Waits until `count` forced releases have been reported. Returns their keys. */
  async forcedTimes(count: number): Promise<readonly string[]> {
    while (this.forced.length < count) await new Promise<void>((resolve) => this.onForced.add(resolve));
    return this.forced;
  }

  /** Subscribes to handoffs and waits until they can be received. From now on, acquire requests join the queue. */
  async listen(): Promise<void> {
    const subscribed = new Promise<void>((resolve) => this.onSubscribed.add(resolve));
    this.under.store.listen(this.listener());
    // A store may subscribe only when first needed: behind another caller's lock.
    const behind = { key: `${this.key}:listening` };
    await this.acquire('holder', LONG_MS, TIMEOUT_MS, behind);
    const reply = await this.acquire('waiter', LONG_MS, TIMEOUT_MS, { ...behind, queue: true });
    if (reply.status === 'held' && !reply.queued) await subscribed;
    await this.release('waiter', 0, behind);
    await this.release('holder', 0, behind);
    this.queueing = true;
  }

  acquire(
    name: string,
    leaseMs: number = LONG_MS,
    expiresInMs: number = TIMEOUT_MS,
    { key = this.key, keys = [key], queue = this.queueing, tokens = HANDOFF.tokens }: AcquireDetails = {},
  ): PromiseLike<AcquireReply> {
    const expiresAt = this.under.clock.now() + expiresInMs;
    const request = { keys, leaseMs, queue, expiresAt, tokens };
    return this.under.store.acquire({ ...this.ownership(name, key), ...HANDOFF, ...request });
  }

  async acquireAll(...names: readonly string[]): Promise<void> {
    for (const name of names) await this.acquire(name);
  }

  /** Sends an acquire request. Returns the status of the reply. */
  async statusOf(name: string): Promise<string> {
    return (await this.acquire(name)).status;
  }

  /** Sends an acquire request that must be granted. Returns the fencing token. */
  async tokenOf(name: string, leaseMs?: number): Promise<number> {
    const reply = await this.acquire(name, leaseMs);
    strictEqual(reply.status, 'granted');
    ok(typeof reply.token === 'number', 'a store with fencing returns a number with every grant');
    return reply.token;
  }

  release(name: string, closedForMs = 0, { key = this.key }: { readonly key?: string } = {}): PromiseLike<boolean> {
    return this.under.store.release({ ...this.ownership(name, key), ...HANDOFF, closedForMs });
  }

  async extend(name: string, leaseMs: number): Promise<string> {
    const [reply] = await this.under.store.extend([{ ...this.ownership(name), leaseMs }]);
    return reply;
  }

  /** Waits for `count` handoffs in all. Returns the callers' names, in order. */
  async handoffsTo(count: number): Promise<string[]> {
    while (this.handoffs.length < count) await new Promise<void>((resolve) => this.onHandoff.add(resolve));
    return this.handoffs.map(({ owner }) => this.names[Number(owner.split(':')[1])]);
  }

  /** Asserts that a reply or a state shows the time left of a lease of `leaseMs` that began in this test. */
  assertRemaining(remainingMs: number | undefined, leaseMs: number): void {
    const leastMs = leaseMs - (this.under.clock.now() - this.startedAt) - TOLERANCE_MS;
    const isRest = remainingMs !== undefined && remainingMs >= leastMs && remainingMs <= leaseMs + this.surplusMs;
    ok(isRest, `${remainingMs} ms`);
  }

  /** Returns the keys, owner and mode of a caller's requests. */
  ownership(name: string, key: string = this.key, mode: LockMode = this.modes.get(name) ?? 'exclusive') {
    if (!this.names.includes(name)) this.names.push(name);
    const instanceId = name === DEAD ? `${this.instanceId}-${DEAD}` : this.instanceId;
    return { keys: [key], owner: `${instanceId}:${this.names.indexOf(name)}`, mode };
  }

  private listener(): StoreListener {
    const nothing = (): void => undefined;
    return {
      instanceId: this.instanceId,
      onHandoff: (handoff) => {
        this.handoffs.push(handoff);
        for (const resolve of this.onHandoff) resolve();
      },
      onSubscribed: () => {
        for (const resolve of this.onSubscribed) resolve();
      },
      onForceReleased: (key) => {
        this.forced.push(key);
        for (const resolve of this.onForced) resolve();
      },
      onReleased: nothing,
      onDegraded: nothing,
      onDisconnected: nothing,
      onReconnected: nothing,
      onUnreachable: nothing,
      onReachable: nothing,
    };
  }
}
