import { asked } from '../support/asked.js';
import { ok, strictEqual } from 'node:assert/strict';
import type { Clock } from '../../lib/clock/clock.js';
import type { HolderWork } from '../../lib/contract/lock-state.js';
import type {
  AcquireReply,
  Granted,
  LockMode,
  LockState,
  LockStore,
  StoreCapabilities,
  StoreListener,
  TransferReply,
  TransferRequest,
} from '../../lib/contract/store.js';
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

/** A message that has not arrived after this time, which passes also where clocks stand still, is missing. */
const NO_MESSAGE_MS = 30_000;

/** How much two clocks may differ within a test, in milliseconds. */
const TOLERANCE_MS = 20;

/** The name of a caller whose instance has no subscriber. See {@link StoreFixture.queueDead}. */
export const DEAD = 'dead';

/** The lease of the next owner, in milliseconds. It differs from all others. */
export const HANDOFF_MS = 30_000;

/** The tokens of a grant: one for the holder, and 16 for callers that its instance may pass the lock on to. */
export const RESERVED = 17;

/** The details of an acquire request. Defaults: the test's key, and no queue before `subscribe()`. */
interface AcquireDetails extends HolderWork {
  readonly key?: string;
  readonly wait?: boolean;
}

/** The details of a release. Defaults: the test's key, which is not kept closed. */
interface ReleaseDetails {
  readonly key?: string;
  readonly closedForMs?: number;
  readonly isDone?: boolean;
  readonly handoffMs?: number;
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
  private readonly names: string[] = [];
  private readonly modes = new Map<string, LockMode>();
  /** The owners that messages about the test's key named, in order. */
  private readonly wokenOwners: string[] = [];
  private readonly onMessage = new Set<() => void>();
  private readonly onSubscribed = new Set<() => void>();
  private readonly startedAt: number;
  private isSubscribed = false;

  constructor(
    readonly under: StoreUnderTest,
    id: string,
    private readonly harness: Harness,
  ) {
    this.startedAt = under.clock.now();
    this.key = `{contract}:${process.pid}:${id}`;
    this.instanceId = `contract-${process.pid}-${id}`;
    under.store.listen(this.listener());
  }

  /** The instance of the caller {@link DEAD}. */
  get deadInstanceId(): string {
    return `${this.instanceId}-${DEAD}`;
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
    return store.forceRelease({ key, handoffMs: HANDOFF_MS, ifToken });
  }

  /** Gives the lock of one caller to another. Call it only if the store can do that. */
  transfer(from: string, to: string, details: Partial<TransferRequest> = {}): Promise<TransferReply> {
    const { store } = this.under;
    const [{ key, owner }, { owner: heir }] = [this.ownership(from), this.ownership(to)];
    return asked(store).transfer({ key, from: owner, to: heir, leaseMs: LONG_MS, ...details });
  }

  /** Waits until messages can be received. From now on, acquire requests join the queue. */
  async subscribe(): Promise<void> {
    const acknowledged = new Promise<void>((resolve) => this.onSubscribed.add(resolve));
    const elsewhere = this.elsewhere;
    await this.acquire('holder', LONG_MS, { key: elsewhere, wait: false });
    await this.joinQueue(this.under.store, 'waiter', elsewhere, acknowledged);
    await this.release('waiter', { key: elsewhere });
    await this.release('holder', { key: elsewhere });
    this.isSubscribed = true;
  }

  /** Subscribes, and lets the first of these callers hold the lock, for which the others wait in this order. */
  async line([holder, ...waiting]: readonly string[], leaseMs?: number): Promise<void> {
    await this.subscribe();
    await this.acquire(holder, leaseMs);
    for (const name of waiting) await this.queue(name);
  }

  /** Puts {@link DEAD} into the queue of a held key: a caller of an instance that no longer receives messages. */
  async queueDead(): Promise<void> {
    const alone = await this.acquire(DEAD, LONG_MS, { wait: true });
    ok(alone.status === 'held');
    // The store lets owners wait without a subscriber.
    if (alone.queued) return;
    const neighbour = await this.createNeighbour();
    const acknowledged = new Promise<void>((resolve) => {
      const deaf = { ...this.listener(), instanceId: this.deadInstanceId, onWake: () => undefined };
      neighbour.store.listen({ ...deaf, onSubscribed: () => resolve() });
    });
    await this.joinQueue(neighbour.store, DEAD, this.key, acknowledged);
    await neighbour.close();
    await this.untilDead();
  }

  /** Waits until the store sees that the instance of {@link DEAD} is gone. */
  private async untilDead(): Promise<void> {
    const key = this.elsewhere;
    const giveUpAt = this.under.clock.now() + LONG_MS;
    await this.acquire('holder', LONG_MS, { key, wait: false });
    for (;;) {
      const reply = await this.acquire(DEAD, LONG_MS, { key, wait: true });
      ok(reply.status === 'held' && this.under.clock.now() < giveUpAt, JSON.stringify(reply));
      if (!reply.queued) break;
      await this.release(DEAD, { key });
      await this.under.pass(1);
    }
    await this.release('holder', { key });
  }

  /** Lets a caller wait for a held key. A store may subscribe only when first needed: behind another caller's lock. */
  private async joinQueue(store: LockStore, name: string, key: string, acknowledged: Promise<void>): Promise<void> {
    const request = { ...this.ownership(name, key), leaseMs: LONG_MS, wait: true, handoffMs: HANDOFF_MS };
    const reply = await asked(store).acquire(request);
    ok(reply.status === 'held');
    if (reply.queued) return;
    await acknowledged;
    const again = await asked(store).acquire(request);
    ok(again.status === 'held' && again.queued, JSON.stringify(again));
  }

