import { describe, expect, it } from '@jest/globals';
import type { LockMode } from '../../lib/contract/lock-mode.js';
import { check, type CheckTerms, type Findings } from '../support/chaos/history/checker.js';
import type { Event, EventOf, History, OpEvent, Write } from '../support/chaos/history/events.js';
import { breachesOf } from '../support/chaos/history/promises.js';

type Events = readonly Event[];

/** Events of a hand-written history: `a` and `a2` are operations of the process `a`. */
const invoke = (op: string, at: number): OpEvent => ({ kind: 'invoke', op, process: op[0], at });
const entered = (op: string, at: number, expiresInMs: number | null = 100, token: number | null = at): OpEvent => ({
  kind: 'entered',
  op,
  at,
  token,
  expiresInMs,
});
const extended = (op: string, at: number, expiresInMs: number): OpEvent => ({ kind: 'extended', op, at, expiresInMs });
const lost = (op: string, at: number): OpEvent => ({ kind: 'lost', op, at });
const left = (op: string, at: number): OpEvent => ({ kind: 'left', op, at });
const ok = (op: string, at: number): OpEvent => ({ kind: 'ok', op, at, fencedWrite: true });
const fail = (op: string, at: number, reason: EventOf<'fail'>['reason']): OpEvent => ({ kind: 'fail', op, at, reason });
const absent = (process: string, from: number, to: number | null): Event => ({
  kind: 'absent',
  process,
  at: from,
  from,
  to,
});
const clock = (at: number, server: number): Event => ({ kind: 'clock', at, server });
const dataLost = (at: number, to = at): Event => ({ kind: 'dataLost', at, to });
const lockDeleted = (at: number): Event => ({ kind: 'lockDeleted', at, to: at + 1 });
const forced = (former: string, at: number): Event => ({ kind: 'forced', former, at });
const injected = (at: number): Event => ({ kind: 'injected', at });
const healed = (at: number): Event => ({ kind: 'healed', at });
const read = (op: string, at: number, second: string): OpEvent => ({ kind: 'read', op, at, first: 'x', second });

/** The events of a hold after its request and its beginning. */
const held = (op: string, at: number, expiresInMs: number | null, ...more: Events): Events => [
  invoke(op, 0),
  entered(op, at, expiresInMs),
  ...more,
];
/** A complete operation without a mishap. */
const visit = (op: string, from: number, to: number, token: number | null = from): readonly OpEvent[] => [
  invoke(op, from - 1),
  entered(op, from, 100, token),
  ok(op, to),
  left(op, to),
];
/** The same for a sharer. */
const sharing = (mode: LockMode, op: string, from: number, to: number, token = from): readonly OpEvent[] => [
  invoke(op, from - 1),
  { kind: 'entered', op, at: from, mode, token, expiresInMs: 100 },
  left(op, to),
];
const reader = (op: string, from: number, to: number, token = from): readonly OpEvent[] =>
  sharing('shared', op, from, to, token);
const chain = (...pairs: readonly [op: string, basedOn: string][]): readonly Write[] =>
  pairs.map(([op, basedOn]) => ({ op, basedOn }));

function found(events: Events, more: Partial<History> = {}, tokens: CheckTerms['tokens'] = 'clock'): Findings {
  const set = events.filter(({ kind }) => kind === 'ok').map((event) => (event as EventOf<'ok'>).op);
  const history: History = { events, register: [], fenced: [], set, leftovers: [], ...more };
  return check(history, { longWaitMs: 1_000, tokens });
}

/** A table of tests: what is tested, the events, and what is expected. */
type Table<Expected> = readonly (readonly [what: string, events: Events, expected: Expected])[];
type Pairs = readonly (readonly [first: string, second: string, more: number | boolean])[];

it('finds nothing in a history without a mishap', () => {
  const events = [...visit('a', 10, 20), ...visit('b', 20, 30), ...visit('a2', 40, 50)];
  const register = chain(['a', ''], ['b', 'a'], ['a2', 'b']);
  const findings = found(events, { register, fenced: register });
  const { acquisitions, shared, mostAtOnce, longestWaitMs, longestFreeMs, recoveryMs, ...lists } = findings;
  const numbers = { acquisitions, shared, mostAtOnce, longestWaitMs, longestFreeMs, recoveryMs };
  expect(numbers).toEqual({ acquisitions: 3, shared: 0, mostAtOnce: 1, longestWaitMs: 1, longestFreeMs: 1 });
  expect(Object.values(lists).flat()).toEqual([]);
  expect([...breachesOf(findings, { waitMs: 1_000 })]).toEqual([]);
});

