import { LockError, type Lock, type LockOptions, runInLockScope } from 'nestjs-redis-lock';
import type { Clock } from '../../../lib/clock/clock.js';
import type { Conditions } from './conditions.js';
import { type Instance, REQUEST_TIMEOUT_MS } from './instance.js';
import { type Referee, SEVERAL } from './referee.js';

/** The default of `unavailableAfterMs`. */
const UNAVAILABLE_AFTER_MS = 500;

/** Random callers of several instances. */
export class Callers {
  /** How long a key is excused after a release by force. */
  readonly excuseMs: number;

  constructor(
    private readonly instances: readonly Instance[],
    private readonly keys: readonly string[],
    private readonly conditions: Conditions,
    private readonly clock: Clock,
    private readonly referee: Referee,
  ) {
    const { messageLost, deafMs, disconnect, refused, blocked, dies, longestMs, longestTtlMs } = conditions;
    // A dead holder never learns of it.
    const isLate = messageLost > 0 || (disconnect > 0 && deafMs > 0) || refused > 0 || blocked > 0 || dies > 0;
    this.excuseMs = isLate ? longestTtlMs + 1_000 : 10 + 4 * longestMs;
  }

  /** How many calls of live instances have not ended. */
  get running(): number {
    return this.instances.reduce((sum, { isDead, calls }) => sum + (isDead ? 0 : calls), 0);
  }

  /** Makes one call. Never rejects. */
  async call(): Promise<void> {
    const ready = this.instances.filter(({ mayCall }) => mayCall);
    if (ready.length === 0) return;
    const from = this.pick(ready);
    from.calls += 1;
    try {
      await this.anyCall(from);
    } catch (error) {
      const isKnown = error instanceof LockError || (error as Error).name === 'AbortError';
      if (!isKnown) this.referee.report(`unexpected: ${(error as Error).stack}`);
    } finally {
      from.calls -= 1;
    }
  }

  private anyCall(from: Instance): Promise<unknown> {
    const { force, several, scope, tries, tickets } = this.conditions;
    const options = this.options();
    let roll = this.random();
    if ((roll -= force) < 0) return this.force(from);
    if ((roll -= several) < 0) return this.several(from, options);
    if ((roll -= scope) < 0) return this.inScope(from, options);
    if ((roll -= tries) < 0) return this.tryOnce(from, options);
    if ((roll -= tickets) < 0) return this.withTicket(from, options);
    const calledAt = this.clock.now();
    let isGranted = false;
    const call = from.service.using(this.pick(this.keys), options, (lock) => {
      isGranted = true;
      this.checkWait(options, calledAt);
      return this.work(from, lock, modeOf(options));
    });
    return call.finally(() => isGranted || this.checkWait(options, calledAt));
  }

  /** No caller waits longer than it said, except for a first reply, or for a server that refuses. */
  private checkWait({ waitMs = 0 }: LockOptions, calledAt: number): void {
    const mostMs = Math.max(waitMs, 2 * REQUEST_TIMEOUT_MS) + REQUEST_TIMEOUT_MS + UNAVAILABLE_AFTER_MS;
    const waitedMs = this.clock.now() - calledAt;
    if (this.conditions.blocked === 0 && waitedMs > mostMs)
      this.referee.report(`a caller with ${waitMs} ms has waited ${Math.round(waitedMs)} ms`);
  }

  private async force({ service }: Instance): Promise<void> {
    await service.forceRelease(this.pick(this.keys));
  }

  private several({ service, clock }: Instance, options: LockOptions): Promise<void> {
    return service.using(this.someKeys(), { ...exclusive(options), label: SEVERAL }, async ({ locks: all }) => {
      for (const lock of all) this.referee.enter(lock);
      await this.pause(clock, 30);
      for (const lock of all) this.referee.leave(lock);
    });
  }

  private async work({ service, engine, clock }: Instance, lock: Lock, mode: Lock['mode']): Promise<void> {
    this.referee.start(engine, lock, mode);
    this.referee.enter(lock);
    try {
      if (this.random() < 0.1) await lock.extend();
      await this.pause(clock, this.random() < this.conditions.slow ? 600 : this.conditions.workMs);
      const nests = this.random() < this.conditions.nests && lock.mode === 'exclusive';
      if (nests) await service.using(lock.resource, { waitMs: Infinity }, () => this.pause(clock, 10));
    } finally {
      this.referee.leave(lock);
    }
  }

  private async tryOnce({ service, clock }: Instance, options: LockOptions): Promise<void> {
    const lock = await service.tryAcquire(this.pick(this.keys), { ...options, waitMs: undefined } as LockOptions);
    if (lock === null) return;
    this.referee.enter(lock);
    await this.pause(clock, 20);
    this.referee.leave(lock);
    await lock.release().catch(() => undefined);
  }

