// Three instances, all modes and kinds of options, lost and repeated replies and messages, on a manual clock.
import { describe, expect, it } from '@jest/globals';
import type { Lock, LockOptions } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';
import { randomFrom } from '../support/random.js';
import { keptBy } from '../support/inside.js';
import type { InstanceOptions } from '../support/redis-locks.js';

const HELD_BACK = ['acquire', 'handoff', 'extend', 'release'] as const;
const PERMITS = 2;
const REQUEST_TIMEOUT_MS = 1_000;
/** The longest pause before a request is repeated after its timeout, and the handoff of a dead caller. */
const GRACE_MS = 3_000;

type Kind = 'exclusive' | 'shared' | 'permits';

interface Call {
  readonly kind: Kind;
  readonly settled: { value?: Lock; error?: unknown };
  readonly abort: AbortController;
  readonly dueAt: number;
  isReleased: boolean;
}

class Fuzz {
  private readonly random: () => number;
  private readonly all: ReturnType<typeof faultyLocks>;
  private readonly instances: {
    locks: ReturnType<typeof faultyLocks>['locks'];
    store: ReturnType<typeof faultyLocks>['store'];
  }[];
  private readonly calls: Call[] = [];

  constructor(seed: number, hasQueue: boolean) {
    this.random = randomFrom(seed);
    const passing = this.pick<InstanceOptions['passing']>([
      {},
      { maxLocalPasses: 0, maxLocalHoldMs: 0 },
      { maxLocalPasses: 2 },
      { maxLocalPasses: 3, maxLocalHoldMs: 1_000 },
    ]);
    this.all = faultyLocks({ passing });
    this.instances = [this.all, this.all.neighbour(), this.all.neighbour()];
    if (!hasQueue) for (const { store } of this.instances) store.less.queue = false;
  }

  /** Returns what went wrong, undefined if nothing did. */
  async run(steps: number): Promise<string | undefined> {
    for (let step = 0; step < steps; step += 1) {
      await this.step();
      if (this.random() < 0.5) await this.all.clock.advance(0);
      const fault = this.fault();
      if (fault !== undefined) return `step ${step}: ${fault}`;
    }
    return this.settle();
  }

  private async step(): Promise<void> {
    const { locks, store } = this.pick(this.instances);
    const dice = this.random();
    if (dice < 0.35) this.request(locks);
    else if (dice < 0.65) this.release();
    else if (dice < 0.7) this.calls.at(this.random() * this.calls.length)?.abort.abort();
    else if (dice < 0.85) await this.all.clock.advance(this.pick([0, 1, 5, 20, 100, 400, 2_000]));
    else if (dice < 0.9) store.hold(this.pick(HELD_BACK));
    else if (dice < 0.96) for (const what of HELD_BACK) store.deliver(what);
    else if (dice < 0.97) {
      store.disconnect();
      store.reconnect();
      store.reportSubscribed();
    } else if (dice < 0.98 && store.handoffs.length > 0) store.reportHandoff(this.pick(store.handoffs));
    else store.drop('handoff');
  }

  private request(locks: ReturnType<typeof faultyLocks>['locks']): void {
    const kind = this.pick<Kind>(['exclusive', 'shared', 'permits']);
    const waitMs = this.pick([0, 50, 500, 60_000, 60_000]);
    const abort = new AbortController();
    const sometimes = (options: LockOptions, share: number): LockOptions => (this.random() < share ? options : {});
    const mode = { exclusive: {}, shared: { mode: 'shared' }, permits: { permits: PERMITS } } as const;
    const settled = outcome(
      locks.acquire('goods:300', {
        ...mode[kind],
        ...sometimes({ minHoldMs: 100 }, 0.1),
        ...sometimes({ maxHoldMs: 300 }, 0.1),
        ...sometimes({ renew: false }, 0.1),
        ...sometimes({ ttlMs: 5_000 }, 0.15),
        waitMs,
        signal: abort.signal,
      }),
    );
    const dueAt = this.all.clock.now() + waitMs + REQUEST_TIMEOUT_MS + GRACE_MS;
    this.calls.push({ kind, settled, abort, dueAt, isReleased: false });
  }

  private release(): void {
    const held = this.calls.filter(({ settled, isReleased }) => settled.value !== undefined && !isReleased);
    if (held.length > 0) end(this.pick(held));
  }

  /** Ends all holds without further faults. Returns what stays behind. */
  private async settle(): Promise<string | undefined> {
    const { clock, memory } = this.all;
    for (let turn = 0; turn < 400; turn += 1) {
      for (const { store } of this.instances) for (const what of HELD_BACK) store.deliver(what);
      for (const call of this.calls) if (call.settled.value !== undefined && !call.isReleased) end(call);
      await clock.advance(turn < 50 ? 10 : 500);
      const fault = this.fault();
      if (fault !== undefined) return `at the end: ${fault}`;
      const isOver = this.calls.every(({ settled }) => 'value' in settled || 'error' in settled);
      const kept = this.instances.reduce((sum, { locks }) => sum + keptBy(locks), 0);
      if (isOver && kept === 0 && (await memory.inspect(KEY)) === null) return undefined;
    }
    return 'callers, lines or keys stay';
  }

  /** Returns what must not be true at any moment. */
  private fault(): string | undefined {
    const count = (kind: Kind): number =>
      this.calls.filter((call) => call.kind === kind && (call.settled.value?.expiresInMs ?? 0) > 0).length;
    const [writers, readers, permits] = [count('exclusive'), count('shared'), count('permits')];
    const kinds = [writers, readers, permits].filter((number) => number > 0).length;
    if (writers > 1 || permits > PERMITS || kinds > 1)
      return `held by ${writers} writers, ${readers} readers and ${permits} with permits`;
    const now = this.all.clock.now();
    const overdue = this.calls.find(({ settled, dueAt }) => !('value' in settled || 'error' in settled) && dueAt < now);
    return overdue && `a caller (${overdue.kind}) has no outcome`;
  }

  private pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.random() * from.length)];
  }
}

function end(call: Call): void {
  call.isReleased = true;
  call.settled.value?.release().catch(() => undefined);
}

describe.each([true, false])('lines of a store with a queue: %s', (hasQueue) => {
  // The first ones broke an earlier version.
  const seeds = [221, 871, 934, 935, 1010, 1359, 1558, 1561, ...Array.from({ length: 150 }, (_, i) => i + 1)];

  it('exclude, give each caller an outcome, and leave nothing behind', async () => {
    const faults: string[] = [];
    for (const seed of seeds) {
      const fault = await new Fuzz(seed, hasQueue).run(120);
      if (fault !== undefined) faults.push(`seed ${seed}, ${fault}`);
    }
    expect(faults).toEqual([]);
  }, 60_000);
});
