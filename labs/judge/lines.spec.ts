import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { Event, History, OpEvent } from '../../test/support/chaos/history/events.js';
import { FENCED, type Line, linesOf, textOf, UNFENCED } from '../../test/support/chaos/history/lines.js';

const FOLDER = join(__dirname, 'testdata');

const historyOf = (events: readonly Event[], more: Partial<History> = {}): History => ({
  events,
  register: [],
  fenced: [],
  set: [],
  leftovers: [],
  ...more,
});
const grants = (owner: string, token?: number, since = 9) => [{ owner, token, since }];
/** A visit that gets its lock at once, and is renewed forever if nothing else is known. */
const begun = (op: string, at: number, more: object = {}): readonly OpEvent[] => [
  { kind: 'invoke', op, process: op.split('.')[0], at: at - 1 },
  { kind: 'entered', op, at, token: at, expiresInMs: 100, ...more },
];
const end = (op: string, lines: readonly Line[]): Line | undefined =>
  lines.find((line) => line.op === 'end' && line.id === op);

/** p1 is stopped after its last check. p2 gets the lock, and p1 writes late. */
const paused = (fencedWrite: boolean): History => {
  const writes = [
    { op: 'p2.1', basedOn: '' },
    { op: 'p1.1', basedOn: '' },
  ];
  const events: readonly Event[] = [
    ...begun('p1.1', 10),
    { kind: 'saw', op: 'p1.1', from: 11, at: 12, register: '', fenced: '' },
    ...begun('p2.1', 130),
    { kind: 'saw', op: 'p2.1', from: 131, at: 132, register: '', fenced: '' },
    { kind: 'writes', op: 'p2.1', at: 133 },
    { kind: 'ok', op: 'p2.1', at: 134, server: 134, fencedWrite: true },
    { kind: 'left', op: 'p2.1', at: 135 },
    { kind: 'writes', op: 'p1.1', at: 150 },
    { kind: 'ok', op: 'p1.1', at: 151, server: 151, fencedWrite },
    { kind: 'left', op: 'p1.1', at: 152 },
  ];
  return historyOf(events, { register: writes, fenced: fencedWrite ? writes : writes.slice(0, 1) });
};

