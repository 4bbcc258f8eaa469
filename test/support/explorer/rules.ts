import { Attempt } from '../../../lib/engine/attempt.js';
import { Tickets } from '../../../lib/engine/tickets.js';
import { KeyQueue } from '../../../lib/engine/key-queue.js';
import { WaitReview } from '../../../lib/engine/wait-review.js';
import { Lease, type Renewal } from '../../../lib/engine/lease.js';
import { Link } from '../../../lib/engine/link.js';
import { Lock } from '../../../lib/engine/lock.js';
import { MultiAcquire } from '../../../lib/engine/multi-acquire.js';
import type { HoldOptions, PassingLimits } from '../../../lib/engine/options.js';
import { type Release, Releaser } from '../../../lib/engine/releaser.js';
import { Renewer } from '../../../lib/engine/renewer.js';
import type { Waiter } from '../../../lib/engine/waiter.js';
import type { Target } from '../../../lib/events/call.js';
import type { ExtendReply, Granted, Held } from '../../../lib/contract/store.js';
import { type Entry, type Holder, LockTable, TOKENS } from '../../../lib/stores/memory/lock-table.js';
import { CALM, type Conditions } from './conditions.js';
import type { Result } from './explore.js';
import type { Measured } from './measures.js';

/** How a missing rule shows: as a problem, or only in a measure, which is then clearly larger. */
type Shows = 'problem' | 'requests' | keyof Measured;

/** One rule of `lib/engine/README.md`, or of the scripts, that can be switched off. */
export interface Rule {
  /** What is wrong while it is off. */
  readonly off: string;
  /** The number of the rule, or `scripts`. */
  readonly of: string;
  /** Default: a problem. */
  readonly shows?: Shows;
  /** Conditions under which that shows soon. Default: ordinary calls. */
  readonly under?: Partial<Conditions>;
  /** How many seeds are run at most. Default: 10. */
  readonly seeds?: number;
  /** Changes the engine or the table. Returns what undoes that. */
  readonly switchOff: Switch;
}

type Row = LockTable['rows'] extends Map<string, infer Each> ? Each : never;

type Switch = () => () => void;

/** Replaces a method, once it is switched off. The replacement gets the object, the original and the arguments. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- gives each replacement its own arguments
function change<T extends object, A extends readonly unknown[]>(
  { prototype }: { readonly prototype: T },
  name: string,
  changed: (self: T, original: (...args: readonly unknown[]) => unknown, ...args: A) => unknown,
): Switch {
  return define(prototype, name, ({ value }: PropertyDescriptor) => ({
    value(this: T, ...args: A): unknown {
      const original = value as (this: T, ...given: readonly unknown[]) => unknown;
      return changed(this, (...given) => original.apply(this, [...given]), ...args);
    },
  }));
}

/** Replaces a getter. */
function changeGetter<T extends object>(
  { prototype }: { readonly prototype: T },
  name: string,
  value: (self: T) => unknown,
): Switch {
  const get = function (this: T): unknown {
    return value(this);
  };
  return define(prototype, name, () => ({ get }));
}

function define(prototype: object, name: string, changed: (from: PropertyDescriptor) => PropertyDescriptor): Switch {
  return () => {
    const descriptor = Object.getOwnPropertyDescriptor(prototype, name);
    // A change of the engine must not make a switch do nothing.
    if (descriptor === undefined) throw new Error(`there is no ${name} to switch off`);
    Object.defineProperty(prototype, name, { ...descriptor, ...changed(descriptor) });
    return () => Object.defineProperty(prototype, name, descriptor);
  };
}

/** Connections that end often. */
const BROKEN = { disconnect: 0.08, longestMs: 40, deafMs: 200 };
/** Releases by force, with leases that outlast them. */
const FORCED = { force: 0.1, shortestTtlMs: 5_000, longestTtlMs: 6_000, workMs: 150, longestMs: 3 };
const FIVE_SECONDS = { shortestTtlMs: 5_000, longestTtlMs: 5_001 };
/** Leases that never end within a run, so that what is left in the store stays. */
const LONG = { shortestTtlMs: 30_000, longestTtlMs: 40_000 };
/** All tasks come at once, and are short. */
const BURST = { pauseMs: 0, workMs: 2, calls: 120 };

