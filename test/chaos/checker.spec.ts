import { describe, expect, it } from '@jest/globals';
import type { LockMode } from '../../lib/contract/lock-mode.js';
import { check, type CheckTerms, type Findings } from '../support/chaos/history/checker.js';
import type { Event, History, OpEvent, Write } from '../support/chaos/history/events.js';
import { breachesOf } from '../support/chaos/history/promises.js';
import type { TokenKind } from '../support/chaos/history/tokens.js';

const TERMS: CheckTerms = { longWaitMs: 1_000, tokens: 'clock' };

type EventOf<Kind extends Event['kind']> = Extract<Event, { kind: Kind }>;

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

/** A complete operation without a mishap. */
const visit = (op: string, from: number, to: number, token = from): OpEvent[] => [
  invoke(op, from - 1),
  entered(op, from, 100, token),
  ok(op, to),
  left(op, to),
];

/** The same for a sharer. */
const sharing = (mode: LockMode, op: string, from: number, to: number, token = from): OpEvent[] => [
  invoke(op, from - 1),
  { kind: 'entered', op, at: from, mode, token, expiresInMs: 100 },
  left(op, to),
];
const reader = (op: string, from: number, to: number, token = from): OpEvent[] =>
  sharing('shared', op, from, to, token);
const read = (op: string, at: number, first: string, second: string): OpEvent => ({
  kind: 'read',
  op,
  at,
  first,
  second,
});

function found(events: readonly Event[], more: Partial<History> = {}, terms: Partial<CheckTerms> = {}): Findings {
  const set = events.filter(({ kind }) => kind === 'ok').map((event) => (event as EventOf<'ok'>).op);
  const history: History = { events, register: [], fenced: [], set, leftovers: [], ...more };
  return check(history, { ...TERMS, ...terms });
}

const chain = (...pairs: readonly [op: string, basedOn: string][]): readonly Write[] =>
  pairs.map(([op, basedOn]) => ({ op, basedOn }));

describe('a history without a mishap', () => {
  it('has no findings', () => {
    const events = [...visit('a', 10, 20), ...visit('b', 20, 30), ...visit('a2', 40, 50)];
    const register = chain(['a', ''], ['b', 'a'], ['a2', 'b']);
    const findings = found(events, { register, fenced: register });
    expect(findings).toEqual({
      acquisitions: 3,
      shared: 0,
      mostAtOnce: 1,
      overlaps: [],
      fallenTokens: [],
      lostUpdates: [],
      lostBehindFence: [],
      tornReads: [],
      lostElements: [],
      longWaits: [],
      longestWaitMs: 1,
      longestFreeMs: 1,
      hung: [],
      lostHolds: [],
      trustedAfterForce: [],
      unavailable: [],
      leftovers: [],
      recoveryMs: undefined,
    } satisfies Findings);
    expect([...breachesOf(findings, { waitMs: 1_000 })]).toEqual([]);
  });
});