describe('overlaps', () => {
  const a = visit('a', 10, 30);
  const killed = held('a', 10, 50, absent('a', 20, null));
  const stopped = held('a', 10, 50, left('a', 500));
  const renewed = (at: number): Events => held('a', 10, 50, extended('a', at, 50), left('a', 500));
  const on = (resources: readonly string[], events: readonly OpEvent[]): Events =>
    events.map((event) => (event.kind === 'entered' ? { ...event, resources } : event));
  const [first, b] = [on(['x', 'y'], a), visit('b', 25, 40)];
  const sharer = (mode: LockMode, op: string, from: number, to: number): Events => sharing(mode, op, from, to);
  const [two, three] = [sharer(2, 'a', 10, 40), sharer(2, 'b', 20, 60)];

  it.each<Table<Pairs>[number]>([
    ['a hold begins while another is trusted', [...a, ...b], [['a', 'b', 5]]],
    ['both are trusted', [...visit('a', 10, 90), ...b], [['a', 'b', 15]]],
    ['another resource', [...first, ...on(['z'], b)], []],
    ['one common resource', [...first, ...on(['z', 'y'], b)], [['a', 'b', 5]]],
    ['two common resources', [...first, ...on(['y', 'x'], b)], [['a', 'b', 5]]],
    ['released at the same moment', [...visit('a', 10, 25), ...b], []],
    ['the deadline is over', [...stopped, ...visit('b', 60, 70)], []],
    ['before the deadline', [...stopped, ...visit('b', 59, 70)], [['a', 'b', 1]]],
    ['renewed', [...renewed(40), ...visit('b', 60, 70)], [['a', 'b', 10]]],
    ['renewed after the deadline', [...renewed(80), ...visit('b', 90, 95)], []],
    ['an aborted signal', [...held('a', 10, 50, lost('a', 20), left('a', 30)), ...visit('b', 20, 25)], []],
    ['a dead process', [...killed, ...visit('b', 20, 25)], []],
    ['a process before its death', [...killed, ...visit('b', 15, 25)], [['a', 'b', 5]]],
    ['no deadline', [...held('a', 10, null, left('a', 500)), ...visit('b', 400, 450)], [['a', 'b', 50]]],
    ['a reply after its deadline', [...visit('a', 10, 50), ...held('b', 20, 0, left('b', 30))], []],
    ['a writer after a reader', [...reader('a', 10, 30), ...b], [['a', 'b', 5]]],
    ['a reader after a writer', [...a, ...reader('b', 25, 40)], [['a', 'b', 5]]],
    ['a writer when the reader has left', [...reader('a', 10, 25), ...b], []],
    // Only the one that stayed longest.
    ['two readers', [...reader('a', 10, 40), ...reader('b', 20, 60), ...visit('w', 30, 50)], [['b', 'w', 20]]],
    ['a permit after the deadline', [...sharer(2, 'a', 10, 500), ...three, ...sharer(2, 'c', 110, 120)], []],
    ['another number of permits', [...sharer(2, 'a', 10, 30), ...sharer(3, 'b', 20, 40)], [['a', 'b', 10]]],
    ['permits and readers', [...sharer(2, 'a', 10, 30), ...reader('b', 20, 40)], [['a', 'b', 10]]],
    ['permits and a writer', [...sharer(2, 'a', 10, 30), ...visit('b', 20, 40)], [['a', 'b', 10]]],
    ['permits that are left', [...two, ...three, ...sharer(2, 'c', 40, 50)], []],
    ['one permit too many', [...two, ...three, ...sharer(2, 'c', 35, 70)], [['a', 'c', 5]]],
  ])('%s', (_, events, expected) => {
    expect(found(events).overlaps.map((one) => [one.first, one.second, one.ms])).toEqual(expected);
  });

  it.each<Table<Pairs>[number]>([
    [
      'a short hold within a long hold',
      [...visit('a', 10, 90), ...visit('b', 20, 30), ...visit('c', 40, 50)],
      [
        ['a', 'b', 10],
        ['a', 'c', 10],
      ],
    ],
    [
      'two readers beside a writer',
      [...visit('w', 10, 50), ...reader('a', 20, 60), ...reader('b', 30, 60)],
      [
        ['w', 'a', 30],
        ['w', 'b', 20],
      ],
    ],
    [
      'two permits too many',
      [...two, ...three, ...sharing(2, 'c', 30, 70), ...sharing(2, 'd', 35, 70)],
      [
        ['a', 'c', 10],
        ['b', 'd', 25],
      ],
    ],
  ])('are found for each of %s', (_, events, expected) => {
    expect(found(events).overlaps.map((one) => [one.first, one.second, one.ms])).toEqual(expected);
  });

  it.each<Table<readonly [mostAtOnce: number, shared: number]>[number]>([
    ['readers', [...reader('a', 10, 40), ...reader('b', 20, 30), ...reader('c', 25, 50)], [3, 3]],
    ['permits', [...two, ...three, ...sharing(2, 'c', 40, 50)], [2, 3]],
    ['too many permits', [...two, ...three, ...sharing(2, 'c', 35, 70)], [3, 3]],
  ])('come with the number of holders at a time: %s', (_, events, expected) => {
    const { mostAtOnce, shared } = found(events);
    expect([mostAtOnce, shared]).toEqual(expected);
  });
});