/** Tickets, and connections so bad that a resume fails at last. */
export const TICKETS = {
  tickets: 0.5,
  disconnect: 0.4,
  deafMs: 50,
  arrivesLate: 0.5,
  longestMs: 40,
  patient: 0,
  keys: 3,
};

type Passing = [options: HoldOptions, now: number, limits: PassingLimits];

/** Lets a lease be passed on as if one of its fields was different. */
function passingWith(field: 'renewal' | 'isForced' | 'sentAt' | 'closedUntil', value: (lease: Lease) => unknown) {
  return change(Lease, 'tryPass', (lease, original, ...args: Passing) => {
    const fields = lease as unknown as Record<string, unknown>;
    const before = fields[field];
    fields[field] = value(lease);
    const isPassed = original(...args);
    fields[field] = before;
    return isPassed;
  });
}

/** The switches by rule, and what is wrong while one is off. */
const TABLE: Readonly<Record<string, Readonly<Record<string, Omit<Rule, 'off' | 'of'>>>>> = {
  1: {
    'a message grants without a reply': {
      under: { messageForged: 0.5, longestMs: 20, instances: 3, patient: 1, pauseMs: 10 },
      switchOff: change(KeyQueue, 'onWake', (queue, original, owner: string) => {
        const attempt = queue['attempt'];
        if (attempt?.owner !== owner || attempt.state !== 'idle') return original(owner);
        queue['endPause']();
        attempt.sentAt = queue.parts.clock.now();
        const token = Math.floor(queue.parts.clock.wallTime() * 1_000);
        queue.onReply(attempt, { status: 'granted', token, tokens: TOKENS });
        return true;
      }),
    },
    'messages are ignored': {
      shows: 'allClosedMs',
      under: { longestMs: 5 },
      seeds: 3,
      switchOff: change(KeyQueue, 'onWake', () => true),
    },
    'a message before the reply is forgotten': {
      shows: 'closedMs',
      under: { longestMs: 60 },
      seeds: 20,
      switchOff: change(KeyQueue, 'askAgain', (queue, original) => {
        if (queue['attempt']?.state !== 'asking') original();
      }),
    },
    'a holder that is woken does not renew': {
      under: FORCED,
      switchOff: change(KeyQueue, 'checkHeld', () => undefined),
    },
    'the former holders get no message after a release by force': {
      under: FORCED,
      switchOff: change(LockTable, 'forceRelease', (table, original, key: string, ...rest: unknown[]) => {
        const row = table.rows.get(key);
        if (row?.lock !== undefined) row.lock = { ...row.lock, owner: '' };
        for (const share of row?.sharers ?? []) Object.assign(share, { owner: '' });
        return original(key, ...rest);
      }),
    },
    'an owner that is over is not released again when it is woken': {
      shows: 'closedMs',
      under: {
        disconnect: 0.25,
        arrivesLate: 1,
        longestMs: 60,
        aborts: 1,
        workMs: 200,
        shortestTtlMs: 2_000,
        longestTtlMs: 2_001,
        pauseMs: 100,
        instances: 3,
      },
      seeds: 30,
      switchOff: change(Releaser, 'releaseAgain', () => undefined),
    },
    'closing a key wakes nobody': {
      shows: 'closedMs',
      under: { minHold: 1, longestMs: 2, workMs: 5, aborts: 0, ...FIVE_SECONDS },
      seeds: 5,
      switchOff: change(LockTable, 'closeFor', (_table, original, key: string, row: Row, ...rest: unknown[]) => {
        const { queue } = row;
        row.queue = [];
        original(key, row, ...rest);
        row.queue = queue;
      }),
    },
    'the lease of a handoff is as long as any': {
      shows: 'closedMs',
      under: { dies: 1, instances: 3, longestMs: 60, pauseMs: 6, patient: 1, workMs: 5 },
      seeds: 40,
      switchOff: change(
        Link,
        'release',
        (_link, original, request: Parameters<Link['release']>[0], ...rest: unknown[]) =>
          original({ ...request, handoffMs: 30_000 }, ...rest),
      ),
    },
  },
  2: {
    'a release leaves beside the request of its owner': {
      under: { modes: 0.5, longestMs: 40 },
      switchOff: change(KeyQueue, 'onHeadChanged', (queue, original) => {
        const attempt = queue['attempt'];
        if (attempt?.state === 'asking' && !queue['serves'](attempt)) queue['releaseOwner'](attempt);
        original();
      }),
    },
    'two requests for a key are on their way': {
      under: { longestMs: 40 },
      switchOff: change(KeyQueue, 'join', (queue, original, waiter: Waiter, now: number) => {
        original(waiter, now);
        const attempt = queue['attempt'];
        if (attempt !== undefined) queue['repeat'](attempt);
      }),
    },
    'what replies bring that serve nobody is kept': {
      shows: 'closedMs',
      under: { ...LONG, longestMs: 400, patient: 1, pauseMs: 300, workMs: 5, aborts: 0.6 },
      seeds: 5,
      switchOff: change(KeyQueue, 'releaseLease', (queue, original, lease: Lease, ...rest: unknown[]) => {
        if (lease.dueAt !== undefined) return original(lease, ...rest);
        const leases = queue['leases'];
        leases.splice(leases.indexOf(lease), 1);
        queue['forgetIfIdle']();
        return Promise.resolve(true);
      }),
    },
    'places that serve nobody are kept': {
      shows: 'closedMs',
      under: { longestMs: 40, modes: 0.4, patient: 0 },
      seeds: 5,
      switchOff: change(KeyQueue, 'releaseOwner', () => undefined),
    },
  },
  3: {
    'an owner whose request has failed is given up': {
      under: { instances: 3, refused: 0.3, strict: 1, messageForged: 0.8, longestMs: 10, patient: 1, pauseMs: 10 },
      switchOff: change(KeyQueue, 'askLater', (queue, original, attempt: Attempt, pauseMs: number) => {
        queue['releaseOwner'](attempt);
        const next = (queue['attempt'] = new Attempt(queue, queue.parts.nextOwner(), attempt.mode));
        original(next, pauseMs);
      }),
    },
    'an owner that is over asks again': {
      under: { longestMs: 20 },
      switchOff: change(KeyQueue, 'askForHead', (queue, original, now: number) => {
        queue.parts.nextOwner = () => `${queue.parts.instanceId}:0`;
        original(now);
      }),
    },
  },
  5: {
    'a lease counts from the reply': {
      under: { longestMs: 200, blocked: 0.1, workMs: 300, longestTtlMs: 300 },
      switchOff: change(KeyQueue, 'onGranted', (_queue, original, attempt: Attempt, granted: Granted, now: number) => {
        attempt.sentAt = now;
        original(attempt, granted, now);
      }),
    },
    'a renewal counts from the reply': {
      under: { longestMs: 100, blocked: 0.1, workMs: 300, longestTtlMs: 300 },
      switchOff: change(Lease, 'renewed', (lease, original, { leaseMs, isLastChance }: Renewal) => {
        original({ leaseMs, isLastChance, sentAt: lease.queue.parts.clock.now() });
      }),
    },
    'a grant is used although it is late': {
      under: { longestMs: 200, longestTtlMs: 300 },
      switchOff: change(Attempt, 'isFresh', () => true),
    },
    'a lease goes to a caller of another mode': {
      under: { modes: 0.6, longestMs: 60 },
      switchOff: change(KeyQueue, 'serve', (queue, original, lease: Lease, now: number) => {
        const head = queue['waiters'].head;
        if (head === undefined || head.mode === lease.mode) return original(lease, now);
        return queue['admit'](head, lease, now);
      }),
    },
    'a renewal without a reply counts': {
      under: { refused: 0.6, workMs: 1_000, longestTtlMs: 200 },
      switchOff: change(
        Renewer,
        'onReply',
        (_renewer, original, lease: Lease, renewal: Renewal, reply: ExtendReply) => {
          original(lease, renewal, reply === 'unknown' ? 'renewed' : reply);
        },
      ),
    },
    'a lock does not end at its deadline': {
      under: { refused: 0.7, workMs: 1_000, longestTtlMs: 200, patient: 1 },
      switchOff: changeGetter(Lock, 'deadline', ({ lease, limit }) => Math.min(lease.deadline + 400, limit)),
    },
  },
  6: {
    'passes share one token': {
      switchOff: changeGetter(Lease, 'token', (lease) => lease['granted'].token),
    },
    'a lock is passed on without a limit': {
      under: { ...BURST, nests: 0, longestMs: 0.01 },
      switchOff: change(
        Lease,
        'tryPass',
        (lease, original, options: HoldOptions, now: number, limits: PassingLimits) => {
          Object.assign(lease['granted'], { tokens: Infinity });
          return original(options, now, { ...limits, maxLocalPasses: Infinity });
        },
      ),
    },
    'a lock is passed on after 50 ms': {
      shows: 'turnMs',
      under: { pauseMs: 3, ...FIVE_SECONDS, patient: 1, workMs: 30 },
      seeds: 3,
      switchOff: change(
        Lease,
        'tryPass',
        (_lease, original, options: HoldOptions, now: number, limits: PassingLimits) =>
          original(options, now, { ...limits, maxLocalHoldMs: Infinity }),
      ),
    },
    'strict instances pass locks on': {
      shows: 'turnMs',
      under: { strict: 1, pauseMs: 3, ...FIVE_SECONDS, patient: 1, workMs: 10 },
      seeds: 3,
      switchOff: change(Lease, 'tryPass', (_lease, original, options: HoldOptions, now: number) =>
        original(options, now, { maxLocalPasses: 16, maxLocalHoldMs: 50 }),
      ),
    },
    'a lock is passed on while a renewal is on its way': {
      under: { force: 0.15, longestMs: 60, pauseMs: 6, workMs: 10 },
      seeds: 20,
      // The mark of a message about force covers most of it.
      switchOff: () => {
        const on = [passingWith('isForced', () => false)(), passingWith('renewal', () => undefined)()];
        return () => on.toReversed().forEach((each) => each());
      },
    },
    'a lock is passed on that may have been released by force': {
      under: { force: 0.2, refused: 0.3, longestMs: 30, pauseMs: 3, workMs: 10, calls: 100 },
      seeds: 60,
      switchOff: passingWith('isForced', () => false),
    },
    'a lock is passed on in the second half of its lease': {
      under: { refused: 0.3, longestMs: 120, shortestTtlMs: 100, longestTtlMs: 101, pauseMs: 6, workMs: 15 },
      seeds: 20,
      switchOff: passingWith('sentAt', (lease) => lease.queue.parts.clock.now()),
    },
    'a lock is passed on before the end of minHoldMs': {
      under: { minHold: 0.5 },
      switchOff: passingWith('closedUntil', () => 0),
    },
    'readers pass a writer that waits': {
      under: { modes: 0.9, workMs: 40 },
      switchOff: change(KeyQueue, 'join', (queue, original, waiter: Waiter, now: number) => {
        const lease = waiter.mode === 'shared' ? queue['leaseToJoin'](waiter.options, now) : undefined;
        if (lease === undefined) original(waiter, now);
        else queue['admit'](waiter, lease, now);
      }),
    },
    'each reader asks for itself': {
      shows: 'requests',
      under: { modes: 1.7, pauseMs: 5, workMs: 30, shortestTtlMs: 1_000, longestTtlMs: 1_001 },
      seeds: 5,
      switchOff: change(KeyQueue, 'leaseToJoin', () => undefined),
    },
  },
  8: {
    'a waiter in the queue does not ask again': {
      shows: 'closedMs',
      under: { ...LONG, messageLost: 0.2 },
      seeds: 3,
      switchOff: change(Attempt, 'queuedPause', () => 100_000),
    },
    'a caller that waits gets no place where the request does not ask for one': {
      shows: 'allClosedMs',
      under: { tries: 0.9, workMs: 15, longestMs: 2, patient: 1 },
      switchOff: change(KeyQueue, 'mustAskForPlace', () => false),
    },
    'a waiter does not ask when the lease of the holder ends': {
      shows: 'closedMs',
      under: { dies: 1, pauseMs: 10, patient: 1, shortestTtlMs: 100, longestTtlMs: 101 },
      switchOff: change(Attempt, 'pauseAfter', (_attempt, original, held: Held) =>
        original({ ...held, remainingMs: Infinity }),
      ),
    },
    'a waiter that gets no messages does not ask again soon': {
      shows: 'closedMs',
      under: { ...LONG, disconnect: 0.1, deafMs: 3_000 },
      seeds: 5,
      switchOff: change(Attempt, 'backoff', () => 3_000),
    },
    'renewals are not sent after a reconnect': {
      under: { failover: 1, shortestTtlMs: 5_000, longestTtlMs: 6_000, slow: 0.5, modes: 0.5 },
      seeds: 30,
      switchOff: change(Renewer, 'renewAll', () => undefined),
    },
  },
  9: {
    'a call for several keeps locks behind the one that it waits for': {
      under: { several: 0.7, keys: 3, patient: 1, longestMs: 10 },
      switchOff: change(MultiAcquire, 'acquireSome', async (all, _original, targets: readonly Target[]) => {
        const { signal } = all['waiting'];
        const atOnce = { ...all['options'], signal, waitMs: 0 };
        const outcomes = await Promise.allSettled(targets.map((target) => all['acquireOne'](target, atOnce)));
        const missing = targets.filter((target, i) => {
          const outcome = outcomes[i];
          if (outcome.status === 'fulfilled') all['keep'](outcome.value, target);
          return outcome.status === 'rejected';
        });
        if (missing.length === 0) return [];
        all['keep'](await all['acquireOne'](missing[0], { ...all['options'], signal }), missing[0]);
        return missing.slice(1);
      }),
    },
    'nested holds are not found': {
      switchOff: change(Lock, 'find', () => undefined),
    },
  },
  10: {
    'failed releases are not repeated': {
      shows: 'closedMs',
      under: { ...LONG, refused: 0.2 },
      seeds: 3,
      switchOff: change(Releaser, 'mayRepeat', () => false),
    },
    'failed releases are not repeated after a reconnect': {
      shows: 'allClosedMs',
      under: { ...LONG, ...BROKEN, deafMs: 0, longestMs: 5 },
      switchOff: change(Releaser, 'onReconnected', () => undefined),
    },
    'an owner whose request has failed is released once only': {
      under: { ...LONG, ...BROKEN, disconnect: 0.2, arrivesLate: 1, tries: 0.5, patient: 0 },
      seeds: 20,
      switchOff: change(Releaser, 'release', (_releaser, original, release: Release, now: number) =>
        original(release, now, false),
      ),
    },
    'a ticket does not get its lock back after a resume without a reply': {
      under: { ...LONG, ...TICKETS },
      seeds: 10,
      switchOff: change(Tickets, 'giveBack', () => undefined),
    },
  },
  11: {
    'callers wait for a first reply without a limit': {
      under: { longestMs: 5_000, patient: 0 },
      switchOff: change(WaitReview, 'givesUpAt', (review, original, ...args: [Waiter, number]) =>
        review['lastReply'].kind === 'none' ? Infinity : original(...args),
      ),
    },
    'a reply counts although the first waiter wants another mode': {
      under: { modes: 0.6, longestMs: 60, tries: 0.5 },
      switchOff: change(KeyQueue, 'serves', () => true),
    },
  },
  scripts: {
    'the store renews for a wrong owner': {
      under: FORCED,
      switchOff: change(LockTable, 'extend', (table, original, key: string, entry: Entry, leaseMs: number) => {
        const lock = table.rows.get(key)?.lock;
        return original(key, lock === undefined ? entry : { ...entry, owner: lock.owner }, leaseMs);
      }),
    },
    'the store releases for a wrong owner': {
      under: { longestMs: 20, workMs: 200, pauseMs: 400, patient: 1, aborts: 0.6 },
      switchOff: change(LockTable, 'release', (table, original, key: string, entry: Entry, ...rest: unknown[]) => {
        const lock = table.rows.get(key)?.lock;
        return original(key, lock === undefined ? entry : { ...entry, owner: lock.owner }, ...rest);
      }),
    },
    'an extension shortens a lease': {
      under: { messageForged: 0.8, longestMs: 5, workMs: 100 },
      seeds: 20,
      switchOff: change(LockTable, 'extend', (table, original, key: string, entry: Entry, leaseMs: number) => {
        const lock = table.rows.get(key)?.lock;
        if (lock?.owner === entry.owner) lock.endsAt = table['deps'].now();
        return original(key, entry, leaseMs);
      }),
    },
    'a handed-off lock does not get its full lease': {
      under: { ...LONG, slow: 0.5, dies: 1 },
      switchOff: change(
        LockTable,
        'acquire',
        (table, original, key: string, entry: Entry, leaseMs: number, ...rest: unknown[]) => {
          const lock = table.rows.get(key)?.lock;
          return original(key, entry, lock?.owner === entry.owner ? 0 : leaseMs, ...rest);
        },
      ),
    },
    'two grants of one millisecond have one token': {
      switchOff: change(LockTable, 'nextToken', (table) => Math.floor(table['deps'].wallMicros() / 1_000)),
    },
    'tokens rise by one only': {
      under: BURST,
      switchOff: change(LockTable, 'nextToken', (table) => {
        table['lastToken'] = Math.max(table['deps'].wallMicros(), table['lastToken'] + 1);
        return table['lastToken'];
      }),
    },
    'a release hands the lock to nobody': {
      shows: 'allClosedMs',
      under: { longestMs: 5 },
      seeds: 3,
      switchOff: change(LockTable, 'release', (table, original, key: string, ...rest: readonly unknown[]) => {
        const { queue = [] } = table.rows.get(key) ?? {};
        const entry = rest[0] as Entry;
        const row = table.rows.get(key);
        if (row !== undefined) row.queue = [];
        const wasHeld = original(key, ...rest);
        const others = queue.filter(({ owner }) => owner !== entry.owner);
        if (row !== undefined && others.length > 0) table.rows.set(key, Object.assign(row, { queue: others }));
        return wasHeld;
      }),
    },
    'the store hands off to instances that do not listen': {
      shows: 'allClosedMs',
      under: {
        dies: 1,
        instances: 3,
        longestMs: 20,
        patient: 1,
        pauseMs: 6,
        shortestTtlMs: 1_000,
        longestTtlMs: 1_001,
      },
      switchOff: change(LockTable, 'isListening', () => true),
    },
    'closing a key frees it': {
      under: { minHold: 0.5 },
      switchOff: change(LockTable, 'closeFor', (table, _original, key: string, row: Row, own: Holder) => {
        if (own === row.lock) row.lock = undefined;
        else row.sharers = row.sharers.filter((each) => each !== own);
        table['handOff'](key, row, 1_000);
      }),
    },
  },
};

