import type { LockMode } from '../../../../lib/contract/lock-mode.js';
import type { Event, EventOf, OpEvent } from './events.js';

/** One operation, from its request to its end: its last event of each kind. */
export type Operation = { readonly [Kind in OpEvent['kind']]?: EventOf<Kind> } & {
  readonly invoke: EventOf<'invoke'>;
  readonly op: string;
  /** The process that may die with its lock. Empty while nobody has taken its ticket. */
  readonly holder: string;
  /** Until when it could trust the lock: signal not aborted, local deadline not over, not released, alive. */
  readonly trustedUntil: number;
  /** Until when its process left the lock alone, dead or alive, and why no longer. */
  readonly keptUntil: number;
  readonly endedBy: 'expired' | 'released' | 'lost';
};

/** An operation that got the lock. */
export type Hold = Operation & {
  readonly enteredAt: number;
  readonly mode: LockMode;
  readonly resources: readonly string[];
  readonly token: number | undefined;
};

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
    else if (event.kind === 'invoke') all.set(event.op, begun(event));
    else if ('op' in event) apply(all.get(event.op), event);
  }
  for (const one of all.values()) one.trustedUntil = Math.min(one.trustedUntil, gone.get(one.holder) ?? Infinity);
  return [...all.values()];
}

/** Returns the operations that got the lock, in this order. */
export function holdsOf(operations: readonly Operation[]): readonly Hold[] {
  return operations
    .flatMap((one): Hold[] => {
      const { entered } = one;
      if (entered === undefined) return [];
      const { at: enteredAt, mode = 'exclusive', resources = THE_RESOURCE, token } = entered;
      return [{ ...one, enteredAt, mode, resources, token: token ?? undefined }];
    })
    .toSorted((one, other) => one.enteredAt - other.enteredAt);
}

function begun(invoke: EventOf<'invoke'>): Open {
  const { op, process: holder } = invoke;
  return { op, invoke, holder, trustedUntil: -Infinity, keptUntil: Infinity, endedBy: 'expired' };
}

function apply(one: Open | undefined, event: OpEvent): void {
  const { op, kind, at } = event;
  if (one === undefined) throw new Error(`the history has no beginning of ${op}`);
  Object.assign(one, { [kind]: event });
  if (kind === 'detached') one.holder = '';
  if (kind === 'resumes') one.holder = event.process;
  if ('expiresInMs' in event) {
    const until = at + (event.expiresInMs ?? Infinity);
    // A lease that is over does not begin again.
    if (kind !== 'extended' || at <= one.trustedUntil) one.trustedUntil = until;
    // A renewal may be read after the deadline that it replaces.
    if (one.endedBy === 'expired' && (kind !== 'extended' || event.expiresInMs !== 0)) one.keptUntil = until;
  } else if (kind === 'lost' || kind === 'left') {
    one.trustedUntil = Math.min(one.trustedUntil, at);
    if (at >= one.keptUntil) return;
    one.keptUntil = at;
    one.endedBy = kind === 'left' ? 'released' : 'lost';
  }
}