describe('reads', () => {
  const reading = (...events: Events): Events => [...reader('a', 10, 20).slice(0, 2), ...events, left('a', 200)];
  const writer = (lostAt: number): Events => [...held('b', 2, 100, lost('b', lostAt), ok('b', 14), left('b', 16))];

  it.each<Table<readonly boolean[]>[number]>([
    ['one value', reading(read('a', 15, 'x')), []],
    ['two values', reading(read('a', 15, 'y')), [true]],
    ['after the deadline', reading(read('a', 111, 'y')), [false]],
    ['after a loss', reading(lost('a', 12), read('a', 15, 'y')), [false]],
    ['the writer had lost its lock', [...writer(8), ...reading(read('a', 15, 'b'))], [false]],
    ['the writer lost its lock later', [...writer(15), ...reading(read('a', 15, 'b'))], [true]],
  ])('are torn by another value, trusted or not: %s', (_, events, expected) => {
    expect(found(events).tornReads).toEqual(expected.map((trusted) => ({ op: 'a', trusted })));
  });
});

describe('tokens', () => {
  const fallen = (events: Events, tokens: CheckTerms['tokens'] = 'clock') =>
    found(events, {}, tokens).fallenTokens.map(({ earlier, later, excused }) => [earlier, later, excused]);
  const around = [...visit('a', 10, 20, 5), ...visit('b', 30, 40, 4)];
  const back = [clock(1, 500_000), clock(22, 380_021)];
  const share = reader('a', 10, 40, 5);
  const next = (op: string, token = 5): Events => reader(op, 32, 40, token);
  const beside = (...more: Events): Events => [...share, ...more, ...visit('b', 20, 30, 7)];

  it.each<Table<Pairs>[number]>([
    ['rise with gaps', [...visit('a', 10, 20, 5), ...visit('b', 20, 30, 7)], []],
    ['of none', [...visit('a', 10, 20, null), ...visit('b', 20, 30, null)], []],
    ['repeat', [...visit('a', 10, 20, 5), ...visit('b', 20, 30, 5)], [['a', 'b', false]]],
    ['the data was lost and the clock set back', [...back, dataLost(25), ...around], [['a', 'b', true]]],
    ['only the clock was set back', [...back, ...around], [['a', 'b', false]]],
    ['only the data was lost', [dataLost(25), ...around], [['a', 'b', false]]],
    ['the data was lost later', [...back, dataLost(35), ...around], [['a', 'b', false]]],
    ['the data was lost before', [...back, dataLost(5), ...around], [['a', 'b', false]]],
    // The loss of a restarted server is known as an interval only.
    ['the data may have been lost since', [...back, dataLost(5, 12), ...around], [['a', 'b', true]]],
    ['the data may have been lost before', [...back, dataLost(28, 50), ...around], [['a', 'b', true]]],
    ['from reader to writer', [...reader('a', 10, 20, 5), ...visit('b', 20, 30, 4)], [['a', 'b', false]]],
    ['from writer to reader', [...visit('a', 10, 20, 5), ...reader('b', 20, 30, 5)], [['a', 'b', false]]],
    ['of an earlier request', [invoke('b', 5), ...share, ...visit('b', 20, 30, 4).slice(1)], [['a', 'b', false]]],
    ['of readers', [...reader('a', 10, 40, 6), ...reader('b', 20, 40, 5)], []],
    ['of permits', [...sharing(2, 'a', 10, 15, 6), ...sharing(2, 'b', 20, 40, 6)], []],
    [
      'below the highest reader',
      [...reader('a', 10, 40, 6), ...next('b'), ...visit('c', 50, 60, 6)],
      [['a', 'c', false]],
    ],
    ['of a share, deleted', [...beside(lockDeleted(15)), ...next('a2')], [['b', 'a2', true]]],
    ['of a share', [...beside(), ...next('a2')], [['b', 'a2', false]]],
    ['of a share, deleted before', [...beside(lockDeleted(5)), ...next('a2')], [['b', 'a2', false]]],
    ['of a share, deleted later', [...beside(lockDeleted(25)), ...next('a2')], [['b', 'a2', false]]],
    ['of another process', [...beside(lockDeleted(15)), ...next('c')], [['b', 'c', false]]],
    ['of a writer, deleted', [...beside(lockDeleted(15)), ...visit('a2', 32, 40, 6)], [['b', 'a2', false]]],
  ])('%s', (_, events, expected) => {
    expect(fallen(events)).toEqual(expected);
  });

  it('are compared with all earlier holds', () => {
    const events = [...visit('a', 10, 20, 5), ...visit('b', 20, 30, 5), ...visit('c', 30, 40, 4)];
    expect(fallen(events).map(([earlier, later]) => [earlier, later])).toEqual([
      ['a', 'b'],
      ['a', 'c'],
    ]);
  });

  it('may fall if they are counted and the data was lost', () => {
    expect(fallen([dataLost(25), ...around], 'counter')).toEqual([['a', 'b', true]]);
    expect(fallen(around, 'counter')).toEqual([['a', 'b', false]]);
  });
});

