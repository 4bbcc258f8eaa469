import { replyTo } from '../contract/reply-listener.js';
import type { AcquireReply } from '../contract/store.js';
import { checkOptions, checkValue, copyOptions, millisecondsFrom, type OptionRules } from '../common/check-options.js';
import { createKeyFactory, type KeyFactory } from '../keys/resource-key.js';
import type { Lock } from '../engine/lock.js';
import type { Waiter } from '../engine/waiter.js';
import { newInstanceId } from '../contract/instance-id.js';
import type { Timer } from '../clock/clock.js';
import type { LockService } from '../lock.service.js';
import { LockRuntime } from '../lock-runtime.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { loggerOf } from '../nest/logger.js';
import { resolveOptions } from '../options/resolve-options.js';
import { MemoryStore } from '../stores/memory/memory.store.js';
import { AutoAdvancingClock } from './auto-advancing-clock.js';
import { BenchStore } from './bench-store.js';
import { ManualClock } from './manual-clock.js';

/**
 * The options of {@link createTestBench}: those of the module for `bench.locks`, and a clock.
 *
 * @publicApi
 */
export interface TestBenchOptions extends Omit<RedisLockModuleOptions, 'redis' | 'store' | 'replicas'> {
  /**
   * The clock of all locks on the bench. It does not move until the test advances it. Default: the bench's own clock.
   * It advances by itself while a call waits for a lock or for Redis, so no test waits for `waitMs`.
   */
  readonly clock?: ManualClock | undefined;
}

/**
 * The options of {@link TestBench.occupy}.
 *
 * @publicApi
 */
export interface OccupyOptions {
  /**
   * How long the other process holds the lock, in milliseconds of the bench's clock. A call that waits longer then gets
   * the lock. Default: until `release()`.
   */
  readonly forMs?: number | undefined;
}

/**
 * A lock that another process holds, as far as the code under test can see.
 *
 * @publicApi
 */
export interface OccupiedLock {
  readonly resource: string;
  /** Releases the lock, for the call that has waited longest. A second call does nothing. */
  release(): Promise<void>;
  /** Releases the lock at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void>;
}

const OCCUPY_RULES: OptionRules<OccupyOptions> = { forMs: millisecondsFrom(0) };

const clockRule = { allowed: 'a ManualClock', fits: (value: unknown) => value instanceof ManualClock };

/** The bench's other process holds its locks for as long as the test wants. */
const ENDLESS_LEASE_MS = 365 * 24 * 3600 * 1000;
const HANDOFF_MS = 1_200;

/** A module instance on the bench. */
interface BenchInstance {
  readonly service: LockService;
  readonly store: BenchStore;
  readonly keyOf: KeyFactory;
}

/**
 * Stands for Redis and for all other processes: decides who holds a lock, when one is lost, and when Redis is down. All
 * lock services that are given the bench share its memory and its clock. See {@link createTestBench}.
 *
 * @publicApi
 */
export class TestBench {
  /** The clock of all locks on the bench. */
  readonly clock: ManualClock;
  private readonly memory: MemoryStore;
  private readonly instances = new Set<BenchInstance>();
  private readonly occupations = new Set<Occupation>();
  private readonly identity = newInstanceId('another-process');
  private readonly options: RedisLockModuleOptions;
  /** Makes the keys of `locks`. */
  private readonly keyOf: KeyFactory;
  private isDown = false;
  private own: LockService | undefined;
  private attempts = 0;

  /** @internal */
  constructor(given: TestBenchOptions) {
    const { clock, ...options } = copyOptions('createTestBench()', given);
    if (clock !== undefined) checkValue('createTestBench()', 'clock', clock, clockRule);
    this.keyOf = createKeyFactory(resolveOptions(options));
    this.options = options;
    this.clock = clock ?? new AutoAdvancingClock(() => this.isTimeAwaited());
    this.memory = new MemoryStore(this.clock);
  }

