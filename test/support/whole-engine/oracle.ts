import {
  type LockError,
  LockClosedError,
  LockConfigError,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
} from '../../../lib/core/errors.js';
import type { Lock } from '../../../lib/core/hold/lock.js';
import type { LockMode } from '../../../lib/core/store/lock-mode.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { LinkEvents } from './link.js';
import type { Machine } from './machine.js';
import { type AcquireStep, type Fault, isCalm, KEYS, type Plan } from './plan.js';
import type { LeaseEnd, Server, ServerEvents } from './server.js';

/** A caller that waits for its locks. */
export interface Call {
  readonly name: string;
  readonly step: AcquireStep;
  readonly machine: Machine;
  readonly instanceId: string;
  /** Whether the call has come while a shutdown was under way, or one has begun since. */
  readonly isClosing: () => boolean;
  readonly signal: AbortSignal | undefined;
  /** On the timeline. */
  readonly calledAt: number;
  /** On the process's clock. */
  readonly enteredAt: number;
  /** When others of its instance began to wait for its keys, on the timeline. Undefined if none waited when it came. */
  readonly othersSince: number | undefined;
  /** When its instance got a place in the queue for it, on the timeline. */
  queuedAt: number;
}

/** A handle that a caller has. */
interface Handle {
  readonly call: Call;
  readonly lock: Lock;
}

/** The rounding error of a moment on the timeline, in milliseconds. */
const EPSILON_MS = 0.01;
/** One script that grants several locks counts on from the time at which it began, by 64 µs at most. */
const AHEAD_US = 65;

/** Longer than the way of any packet that is not held up by a fault, in milliseconds. */
const LONGEST_WAY_MS = 500;
/** Times that a release names are rounded, and measured by two clocks. */
const ROUNDED_MS = 2;
/** Faults by which a release may arrive after its lease. */
const LATE = new Set<Fault['kind']>([
  'pause', 'crash', 'reset', 'stall', 'server pause', 'restart', 'restart without data', 'failover',
]); // prettier-ignore

/** Checks a run against `docs/guarantees.md`. It knows the server and all callers, and what the page excludes. */
export class Oracle implements ServerEvents, LinkEvents {
  violation: string | undefined;
  grants = 0;
  readonly pending = new Set<Call>();
  private readonly handles = new Set<Handle>();
  /** Until when an owner may count on a lease that the server has forgotten or cut short, on the timeline. */
  private readonly excused = new Map<string, number>();
  /** Owners whose grant a server that was rolled back may repeat, with its token. */
  private readonly repeatable = new Set<string>();
  /** The highest token of each key. */
  private readonly lastTokens = new Map<string, number>();
  /** The keys whose highest token the server may have forgotten. */
  private readonly forgotten = new Set<string>();
  /** When each owner got its place in the queue of a key, on the timeline. */
  private readonly placedAt = new Map<string, number>();
  /** When each key was held or waited for last, on the timeline. */
  private readonly lastInUse = new Map<string, number>();
  /** The locks that were released before their `minHoldMs`, and when they open, on the timeline. */
  private readonly closed = new Map<string, LeaseEnd>();
  private readonly isCalm: boolean;
  private readonly mayRollBack: boolean;
  private readonly maySendLate: boolean;

  constructor(
    private readonly plan: Plan,
    private readonly now: () => number,
    private readonly serverOf: (key: string) => Server,
  ) {
    this.isCalm = isCalm(plan);
    this.maySendLate = plan.faults.some(({ kind }) => LATE.has(kind));
    this.mayRollBack = plan.faults.some(({ kind }) => kind === 'failover');
  }

  violate(what: string): void {
    this.violation ??= what;
  }

  // What the server does.

  onChanged(server: Server): void {
    for (const key of this.closed.keys())
      if (this.serverOf(key) === server) this.checkClosed(key, server.table.living(key));
    for (const [key, { queue }] of server.table.rows) {
      const holders = server.table.living(key);
      if (!mayShare(holders.map(({ mode }) => mode)))
        this.violate(`exclusion: the server has granted ${key} to ${listed(holders)}`);
      for (const { owner, mode } of queue) if (mode === 'exclusive') this.onQueued(key, owner);
    }
  }

  onCutShort({ key, owner, until }: LeaseEnd): void {
    this.excuse(key, owner, until);
    if (this.closed.get(key)?.owner === owner) this.closed.delete(key);
  }

  onRolledBack(server: Server): void {
    for (const [key, { holders }] of server.table.rows)
      for (const { owner } of holders) this.repeatable.add(`${key} ${owner}`);
    for (const key of KEYS) if (this.serverOf(key) === server) this.forgotten.add(key);
  }

  onLateRequest(owner: string, lateMs: number): void {
    this.violate(`deadline: a request of ${owner} had an effect ${lateMs.toFixed(1)} ms after its deadline`);
  }

  onStaleClock(owner: string, leaseMs: number): void {
    for (const key of KEYS) this.excuse(key, owner, this.now() + leaseMs);
  }