describe('overlaps', () => {
  const pairs = (events: readonly Event[]) =>
    found(events).overlaps.map(({ first, second, ms }) => [first, second, ms]);

  it('are holds that begin while another hold is trusted', () => {
    expect(pairs([...visit('a', 10, 30), ...visit('b', 25, 40)])).toEqual([['a', 'b', 5]]);
  });

  it('need a resource that both hold, and count once', () => {
    const on = (resources: readonly string[], events: readonly OpEvent[]): readonly OpEvent[] =>
      events.map((event) => (event.kind === 'entered' ? { ...event, resources } : event));
    const first = on(['x', 'y'], visit('a', 10, 30));
    expect(pairs([...first, ...on(['z'], visit('b', 25, 40))])).toEqual([]);
    expect(pairs([...first, ...on(['z', 'y'], visit('b', 25, 40))])).toEqual([['a', 'b', 5]]);
    expect(pairs([...first, ...on(['y', 'x'], visit('b', 25, 40))])).toEqual([['a', 'b', 5]]);
  });

  it('last as long as both holds are trusted', () => {
    expect(pairs([...visit('a', 10, 90), ...visit('b', 25, 40)])).toEqual([['a', 'b', 15]]);
  });

  it('need a first hold that was not released at the same moment', () => {
    expect(pairs([...visit('a', 10, 25), ...visit('b', 25, 40)])).toEqual([]);
  });

  it('are found after a short hold within a long hold', () => {
    const events = [...visit('a', 10, 90), ...visit('b', 20, 30), ...visit('c', 40, 50)];
    expect(pairs(events)).toEqual([
      ['a', 'b', 10],
      ['a', 'c', 10],
    ]);
  });

  it('end with the local deadline', () => {
    const stopped = [invoke('a', 0), entered('a', 10, 50), left('a', 500)];
    expect(pairs([...stopped, ...visit('b', 60, 70)])).toEqual([]);
    expect(pairs([...stopped, ...visit('b', 59, 70)])).toEqual([['a', 'b', 1]]);
  });

  it('count renewals', () => {
    const renewed = [invoke('a', 0), entered('a', 10, 50), extended('a', 40, 50), left('a', 500)];
    expect(pairs([...renewed, ...visit('b', 60, 70)])).toEqual([['a', 'b', 10]]);
  });

  it('do not count renewals after the deadline', () => {
    const late = [invoke('a', 0), entered('a', 10, 50), extended('a', 80, 50), left('a', 500)];
    expect(pairs([...late, ...visit('b', 90, 95)])).toEqual([]);
  });

  it('end with an aborted signal and with the process', () => {
    const alerted = [invoke('a', 0), entered('a', 10, 50), lost('a', 20), left('a', 30)];
    expect(pairs([...alerted, ...visit('b', 20, 25)])).toEqual([]);
    const killed = [invoke('a', 0), entered('a', 10, 50), absent('a', 20, null)];
    expect(pairs([...killed, ...visit('b', 20, 25)])).toEqual([]);
    expect(pairs([...killed, ...visit('b', 15, 25)])).toEqual([['a', 'b', 5]]);
  });

  it('include holds without a deadline', () => {
    const eternal = [invoke('a', 0), entered('a', 10, null), left('a', 500)];
    expect(pairs([...eternal, ...visit('b', 400, 450)])).toEqual([['a', 'b', 50]]);
  });

  it('ignore a hold whose reply came after its deadline', () => {
    const late = [invoke('b', 0), entered('b', 20, 0), left('b', 30)];
    expect(pairs([...visit('a', 10, 50), ...late])).toEqual([]);
  });
});

describe('sharers', () => {
  const company = (...events: readonly (readonly Event[])[]) => {
    const sorted = events.flat().toSorted((one, other) => one.at - other.at);
    const { overlaps, mostAtOnce, shared } = found(sorted);
    return { pairs: overlaps.map(({ first, second, ms }) => [first, second, ms]), mostAtOnce, shared };
  };

  it('may be any number of readers', () => {
    const readers = company(reader('a', 10, 40), reader('b', 20, 30), reader('c', 25, 50));
    expect(readers).toEqual({ pairs: [], mostAtOnce: 3, shared: 3 });
  });

  it('exclude a writer, whichever was first', () => {
    expect(company(reader('a', 10, 30), visit('b', 25, 40)).pairs).toEqual([['a', 'b', 5]]);
    expect(company(visit('a', 10, 30), reader('b', 25, 40)).pairs).toEqual([['a', 'b', 5]]);
    expect(company(reader('a', 10, 25), visit('b', 25, 40)).pairs).toEqual([]);
  });

  it('overlap a writer once each, and a writer overlaps one of them', () => {
    const twice = company(visit('w', 10, 50), reader('a', 20, 60), reader('b', 30, 60));
    expect(twice.pairs).toEqual([
      ['w', 'a', 30],
      ['w', 'b', 20],
    ]);
    // A writer that overlaps several readers is reported with the one that stayed longest.
    expect(company(reader('a', 10, 40), reader('b', 20, 60), visit('w', 30, 50)).pairs).toEqual([['b', 'w', 20]]);
  });

  it('may be as many as there are permits, and no more', () => {
    const [a, b] = [sharing(2, 'a', 10, 40), sharing(2, 'b', 20, 60)];
    expect(company(a, b, sharing(2, 'c', 40, 50))).toEqual({ pairs: [], mostAtOnce: 2, shared: 3 });
    expect(company(a, b, sharing(2, 'c', 35, 70))).toEqual({ pairs: [['a', 'c', 5]], mostAtOnce: 3, shared: 3 });
    expect(company(a, b, sharing(2, 'c', 30, 70), sharing(2, 'd', 35, 70)).pairs).toEqual([
      ['a', 'c', 10],
      ['b', 'd', 25],
    ]);
  });

  it('do not count after their deadlines', () => {
    const stopped = [
      invoke('a', 0),
      { kind: 'entered', op: 'a', at: 10, mode: 2, token: 1, expiresInMs: 20 } as const,
      left('a', 500),
    ];
    expect(company(stopped, sharing(2, 'b', 20, 60), sharing(2, 'c', 30, 50)).pairs).toEqual([]);
    expect(company(stopped, sharing(2, 'b', 20, 60), sharing(2, 'c', 29, 50)).pairs).toEqual([['a', 'c', 1]]);
  });

  it('exclude other numbers of permits and other modes', () => {
    expect(company(sharing(2, 'a', 10, 30), sharing(3, 'b', 20, 40)).pairs).toEqual([['a', 'b', 10]]);
    expect(company(sharing(2, 'a', 10, 30), reader('b', 20, 40)).pairs).toEqual([['a', 'b', 10]]);
    expect(company(sharing(2, 'a', 10, 30), visit('b', 20, 40)).pairs).toEqual([['a', 'b', 10]]);
  });
});