  /** A lock service on the bench, for unit tests: `withLocks(new GoodsService(), bench.locks)`. */
  get locks(): LockService {
    return (this.own ??= this.start(this.options).service);
  }

  /**
   * Lets another process hold a lock, even before the application starts. Calls for the lock wait, and fail with
   * `LockTimeoutError` once their `waitMs` has elapsed. With the bench's own clock, that takes no real time.
   *
   * @throws Error if somebody holds the lock.
   * @throws LockKeyError if the resource cannot form a safe key.
   * @throws LockConfigError if an option is not allowed.
   */
  async occupy(resource: string, options: OccupyOptions = {}): Promise<OccupiedLock> {
    const { forMs = Infinity } = checkOptions('occupy()', options, OCCUPY_RULES);
    const owner = `${this.identity}:${++this.attempts}`;
    const occupation = new Occupation(resource, owner, this.memory, this.clock, () => {
      this.occupations.delete(occupation);
    });
    // Instances with other prefixes have other keys. An instance that starts later gets its key then.
    for (const keyOf of [this.keyOf, ...Array.from(this.instances, (instance) => instance.keyOf)]) {
      if (await occupation.take(keyOf(resource))) continue;
      await occupation.release();
      throw new Error(`occupy(): ${resource} is already held; expected a free lock. ${this.described()}`);
    }
    this.occupations.add(occupation);
    if (forMs !== Infinity) occupation.releaseAfter(forMs);
    this.look();
    return occupation;
  }

  /**
   * Ends the hold of a lock as if its lease had expired. Its `signal` aborts, its `assertHeld()` throws, and the caller
   * of the work gets a `LockLostError`. Another process can then acquire the lock immediately. Call `lose()` in a fake
   * that the work under test calls.
   *
   * @throws Error if no call on the bench holds the lock.
   */
  lose(resource: string): void {
    const found = this.held().filter(({ keyOf, lock }) => lock.key === keyOf(resource));
    if (found.length === 0) throw new Error(`lose(): no call holds ${resource}. ${this.described()}`);
    for (const { service, lock } of found) service.engine.lose(lock, 'the test bench ended it');
  }

  /**
   * Ends the connection of all lock services on the bench, or with `false` opens it again. Meanwhile, calls get
   * `LockUnavailableError` after `unavailableAfterMs`, locks that are held end with their leases, and other processes
   * keep theirs. With the bench's own clock, the wait takes no real time.
   */
  unavailable(isUnavailable: boolean = true): void {
    if (this.isDown === isUnavailable) return;
    this.isDown = isUnavailable;
    for (const { store } of this.instances) store.setDown(isUnavailable);
    this.look();
  }

  /** Releases what other processes hold, and opens the connection. For `afterEach`. */
  async reset(): Promise<void> {
    this.unavailable(false);
    for (const occupation of this.occupations) await occupation.release();
  }

  /** See {@link startOnBench}. */
  private start(options: RedisLockModuleOptions, name: string = DEFAULT_INSTANCE): LockRuntime {
    const store = new BenchStore(this.memory, this.clock, () => void this.instances.delete(instance));
    // The module closes what a function has made.
    const internals = { clock: this.clock, logger: loggerOf(name) };
    const runtime = LockRuntime.start({ ...options, store: () => store }, name, internals);
    const { service } = runtime;
    const keyOf = createKeyFactory(resolveOptions(options));
    const instance: BenchInstance = { service, store, keyOf };
    this.instances.add(instance);
    store.setDown(this.isDown);
    for (const occupation of this.occupations) void occupation.take(keyOf(occupation.resource));
    return runtime;
  }

  /** Returns the locks that calls hold, with their instances. */
  private held(): readonly (BenchInstance & { readonly lock: Lock })[] {
    return [...this.instances].flatMap((instance) =>
      instance.service.engine.holds().map((lock) => ({ ...instance, lock })),
    );
  }

  private look(): void {
    if (this.clock instanceof AutoAdvancingClock) this.clock.look();
  }