  /** The owner may count on its lease for longer than the server does, because of a fault that the docs exclude. */
  excuse(key: string, owner: string, until: number): void {
    const name = `${key} ${owner}`;
    this.excused.set(name, Math.max(until, this.excused.get(name) ?? 0));
  }

  // What callers see.

  /** Returns when callers of an instance began to wait for one of these keys. */
  awaitedSince(instanceId: string, keys: readonly number[]): number | undefined {
    const calls = [...this.pending].filter(
      (call) => call.instanceId === instanceId && call.step.keys.some((key) => keys.includes(key)),
    );
    return calls.length === 0 ? undefined : Math.min(...calls.map((call) => call.othersSince ?? call.calledAt));
  }

  granted(call: Call, locks: readonly Lock[]): void {
    this.pending.delete(call);
    this.grants += 1;
    const isKnown = new Set([...this.handles].map(({ lock }) => lock.grant));
    for (const lock of locks) {
      this.handles.add({ call, lock });
      if (!isKnown.has(lock.grant)) this.checkToken(call, lock);
    }
    if (call.step.keys.length === 1) this.checkOrder(call, locks[0]);
  }

  refused(call: Call, error: unknown): void {
    this.pending.delete(call);
    const wrong = this.whyWrong(call, error);
    if (wrong !== undefined) this.violate(`errors: ${call.name} got ${String(error)} ${wrong}`);
  }

  /** Checks every handle. Call it after each event. */
  check(): void {
    const now = this.now();
    const users = new Map<string, Handle>();
    this.look();
    for (const handle of this.handles) {
      const { lock, call } = handle;
      const { grant, key } = lock;
      const until = call.machine.momentOf(grant.deadline);
      if (!lock.held || !call.machine.alive) {
        this.handles.delete(handle);
        if (grant.state === 'ended') this.onReleased(handle);
        const isLost = grant.state === 'lost' && call.machine.alive && !call.isClosing() && !this.mayRollBack;
        if (isLost && until > now && this.serverOf(key).expiryOf(key, grant.owner) >= until)
          this.violate(`loss: ${call.name} has lost ${key}, and the server has not: ${String(lock.loss?.message)}`);
        continue;
      }
      if (until <= now || this.isExcused(lock, until)) continue;
      const expiry = this.serverOf(key).expiryOf(key, grant.owner);
      if (expiry + EPSILON_MS < until) {
        const found = expiry === -Infinity ? 'does not know it' : `keeps it for ${(expiry - now).toFixed(3)} ms`;
        this.violate(`belief: ${call.name} holds ${key} for ${(until - now).toFixed(3)} ms, and the server ${found}`);
      }
      if (grant.mode === 'shared') continue;
      const other = users.get(`${key} ${grant.owner}`);
      if (other !== undefined && other.lock.grant !== grant)
        this.violate(`exclusion: ${call.name} and ${other.call.name} use one grant of ${key}`);
      users.set(`${key} ${grant.owner}`, handle);
    }
  }

  /** Records that a released lock stays closed, if its release certainly reaches the server before its lease ends. */
  private onReleased({ call: { machine }, lock: { key, grant } }: Handle): void {
    const { owner, minHoldUntil } = grant;
    const until = machine.momentOf(minHoldUntil);
    const isHeld = this.serverOf(key).expiryOf(key, owner) > this.now() + LONGEST_WAY_MS;
    if (machine.alive && isHeld && !this.maySendLate && until > this.now()) this.closed.set(key, { key, owner, until });
  }

  private checkClosed(key: string, holders: readonly { readonly owner: string }[]): void {
    const closed = this.closed.get(key);
    if (closed === undefined) return;
    const restMs = closed.until - this.now();
    if (restMs <= ROUNDED_MS) this.closed.delete(key);
    else if (!holders.some(({ owner }) => owner === closed.owner))
      this.violate(`closed: ${key} of ${closed.owner} was opened ${restMs.toFixed(1)} ms before its minHoldMs`);
  }

  /** Records which keys are in use. */
  private look(): void {
    if (!this.isCalm) return;
    for (const key of KEYS) {
      const row = this.serverOf(key).table.rows.get(key);
      if (row !== undefined && row.holders.length + row.queue.length > 0) this.lastInUse.set(key, this.now());
    }
  }

  private isExcused({ key, grant }: Lock, until: number): boolean {
    return until <= (this.excused.get(`${key} ${grant.owner}`) ?? 0) + EPSILON_MS;
  }

