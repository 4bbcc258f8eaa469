import { describe, expect, it } from '@jest/globals';
import { Referee } from '../../support/referee.js';

const LEASE_MS = 1_000;
const resource = 'goods:300';

/** Process 1 releases the lock at 20. Its other caller and process 2 wait, and process 2 enters at `enteredAt`. */
function judged(enteredAt: number, stopped?: number): readonly string[] {
  const referee = new Referee(LEASE_MS);
  const enter = (pid: number, id: string, at: number, token: number): void => {
    referee.hear(pid, { kind: 'entered', id, at, token });
    referee.hear(pid, { kind: 'left', id, at: at + 10, seen: at + 10 });
  };
  referee.hear(1, { kind: 'asked', id: '1:0', resource, at: 0 });
  referee.hear(1, { kind: 'asked', id: '1:1', resource, at: 5 });
  enter(1, '1:0', 10, 1);
  // It joins late, so that only callers of process 1 wait through the gap.
  referee.hear(2, { kind: 'asked', id: '2:0', resource, at: stopped === undefined ? 15 : 30 });
  if (stopped !== undefined) referee.absent(stopped, 25)(enteredAt + 100);
  enter(2, '2:0', enteredAt, 2);
  enter(1, '1:1', enteredAt + 200, 3);
  return referee.judge();
}

describe('the referee of the fuzz of waiting', () => {
  it('reports a caller that waits for a free lock', () => {
    expect(judged(900)).toEqual([expect.stringMatching(/waited 880 ms for goods:300 beside 0 absent ones/)]);
    expect(judged(100)).toEqual([]);
  });

  it('reports no caller of a process that was stopped after it released the lock', () => {
    expect(judged(900, 1)).toEqual([]);
  });
});
