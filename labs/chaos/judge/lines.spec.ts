import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import type { Event, History, OpEvent } from '../../../test/support/chaos/history/events.js';
import { linesOf } from '../../../test/support/chaos/history/lines.js';

const FOLDER = join(__dirname, 'testdata');

/** A visit that gets its lock at once, and is renewed forever if nothing else is known. */
const begun = (op: string, at: number): readonly OpEvent[] => [
  { kind: 'invoke', op, process: op.split('.')[0], at: at - 1 },
  { kind: 'entered', op, at, token: at, expiresInMs: 100 },
];

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
    { kind: 'ok', op: 'p2.1', at: 134, fencedWrite: true },
    { kind: 'left', op: 'p2.1', at: 135 },
    { kind: 'writes', op: 'p1.1', at: 150 },
    { kind: 'ok', op: 'p1.1', at: 151, fencedWrite },
    { kind: 'left', op: 'p1.1', at: 152 },
  ];
  const fenced = fencedWrite ? writes : writes.slice(0, 1);
  return { events, register: writes, fenced, set: [], leftovers: [] };
};

// The Go tests read these files: with the fence the register behind it is accepted.
it.each([
  ['paused-holder.jsonl', false],
  ['without-fence.jsonl', true],
])('the lines of a history are those of testdata/%s', (name, fencedWrite) => {
  expect(linesOf(paused(fencedWrite))).toBe(readFileSync(join(FOLDER, name), 'utf8'));
});