describe('the lines of a history', () => {
  // The Go tests of labs/judge read these files: with the fence the register behind it is accepted.
  it.each([
    ['paused-holder.jsonl', false],
    ['without-fence.jsonl', true],
  ])('are those of labs/judge/testdata/%s', (name, fencedWrite) => {
    expect(textOf(linesOf(paused(fencedWrite)))).toBe(readFileSync(join(FOLDER, name), 'utf8'));
  });

  it('end a grant at its release, its lease or its loss, whichever comes first', () => {
    const lines = linesOf(
      historyOf([
        ...begun('released.1', 10),
        { kind: 'left', op: 'released.1', at: 20 },
        ...begun('expired.1', 10),
        { kind: 'left', op: 'expired.1', at: 500 },
        ...begun('lost.1', 10),
        { kind: 'lost', op: 'lost.1', at: 30 },
        ...begun('killed.1', 10),
        { kind: 'absent', process: 'killed', at: 15, from: 15, to: null },
      ]),
    );
    const ends = ['released.1', 'expired.1', 'lost.1', 'killed.1'].map((op) => end(op, lines));
    expect(ends.map((line) => [line?.call, line?.return, line?.outcome])).toEqual([
      [20, null, 'released'],
      [110, null, 'expired'],
      [30, null, 'lost'],
      // Nobody has released it.
      [110, null, 'expired'],
    ]);
  });

  it('move the end of a lease with each renewal, also one that is read late', () => {
    const lines = linesOf(
      historyOf([
        ...begun('p1.1', 10),
        { kind: 'extended', op: 'p1.1', at: 120, expiresInMs: 50 },
        // Its deadline was read after the lease.
        { kind: 'extended', op: 'p1.1', at: 300, expiresInMs: 0 },
      ]),
    );
    expect(end('p1.1', lines)?.call).toBe(170);
  });

  it('put the end of a grant before its start is known if it was over by then', () => {
    const lines = linesOf(historyOf(begun('p1.1', 10, { expiresInMs: 0 })));
    expect(end('p1.1', lines)?.call).toBe(9);
  });

  it.each<[string, readonly Event[]]>([
    ['all data', [{ kind: 'dataLost', at: 50, to: 60 }]],
    ['the key', [{ kind: 'lockDeleted', at: 50, to: 60 }]],
    ['the lock by force', [{ kind: 'forced', former: 'p1.1', at: 50 }]],
    [
      'all leases to its clock',
      [
        { kind: 'clock', at: 50, server: 0 },
        { kind: 'clock', at: 60, server: 120_000 },
      ],
    ],
  ])('end a grant when the server lost %s', (_, losses) => {
    const lines = linesOf(historyOf([...begun('p1.1', 10), ...losses, ...begun('p2.1', 70)]));
    expect(end('p1.1', lines)).toMatchObject({ call: 50, outcome: 'taken' });
    expect(end('p2.1', lines)).toMatchObject({ call: 170, outcome: 'expired' });
  });

  it('keep a grant that was requested before a loss and confirmed after it', () => {
    const late = { grants: grants('v1', 5, 65) };
    const lines = linesOf(historyOf([{ kind: 'dataLost', at: 50, to: 60 }, ...begun('p1.1', 45, late)]));
    expect(end('p1.1', lines)).toMatchObject({ call: 145, outcome: 'expired' });
  });

  it('place a hold of a lost grant at that grant', () => {
    const shared = { grants: grants('v1', 5) };
    const lines = linesOf(
      historyOf([...begun('p1.1', 10, shared), { kind: 'dataLost', at: 50, to: 51 }, ...begun('p1.2', 70, shared)]),
    );
    expect(lines.find(({ op, id }) => op === 'acquire' && id === 'p1.2')).toMatchObject({
      call: 9,
      return: 70,
      token: 5,
    });
    expect(end('p1.2', lines)?.call).toBe(50);
  });

  it('name each resource with its own token, and requests without a grant', () => {
    const resources = ['a', 'b'];
    const more = { mode: 3, resources, grants: [...grants('v1', 5), ...grants('v2')] };
    const lines = linesOf(
      historyOf([
        ...begun('p1.1', 10, more),
        { kind: 'invoke', op: 'p2.1', process: 'p2', at: 20, mode: 'shared', resources: ['a'] },
        { kind: 'fail', op: 'p2.1', at: 30, reason: 'busy' },
        { kind: 'invoke', op: 'p3.1', process: 'p3', at: 40 },
      ]),
    );
    const acquires = lines.filter(({ op }) => op === 'acquire');
    expect(acquires.map((line) => [line.key, line.mode, line.return, line.outcome, line.token])).toEqual([
      ['a', 'permits:3', 10, 'ok', 5],
      ['b', 'permits:3', 10, 'ok', undefined],
      ['a', 'shared', 30, 'busy', undefined],
      ['the resource', 'exclusive', null, 'unknown', undefined],
    ]);
  });

  const writer = (...events: readonly OpEvent[]): readonly (readonly unknown[])[] => {
    const saw = { kind: 'saw', op: 'p1.1', from: 11, at: 12, register: 'x', fenced: 'y' } as const;
    const lines = linesOf(historyOf([...begun('p1.1', 10), saw, ...events], { until: 30 }));
    return lines.filter(({ key }) => key === FENCED).map((line) => [line.op, line.call, line.return, line.outcome]);
  };
  const writes = { kind: 'writes', op: 'p1.1', at: 20 } as const;
  const ok = (fencedWrite: boolean | null, at = 21) =>
    ({ kind: 'ok', op: 'p1.1', at, server: 0, fencedWrite }) as const;
  const read = ['read', 11, 12, 'ok'];

  it('have what a writer knows of its write behind the fence', () => {
    expect(writer()).toEqual([read]);
    expect(writer(writes, ok(true))).toEqual([['update', 11, 21, 'ok']]);
    expect(writer(writes, ok(false))).toEqual([read, ['update', 11, 21, 'refused']]);
    expect(writer(writes, ok(null))).toEqual([read, ['update', 11, null, 'unknown']]);
    expect(writer(writes)).toEqual([read, ['update', 11, null, 'unknown']]);
    // The history is cut off at 30.
    expect(writer(writes, ok(true, 31))).toEqual([read, ['update', 11, null, 'unknown']]);
  });

  it('have both values of a reader, and the last values of a complete run', () => {
    const events: readonly Event[] = [
      ...begun('p1.1', 10, { mode: 'shared' }),
      { kind: 'read', op: 'p1.1', from: 11, at: 15, first: 'x', second: 'y' },
    ];
    const reads = linesOf(historyOf(events, { register: [{ op: 'y', basedOn: 'x' }] })).filter(
      ({ op }) => op === 'read',
    );
    expect(reads).toEqual([
      expect.objectContaining({ key: UNFENCED, call: 11, return: 15, read: 'x', again: 'y' }),
      expect.objectContaining({ key: UNFENCED, process: 'harness', call: 16, read: 'y' }),
      expect.objectContaining({ key: FENCED, process: 'harness', call: 16, read: '' }),
    ]);
    expect(linesOf(historyOf(events, { until: 20 })).some(({ process }) => process === 'harness')).toBe(false);
  });
});