describe('updates', () => {
  it('are lost if a write is not based on the write before it, by register', () => {
    const register = chain(['a', ''], ['b', ''], ['c', 'b'], ['d', 'a']);
    const { lostUpdates, lostBehindFence } = found([], { register, fenced: chain(['a', 'b']) });
    expect([lostUpdates, lostBehindFence].map((writes) => writes.map(({ op }) => op))).toEqual([['b', 'd'], ['a']]);
  });

  it('behind a fence are excused if two holders had one counted token after a loss of data', () => {
    const around = (token: number): Events => [...visit('a', 10, 60, token), ...visit('b', 30, 61, 7)];
    const fenced = chain(['a', ''], ['b', '']);
    const excused = (events: Events, tokens: CheckTerms['tokens']): boolean[] =>
      found(events, { fenced }, tokens).lostBehindFence.map((write) => write.excused);
    expect(excused([dataLost(20), ...around(7)], 'counter')).toEqual([true]);
    expect(excused([dataLost(20), ...around(7)], 'clock')).toEqual([false]);
    expect(excused(around(7), 'counter')).toEqual([false]);
    expect(excused([dataLost(20), ...around(8)], 'counter')).toEqual([false]);
    const promises = { waitMs: 1_000, overlapMs: Infinity, losesHolds: true } as const;
    const [counted, clocked] = (['counter', 'clock'] as const).map((tokens) => [
      ...breachesOf(found([dataLost(20), ...around(7)], { fenced }, tokens), promises).keys(),
    ]);
    expect(counted).toEqual([]);
    expect(clocked).toContain('fenced update lost');
  });

  it('of the set are lost if they were acknowledged and are missing', () => {
    const unknown: Events = held('c', 31, 100, { kind: 'unknown', op: 'c', at: 32, reason: '' }, left('c', 33));
    const events = [...visit('a', 10, 20), ...visit('b', 20, 30), ...unknown];
    expect(found(events, { set: ['b', 'never acknowledged'] }).lostElements).toEqual(['a']);
  });
});

