import { AcquireLoop } from '../../../lib/core/acquire/acquire-loop.js';
import { Attempt } from '../../../lib/core/acquire/attempt.js';
import { WaiterQueue } from '../../../lib/core/acquire/waiters.js';
import { ForceChecks } from '../../../lib/core/lease/force-checks.js';
import { forwardTo } from '../../../lib/core/store/forward-to.js';
import type { LockStore } from '../../../lib/core/store/lock-store.js';
import { ServerTime } from '../../../lib/redis/server-time.js';
import { noLeaving, noOwnerCheck, OvertakingTable } from '../model-checker/broken.js';
import { replaced } from './coverage.js';
import type { Plan } from './plan.js';
import type { RunOptions } from './simulation.js';

/** The engine or its store without one of its rules. */
export interface Broken extends Pick<RunOptions, 'table' | 'store'> {
  readonly name: string;
  /** One of these invariants is violated. */
  readonly invariants: readonly string[];
  /** Makes a plan more likely to need the rule. */
  readonly focus?: (plan: Plan) => Plan;
  /** Takes a rule out of the engine. Returns a function that restores it. */
  readonly patch?: () => () => void;
}

const AN_HOUR_MS = 3_600_000;

/** A store that passes everything on, but for what a variant replaces. */
function wrapped(store: LockStore, by: Partial<LockStore>): LockStore {
  return Object.assign(Object.create(store) as LockStore, by);
}

export const BROKEN: readonly Broken[] = [
  {
    name: 'a release without a check of the owner',
    invariants: ['belief'],
    table: noOwnerCheck.table,
  },
  {
    name: 'a release that leaves the owner in the queue',
    invariants: ['orphans'],
    table: noLeaving.table,
  },
  {
    name: 'a queue in which the last that came is the first',
    invariants: ['order'],
    focus: (plan) => ({ ...plan, strict: true, faults: [] }),
    table: (world) => new OvertakingTable(world),
  },
  {
    name: 'a reply that grants from when it arrives',
    invariants: ['belief'],
    patch: () =>
      replaced(
        Attempt.prototype,
        'grantOf',
        () =>
          function (this: unknown, tokens, now) {
            const { owner, leaseMs } = this as Attempt;
            return { owner, leaseMs, sentAt: now, ...(tokens as object) };
          },
      ),
  },
  {
    name: 'a handoff that grants from when it arrives',
    invariants: ['belief'],
    store: (store, now) =>
      wrapped(store, {
        listen: (listener) =>
          store.listen(
            forwardTo(listener, {
              onHandoff: (handoff) => listener.onHandoff({ ...handoff, grantedAt: now() }),
            }),
          ),
      }),
  },
  {
    name: 'a renewal without a reply that counts as renewed',
    invariants: ['belief'],
    store: (store) =>
      wrapped(store, {
        extend: async (requests) => {
          const replies = await store.extend(requests);
          return replies.map((reply) => (reply === 'unknown' ? 'renewed' : reply));
        },
      }),
  },
  {
    name: 'no release after a late reply, nor after a request that was given up',
    invariants: ['orphans'],
    patch: () => replaced(Attempt.prototype, 'releaseBehind', () => () => undefined),
  },
  {
    name: 'no release after a late reply',
    invariants: ['orphans'],
    focus: (plan) => ({ ...plan, network: { delayMs: 40, reorders: true }, faults: [] }),
    patch: () =>
      replaced(
        AcquireLoop.prototype,
        'onLateReply',
        (original) =>
          function (this: unknown, attempt) {
            return original.call(this, attempt, undefined);
          },
      ),
  },
  {
    name: 'waiters that never repeat their request',
    invariants: ['progress', 'errors'],
    patch: () =>
      replaced(
        Attempt.prototype,
        'pauseAfter',
        (original) =>
          function (this: unknown, held) {
            return (held as { queued: boolean }).queued ? 1e9 : original.call(this, held);
          },
      ),
  },
  {
    name: 'callers of an instance in the wrong order',
    invariants: ['order'],
    patch: () =>
      replaced(
        WaiterQueue.prototype,
        'push',
        (original) =>
          function (this: unknown, waiter) {
            const queue = this as WaiterQueue;
            const others = [...queue];
            for (const other of others) queue.remove(other);
            original.call(this, waiter);
            for (const other of others) original.call(this, other);
          },
      ),
  },
  {
    name: 'a release by force that a message alone proves',
    invariants: ['loss'],
    patch: () =>
      replaced(ForceChecks.prototype, 'ask', () => (requests) => {
        return Promise.resolve((requests as readonly unknown[]).map(() => 'lost'));
      }),
  },
  {
    name: 'a release that opens a lock before its minHoldMs',
    invariants: ['closed'],
    store: (store) => wrapped(store, { release: (request) => store.release({ ...request, closedForMs: 0 }) }),
  },
  {
    name: 'requests without a deadline',
    invariants: ['deadline'],
    patch: () =>
      replaced(
        ServerTime.prototype,
        'serverLowerBound',
        (original) =>
          function (this: unknown, at) {
            return (original.call(this, at) as number) + AN_HOUR_MS;
          },
      ),
  },
];