  /** Whether an application is closing, or a call waits, with a limit, for something other than another call. */
  private isTimeAwaited(): boolean {
    const engines = Array.from(this.instances, ({ service }) => service.engine);
    const waiting = engines.flatMap((engine) => engine.waiting());
    return engines.some((engine) => engine.isShuttingDown) || waiting.some((caller) => this.awaitsTime(caller));
  }

  private awaitsTime({ target: { key }, options: { waitMs, unavailableAfterMs = Infinity } }: Waiter): boolean {
    if (this.isDown) return Math.min(waitMs, unavailableAfterMs) < Infinity;
    const occupation = [...this.occupations].find((each) => each.holds(key));
    if (occupation !== undefined) return waitMs < Infinity || occupation.isTimed;
    // Without a holder, only time frees the lock: a release is repeated, or a lease or `minHoldMs` ends.
    return !this.held().some(({ lock }) => lock.key === key);
  }

  /** Returns who holds what, for an error. */
  private described(): string {
    const held = this.held().map(({ lock }) => lock.resource);
    const occupied = Array.from(this.occupations, ({ resource }) => resource);
    const list = (resources: readonly string[]): string => (resources.length === 0 ? 'nothing' : resources.join(', '));
    return `Calls hold ${list(held)}, and the bench occupies ${list(occupied)}.`;
  }
}

/** Starts a module instance on a bench. Not a method of the bench, because users do not call it. */
export function startOnBench(bench: TestBench, options: RedisLockModuleOptions, name?: string): LockRuntime {
  return bench['start'](options, name);
}

/** A resource that another process holds, under all its keys, because module instances may have different prefixes. */
class Occupation implements OccupiedLock {
  private readonly keys = new Set<string>();
  private timer: Timer | undefined;
  private isOver = false;

  constructor(
    readonly resource: string,
    private readonly owner: string,
    private readonly memory: MemoryStore,
    private readonly clock: ManualClock,
    private readonly onFree: () => void,
  ) {}

  /** Whether the hold ends by itself. */
  get isTimed(): boolean {
    return this.timer !== undefined;
  }

  /** Acquires a key. Returns false if it is not free. */
  async take(key: string): Promise<boolean> {
    const request = { key, owner: this.owner, mode: 'exclusive', leaseMs: ENDLESS_LEASE_MS, wait: false } as const;
    const asked = { ...request, handoffMs: HANDOFF_MS };
    const { status } = await replyTo<AcquireReply>((listener) => this.memory.acquire(asked, listener));
    if (status === 'granted') this.keys.add(key);
    return status === 'granted';
  }

  /** Whether the other process holds this key. Somebody may have released it by force. */
  holds(key: string): boolean {
    return this.keys.has(key) && this.memory.table.holders(key).some(({ owner }) => owner === this.owner);
  }

  releaseAfter(ms: number): void {
    this.timer = this.clock.schedule(ms, () => void this.release());
  }

  async release(): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    this.timer?.cancel();
    this.onFree();
    for (const key of this.keys) {
      const { owner } = this;
      const release = { key, owner, mode: 'exclusive', closedForMs: 0, handoffMs: HANDOFF_MS } as const;
      await replyTo<boolean>((listener) => this.memory.release(release, listener));
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/**
 * Returns a bench that lets a test decide what happens to its locks, without Redis: another process holds a lock, a
 * lock is lost, Redis is unavailable. Give it to `withMemoryLocks(builder, { bench })`,
 * `RedisLockTestingModule.forRoot({ bench })` or `createTestLocks({ bench })`, or use `bench.locks`.
 *
 * ```ts
 * const bench = createTestBench();
 * const goods = withLocks(new GoodsService(repository), bench.locks);
 * await bench.occupy('goods:300');
 * await expect(goods.buy(300)).rejects.toThrow(LockTimeoutError);
 * ```
 *
 * @throws LockConfigError if an option is invalid.
 *
 * @publicApi
 */
export function createTestBench(options: TestBenchOptions = {}): TestBench {
  return new TestBench(options);
}