describe('waits', () => {
  const waited = held('a', 1_500, 100, left('a', 1_501));

  it.each<Table<readonly (readonly [op: string, ms: number])[]>[number]>([
    ['until the grant', held('a', 1_001, 100, left('a', 1_002)), [['a', 1_001]]],
    ['until the refusal', [invoke('b', 0), fail('b', 1_500, 'busy')], [['b', 1_500]]],
    ['not under the lock', held('a', 999, 100, ok('a', 5_000), left('a', 5_000)), []],
    ['not of a process that was stopped', [...waited, absent('a', 500, 600)], []],
    ['while another process was stopped', [...waited, absent('b', 500, 600)], [['a', 1_500]]],
    ['of a process that was killed later', [...waited, absent('a', 1_600, null)], [['a', 1_500]]],
  ])('count %s', (_, events, expected) => {
    expect(found(events).longWaits.map(({ op, ms }) => [op, ms])).toEqual(expected);
  });

  it('that never end are hung operations, unless the process is dead', () => {
    const events = [invoke('a', 0), entered('a', 10), invoke('b', 0)];
    expect(found(events).hung).toEqual(['a', 'b']);
    expect(found([...events, absent('a', 20, null), absent('b', 20, 30)]).hung).toEqual(['b']);
  });

  it('in a run that is cut off count until then', () => {
    const waiting = [invoke('a', 0), invoke('b', 10), absent('b', 20, null)];
    expect(found(waiting, { until: 1_200 }).longWaits).toEqual([{ op: 'a', ms: 1_200 }]);
    expect(found(waiting).longWaits).toEqual([]);
  });

  it.each<Table<number>[number]>([
    ['none', [], 90],
    ['a fault', [injected(20), healed(30)], 80],
    ['two faults', [injected(5), healed(30), injected(90), healed(120)], 60],
    ['holds', [...visit('b', 11, 40), ...visit('b2', 70, 80)], 51],
    ['a hold within a fault', [injected(20), healed(50), ...visit('b', 30, 40)], 60],
    ['a hold whose deadline is over', [invoke('b', 10), entered('b', 10, 25)], 65],
    ['an absence of the caller', [absent('a', 40, 50)], 0],
  ])('for a free lock do not count holds and faults: %s', (_, events, expected) => {
    expect(found([invoke('a', 10), entered('a', 100), ...events]).longestFreeMs).toBe(expected);
  });

  it.each<Table<number>[number]>([
    ['the longest', [healed(30), ...visit('b', 75, 80), healed(90), ...visit('c', 100, 110)], 45],
    ['no next grant', [healed(30)], Infinity],
    ['a hold that outlives the fault', [...visit('a2', 21, 60), healed(30), ...visit('b', 75, 80)], 15],
  ])('after a fault count until the next grant: %s', (_, events, expected) => {
    expect(found([...visit('a', 10, 20), ...events]).recoveryMs).toBe(expected);
  });
});

describe('a lock that is released by force', () => {
  it.each<Table<number>[number]>([
    ['the signal aborts', [forced('a', 30), lost('a', 47), left('a', 90)], 17],
    ['the local deadline', [forced('a', 30)], 80],
    ['the next local deadline', [forced('a', 30), extended('a', 60, 100)], 130],
    ['it is released', [forced('a', 30), left('a', 50)], 20],
    ['the process dies', [forced('a', 30), absent('a', 40, null)], 10],
    ['it was released before', [left('a', 20), forced('a', 30)], 0],
  ])('is trusted until %s', (_, events, expected) => {
    const all = [...visit('b', 1, 4), ...held('a', 10, 100, ...events)];
    expect(found(all).trustedAfterForce).toEqual([{ op: 'a', ms: expected }]);
  });
});

