import type { Lease } from '../../../lib/engine/lease.js';
import type { Lock } from '../../../lib/engine/lock.js';
import type { Instance } from './instance.js';

/** What rules cost that break nothing when they are off. Times are in milliseconds. */
export interface Measured {
  /** The longest time for which a key was closed while a caller of a live instance waited and nobody held it. */
  readonly closedMs: number;
  /** All such times together. */
  readonly allClosedMs: number;
  /** The longest time for which one grant of the store was used while another instance waited. */
  readonly turnMs: number;
  /** How often another instance was granted a lock while one waited that all others had preceded before. */
  readonly overtakes: number;
}

/** Watches instances from outside. */
export class Measures {
  private closedMs = 0;
  private allClosedMs = 0;
  private turnMs = 0;
  private overtakes = 0;
  private readonly closedSince = new Map<string, number>();
  private readonly turns = new Map<string, { readonly lease: Lease; readonly since: number }>();
  private readonly waits = new Map<string, Map<Instance, number>>();

  constructor(
    private readonly instances: readonly Instance[],
    private readonly keys: readonly string[],
    private readonly now: () => number,
  ) {}

  get result(): Measured {
    const { closedMs, allClosedMs, turnMs, overtakes } = this;
    return { closedMs, allClosedMs, turnMs, overtakes };
  }

  look(): void {
    const now = this.now();
    // Nobody waits while a process is dead, or stands still.
    const live = this.instances.filter(({ isDead, clock }) => !isDead && !clock.isBlocked);
    for (const key of this.keys) {
      const waiting = live.filter(({ engine }) => engine.waiting(key).some(({ isPatient }) => isPatient));
      const locks = this.instances.flatMap(({ isDead, engine }) => (isDead ? [] : locksOf(engine.holds(), key)));
      this.lookAtClosed(key, waiting.length > 0 && locks.length === 0, now);
      this.lookAtTurn(key, locks, waiting, now);
    }
  }

  /** A key may be granted and released between two looks. */
  granted(key: string): void {
    this.lookAtClosed(key, false, this.now());
  }

  private lookAtClosed(key: string, isClosed: boolean, now: number): void {
    const since = this.closedSince.get(key);
    if (isClosed && since === undefined) this.closedSince.set(key, now);
    if (since === undefined) return;
    this.closedMs = Math.max(this.closedMs, now - since);
    if (isClosed) return;
    this.allClosedMs += now - since;
    this.closedSince.delete(key);
  }

  private lookAtTurn(key: string, locks: readonly Lock[], waiting: readonly Instance[], now: number): void {
    const lock = locks.at(0);
    const turn = this.turns.get(key);
    if (lock?.mode !== 'exclusive') return void this.turns.delete(key);
    const { lease } = lock;
    const isAwaited = waiting.some(({ engine }) => engine.instanceId !== lease.queue.parts.instanceId);
    if (turn?.lease !== lease) {
      this.countOvertaken(key, lease, waiting);
      if (isAwaited) this.turns.set(key, { lease, since: now });
      else this.turns.delete(key);
    } else if (!isAwaited) this.turns.delete(key);
    else this.turnMs = Math.max(this.turnMs, now - turn.since);
  }

  private countOvertaken(key: string, lease: Lease, waiting: readonly Instance[]): void {
    const before = this.waits.get(key) ?? new Map<Instance, number>();
    const after = new Map<Instance, number>();
    for (const instance of waiting) {
      if (instance.engine.instanceId === lease.queue.parts.instanceId) continue;
      const count = (before.get(instance) ?? 0) + 1;
      after.set(instance, count);
      if (count >= this.instances.length) this.overtakes += 1;
    }
    this.waits.set(key, after);
  }
}

function locksOf(locks: readonly Lock[], key: string): readonly Lock[] {
  return locks.filter((lock) => lock.key === key);
}
