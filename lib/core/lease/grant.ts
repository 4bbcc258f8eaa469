import { driftOf } from '../time/clock.js';
import { LockLostError } from '../errors.js';
import type { GrantedTokens, LockMode } from '../store/lock-store.js';

/** What a hold is kept by. */
export interface HoldOptions {
  readonly mode: LockMode;
  /** The lease that every renewal asks for. */
  readonly ttlMs: number;
  readonly renew: boolean;
  /** Infinity: no bound. */
  readonly maxHoldMs: number;
  readonly minHoldMs: number;
}

/** Who wants to know that a grant is lost. */
export interface LossListener {
  lost(error: LockLostError): void;
}

/** A lease, as it was asked for. */
export interface Lease {
  /** From when it counts on our clock: before the request left. */
  readonly sentAt: number;
  readonly leaseMs: number;
}

/** What the store gave to an ask. */
export interface StoreGrant extends GrantedTokens, Lease {
  readonly owner: string;
}

/** Where a grant ends. */
export interface GrantEnder {
  /** Ends it, in good order or lost; answers the store's word. */
  end(grant: Grant, closedUntil?: number): Promise<boolean>;
}

export type GrantState = 'held' | 'lost' | 'ended';

const NOBODY: readonly LossListener[] = [];

/**
 * A key that the store gave to this module instance. Nested holds share one grant; it ends with the last of them.
 *
 * Its `deadline` is counted from before the request left, minus drift: at that moment nobody else can have the key yet,
 * and from that moment on somebody may.
 */
export class Grant {
  readonly maxHoldUntil: number;
  /** It stays closed until then, even if its work ends sooner. */
  minHoldUntil: number;
  /** The lease that renewals ask for; `extend(ttlMs)` changes it. */
  ttlMs: number;
  deadline: number;
  /** When the lease that the deadline comes from was asked for, and how long it was. */
  private leasedAt: number;
  private leaseMs: number;
  /** When the watchdog turns to it next; undefined while it does not watch over it. */
  dueAt: number | undefined = undefined;
  /** Nearly always one. */
  private listeners: readonly LossListener[] = NOBODY;
  private current: GrantState = 'held';
  private reason: LockLostError | undefined;

  constructor(
    readonly resource: string,
    readonly key: string,
    readonly owner: string,
    readonly token: number | undefined,
    readonly options: HoldOptions,
    readonly grantedAt: number,
    lease: Lease,
    readonly ender: GrantEnder,
  ) {
    this.ttlMs = options.ttlMs;
    this.maxHoldUntil = grantedAt + options.maxHoldMs;
    this.minHoldUntil = grantedAt + options.minHoldMs;
    this.leasedAt = lease.sentAt;
    this.leaseMs = lease.leaseMs;
    this.deadline = Math.min(deadlineOf(lease.sentAt, lease.leaseMs), this.maxHoldUntil);
  }

  get state(): GrantState {
    return this.current;
  }

  /** Why it was lost; undefined in any other state. */
  get loss(): LockLostError | undefined {
    return this.reason;
  }

  /** What it is believed in by now. */
  get lease(): Lease {
    return { sentAt: this.leasedAt, leaseMs: this.leaseMs };
  }

  get mode(): LockMode {
    return this.options.mode;
  }

  /** How many holds share it. */
  get holds(): number {
    return this.listeners.length;
  }

  /**
   * When two thirds of the lease are left: two more tries fit before it ends. A short lease is made up for soon.
   */
  get renewAt(): number {
    if (this.deadline >= this.maxHoldUntil) return Infinity;
    if (this.isShort) return this.leasedAt;
    return this.options.renew ? this.leasedAt + this.leaseMs - (Math.min(this.leaseMs, this.ttlMs) * 2) / 3 : Infinity;
  }

  /** Whether its lease is shorter than its holder wants: it was handed over, or asked for by somebody who has left. */
  get isShort(): boolean {
    return this.leaseMs < this.nextLeaseMs(this.leasedAt);
  }

  /** The lease to ask for at `now`: no longer than the hold may last at most. */
  nextLeaseMs(now: number): number {
    return Math.min(this.ttlMs, Math.ceil(this.maxHoldUntil - now + driftOf(this.ttlMs)));
  }

  /** Takes in that a lease which was asked for at `sentAt` was given. */
  renewed(sentAt: number, leaseMs: number): void {
    const deadline = Math.min(deadlineOf(sentAt, leaseMs), this.maxHoldUntil);
    if (deadline < this.deadline) return;
    this.deadline = deadline;
    this.leasedAt = sentAt;
    this.leaseMs = leaseMs;
  }

  join(hold: LossListener): void {
    this.listeners = [...this.listeners, hold];
  }

  /** True if that was the last hold of a grant that is still held. */
  part(hold: LossListener): boolean {
    this.listeners = this.listeners.filter((other) => other !== hold);
    return this.listeners.length === 0 && this.current === 'held';
  }

  /** Ends it as lost: whatever the store says later, this grant never comes back. */
  lose(why: string, now: number, cause?: unknown): LockLostError | undefined {
    if (this.current !== 'held') return undefined;
    this.current = 'lost';
    const elapsedMs = now - this.grantedAt;
    const message = `The lock on ${this.resource} was lost after ${Math.round(elapsedMs)} ms: ${why}.`;
    this.reason = new LockLostError(message, { resource: this.resource, elapsedMs, cause });
    for (const listener of this.listeners) listener.lost(this.reason);
    return this.reason;
  }

  /** No work will begin under it. */
  skipMinHold(): void {
    this.minHoldUntil = this.grantedAt;
  }

  /** Ends it in good order. */
  end(): void {
    if (this.current === 'held') this.current = 'ended';
  }
}

/** Until when a lease that was asked for at `sentAt` may be believed in. */
export function deadlineOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - driftOf(leaseMs);
}

/** A lease of at most `leaseMs` from now on, which is not believed in for longer than the given one. */
export function cutTo(lease: Lease, leaseMs: number, now: number): Lease {
  if (lease.leaseMs <= leaseMs) return lease;
  const latest = deadlineOf(lease.sentAt, lease.leaseMs) - deadlineOf(0, leaseMs);
  return { sentAt: Math.min(now, latest), leaseMs };
}