describe('a detached lock', () => {
  const resumes = (process: string, at: number): OpEvent => ({ kind: 'resumes', op: 'a', at, process });
  const resumed = (at: number, token = 5): OpEvent => ({ kind: 'resumed', op: 'a', at, token, expiresInMs: 100 });
  const detached: Events = [
    invoke('a', 9),
    entered('a', 10, 100, 5),
    { kind: 'detached', op: 'a', at: 20, expiresInMs: 50 },
  ];
  const moved = [...detached, resumes('b', 30), resumed(40)];

  it.each<Table<readonly number[]>[number]>([
    ['before the lease of its ticket is over', [...detached, ...visit('c', 69, 80)], [1]],
    ['after the lease of its ticket', [...detached, ...visit('c', 70, 80)], []],
    ['though the first process is dead', [...detached, absent('a', 25, null), ...visit('c', 69, 80)], [1]],
    ['before the next lease is over', [...moved, ...visit('c', 139, 150)], [1]],
    ['though the first process dies later', [...moved, absent('a', 50, null), ...visit('c', 60, 70)], [10]],
    ['when the next process is dead', [...moved, absent('b', 50, null), ...visit('c', 60, 70)], []],
    ['when the next process has released it', [...moved, left('a', 55), ...visit('c', 60, 70)], []],
    ['dead after its request', [...detached, resumes('b', 30), absent('b', 35, null), ...visit('c', 40, 50)], []],
    ['before it was resumed', [...detached, ...visit('c', 75, 95), resumes('b', 80), resumed(90)], [20]],
  ])('overlaps another hold: %s', (_, events, expected) => {
    expect(found(events).overlaps.map(({ ms }) => ms)).toEqual(expected);
  });

  it('has its token after that', () => {
    expect(found(moved).fallenTokens).toEqual([]);
    const other = found([...detached, resumes('b', 30), resumed(40, 6), left('a', 50)]);
    expect(other.fallenTokens).toEqual([{ earlier: 'a', later: 'a', excused: false }]);
  });

  it('hangs only if a living process has its ticket', () => {
    expect(found(detached).hung).toEqual([]);
    expect(found([...detached, resumes('b', 30)]).hung).toEqual(['a']);
    expect(found([...detached, resumes('b', 30), absent('b', 40, null)]).hung).toEqual([]);
  });
});

describe('promises', () => {
  const ended = (...events: Events): Events => held('a', 1, 100, ...events, left('a', 70));
  const torn = (at: number): Events => [...reader('a', 10, 20).slice(0, 2), read('a', at, 'y'), left('a', 200)];
  const twice = [...visit('a', 10, 30), ...visit('b', 25, 40)];
  const late = [
    invoke('a', 0),
    injected(0),
    healed(500),
    entered('a', 900),
    left('a', 950),
    ...visit('b', 1_000, 1_010),
  ];
  const [fenced, register] = [{ fenced: chain(['a', 'b']) }, { register: chain(['a', 'b']) }];
  const waitMs = 1_000;

  it.each<readonly [breach: string, events: Events, promises: object, more?: Partial<History>]>([
    ['overlap', twice, {}],
    ['overlap', twice, { overlapMs: 4 }],
    ['nothing', twice, { overlapMs: 5 }],
    ['token', [...visit('a', 10, 20, 5), ...visit('b', 20, 30, 4)], {}],
    ['fenced update lost', [], {}, fenced],
    ['nothing', [], {}, register],
    ['update lost', [], { keepsUpdates: true }, register],
    ['nothing', visit('a', 10, 20), { keepsUpdates: true }, { register: chain(['a', '']) }],
    ['torn read', torn(15), {}],
    ['nothing', torn(15), { overlapMs: 5 }],
    ['torn read', torn(15), { overlapMs: 5, keepsUpdates: true }],
    // After its last check, a reader may read two values.
    ['nothing', torn(150), {}],
    ['torn read', torn(150), { keepsUpdates: true }],
    ['wait', [invoke('a', 0), fail('a', 2_000, 'busy')], {}],
    ['nothing', late, {}],
    ['nothing', late, { freeMs: 400 }],
    ['wait', late, { freeMs: 399 }],
    ['hold lost', ended(lost('a', 2)), {}],
    ['nothing', ended(lost('a', 2)), { losesHolds: true }],
    ['refusal', [invoke('a', 0), fail('a', 1, 'unavailable')], {}],
    ['refusal', [invoke('a', 0), fail('a', 1, 'closed')], {}],
    ['nothing', [invoke('a', 0), fail('a', 1, 'unavailable')], { refuses: true }],
    ['late notice', ended(forced('a', 2)), {}],
    ['late notice', ended(forced('a', 10), lost('a', 60)), { losesHolds: true, noticeMs: 49 }],
    ['nothing', ended(forced('a', 10), lost('a', 60)), { losesHolds: true, noticeMs: 50 }],
    ['leftover', [], {}, { leftovers: ['{lock_goods}:300'] }],
    ['no progress', [invoke('a', 0)], {}],
    ['no progress', [healed(0)], {}],
  ])('broken: %s', (breach, events, promises, more = {}) => {
    const breaches = breachesOf(found(events, more), { waitMs, ...promises });
    expect([...breaches.keys()]).toEqual(breach === 'nothing' ? [] : [breach]);
  });
});