describe('reads', () => {
  const torn = (...events: readonly Event[]) => found(events).tornReads;
  const [asked, inside] = [invoke('a', 0), reader('a', 10, 20)[1]];

  it('are torn if the value changed between them', () => {
    expect(torn(asked, inside, read('a', 15, 'x', 'x'), left('a', 20))).toEqual([]);
    expect(torn(asked, inside, read('a', 15, 'x', 'y'), left('a', 20))).toEqual([{ op: 'a', trusted: true }]);
  });

  it('are marked as not trusted if the writer no longer trusted its lock', () => {
    const reading = [asked, inside, read('a', 15, 'x', 'b'), left('a', 20)];
    const writer = (lostAt: number) => [invoke('b', 1), entered('b', 2), lost('b', lostAt), ok('b', 14), left('b', 16)];
    expect(torn(...writer(8), ...reading)).toEqual([{ op: 'a', trusted: false }]);
    expect(torn(...writer(15), ...reading)).toEqual([{ op: 'a', trusted: true }]);
  });

  it('are marked as not trusted after the deadline or a loss', () => {
    const late = { op: 'a', trusted: false };
    expect(torn(asked, inside, read('a', 111, 'x', 'y'), left('a', 120))).toEqual([late]);
    expect(torn(asked, inside, lost('a', 12), read('a', 15, 'x', 'y'), left('a', 20))).toEqual([late]);
  });
});