  /** Detaches a lock, lets two instances resume it, renews it by the next ticket, and releases it. */
  private async withTicket({ service, clock }: Instance, options: LockOptions): Promise<void> {
    const resource = this.pick(this.keys);
    const first = await service.acquire(resource, { ...exclusive(options), minHoldMs: 0 });
    this.referee.enter(first);
    await this.pause(clock, 20);
    this.referee.leave(first);
    const ticket = await first.detach();
    const both = [this.pick(this.instances), this.pick(this.instances)];
    const resumed = await Promise.allSettled(both.map((each) => this.resume(each, first, ticket)));
    const next = resumed.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    if (next.length > 1) this.referee.report(`${resource}: two have resumed one ticket`);
    for (const { reason } of resumed.filter((each) => each.status === 'rejected'))
      if (!(reason instanceof LockError)) throw reason;
    for (const each of next) {
      await service.extend(resource, each);
      await service.release(resource, each);
    }
  }

  /** Resumes a lock, and detaches it again. */
  private async resume({ service, clock }: Instance, { resource, token, ttlMs }: Lock, ticket: string) {
    const lock = await service.resume(resource, ticket, { ttlMs });
    if (lock.fencingToken !== token) this.referee.report(`${resource}: a ticket has not kept its token`);
    this.referee.enter(lock, true);
    await this.pause(clock, this.conditions.workMs);
    this.referee.leave(lock);
    return lock.detach();
  }

  /** Two branches of a scope, some of them in a scope of their own, use some locks beside each other and keep them. */
  private inScope({ service, clock }: Instance, options: LockOptions): Promise<void> {
    // Scopes that want each other's locks wait for each other.
    const { waitMs = 0, ...others } = exclusive(options);
    const bounded = { ...others, waitMs: Math.min(waitMs, 2_000), label: SEVERAL };
    const kept: Lock[] = [];
    const use = async (): Promise<void> => {
      await service.using(this.someKeys(), bounded, async ({ locks: all }) => {
        for (const lock of all) this.referee.enter(lock);
        kept.push(...all);
        await this.pause(clock, 10);
      });
      await this.pause(clock, 10);
    };
    const branch = (): Promise<void> => (this.random() < 0.3 ? runInLockScope(use) : use());
    return service.scope(async () => {
      await Promise.all([branch(), branch()]).finally(() => kept.forEach((lock) => this.referee.leave(lock)));
    });
  }

  private options(): LockOptions {
    const { modes, shortestTtlMs, longestTtlMs, minHold } = this.conditions;
    const modeRoll = this.random();
    const mode = modeRoll >= modes ? {} : modeRoll < modes * 0.6 ? ({ mode: 'shared' } as const) : { permits: 2 };
    return {
      ...mode,
      signal: this.random() < this.conditions.aborts ? this.abortedLater() : undefined,
      waitMs: this.waitMs(),
      ttlMs: shortestTtlMs + Math.floor(this.random() * (longestTtlMs - shortestTtlMs)),
      minHoldMs: this.random() < minHold ? Math.floor(this.random() * 60) : 0,
      maxHoldMs: this.random() < 0.1 ? 100 + Math.floor(this.random() * 100) : Infinity,
      maxWaiting: this.random() < 0.1 ? 1 + Math.floor(this.random() * 3) : Infinity,
    };
  }

  private waitMs(): number {
    const roll = this.random();
    if (roll < this.conditions.patient) return Infinity;
    const rest = this.random();
    if (rest < 0.17) return 0;
    return rest < 0.33 ? Math.floor(this.random() * 50) : 2_000;
  }

  private abortedLater(): AbortSignal {
    const controller = new AbortController();
    this.clock.schedule(this.random() * 300, () => controller.abort(), true);
    return controller.signal;
  }

  private pause(clock: Clock, longestMs: number): Promise<void> {
    const ms = this.random() * longestMs;
    return ms < 2 ? Promise.resolve() : new Promise((resolve) => clock.schedule(ms, resolve));
  }

  private someKeys(): string[] {
    return [...new Set([this.pick(this.keys), this.pick(this.keys), this.pick(this.keys)])];
  }

  private pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)];
  }

  private random(): number {
    return this.clock.random();
  }
}

function modeOf(options: LockOptions): Lock['mode'] {
  return options.permits ?? options.mode ?? 'exclusive';
}

function exclusive({ mode: _mode, permits: _permits, ...rest }: LockOptions): LockOptions {
  return rest;
}
