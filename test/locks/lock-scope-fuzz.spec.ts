import { describe, expect, it } from '@jest/globals';
import {
  LockError,
  type LockOptions,
  LockReentryError,
  type LockService,
  LockTimeoutError,
  runInLockScope,
} from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';
import { randomFrom } from '../support/random.js';
import { keptBy } from '../support/inside.js';

const SEEDS = 40;
const RESOURCES = ['goods:1', 'goods:2', 'goods:3', 'shop'];

/** One scope of a run, with the resources that it was granted, and whether it shares them. */
class Unit {
  readonly shares = new Map<string, boolean>();
  /** The uses that run, and whether they are exclusive. */
  readonly running = new Map<string, boolean[]>();
}

/**
 * Runs random scopes beside each other in two instances. Checks that none sees the locks of another, and that in one
 * scope the uses of an exclusive lock run one after the other, unless they are nested.
 */
class Run {
  readonly faults: string[] = [];
  readonly errors = new Map<string, number>();
  granted = 0;
  private readonly random: () => number;
  private readonly all = faultyLocks({ ttlMs: 3_000, waitMs: 2_000 });
  private readonly services: readonly LockService[];
  private readonly units = new Set<Unit>();
  private readonly strays: Promise<void>[] = [];

  constructor(seed: number) {
    this.random = randomFrom(seed);
    this.services = [this.all.locks, this.all.neighbour().locks];
  }

  async play(): Promise<void> {
    const { clock } = this.all;
    const scopes = Array.from({ length: 6 }, (_, i) => this.scope(this.services[i % 2]));
    const over = outcome(Promise.all(scopes).then(() => Promise.all(this.strays)));
    const isOver = (): boolean => 'value' in over;
    for (let turn = 0; !isOver() && turn < 2_000; turn += 1) await clock.advance(this.below(60));
    if (!isOver()) this.faults.push('a scope did not settle');
    await clock.advance(20_000);
    if (clock.pending > 0) this.faults.push('timers are left');
    for (const locks of this.services) {
      if (keptBy(locks) > 0) this.faults.push('an instance kept something');
    }
    for (const resource of RESOURCES) {
      if ((await this.services[0].inspect(resource)) !== null) this.faults.push(`${resource} is still locked`);
    }
  }

  private async scope(locks: LockService): Promise<void> {
    await this.pause();
    const unit = new Unit();
    this.units.add(unit);
    await runInLockScope(async () => {
      try {
        await this.branch(locks, unit, 3);
      } finally {
        this.units.delete(unit);
      }
    }).catch((error: unknown) => this.count(error));
  }

  /** @param around the resources whose uses run around the branch. */
  private async branch(locks: LockService, unit: Unit, depth: number, around: readonly string[] = []): Promise<void> {
    for (let steps = this.below(4); steps >= 0; steps -= 1) {
      await this.pause();
      await this.step(locks, unit, depth, around).catch((error: unknown) => this.count(error));
    }
  }

  private async step(locks: LockService, unit: Unit, depth: number, around: readonly string[]): Promise<void> {
    const inner = (more: readonly string[] = []): Promise<void> =>
      depth > 0 ? this.branch(locks, unit, depth - 1, [...around, ...more]) : this.pause();
    const options = this.options();
    const one = this.resource();
    const list = [this.resource(), this.resource()];
    const note = (...resources: string[]): void => this.note(unit, resources, options);
    const use = (resources: string | string[]): Promise<void> =>
      locks.using(resources as string, options, () => {
        const used = [...new Set([resources].flat())];
        note(...used);
        return this.use(unit, used, around, options, () => inner(used));
      });
    const steps: (() => Promise<void>)[] = [
      () => use(one),
      () => use(list),
      async () => {
        await using lock = await locks.acquire(one, options);
        note(one);
        await this.pause();
        lock.assertHeld();
      },
      async () => {
        const lock = await locks.tryAcquire(list, { mode: options.mode });
        if (lock === null) return;
        note(...list);
        await lock.release();
      },
      () => runInLockScope(() => inner()),
      () => Promise.all([inner(), inner()]).then(() => undefined),
      async () => void this.strays.push(this.stray(locks, options)),
      () => Promise.reject(new Error('the work failed')),
    ];
    await steps[this.below(steps.length)]();
  }

  /** Is left behind by its scope, so it notes nothing. */
  private async stray(locks: LockService, options: LockOptions): Promise<void> {
    await this.pause();
    await locks.using(this.resource(), options, () => this.pause()).catch((error: unknown) => this.count(error));
  }

  /** Records a grant, and every other scope that has used the resource and has not ended. */
  private note(unit: Unit, resources: readonly string[], { mode }: LockOptions): void {
    const isShared = mode === 'shared';
    for (const resource of resources) {
      this.granted += 1;
      unit.shares.set(resource, isShared && unit.shares.get(resource) !== false);
      for (const other of this.units) {
        const others = other === unit ? undefined : other.shares.get(resource);
        if (others === false || (others === true && !isShared)) this.faults.push(`two scopes have ${resource}`);
      }
    }
  }

  /** Records a use while it runs, and every other one that it overlaps with. */
  private async use(
    { running }: Unit,
    resources: readonly string[],
    around: readonly string[],
    { mode }: LockOptions,
    work: () => Promise<void>,
  ): Promise<void> {
    const isExclusive = mode === 'exclusive';
    for (const resource of resources) {
      const others = running.get(resource) ?? [];
      const excludes = isExclusive || others.includes(true);
      if (others.length > 0 && excludes && !around.includes(resource)) this.faults.push(`uses of ${resource} overlap`);
      running.set(resource, [...others, isExclusive]);
    }
    try {
      await work();
    } finally {
      for (const resource of resources) {
        const left = [...(running.get(resource) ?? [])];
        left.splice(left.indexOf(isExclusive), 1);
        running.set(resource, left);
      }
    }
  }

  private count(error: unknown): void {
    const isExpected = error instanceof LockTimeoutError || error instanceof LockReentryError;
    if (error instanceof LockError && !isExpected) this.faults.push(String(error));
    const { name } = error as Error;
    this.errors.set(name, (this.errors.get(name) ?? 0) + 1);
  }

  private options(): LockOptions {
    return {
      mode: this.random() < 0.4 ? 'shared' : 'exclusive',
      reentrant: this.random() < 0.9,
      waitMs: [0, 500, 5_000][this.below(3)],
    };
  }

  private resource(): string {
    return RESOURCES[this.below(RESOURCES.length)];
  }

  private pause(): Promise<void> {
    if (this.random() < 0.3) return Promise.resolve();
    return new Promise((resolve) => this.all.clock.schedule(this.below(400), resolve));
  }

  private below(limit: number): number {
    return Math.floor(this.random() * limit);
  }
}

describe('random scopes', () => {
  it(`exclude each other until they have settled, and leave nothing behind (${SEEDS} seeds)`, async () => {
    let granted = 0;
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const run = new Run(seed);
      await run.play();
      expect({ seed, faults: run.faults }).toEqual({ seed, faults: [] });
      granted += run.granted;
    }
    expect(granted).toBeGreaterThan(SEEDS * 10);
  });
});