describe('tokens', () => {
  const fallen = (events: readonly Event[], tokens: CheckTerms['tokens'] = 'clock') =>
    found(events, {}, { tokens }).fallenTokens.map(({ earlier, later, excused }) => [earlier, later, excused]);

  it('may rise with gaps', () => {
    expect(fallen([...visit('a', 10, 20, 5), ...visit('b', 20, 30, 7)])).toEqual([]);
  });

  it('are found if they repeat or fall, also against an earlier hold', () => {
    const events = [...visit('a', 10, 20, 5), ...visit('b', 20, 30, 5), ...visit('c', 30, 40, 4)];
    expect(fallen(events)).toEqual([
      ['a', 'b', false],
      ['a', 'c', false],
    ]);
  });

  it('may fall if the data was lost and the clock was set back', () => {
    const readings = [clock(1, 500_000), clock(22, 380_021)];
    const around = [...visit('a', 10, 20, 5), ...visit('b', 30, 40, 4)];
    expect(fallen([...readings, dataLost(25), ...around])).toEqual([['a', 'b', true]]);
    expect(fallen([...readings, ...around])).toEqual([['a', 'b', false]]);
    expect(fallen([dataLost(25), ...around])).toEqual([['a', 'b', false]]);
    expect(fallen([...readings, dataLost(35), ...around])).toEqual([['a', 'b', false]]);
    expect(fallen([...readings, dataLost(5), ...around])).toEqual([['a', 'b', false]]);
    // The loss of a restarted server is known as an interval only.
    expect(fallen([...readings, dataLost(5, 12), ...around])).toEqual([['a', 'b', true]]);
    expect(fallen([...readings, dataLost(28, 50), ...around])).toEqual([['a', 'b', true]]);
  });

  it('may fall if they are counted and the data was lost', () => {
    const around = [...visit('a', 10, 20, 5), ...visit('b', 30, 40, 4)];
    expect(fallen([dataLost(25), ...around], 'counter')).toEqual([['a', 'b', true]]);
    expect(fallen(around, 'counter')).toEqual([['a', 'b', false]]);
  });

  it('rise from readers to a writer and from a writer to readers', () => {
    expect(fallen([...reader('a', 10, 20, 5), ...visit('b', 20, 30, 4)])).toEqual([['a', 'b', false]]);
    expect(fallen([...visit('a', 10, 20, 5), ...reader('b', 20, 30, 5)])).toEqual([['a', 'b', false]]);
    expect(fallen([...visit('a', 10, 20, 5), ...reader('b', 20, 30, 6), ...visit('c', 30, 40, 7)])).toEqual([]);
    // The time of the request does not matter.
    const waited = [invoke('b', 5), ...reader('a', 10, 20, 5), ...visit('b', 20, 30, 4).slice(1)];
    expect(fallen(waited)).toEqual([['a', 'b', false]]);
  });

  it('may fall to those of a share whose lock was deleted, and of no other lock', () => {
    const share = reader('a', 10, 40, 5);
    const writer = visit('b', 20, 30, 7);
    const next = (op: string, token: number) => reader(op, 32, 40, token);
    expect(fallen([...share, lockDeleted(15), ...writer, ...next('a2', 5)])).toEqual([['b', 'a2', true]]);
    expect(fallen([...share, ...writer, ...next('a2', 5)])).toEqual([['b', 'a2', false]]);
    expect(fallen([...share, lockDeleted(5), ...writer, ...next('a2', 5)])).toEqual([['b', 'a2', false]]);
    expect(fallen([...share, lockDeleted(25), ...writer, ...next('a2', 5)])).toEqual([['b', 'a2', false]]);
    expect(fallen([...share, lockDeleted(15), ...writer, ...next('c', 5)])).toEqual([['b', 'c', false]]);
    expect(fallen([...share, lockDeleted(15), ...writer, ...visit('a2', 32, 40, 6)])).toEqual([['b', 'a2', false]]);
  });

  it('of sharers are not ordered, and a writer after them has a higher one than all', () => {
    expect(fallen([...reader('a', 10, 40, 6), ...reader('b', 20, 40, 5)])).toEqual([]);
    expect(fallen([...sharing(2, 'a', 10, 15, 6), ...sharing(2, 'b', 20, 40, 6)])).toEqual([]);
    const writer = [invoke('c', 50), entered('c', 50, 100, 6), left('c', 60)];
    expect(fallen([...reader('a', 10, 40, 6), ...reader('b', 20, 40, 5), ...writer])).toEqual([['a', 'c', false]]);
  });

  it('are not checked if the store has none', () => {
    const without = (op: string, at: number) => [invoke(op, at), entered(op, at, 100, null), left(op, at + 1)];
    expect(fallen([...without('a', 10), ...without('b', 20)])).toEqual([]);
  });
});