export const RULES: readonly Rule[] = Object.entries(TABLE).flatMap(([of, rules]) =>
  Object.entries(rules).map(([off, rule]) => ({ off, of, ...rule })),
);

/** How much larger a measure has to be. */
const MARGIN = 1.5;

/** What came of a switch. */
export interface Outcome {
  readonly isCaught: boolean;
  readonly seeds: number;
  readonly because: string;
}

/** Runs seeds until one shows that a rule is off. */
export async function catchOff(
  { shows = 'problem', seeds = 10, under = {}, switchOff }: Rule,
  run: (seed: number, given: Conditions) => Promise<Result>,
): Promise<Outcome> {
  const conditions = { ...CALM, ...under };
  let onValue = 0;
  let offValue = 0;
  for (let seed = 1; seed <= seeds; seed += 1) {
    const on = shows === 'problem' ? undefined : await run(seed, conditions);
    const switchOn = switchOff();
    const off = await run(seed, conditions).finally(switchOn);
    const [problem] = off.problems;
    if (shows === 'problem') {
      if (problem !== undefined) return { isCaught: true, seeds: seed, because: problem };
    } else if (on !== undefined) {
      onValue = combine(shows, onValue, on[shows]);
      offValue = combine(shows, offValue, off[shows]);
    }
  }
  if (shows === 'problem') return { isCaught: false, seeds, because: 'no problem' };
  const because = `${shows}: ${Math.round(offValue)} instead of ${Math.round(onValue)}`;
  return { isCaught: offValue >= MARGIN * onValue, seeds, because };
}

function combine(shows: Exclude<Shows, 'problem'>, all: number, one: number): number {
  return shows === 'closedMs' || shows === 'turnMs' ? Math.max(all, one) : all + one;
}