  /** A key beside that of the test. */
  private get elsewhere(): string {
    return `${this.key}:elsewhere`;
  }

  acquire(
    name: string,
    leaseMs: number = LONG_MS,
    { key = this.key, wait = this.isSubscribed, method, label }: AcquireDetails = {},
  ): Promise<AcquireReply> {
    const request = { ...this.ownership(name, key), leaseMs, wait, handoffMs: HANDOFF_MS, method, label };
    return asked(this.under.store).acquire(request);
  }

  async acquireAll(...names: readonly string[]): Promise<void> {
    for (const name of names) await this.acquire(name);
  }

  /** Sends an acquire request. Returns the status of the reply. */
  async statusOf(name: string): Promise<string> {
    return (await this.acquire(name)).status;
  }

  /** Sends an acquire request that must be granted. */
  async grantOf(name: string, leaseMs?: number): Promise<Granted> {
    const reply = await this.acquire(name, leaseMs);
    ok(reply.status === 'granted', `${name}: ${JSON.stringify(reply)}`);
    return reply;
  }

  /** As `grantOf`. Returns the fencing token. */
  async tokenOf(name: string, leaseMs?: number): Promise<number> {
    const { token } = await this.grantOf(name, leaseMs);
    ok(typeof token === 'number', 'a store with fencing returns a number with every grant');
    return token;
  }

  /** Sends an acquire request that must join the queue. Returns how many owners wait before it, if that is known. */
  async queue(name: string): Promise<number | undefined> {
    const acknowledged = new Promise<void>((resolve) => this.onSubscribed.add(resolve));
    let reply = await this.acquire(name);
    // In real time, a connection may end at any moment. The store subscribes again, and says so.
    if (reply.status === 'held' && !reply.queued) {
      await acknowledged;
      reply = await this.acquire(name);
    }
    ok(reply.status === 'held' && reply.queued, `${name}: ${JSON.stringify(reply)}`);
    return reply.ahead;
  }

  release(
    name: string,
    { key = this.key, closedForMs = 0, isDone, handoffMs = HANDOFF_MS }: ReleaseDetails = {},
  ): Promise<boolean> {
    return asked(this.under.store).release({ ...this.ownership(name, key), closedForMs, isDone, handoffMs });
  }

  async extend(name: string, leaseMs: number = LONG_MS): Promise<string> {
    const replies = await this.under.store.extend([{ ...this.ownership(name), leaseMs }]);
    strictEqual(replies.length, 1);
    return replies[0];
  }

  inspect(): Promise<LockState | null> {
    return this.under.store.inspect(this.key);
  }

  /** Waits for `count` messages in all. Returns the names of the callers that they wake, in order. */
  async woken(count: number): Promise<readonly string[]> {
    await this.untilMessage(() => this.wokenOwners.length >= count);
    return this.wokenOwners.map((owner) => this.nameOf(owner));
  }

  /** Waits until a message has woken that caller. */
  async untilWoken(name: string): Promise<void> {
    await this.untilMessage(() => this.wokenOwners.some((owner) => this.nameOf(owner) === name));
  }

  /** Asserts that a reply or a state shows the time left of a lease of `leaseMs` that began in this test. */
  assertRemaining(remainingMs: number | undefined, leaseMs: number): void {
    const leastMs = leaseMs - (this.under.clock.now() - this.startedAt) - TOLERANCE_MS;
    const isRest = remainingMs !== undefined && remainingMs >= leastMs && remainingMs <= leaseMs + this.surplusMs;
    ok(isRest, `${remainingMs} ms`);
  }

  /** Returns the key, owner and mode of a caller's requests. */
  ownership(name: string, key: string = this.key, mode: LockMode = this.modes.get(name) ?? 'exclusive') {
    if (!this.names.includes(name)) this.names.push(name);
    const instanceId = name === DEAD ? this.deadInstanceId : this.instanceId;
    return { key, owner: `${instanceId}:${this.names.indexOf(name)}`, mode };
  }

  /** Fails if the owner belongs to another instance. */
  private nameOf(owner: string): string {
    const [instanceId, number] = owner.split(':');
    strictEqual(instanceId, this.instanceId);
    return this.names[Number(number)];
  }

  private async untilMessage(isEnough: () => boolean): Promise<void> {
    if (isEnough()) return;
    await new Promise<void>((resolve, reject) => {
      const giveUp = (): void => reject(new Error(`no further message; so far: ${this.wokenOwners.join(', ')}`));
      const timer = setTimeout(giveUp, NO_MESSAGE_MS);
      this.onMessage.add(() => {
        if (!isEnough()) return;
        clearTimeout(timer);
        resolve();
      });
    });
  }

  private listener(): StoreListener {
    const nothing = (): void => undefined;
    const tell = (listeners: Set<() => void>): void => {
      for (const listener of listeners) listener();
    };
    return {
      instanceId: this.instanceId,
      onWake: (owner, key) => {
        if (key === this.key) this.wokenOwners.push(owner);
        tell(this.onMessage);
      },
      onSubscribed: () => tell(this.onSubscribed),
      onReleased: nothing,
      onDown: nothing,
      onUp: nothing,
      onReconnected: nothing,
      onExtendFailed: nothing,
      onDegraded: nothing,
      onRecovered: nothing,
    };
  }
}