describe('updates', () => {
  it('are lost if a write is not based on the write before it', () => {
    const register = chain(['a', ''], ['b', ''], ['c', 'b'], ['d', 'a']);
    const findings = found([], { register, fenced: chain(['a', '']) });
    expect(findings.lostUpdates.map(({ op }) => op)).toEqual(['b', 'd']);
    expect(findings.lostBehindFence).toEqual([]);
  });

  it('are counted by register', () => {
    const findings = found([], { register: chain(['a', '']), fenced: chain(['a', 'b']) });
    expect([findings.lostUpdates.length, findings.lostBehindFence.length]).toEqual([0, 1]);
  });

  it('behind a fence are excused if two holders had one counted token after a loss of data', () => {
    const events = [...visit('a', 10, 60, 7), { kind: 'dataLost', at: 20, to: 20 } as const, ...visit('b', 30, 61, 7)];
    const fenced = chain(['a', ''], ['b', '']);
    const excused = (given: readonly Event[], tokens: TokenKind): readonly boolean[] =>
      found(given, { fenced }, { tokens }).lostBehindFence.map((write) => write.excused);
    expect(excused(events, 'counter')).toEqual([true]);
    expect(excused(events, 'clock')).toEqual([false]);
    expect(excused([...visit('a', 10, 60, 7), ...visit('b', 30, 61, 7)], 'counter')).toEqual([false]);
    const different = [...visit('a', 10, 60, 8), { kind: 'dataLost', at: 20, to: 20 } as const];
    expect(excused([...different, ...visit('b', 30, 61, 7)], 'counter')).toEqual([false]);
    const promises = { waitMs: 1_000, overlapMs: Infinity, losesHolds: true } as const;
    expect([...breachesOf(found(events, { fenced }, { tokens: 'counter' }), promises).keys()]).toEqual([]);
    expect([...breachesOf(found(events, { fenced }), promises).keys()]).toContain('fenced update lost');
  });

  it('of the set are lost if they were acknowledged and are missing', () => {
    const events = [...visit('a', 10, 20), ...visit('b', 20, 30)];
    expect(found(events, { set: ['b', 'never acknowledged'] }).lostElements).toEqual(['a']);
  });

  it('without a known result may be in the set or not', () => {
    const events: Event[] = [
      invoke('a', 0),
      entered('a', 1),
      { kind: 'unknown', op: 'a', at: 2, reason: '' },
      left('a', 3),
    ];
    expect(found(events, { set: [] }).lostElements).toEqual([]);
  });
});

