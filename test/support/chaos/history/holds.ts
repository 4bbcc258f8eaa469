import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Event, FailReason } from './events.js';

/** One operation, from its request to its end. */
export interface Operation {
  readonly op: string;
  readonly process: string;
  /** The process that may die with its lock. Empty while nobody has taken its ticket. */
  readonly holder: string;
  readonly invokedAt: number;
  /** When it got the lock. Undefined if it did not. */
  readonly enteredAt: number | undefined;
  /** The mode of its lock, if it got one. */
  readonly mode: LockMode;
  /** What it locked, if it got the locks. */
  readonly resources: readonly string[];
  readonly token: number | undefined;
  /** The other token that it had after it was detached. Undefined if it kept its token. */
  readonly changedTo: number | undefined;
  /** Until when it could trust the lock: signal not aborted, local deadline not over, not released, alive. */
  readonly trustedUntil: number;
  readonly lost: boolean;
  readonly failed: FailReason | undefined;
  readonly acknowledged: boolean;
  /** When its write was acknowledged. Undefined if it was not. */
  readonly wroteAt: number | undefined;
  /** When its second read returned another value. Undefined if it did not. */
  readonly tornAt: number | undefined;
  /** The operation that wrote that value. */
  readonly tornBy: string | undefined;
  /** Undefined if it never ended. */
  readonly endedAt: number | undefined;
}

/** An operation that got the lock. */
export type Hold = Operation & { readonly enteredAt: number };

/** The resource of operations that name none. */
export const THE_RESOURCE = ['the resource'];

type Open = { -readonly [Name in keyof Operation]: Operation[Name] };

/**
 * Returns whether holders in these modes may hold the lock at the same time. Permits may run out, which is not checked.
 */
export function compatible(one: LockMode, other: LockMode): boolean {
  return one === other && one !== 'exclusive';
}

/** Collects the events of each operation. */
export function operationsOf(events: readonly Event[]): readonly Operation[] {
  const all = new Map<string, Open>();
  const gone = new Map<string, number>();
  for (const event of events) {
    if (event.kind === 'absent' && event.to === null) gone.set(event.process, event.from);
    else if (event.kind === 'invoke') all.set(event.op, begun(event.op, event.process, event.at));
    else if ('op' in event) applyEvent(operation(all, event.op), event);
  }
  for (const one of all.values()) {
    const diedAt = gone.get(one.holder);
    if (diedAt !== undefined) one.trustedUntil = Math.min(one.trustedUntil, diedAt);
  }
  return [...all.values()];
}

export function holdsOf(operations: readonly Operation[]): readonly Hold[] {
  const holds = operations.filter((one): one is Hold => one.enteredAt !== undefined);
  return holds.toSorted((one, other) => one.enteredAt - other.enteredAt);
}

function operation(all: ReadonlyMap<string, Open>, op: string): Open {
  const found = all.get(op);
  if (found === undefined) throw new Error(`the history has no beginning of ${op}`);
  return found;
}

function begun(op: string, process: string, invokedAt: number): Open {
  return {
    op,
    process,
    holder: process,
    invokedAt,
    enteredAt: undefined,
    mode: 'exclusive',
    resources: THE_RESOURCE,
    token: undefined,
    changedTo: undefined,
    trustedUntil: -Infinity,
    lost: false,
    failed: undefined,
    acknowledged: false,
    wroteAt: undefined,
    tornAt: undefined,
    tornBy: undefined,
    endedAt: undefined,
  };
}

function applyEvent(one: Open, event: Exclude<Event, { kind: 'invoke' }> & { readonly op: string }): void {
  const { kind, at } = event;
  if (kind === 'entered') {
    one.enteredAt = at;
    one.mode = event.mode ?? 'exclusive';
    one.resources = event.resources ?? THE_RESOURCE;
    one.token = event.token ?? undefined;
    one.trustedUntil = at + (event.expiresInMs ?? Infinity);
  } else if (kind === 'extended') {
    // A lease that is over does not begin again.
    if (at <= one.trustedUntil) one.trustedUntil = at + (event.expiresInMs ?? Infinity);
  } else if (kind === 'detached' || kind === 'resumed') {
    one.trustedUntil = at + (event.expiresInMs ?? Infinity);
    if (kind === 'detached') one.holder = '';
    else if (event.token !== one.token) one.changedTo = event.token;
  } else if (kind === 'resumes') {
    one.holder = event.process;
  } else if (kind === 'lost' || kind === 'left') {
    one.trustedUntil = Math.min(one.trustedUntil, at);
    if (kind === 'lost') one.lost = true;
    else one.endedAt = at;
  } else if (kind === 'read') {
    if (event.first === event.second) return;
    one.tornAt = at;
    one.tornBy = event.second;
  } else if (kind !== 'saw' && kind !== 'writes') {
    one.acknowledged = kind === 'ok';
    if (kind === 'ok') one.wroteAt = at;
    if (kind === 'fail') one.failed = event.reason;
    if (one.enteredAt === undefined) one.endedAt = at;
  }
}