  private checkToken(call: Call, lock: Lock): void {
    const { key, grant } = lock;
    const name = `${key} ${grant.owner}`;
    const until = call.machine.momentOf(grant.deadline);
    if (grant.mode !== 'exclusive' || until <= this.now() || this.isExcused(lock, until)) return;
    if (this.repeatable.has(name)) return;
    const last = this.lastTokens.get(key) ?? 0;
    const { fencingToken } = lock;
    const server = this.serverOf(key);
    // Tokens rise after a loss only if the server's clock is not behind the clock that gave the old ones.
    const isExcluded = this.forgotten.has(key) && server.wasSetBack;
    this.forgotten.delete(key);
    if (!isExcluded && fencingToken <= last)
      this.violate(`tokens: ${call.name} got ${fencingToken} for ${key} after ${last}`);
    this.lastTokens.set(key, isExcluded ? fencingToken : Math.max(last, fencingToken));
    if (!server.wasSetBack && fencingToken > server.wallTime() * 1_000 + AHEAD_US)
      this.violate(`tokens: ${call.name} got ${fencingToken} for ${key}, which is ahead of the server's clock`);
  }

  private checkOrder(call: Call, { key, grant: { owner } }: Lock): void {
    const { mode, keys } = call.step;
    // An instance has one place for all its callers.
    const placedAt = this.placedAt.get(`${key} ${owner}`) ?? call.calledAt;
    for (const other of this.pending) {
      if (other.step.keys.length > 1 || other.step.keys[0] !== keys[0] || !other.machine.alive) continue;
      const isSameLine = other.instanceId === call.instanceId && other.step.mode === mode;
      const isEarlier = other.enteredAt < call.enteredAt;
      if (isSameLine && isEarlier)
        this.violate(`order: ${call.name} got ${KEYS[keys[0]]} before ${other.name}, which came first`);
      const isOvertaken = other.queuedAt < placedAt && mode === 'exclusive' && other.step.mode === 'exclusive';
      if (this.isCalm && this.plan.strict && isOvertaken)
        this.violate(`order: ${call.name} got ${KEYS[keys[0]]} before ${other.name}, which was in the queue before`);
    }
  }

  private onQueued(key: string, owner: string): void {
    const name = `${key} ${owner}`;
    if (!this.placedAt.has(name)) this.placedAt.set(name, this.now());
    const instanceId = instanceOf(owner);
    for (const call of this.pending) {
      const { keys, mode } = call.step;
      if (call.instanceId !== instanceId || mode !== 'exclusive' || !keys.some((each) => KEYS[each] === key)) continue;
      // A place that was taken before is of an attempt that was given up. Its release is on its way.
      const isOurs = (this.placedAt.get(name) as number) >= (call.othersSince ?? call.calledAt);
      // A call for several may wait for another one of them.
      if (keys.length === 1 && call.queuedAt === Infinity && isOurs) call.queuedAt = this.now();
      return;
    }
  }

  /** Returns why a caller must not get this error. */
  private whyWrong(call: Call, error: unknown): string | undefined {
    const { step, signal, machine } = call;
    const elapsedMs = machine.now() - call.enteredAt;
    if (signal?.aborted === true && error === signal.reason) return undefined;
    if (!machine.wasPaused && elapsedMs > this.longestMs(step)) return `after ${elapsedMs.toFixed(0)} ms`;
    const isSeveral = step.keys.length > 1;
    if (error instanceof LockTimeoutError) {
      const isTooSoon = elapsedMs < step.waitMs - EPSILON_MS && step.maxWaiting === undefined;
      if (isTooSoon) return `after ${elapsedMs.toFixed(3)} ms already`;
      // Another caller of the instance may have learned that before.
      if (step.maxWaiting !== undefined || call.othersSince !== undefined) return undefined;
      this.look();
      const wasBusy = step.keys.some((key) => (this.lastInUse.get(KEYS[key]) ?? -1) >= call.calledAt);
      return this.isCalm && !wasBusy ? 'although nobody held the lock' : undefined;
    }
    if (error instanceof LockClosedError) return call.isClosing() ? undefined : 'without a shutdown';
    if (error instanceof LockLostError) return isSeveral ? undefined : 'before it had the lock';
    if (error instanceof LockUnavailableError) return this.isCalm ? 'although the server was there' : undefined;
    if (error instanceof LockConfigError) return typeof step.mode === 'number' ? undefined : 'for allowed options';
    return `(${(error as LockError)?.code ?? 'no error of the library'})`;
  }

  /** How long a call may take until it ends without a lock. */
  private longestMs({ waitMs, keys, mode, unavailableAfterMs }: AcquireStep): number {
    // Callers that each have a request of their own await the replies to all of them.
    if (unavailableAfterMs === Infinity && (typeof mode === 'number' || this.plan.strict)) return Infinity;
    return waitMs + (3 * this.plan.requestTimeoutMs + 500) * keys.length;
  }
}

function mayShare(modes: readonly LockMode[]): boolean {
  if (modes.length <= 1) return true;
  const [mode] = modes;
  const most = typeof mode === 'number' ? mode : Infinity;
  return mode !== 'exclusive' && modes.every((each) => each === mode) && modes.length <= most;
}

function listed(holders: readonly { readonly owner: string; readonly mode: LockMode }[]): string {
  return holders.map(({ owner, mode }) => `${owner} (${mode})`).join(' and ');
}