describe('waits', () => {
  const long = (events: readonly Event[]) => found(events).longWaits.map(({ op, ms }) => [op, ms]);

  it('count until the grant or the refusal', () => {
    const events = [invoke('a', 0), entered('a', 1_001), left('a', 1_002), invoke('b', 0), fail('b', 1_500, 'busy')];
    expect(long(events)).toEqual([
      ['a', 1_001],
      ['b', 1_500],
    ]);
  });

  it('do not count the time under the lock', () => {
    expect(long([invoke('a', 0), entered('a', 999), ok('a', 5_000), left('a', 5_000)])).toEqual([]);
  });

  it('do not count if the process was stopped or killed meanwhile', () => {
    const waited = [invoke('a', 0), entered('a', 1_500), left('a', 1_501)];
    expect(long([...waited, absent('a', 500, 600)])).toEqual([]);
    expect(long([...waited, absent('b', 500, 600)])).toEqual([['a', 1_500]]);
    expect(long([...waited, absent('a', 1_600, null)])).toEqual([['a', 1_500]]);
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

  it('for a free lock do not count holds and faults', () => {
    const free = (...events: readonly Event[]) => found([invoke('a', 10), entered('a', 100), ...events]).longestFreeMs;
    expect(free()).toBe(90);
    expect(free(injected(20), healed(30))).toBe(80);
    expect(free(injected(5), healed(30), injected(90), healed(120))).toBe(60);
    expect(free(...visit('b', 11, 40), ...visit('b2', 70, 80))).toBe(51);
    // A hold within a fault, and a hold whose deadline is over.
    expect(free(injected(20), healed(50), ...visit('b', 30, 40))).toBe(60);
    expect(free(invoke('b', 10), entered('b', 10, 25))).toBe(65);
    expect(free(absent('a', 40, 50))).toBe(0);
  });

  it('after a fault count until the next grant', () => {
    const events = [...visit('a', 10, 20), healed(30), ...visit('b', 75, 80), healed(90), ...visit('c', 100, 110)];
    expect(found(events).recoveryMs).toBe(45);
    expect(found([...visit('a', 10, 20), healed(30)]).recoveryMs).toBe(Infinity);
    // A hold that outlives the fault is legitimate.
    expect(found([...visit('a', 10, 60), healed(30), ...visit('b', 75, 80)]).recoveryMs).toBe(15);
  });
});

describe('a lock that is released by force', () => {
  const trusted = (events: readonly Event[]) => found(events).trustedAfterForce.map(({ op, ms }) => [op, ms]);
  const held = [invoke('a', 5), entered('a', 10)];

  it('is trusted until the signal aborts', () => {
    expect(trusted([...held, forced('a', 30), lost('a', 47), left('a', 90)])).toEqual([['a', 17]]);
  });

  it('is trusted until the local deadline, a release or the death of the process', () => {
    expect(trusted([...held, forced('a', 30)])).toEqual([['a', 80]]);
    expect(trusted([...held, forced('a', 30), extended('a', 60, 100)])).toEqual([['a', 130]]);
    expect(trusted([...held, forced('a', 30), left('a', 50)])).toEqual([['a', 20]]);
    expect(trusted([...held, forced('a', 30), absent('a', 40, null)])).toEqual([['a', 10]]);
  });

  it('was no longer trusted if its hold had ended before', () => {
    expect(trusted([...held, left('a', 20), forced('a', 30)])).toEqual([['a', 0]]);
  });

  it('is that of the named operation only', () => {
    expect(trusted([...visit('b', 1, 4), ...held, forced('a', 30), left('a', 50)])).toEqual([['a', 20]]);
  });
});

describe('a detached lock', () => {
  const first: OpEvent[] = [invoke('a', 9), entered('a', 10, 100, 5)];
  const detached = (at: number): OpEvent => ({ kind: 'detached', op: 'a', at, expiresInMs: 50 });
  const resumes = (process: string, at: number): OpEvent => ({ kind: 'resumes', op: 'a', at, process });
  const resumed = (at: number, token = 5): OpEvent => ({ kind: 'resumed', op: 'a', at, token, expiresInMs: 100 });
  const moved = [...first, detached(20), resumes('b', 30), resumed(40)];
  const overlaps = (events: readonly Event[]) => found(events).overlaps.map(({ second, ms }) => [second, ms]);

  it('keeps all others out until the lease of its ticket is over', () => {
    expect(overlaps([...first, detached(20), ...visit('c', 69, 80)])).toEqual([['c', 1]]);
    expect(overlaps([...first, detached(20), ...visit('c', 70, 80)])).toEqual([]);
    // The process that detached it no longer matters, and neither does its death.
    expect(overlaps([...first, detached(20), absent('a', 25, null), ...visit('c', 69, 80)])).toEqual([['c', 1]]);
  });

  it('belongs to the process that resumes it', () => {
    expect(overlaps([...moved, ...visit('c', 139, 150)])).toEqual([['c', 1]]);
    expect(overlaps([...moved, absent('a', 50, null), ...visit('c', 60, 70)])).toEqual([['c', 10]]);
    expect(overlaps([...moved, absent('b', 50, null), ...visit('c', 60, 70)])).toEqual([]);
    expect(overlaps([...moved, left('a', 55), ...visit('c', 60, 70)])).toEqual([]);
    // It died after its request.
    const asked = [...first, detached(20), resumes('b', 30), absent('b', 35, null)];
    expect(overlaps([...asked, ...visit('c', 40, 50)])).toEqual([]);
  });

  it('overlaps all that had it before it was resumed', () => {
    const late = [...first, detached(20), ...visit('c', 75, 95), resumes('b', 80), resumed(90)];
    expect(overlaps(late)).toEqual([['c', 20]]);
  });

  it('has its token after that', () => {
    expect(found(moved).fallenTokens).toEqual([]);
    const other = [...first, detached(20), resumes('b', 30), resumed(40, 6), left('a', 50)];
    expect(found(other).fallenTokens).toEqual([{ earlier: 'a', later: 'a', excused: false }]);
    expect([...breachesOf(found(other), { waitMs: 1_000 }).keys()]).toEqual(['token']);
  });

  it('hangs only if a living process has its ticket', () => {
    expect(found([...first, detached(20)]).hung).toEqual([]);
    expect(found([...first, detached(20), resumes('b', 30)]).hung).toEqual(['a']);
    expect(found([...first, detached(20), resumes('b', 30), absent('b', 40, null)]).hung).toEqual([]);
  });
});

describe('promises', () => {
  const breaches = (events: readonly Event[], more: Partial<History> = {}, promises = {}) => [
    ...breachesOf(found(events, more), { waitMs: 1_000, ...promises }).keys(),
  ];

  it('are broken separately', () => {
    expect(breaches([...visit('a', 10, 30), ...visit('b', 25, 40)])).toEqual(['overlap']);
    expect(breaches([...visit('a', 10, 20, 5), ...visit('b', 20, 30, 4)])).toEqual(['token']);
    expect(breaches([], { fenced: chain(['a', 'b']) })).toEqual(['fenced update lost']);
    const [asked, inside] = reader('a', 10, 20);
    expect(breaches([asked, inside, read('a', 15, 'x', 'y'), left('a', 20)])).toEqual(['torn read']);
    expect(breaches([...reader('b', 5, 9), ...reader('a', 10, 30), ...visit('c', 25, 40)])).toEqual(['overlap']);
    expect(breaches([1, 2, 3].flatMap((i) => sharing(2, `${i}`, 10 + i, 30)))).toEqual(['overlap']);
    expect(breaches([invoke('a', 0), fail('a', 2_000, 'busy')])).toEqual(['wait']);
    expect(breaches([invoke('a', 0), entered('a', 1), lost('a', 2), left('a', 3)])).toEqual(['hold lost']);
    expect(breaches([invoke('a', 0), fail('a', 1, 'unavailable')])).toEqual(['refusal']);
    expect(breaches([invoke('a', 0), fail('a', 1, 'closed')])).toEqual(['refusal']);
    expect(breaches([invoke('a', 0), entered('a', 1), forced('a', 2), left('a', 3)])).toEqual(['late notice']);
    expect(breaches([], { leftovers: ['{lock_goods}:300'] })).toEqual(['leftover']);
    expect(breaches([invoke('a', 0)])).toEqual(['no progress']);
    expect(breaches([healed(0)])).toEqual(['no progress']);
  });

  it('are kept within what the fault allows', () => {
    const events = [...visit('a', 10, 30), ...visit('b', 25, 40)];
    expect(breaches(events, {}, { overlapMs: 5 })).toEqual([]);
    expect(breaches(events, {}, { overlapMs: 4 })).toEqual(['overlap']);
    expect(breaches([invoke('a', 0), entered('a', 1), lost('a', 2), left('a', 3)], {}, { losesHolds: true })).toEqual(
      [],
    );
    expect(breaches([invoke('a', 0), fail('a', 1, 'unavailable')], {}, { refuses: true })).toEqual([]);
  });

  it('limit how long a holder trusts a lock that was released by force', () => {
    const events = [invoke('a', 0), entered('a', 1), forced('a', 10), lost('a', 60), left('a', 70)];
    expect(breaches(events, {}, { losesHolds: true, noticeMs: 50 })).toEqual([]);
    expect(breaches(events, {}, { losesHolds: true, noticeMs: 49 })).toEqual(['late notice']);
  });

  it('limit how long a caller waits for a free lock', () => {
    const events = [invoke('a', 0), injected(0), healed(500), entered('a', 900), left('a', 950)];
    const all = [...events, ...visit('b', 1_000, 1_010)];
    expect(breaches(all)).toEqual([]);
    expect(breaches(all, {}, { freeMs: 400 })).toEqual([]);
    expect(breaches(all, {}, { freeMs: 399 })).toEqual(['wait']);
  });

  it('allow torn reads after the last check or a violation, unless excluded', () => {
    const [asked, inside] = reader('a', 10, 200);
    const late = [asked, inside, read('a', 150, 'x', 'y'), left('a', 200)];
    expect(breaches(late)).toEqual([]);
    expect(breaches(late, {}, { keepsUpdates: true })).toEqual(['torn read']);
    const beside = [asked, inside, read('a', 15, 'x', 'y'), left('a', 20)];
    expect(breaches(beside, {}, { overlapMs: 5 })).toEqual([]);
    expect(breaches(beside, {}, { overlapMs: 5, keepsUpdates: true })).toEqual(['torn read']);
  });

  it('allow lost updates without a fence, unless excluded', () => {
    const more = { register: chain(['a', 'b']) };
    expect(breaches([], more)).toEqual([]);
    expect(breaches([], more, { keepsUpdates: true })).toEqual(['update lost']);
    expect(breaches(visit('a', 10, 20), { register: chain(['a', '']) }, { keepsUpdates: true })).toEqual([]);
  });
});
